"""A PEFT adapter's folder: adapter_config.json, adapter_model.safetensors; read and written.

Names and shapes are those of PEFT's `save_pretrained`: lora_A is (rank, inputs), lora_B (outputs,
rank); what was trained beside the adapters, the head, is there whole, as modules_to_save.
kbert_adapter.json says what PEFT has no place for: the labels, and a digest of the base's matrices.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kbert.checkpoints import transfer, weight_names, writing
from kbert.checkpoints.adapters.adapter import LoraAdapter, MatrixKey, Pair, digest
from kbert.checkpoints.checkpoint import HEAD_SETTINGS, Tensor
from kbert.checkpoints.formats import import_hub
from kbert.checkpoints.transformers import weight_files
from kbert.checkpoints.transformers.classes import CLASSES, classes_by_column
from kbert.graph import names
from kbert.graph.trained_parts import MATRICES
from kbert.heads import HEADS
from kbert.io import json_schema as js
from kbert.io.interrupted_saves import open_whole
from kbert.io.patterns import find_keys
from kbert.io.wording import first_few

CONFIG = "adapter_config.json"
OWN = "kbert_adapter.json"
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


_Halves = dict[_Module, dict[str, np.ndarray]]  # of the adapters, by "A" and "B"


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
    file = _find_weights(folder)
    config = js.read(folder / CONFIG, _CONFIG)
    settings: dict = {}
    if (folder / OWN).is_file():
        settings = js.read(folder / OWN, _OWN)
    halves, saved = _sort_tensors(weight_files.read_file(file), file)
    labels = settings.get("labels")
    base = config.get("base_model_name_or_path")
    revision = config.get("revision")
    if base and revision and not Path(base).exists():
        base = f"{base}@{revision}"  # a name on Hugging Face

    pairs = _pairs(halves, config, file)
    columns = [module.column for module in halves]
    return LoraAdapter(
        pairs,
        saved,
        column=columns[0],
        head=settings.get("head") or _head(config, saved, base_head),
        labels=tuple(labels) if labels else None,
        problem_type=settings.get("problem_type"),
        split_punctuation=settings.get("split_punctuation"),
        base=settings.get("base"),
        base_path=base,
        dropout=config.get("lora_dropout") or 0.0,
    )


def _find_weights(folder: Path) -> Path:
    for name in _WEIGHTS:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} has {CONFIG}, but no {' or '.join(_WEIGHTS)}")


def write(bert, path: Path) -> None:
    """Write the adapter of a `kbert.Bert` whose weights it is merged into.

    Raise a ValueError if there is no adapter, or if the weights have changed since the merge.
    """
    adapter = bert.adapter
    if adapter is None:
        raise ValueError(
            "format peft goes with a model that has an adapter (lora_rank=…), got none"
        )
    now = digest(bert.model, adapter.pairs)
    if adapter.merged not in (None, now):
        raise ValueError(
            "the model must have the weights of its adapter, got others: save it whole"
        )

    settings = {
        "head": bert.head,
        "problem_type": bert.problem_type,
        "split_punctuation": bert.split_punctuation,
        "labels": bert.labels and list(bert.labels),
        "base": adapter.base,
    }
    arrays = _name_arrays(bert, adapter) | _copy_tied(bert, adapter)
    with writing.replace_folder(path) as folder:
        writing.save_tensors(arrays, folder / _WEIGHTS[0])
        writing.write_json(folder / CONFIG, _config(bert, adapter))
        writing.write_json(folder / OWN, settings)


def _name_arrays(bert, adapter: LoraAdapter) -> dict[str, np.ndarray]:
    """Return the adapter's weights by PEFT's names."""
    column = weight_names.column_of(bert.config)
    classes = CLASSES[bert.config.model_type]
    body = _PREFIX
    if bert.spec.variant.outputs:
        body += classes.prefix

    arrays = {}
    for matrix, pair in adapter.pairs.items():
        module = body + _name_module(column, *matrix)
        arrays[f"{module}.lora_A.weight"] = pair.a
        arrays[f"{module}.lora_B.weight"] = pair.b
    for name, array in adapter.saved.items():
        prefix = _PREFIX if name.startswith(classes.heads) else body
        arrays[prefix + name] = array
    return arrays


def _copy_tied(bert, adapter: LoraAdapter) -> dict[str, np.ndarray]:
    """Return the copies of tied weights that transformers' modules have, by PEFT's names.

    PEFT needs all weights of a saved module, also the copies that transformers ties.
    """
    modules = _list_saved_modules(adapter)
    tied = CLASSES[bert.config.model_type].tied
    copies = {}
    for copy, name in tied.items():
        module = copy.split(".")[0]
        if module in modules:
            copies[copy] = name

    column = weight_names.column_of(bert.config)
    entries = weight_names.entries_of(bert.spec, column)
    originals = [entry for entry in entries if entry.name in copies.values()]
    arrays = transfer.arrays_of(bert.model, originals)
    tensors = {_PREFIX + copy: arrays[name] for copy, name in copies.items()}
    return tensors


def _list_saved_modules(adapter: LoraAdapter) -> list[str]:
    """Return the modules of the weights that were trained beside the adapters."""
    modules = [name.split(".")[0] for name in adapter.saved]
    return list(dict.fromkeys(modules))


def _base_values(path: str | None) -> dict[str, str | None]:
    """Return the two keys of adapter_config.json that say the base."""
    name = None
    if path and not Path(path).exists():
        name = import_hub("names").ModelName.parse(path)
    if name is None or name.hub != "hf":
        return {"base_model_name_or_path": path, "revision": None}
    return {"base_model_name_or_path": name.repo, "revision": name.revision}


def _config(bert, adapter: LoraAdapter) -> dict:
    """adapter_config.json's content."""
    column = weight_names.column_of(bert.config)
    ranks = {}
    alphas = {}
    for matrix, pair in adapter.pairs.items():
        module = _name_module(column, *matrix)
        ranks[module] = pair.a.shape[0]
        alphas[module] = pair.scale * pair.a.shape[0]

    rank = max(ranks.values())
    alpha = max(alphas.values())
    return {
        "peft_type": "LORA",
        "task_type": HEADS[bert.head].peft,
        **_base_values(adapter.base_path),
        "r": rank,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "rank_pattern": _list_exceptions(ranks, rank),
        "alpha_pattern": _list_exceptions(alphas, alpha),
        "lora_dropout": adapter.dropout,
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "inference_mode": True,
        "use_rslora": False,
        "use_dora": False,
        "modules_to_save": _list_saved_modules(adapter) or None,
        "target_modules": _list_targets(column, adapter, bert.config.num_hidden_layers),
    }


