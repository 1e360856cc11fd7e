"""A PEFT adapter's folder: adapter_config.json, adapter_model.safetensors; read and written.

Names and shapes are those of PEFT's `save_pretrained`: lora_A is (rank, inputs), lora_B (outputs,
rank); what was trained beside the adapters, the head, is there whole, as modules_to_save.
kbert_adapter.json says what PEFT has no place for: the labels, and a digest of the base's matrices.
"""

import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kbert.checkpoints import transfer, weight_names, writing
from kbert.checkpoints.adapters.adapter import LoraAdapter, Pair, digest
from kbert.checkpoints.checkpoint import HEAD_SETTINGS, Tensor
from kbert.checkpoints.hub.names import ModelName
from kbert.checkpoints.transformers import weight_files
from kbert.checkpoints.transformers.classes import classes_by_column, classes_of
from kbert.graph import names
from kbert.graph.trained_parts import MATRICES
from kbert.heads import HEADS
from kbert.io import json_schema as js
from kbert.io.interrupted_saves import open_whole
from kbert.io.patterns import Patterns
from kbert.io.wording import first_few

CONFIG, OWN = "adapter_config.json", "kbert_adapter.json"
_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_POSITIVE = js.number(1e-30, 1e30)
_CONFIG = js.fields(
    {"peft_type": js.one_of("LORA"), "r": js.whole(1), "lora_alpha": _POSITIVE},
    {
        "use_dora": js.or_null(js.one_of(False)),
        "use_rslora": js.or_null(js.FLAG),
        "lora_dropout": js.or_null(js.number(0, 1)),
        "alpha_pattern": js.or_null(js.mapping_of(_POSITIVE)),
        "task_type": js.or_null(js.TEXT),
        "auto_mapping": js.or_null(js.fields(optional={"base_model_class": js.or_null(js.TEXT)})),
        "base_model_name_or_path": js.or_null(js.TEXT),
        "revision": js.or_null(js.TEXT),
    },
)
_OWN = js.fields(
    optional={
        **HEAD_SETTINGS,
        "head": js.or_null(js.one_of(*HEADS)),
        "base": js.or_null(js.TEXT),
    }
)
_PREFIX = "base_model.model."
_LORA = re.compile(r"(.*)\.lora_([AB])(?:\.default)?\.weight")
_WRAPPED = re.compile(r"\.(?:modules_to_save(?:\.default)?|base_layer)(?=\.)")
_NUMBER = r"([0-9]{1,6})"


class _Module(NamedTuple):
    """A matrix's module as a file names it: with the prefix of its family, if it has one."""

    name: str
    column: str | None  # the family's, of the table of names; None: BERT or RoBERTa
    block: int  # 1 … L
    matrix: str  # one of `MATRICES`


def read(folder: Path, base_head: str | None = None) -> LoraAdapter:
    """Read the adapter in a folder; raise a ValueError for one that is no LoRA or of no BERT.

    `base_head` is the head of its base, if that is known.
    """
    with open_whole(folder) as whole:
        return _read(whole, base_head)


def is_adapter(folder: Path) -> bool:
    """Return whether a folder holds an adapter, of an interrupted save too."""
    with open_whole(folder) as whole:
        return (whole / CONFIG).is_file()


def _read(folder: Path, base_head: str | None) -> LoraAdapter:
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(f"{folder} is not an adapter: expected a folder with {CONFIG}")
    file = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if file is None:
        raise FileNotFoundError(f"{folder} has {CONFIG}, but no {' or '.join(_WEIGHTS)}")
    config = js.read(folder / CONFIG, _CONFIG)
    own = js.read(folder / OWN, _OWN) if (folder / OWN).is_file() else {}
    halves, saved = _sort_tensors(weight_files.read_file(file), file)
    labels, revision = own.get("labels"), config.get("revision")
    base = config.get("base_model_name_or_path")
    if base and revision and not Path(base).exists():
        base = f"{base}@{revision}"  # a name on Hugging Face
    return LoraAdapter(
        _pairs(halves, config, file),
        saved,
        column=next((module.column for module in halves), None),
        head=own.get("head") or _head(config, saved, base_head),
        labels=tuple(labels) if labels else None,
        **{name: own.get(name) for name in ("problem_type", "split_punctuation", "base")},
        base_path=base,
        dropout=config.get("lora_dropout") or 0.0,
    )


