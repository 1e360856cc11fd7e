"""A PEFT adapter's folder: adapter_config.json, adapter_model.safetensors; read and written.

Names and shapes are those of PEFT's `save_pretrained`: lora_A is (rank, inputs), lora_B (outputs,
rank); what was trained beside the adapters, the head, is there whole, as modules_to_save.
kbert_adapter.json says what PEFT has no place for: the labels, and a digest of the base's matrices.
"""

import functools
import json
import re
from pathlib import Path

import numpy as np

from kbert.checkpoints import weight_names
from kbert.checkpoints.adapters.adapter import LoraAdapter, Pair, digest
from kbert.checkpoints.checkpoint import PROBLEM_TYPES, Tensor
from kbert.checkpoints.transformers import weight_files
from kbert.graph import names
from kbert.graph.spec import HEADS
from kbert.graph.trained_parts import MATRICES
from kbert.io import json_schema as js
from kbert.io.folders import atomic_folder
from kbert.io.wording import first_few

CONFIG, OWN = "adapter_config.json", "kbert_adapter.json"
_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_TASK_TYPES = {  # of PEFT, by kbert's head
    "classifier": "SEQ_CLS",
    "tokens": "TOKEN_CLS",
    "qa": "QUESTION_ANS",
    "encoder": "FEATURE_EXTRACTION",
}
_POSITIVE = js.number(1e-30, 1e30)
_CONFIG = js.fields(
    {"peft_type": js.one_of("LORA"), "r": js.whole(1), "lora_alpha": _POSITIVE},
    {
        "use_dora": js.or_null(js.one_of(False)),
        "use_rslora": js.or_null(js.FLAG),
        "alpha_pattern": js.or_null(js.mapping_of(_POSITIVE)),
        "task_type": js.or_null(js.TEXT),
        "base_model_name_or_path": js.or_null(js.TEXT),
    },
)
_OWN = js.fields(
    optional={
        "head": js.or_null(js.one_of(*HEADS)),
        "labels": js.or_null(js.list_of(js.TEXT)),
        "problem_type": js.or_null(js.one_of(*PROBLEM_TYPES)),
        "base": js.or_null(js.TEXT),
    }
)
_PREFIX, _BODY = "base_model.model.", "bert."
_LAYER = "encoder.layer.{}."
_MODULE = re.compile(r"encoder\.layer\.([0-9]{1,6})\.(.+)")
_LORA = re.compile(r"(.*)\.lora_([AB])(?:\.default)?\.weight")
_WRAPPED = re.compile(r"\.(?:modules_to_save(?:\.default)?|base_layer)(?=\.)")


def read(folder: Path) -> LoraAdapter:
    """The adapter in a folder, its numbers read.

    Raises:
        FileNotFoundError: no adapter there.
        ValueError: one that is no LoRA, is damaged, or is of no BERT.
    """
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(2, f"no adapter: a folder with {CONFIG} expected", str(folder))
    file = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if file is None:
        raise FileNotFoundError(2, f"no {' or '.join(_WEIGHTS)} beside {CONFIG}", str(folder))
    config = js.read(folder / CONFIG, _CONFIG)
    own = js.read(folder / OWN, _OWN) if (folder / OWN).is_file() else {}
    halves, saved = _sorted_out(weight_files.read_file(file), file)
    labels = own.get("labels")
    return LoraAdapter(
        _pairs(halves, config, file),
        saved,
        head=own.get("head") or _head(config, saved),
        labels=tuple(labels) if labels else None,
        problem_type=own.get("problem_type"),
        base=own.get("base"),
        base_path=config.get("base_model_name_or_path"),
    )


def write(bert, path: Path) -> None:
    """Writes the adapter that a model's weights have in them.

    Args:
        bert: a `kbert.Bert` with an `adapter`.
        path: the folder.

    Raises:
        ValueError: it has none, or its weights are others by now.
        OSError: it cannot be written.
    """
    from safetensors.numpy import save_file

    adapter = bert.adapter
    if adapter is None:
        raise ValueError("format peft goes with a model that has an adapter (lora=…), got none")
    if adapter.merged not in (None, digest(bert.model, adapter.pairs)):
        raise ValueError(
            "the model must have the weights of its adapter, got others: save it whole"
        )
    body = _PREFIX + (_BODY if bert.head != "encoder" else "")
    arrays = {}
    for place, pair in adapter.pairs.items():
        for half, array in (("A", pair.a), ("B", pair.b)):
            arrays[f"{body}{_module(*place)}.lora_{half}.weight"] = np.ascontiguousarray(array)
    for name, array in adapter.saved.items():
        prefix = body if name.startswith(("pooler.", "encoder.", "embeddings.")) else _PREFIX
        arrays[prefix + name] = np.ascontiguousarray(array)
    own = {"head": bert.head, "labels": bert.labels and list(bert.labels)}
    own |= {"problem_type": bert.problem_type, "base": adapter.base}
    with atomic_folder(path) as folder:
        save_file(arrays, folder / _WEIGHTS[0], metadata={"format": "pt"})
        for name, values in ((CONFIG, _config(bert, adapter)), (OWN, own)):
            text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
            (folder / name).write_text(text, encoding="utf-8")