def _list_exceptions(values: Mapping[str, float], general: float) -> dict[str, float]:
    """Return the values by module that are not the general one."""
    exceptions = {module: value for module, value in values.items() if value != general}
    return exceptions


def _sort_tensors(tensors: list[Tensor], file: Path) -> tuple[_Halves, dict[str, np.ndarray]]:
    """Return the halves of the adapters by their matrix, and the other saved weights by name."""
    halves: _Halves = {}
    saved = {}
    unknown = []
    for tensor in tensors:
        if ".original_module." in tensor.name:  # the base's own head, which PEFT keeps beside it
            continue
        name = _WRAPPED.sub("", tensor.name.removeprefix(_PREFIX))
        match = _LORA.fullmatch(name)
        module = _parse_module(match[1]) if match else None
        if match is None and "lora_" not in name:
            _, bare = _split_name(name)
            saved[bare] = np.array(tensor.read(), np.float32)
        elif match and module and len(tensor.shape) == 2:
            half = match[2]
            both = halves.setdefault(module, {})
            both[half] = np.array(tensor.read(), np.float32)
        else:
            unknown.append(tensor.name)

    if unknown or not halves:
        raise ValueError(
            f"{file} must hold lora_A and lora_B of the matrices of BERT's blocks, got "
            f"{first_few(unknown, 3) or 'none'}"
        )
    return halves, saved


def _pairs(halves: _Halves, config: dict, file: Path) -> dict[MatrixKey, Pair]:
    order = list(MATRICES)
    alphas = _find_alphas(halves, config, file.with_name(CONFIG))

    def position(module: _Module) -> tuple[int, int]:
        return module.block, order.index(module.matrix)

    pairs = {}
    for module in sorted(halves, key=position):
        both = halves[module]
        a = both.get("A")
        b = both.get("B")
        if a is None or b is None or a.shape[0] != b.shape[1]:
            shapes = ", ".join(f"lora_{half} {array.shape}" for half, array in both.items())
            raise ValueError(
                f"{file} must hold lora_A (rank, inputs) and lora_B (outputs, rank) of "
                f"{_split_name(module.name)[1]}, got {shapes}"
            )

        rank = a.shape[0]
        divisor = rank**0.5 if config.get("use_rslora") else rank
        scale = alphas[module] / divisor
        pairs[module.block, module.matrix] = Pair(a, b, scale)
    return pairs