def write(bert, path: Path) -> None:
    """Write the adapter of a `kbert.Bert` whose weights it is merged into.

    Raise a ValueError if there is no adapter, or if the weights have changed since the merge.
    """
    adapter = bert.adapter
    if adapter is None:
        raise ValueError(
            "format peft goes with a model that has an adapter (lora_rank=…), got none"
        )
    if adapter.merged not in (None, digest(bert.model, adapter.pairs)):
        raise ValueError(
            "the model must have the weights of its adapter, got others: save it whole"
        )
    column, classes = weight_names.column_of(bert.config), classes_of(bert.config)
    body = _PREFIX + (classes.prefix if bert.spec.variant.outputs else "")
    arrays = {
        f"{body}{_name_module(column, *matrix)}.lora_{half}.weight": array
        for matrix, pair in adapter.pairs.items()
        for half, array in (("A", pair.a), ("B", pair.b))
    }
    for name, array in adapter.saved.items():
        arrays[(_PREFIX if name.startswith(classes.heads) else body) + name] = array
    # PEFT needs all weights of a saved module, also the copies that transformers ties
    modules = {name.split(".")[0] for name in adapter.saved}
    copies = {copy: name for copy, name in classes.tied.items() if copy.split(".")[0] in modules}
    every = weight_names.entries_of(bert.spec, column)
    tied = transfer.arrays_of(bert.model, [one for one in every if one.name in copies.values()])
    arrays |= {_PREFIX + copy: tied[name] for copy, name in copies.items()}
    own = {name: getattr(bert, name) for name in ("head", "problem_type", "split_punctuation")}
    own |= {"labels": bert.labels and list(bert.labels), "base": adapter.base}
    with writing.replace_folder(path) as folder:
        writing.save_tensors(arrays, folder / _WEIGHTS[0])
        writing.write_json(folder / CONFIG, _config(bert, adapter))
        writing.write_json(folder / OWN, own)


def _base_values(path: str | None) -> dict[str, str | None]:
    """Return the two keys of adapter_config.json that say the base."""
    name = ModelName.parse(path) if path and not Path(path).exists() else None
    if name is None or name.hub != "hf":
        return {"base_model_name_or_path": path, "revision": None}
    return {"base_model_name_or_path": name.repo, "revision": name.revision}


def _config(bert, adapter: LoraAdapter) -> dict:
    """adapter_config.json's content."""
    column = weight_names.column_of(bert.config)
    of_modules = {_name_module(column, *matrix): pair for matrix, pair in adapter.pairs.items()}
    ranks = {name: pair.a.shape[0] for name, pair in of_modules.items()}
    alphas = {name: pair.scale * pair.a.shape[0] for name, pair in of_modules.items()}
    rank, alpha = max(ranks.values()), max(alphas.values())
    modules = list(dict.fromkeys(name.split(".")[0] for name in adapter.saved))
    return {
        "peft_type": "LORA",
        "task_type": HEADS[bert.head].peft,
        **_base_values(adapter.base_path),
        "r": rank,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "rank_pattern": {name: one for name, one in ranks.items() if one != rank},
        "alpha_pattern": {name: one for name, one in alphas.items() if one != alpha},
        "lora_dropout": adapter.dropout,
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "inference_mode": True,
        "use_rslora": False,
        "use_dora": False,
        "modules_to_save": modules or None,
        "target_modules": _list_targets(column, adapter, bert.config.num_hidden_layers),
    }