def _config(bert, adapter: LoraAdapter) -> dict:
    """adapter_config.json's content."""
    ranks = {_module(*place): pair.a.shape[0] for place, pair in adapter.pairs.items()}
    alphas = {
        _module(*place): pair.scale * pair.a.shape[0] for place, pair in adapter.pairs.items()
    }
    rank, alpha = max(ranks.values()), max(alphas.values())
    modules = list(dict.fromkeys(name.split(".")[0] for name in adapter.saved))
    return {
        "peft_type": "LORA",
        "task_type": _TASK_TYPES.get(bert.head),
        "base_model_name_or_path": adapter.base_path,
        "r": rank,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "rank_pattern": {name: one for name, one in ranks.items() if one != rank},
        "alpha_pattern": {name: one for name, one in alphas.items() if one != alpha},
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "inference_mode": True,
        "use_rslora": False,
        "use_dora": False,
        "modules_to_save": modules or None,
        "target_modules": _targets(adapter, bert.config.num_hidden_layers),
    }


def _targets(adapter: LoraAdapter, blocks: int) -> list[str] | str:
    """PEFT's target_modules: endings of modules' names where they say it, else a pattern.

    An ending is that of all blocks, and "output.dense" that of two matrices.
    """
    numbers = sorted({block for block, _ in adapter.pairs})
    endings = {
        ending: name
        for ending, name in _endings().items()
        if any(name == other for _, other in adapter.pairs)
    }
    both = ("output" in endings.values()) <= ("attention_output" in endings.values())
    if both and len(adapter.pairs) == len(endings) * blocks:
        return [ending.removeprefix("attention.self.") for ending in endings]
    of_blocks = "|".join(str(number - 1) for number in numbers)
    of_matrices = "|".join(ending.replace(".", r"\.") for ending in endings)
    return rf".*\.layer\.({of_blocks})\.({of_matrices})"


@functools.cache
def _endings() -> dict[str, str]:
    """The matrices by what transformers calls their modules, after "encoder.layer.N."."""
    rows = {
        (row.layer, row.variable): row.transformers for row in weight_names.templates_of("encoder")
    }
    found = {}
    for name, matrix in MATRICES.items():
        row = rows[names.encoder("{n}", matrix.part), matrix.variable]
        found[str(row).removeprefix(_LAYER.format("{i}")).removesuffix(".weight")] = name
    return found


def _module(block: int, name: str) -> str:
    """What transformers calls a matrix's module, without "bert."."""
    (ending,) = (ending for ending, other in _endings().items() if other == name)
    return _LAYER.format(block - 1) + ending


def _sorted_out(tensors: list[Tensor], file: Path) -> tuple[dict, dict]:
    """The halves of the adapters by (block, matrix), and what was saved beside them by name.

    Raises:
        ValueError: an adapter of something that is no matrix of BERT's blocks.
    """
    halves: dict[tuple[int, str], dict[str, np.ndarray]] = {}
    saved, others = {}, []
    for tensor in tensors:
        if ".original_module." in tensor.name:  # the base's own head, which PEFT keeps beside it
            continue
        name = _WRAPPED.sub("", tensor.name.removeprefix(_PREFIX)).removeprefix(_BODY)
        match = _LORA.fullmatch(name)
        module = match and _MODULE.fullmatch(match[1])
        if match is None and "lora_" not in name:
            saved[name] = _array(tensor)
        elif match and module and module[2] in _endings() and len(tensor.shape) == 2:
            place = int(module[1]) + 1, _endings()[module[2]]
            halves.setdefault(place, {})[match[2]] = _array(tensor)
        else:
            others.append(tensor.name)
    if others or not halves:
        raise ValueError(
            f"{file} must hold lora_A and lora_B of the matrices of BERT's blocks, got "
            f"{first_few(others, 3) or 'none'}"
        )
    return halves, saved


def _pairs(halves: dict, config: dict, file: Path) -> dict[tuple[int, str], Pair]:
    order = list(MATRICES)
    found = {}
    for place in sorted(halves, key=lambda place: (place[0], order.index(place[1]))):
        both = halves[place]
        if set(both) != {"A", "B"} or both["A"].shape[0] != both["B"].shape[1]:
            shapes = ", ".join(f"lora_{half} {array.shape}" for half, array in both.items())
            raise ValueError(
                f"{file} must hold lora_A (rank, inputs) and lora_B (outputs, rank) of "
                f"{_module(*place)}, got {shapes}"
            )
        rank = both["A"].shape[0]
        alpha = _alpha(config, _module(*place))
        root = bool(config.get("use_rslora"))
        scale = alpha / (rank**0.5 if root else rank)
        found[place] = Pair(both["A"], both["B"], scale)
    return found


def _alpha(config: dict, module: str) -> float:
    """That of a module: alpha_pattern's first key that its name ends with, else lora_alpha."""
    for ending, alpha in (config.get("alpha_pattern") or {}).items():
        if re.fullmatch(rf"(.*\.)?({ending})", _BODY + module):
            return alpha
    return config["lora_alpha"]


def _head(config: dict, saved: dict) -> str | None:
    """The head that PEFT's task means, or that the saved weights are of."""
    heads = {task: head for head, task in _TASK_TYPES.items()}
    if head := heads.get(config.get("task_type") or ""):
        return head
    if "qa_outputs.weight" in saved:
        return "qa"
    return "classifier" if "classifier.weight" in saved else None


def _array(tensor: Tensor) -> np.ndarray:
    return np.array(tensor.read(), np.float32)