def _find_alphas(modules: Iterable[_Module], config: dict, source: Path) -> dict[_Module, float]:
    """Return each module's alpha: that of the first pattern that ends its name, else the general.

    PEFT compares in the same way, in its `get_pattern_key`.
    """
    modules = list(modules)
    alphas = config.get("alpha_pattern") or {}
    try:
        patterns = {key: rf"(.*\.)?({key})$" for key in alphas}
        keys = find_keys(patterns, [module.name for module in modules])
    except ValueError as error:
        raise ValueError(f"{source}: alpha_pattern {error}") from None
    of_modules = {}
    for module, key in zip(modules, keys, strict=True):
        of_modules[module] = config["lora_alpha"] if key is None else alphas[key]
    return of_modules


def _head(config: dict, saved: dict, base_head: str | None) -> str | None:
    """Return the head that PEFT's task means, or that the saved weights are of.

    PEFT has no task for multiple choice, a head with a classifier's layers: the class that it
    names, or else the base's head, tells them apart.
    """
    heads = {}
    for head_name, known_head in HEADS.items():
        if known_head.peft:
            heads[known_head.peft] = head_name
    task = config.get("task_type") or ""
    head = heads.get(task) or _find_head(saved, heads.values())
    if head is None:
        return None

    by_class: dict[str, str] = {}
    for classes in classes_by_column().values():
        for class_name, (class_head, _) in classes.named.items():
            by_class[class_name] = class_head

    auto_mapping = config.get("auto_mapping") or {}
    base_class = auto_mapping.get("base_model_class") or ""
    count = weight_names.find_num_labels(saved, *classes_by_column())
    for name in (by_class.get(base_class), base_head):
        if not name:
            continue
        candidate = HEADS[name]
        has_same_layers = candidate.layers == HEADS[head].layers
        if has_same_layers and (candidate.has_labels or count in (None, candidate.num_outputs)):
            return name
    return head


def _find_head(saved: dict, heads: Iterable[str]) -> str | None:
    """Return the first of the heads that has a layer of which there are saved weights."""
    layers = set()
    for row in weight_names.TEMPLATES:
        names = row.names.values()
        if not saved.keys().isdisjoint(names):
            layers.add(row.layer)
    for name in heads:
        if not layers.isdisjoint(HEADS[name].layers):
            return name
    return None


def _parse_module(name: str) -> _Module | None:
    """Return the matrix of a module's name in any family; None if it is no matrix of a block."""
    prefix, bare = _split_name(name)
    for column in classes_by_column():
        if prefix not in (None, column):
            continue
        for matrix, text in _list_modules(column).items():
            pattern = re.escape(text).replace(r"\{i\}", _NUMBER)
            match = re.fullmatch(pattern, bare)
            if match:
                is_certain = prefix or column == "distilbert"
                block = int(match[1]) + 1
                return _Module(name, column if is_certain else None, block, matrix)
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
    modules = {}
    for name, matrix in MATRICES.items():
        key = (names.encoder("{n}", matrix.part), matrix.variable)
        modules[name] = by_key[key][column].removesuffix(".weight")
    return modules


def _name_module(column: str, block: int, matrix: str) -> str:
    """Return a matrix's module in a family, without its prefix; blocks count from 1."""
    return _list_modules(column)[matrix].format(i=block - 1)


def _list_targets(column: str, adapter: LoraAdapter, blocks: int) -> list[str]:
    """Return PEFT's target_modules: endings of names, which stand for all blocks, else names."""
    modules = _list_modules(column)
    matrices = dict.fromkeys(name for _, name in adapter.pairs)
    paths = [modules[name] for name in matrices]
    endings = [path.partition(".{i}.")[2] for path in paths]
    # BERT's ending "output.dense" stands for two matrices.
    is_unclear = "output.dense" in endings and "attention.output.dense" not in endings
    has_all_blocks = len(adapter.pairs) >= len(endings) * blocks
    if is_unclear or not has_all_blocks:
        return [_name_module(column, *matrix) for matrix in adapter.pairs]

    targets = []
    for ending in endings:
        last = ending.rpartition(".")[2]
        targets.append(ending if last == "dense" else last)
    return targets