def _sort_tensors(
    tensors: list[Tensor], file: Path
) -> tuple[dict[_Module, dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Return the halves of the adapters by their matrix, and the other saved weights by name."""
    halves: dict[_Module, dict[str, np.ndarray]] = {}
    saved, others = {}, []
    for tensor in tensors:
        if ".original_module." in tensor.name:  # the base's own head, which PEFT keeps beside it
            continue
        name = _WRAPPED.sub("", tensor.name.removeprefix(_PREFIX))
        match = _LORA.fullmatch(name)
        module = _parse_module(match[1]) if match else None
        if match is None and "lora_" not in name:
            saved[_split_name(name)[1]] = np.array(tensor.read(), np.float32)
        elif match and module and len(tensor.shape) == 2:
            halves.setdefault(module, {})[match[2]] = np.array(tensor.read(), np.float32)
        else:
            others.append(tensor.name)
    if others or not halves:
        raise ValueError(
            f"{file} must hold lora_A and lora_B of the matrices of BERT's blocks, got "
            f"{first_few(others, 3) or 'none'}"
        )
    return halves, saved


def _pairs(halves: dict[_Module, dict], config: dict, file: Path) -> dict[tuple[int, str], Pair]:
    order = list(MATRICES)
    alphas = _find_alphas(halves, config, file.with_name(CONFIG))
    pairs = {}
    for module in sorted(halves, key=lambda one: (one.block, order.index(one.matrix))):
        both = halves[module]
        if set(both) != {"A", "B"} or both["A"].shape[0] != both["B"].shape[1]:
            shapes = ", ".join(f"lora_{half} {array.shape}" for half, array in both.items())
            raise ValueError(
                f"{file} must hold lora_A (rank, inputs) and lora_B (outputs, rank) of "
                f"{_split_name(module.name)[1]}, got {shapes}"
            )
        rank = both["A"].shape[0]
        scale = alphas[module] / (rank**0.5 if config.get("use_rslora") else rank)
        pairs[module.block, module.matrix] = Pair(both["A"], both["B"], scale)
    return pairs


def _find_alphas(modules: Iterable[_Module], config: dict, source: Path) -> dict[_Module, float]:
    """Return each module's alpha: that of the first pattern that ends its name, else the general.

    PEFT compares in the same way, in its `get_pattern_key`.
    """
    own = config.get("alpha_pattern") or {}
    try:
        patterns = Patterns({key: rf"(.*\.)?({key})$" for key in own})
        keys = {module: patterns.find(module.name) for module in modules}
    except ValueError as error:
        raise ValueError(f"{source}: alpha_pattern {error}") from None
    alpha = config["lora_alpha"]
    return {module: alpha if key is None else own[key] for module, key in keys.items()}


def _head(config: dict, saved: dict, base_head: str | None) -> str | None:
    """Return the head that PEFT's task means, or that the saved weights are of.

    PEFT has no task for multiple choice, a head with a classifier's layers: the class that it
    names, or else the base's head, tells them apart.
    """
    heads = {head.peft: name for name, head in HEADS.items() if head.peft}
    if (head := heads.get(config.get("task_type") or "")) is None:
        templates = weight_names.TEMPLATES
        layers = {row.layer for row in templates if not saved.keys().isdisjoint(row.names.values())}
        head = next((name for name in heads.values() if layers & {*HEADS[name].layers}), None)
    if head is None:
        return None
    by_class = {
        name: one[0] for each in classes_by_column().values() for name, one in each.named.items()
    }
    named = by_class.get((config.get("auto_mapping") or {}).get("base_model_class") or "")
    count = weight_names.find_num_labels(saved, *classes_by_column())
    for name in filter(None, (named, base_head)):
        other = HEADS[name]
        fits = other.has_labels or count in (None, other.num_outputs)
        if other.layers == HEADS[head].layers and fits:
            return name
    return head


def _parse_module(name: str) -> _Module | None:
    """Return the matrix of a module's name in any family; None if it is no matrix of a block."""
    prefix, bare = _split_name(name)
    for column in classes_by_column():
        for matrix, text in _list_modules(column).items():
            pattern = re.escape(text).replace(r"\{i\}", _NUMBER)
            if (match := re.fullmatch(pattern, bare)) and prefix in (None, column):
                known = column if prefix or column == "distilbert" else None
                return _Module(name, known, int(match[1]) + 1, matrix)
    return None


def _split_name(name: str) -> tuple[str | None, str]:
    """Split a weight's name into the family that its prefix says, else None, and the rest."""
    for column, classes in classes_by_column().items():
        if name.startswith(classes.prefix):
            return column, name.removeprefix(classes.prefix)
    return None, name


@functools.cache
def _list_modules(column: str) -> dict[str, str]:
    """Return the modules of `MATRICES` in a family without its prefix; {i} is the block, from 0."""
    by_key = {(row.layer, row.variable): row.names for row in weight_names.TABLE["encoder"]}
    keys = {name: (names.encoder("{n}", one.part), one.variable) for name, one in MATRICES.items()}
    return {name: by_key[key][column].removesuffix(".weight") for name, key in keys.items()}


def _name_module(column: str, block: int, matrix: str) -> str:
    """Return a matrix's module in a family, without its prefix; blocks count from 1."""
    return _list_modules(column)[matrix].format(i=block - 1)


def _list_targets(column: str, adapter: LoraAdapter, blocks: int) -> list[str]:
    """Return PEFT's target_modules: endings of names, which stand for all blocks, else names."""
    modules = _list_modules(column)
    endings = [
        modules[name].partition(".{i}.")[2] for name in dict.fromkeys(n for _, n in adapter.pairs)
    ]
    # BERT's ending "output.dense" stands for two matrices.
    is_unclear = "output.dense" in endings and "attention.output.dense" not in endings
    if is_unclear or len(adapter.pairs) < len(endings) * blocks:
        return [_name_module(column, *matrix) for matrix in adapter.pairs]
    last = [ending.rpartition(".")[2] for ending in endings]
    return [end if word == "dense" else word for end, word in zip(endings, last, strict=True)]
