"""sentence-transformers' files, read of every version and written: modules.json, its modules.

    modules.json                        the modules' classes and folders, in their order
    sentence_bert_config.json           of the Transformer, in its folder
    config_sentence_transformers.json   prompts, similarity; a cross-encoder's activation
    1_Pooling/config.json, 2_Dense/     of the others

Before version 2.0 the model itself lay in a folder of its own, 0_Transformer.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbert.checkpoints.sentence_settings import (
    SIMILARITIES,
    CrossEncoderSettings,
    SentenceDense,
    SentenceSettings,
    keras_activation,
    torch_path,
)
from kbert.checkpoints.transformers.weight_files import read_tensors
from kbert.checkpoints.writing import save_tensors
from kbert.graph.config import BertConfig
from kbert.io import json_schema as js
from kbert.io import setting_keys

_MODULES = "modules.json"
_SETTINGS = "config_sentence_transformers.json"
_LISTED = js.list_of(
    js.fields({"type": js.TEXT, "path": js.TEXT}), "a list of modules with type and path"
)
_TRANSFORMERS = ("Transformer", "BERT", "RoBERTa", "DistilBERT")  # the last three before 0.3
_KINDS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
# model_type of models with other vectors: what they are; sentence-transformers' class opens them
_OTHER_MODELS = {
    "SparseEncoder": "a sparse encoder (SPLADE), with a number for each token of the vocabulary",
    "MultiVectorEncoder": "a late-interaction model (ColBERT), with a vector for each token",
}
_OTHER_MODULES = {"SpladePooling": "SparseEncoder", "MultiVectorMask": "MultiVectorEncoder"}
_NO_LIMIT = 1e9  # tokens; transformers writes 1e30 where a tokenizer has no limit

# The pooling's keys until version 5, in the order in which several are concatenated.
_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_SINGLE_MODE = js.one_of(*_MODES.values())
_MODE = js.either(_SINGLE_MODE, js.list_of(_SINGLE_MODE))
_FIRST_MODES = list(_MODES)[:4]  # text-embeddings-inference wants these
_POOLING = js.fields(
    optional=dict.fromkeys(_MODES, js.FLAG) | {"pooling_mode": _MODE, "include_prompt": js.FLAG}
)

_HARMLESS = {  # arguments that change no number
    "add_pooling_layer",
    "attn_implementation",
    "cache_dir",
    "dtype",
    "local_files_only",
    "low_cpu_mem_usage",
    "revision",
    "token",
    "torch_dtype",
    "trust_remote_code",
    "use_fast",
    "use_safetensors",
}
_ARGUMENTS = (
    "model_args",
    "model_kwargs",
    "tokenizer_args",
    "processor_kwargs",
    "config_args",
    "config_kwargs",
)
_TRANSFORMER = js.fields(
    optional={"max_seq_length": js.or_null(js.whole(1)), "do_lower_case": js.or_null(js.FLAG)}
    | dict.fromkeys(_ARGUMENTS, js.or_null(js.OBJECT))
)
_DENSE = js.fields(
    {"in_features": js.whole(1), "out_features": js.whole(1)},
    {"bias": js.FLAG},
)
_PROMPTS = js.fields(
    optional={
        "prompts": js.or_null(js.mapping_of(js.or_null(js.TEXT))),
        "default_prompt_name": js.or_null(js.TEXT),
        "truncate_dim": js.or_null(js.whole(1)),
        "model_type": js.or_null(js.TEXT),
    }
)
_LENGTH = js.fields(
    optional={"model_max_length": js.or_null(js.either(js.whole(1), js.number(_NO_LIMIT, 1e31)))}
)


def folder_around(folder: Path) -> Path:
    """Return the folder that has modules.json: a model's own, or the one around 0_Transformer."""
    if (folder / _MODULES).is_file() or not folder.is_dir():
        return folder
    parent = folder.absolute().parent
    is_first_module = transformer_folder(parent).name == folder.absolute().name
    return parent if is_first_module else folder


def transformer_folder(root: Path) -> Path:
    """Return the folder of the model itself: the first module's."""
    if not (root / _MODULES).is_file():
        return root
    try:
        path = js.read(root / _MODULES, _LISTED)[0]["path"]
    except (ValueError, IndexError):  # said where the settings are read
        return root
    if Path(path).name != path:
        return root
    folder = root / path
    return folder if (folder / "config.json").is_file() else root


def read_sentence_settings(
    root: Path, folder: Path, config: BertConfig
) -> tuple[SentenceSettings | None, str | None]:
    """Return the settings, if there are any, and why kbert cannot compute them, or None."""
    if not (root / _MODULES).is_file():
        return None, None
    try:
        return _read_settings(root, folder, config), None
    except OSError as error:
        return None, f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except (ValueError, ImportError) as error:
        return None, str(error)


def read_cross_encoder(root: Path, values: dict) -> CrossEncoderSettings | None:
    """Return a cross-encoder's settings, if it has any: before version 5.4 in config.json."""
    settings = values.get("sentence_transformers")
    if not isinstance(settings, dict):
        settings = {}
    activation = settings.get("activation_fn", values.get("sbert_ce_default_activation_function"))

    prompt = ""
    has_modules = (root / _MODULES).is_file()
    if has_modules and (root / _SETTINGS).is_file():
        saved = js.read(root / _SETTINGS, _PROMPTS)
        if saved.get("model_type") == "CrossEncoder":
            activation = saved.get("activation_fn") or activation
            prompts = saved.get("prompts") or {}
            prompt = prompts.get(saved.get("default_prompt_name")) or ""

    if activation is not None and not isinstance(activation, str):
        activation = js.short_repr(activation)  # refused where a score is computed
    return CrossEncoderSettings(activation, prompt) if activation or prompt else None


def _read_settings(root: Path, folder: Path, config: BertConfig) -> SentenceSettings | None:
    modules = _list_modules(root / _MODULES)
    names = [name for name, _ in modules]
    _refuse_other_models(root, names)
    settings = _read_optional(root / _SETTINGS, _PROMPTS, _SETTINGS)
    if settings.get("model_type") == "CrossEncoder":
        return None

    _check_order(names, root / _MODULES)
    normalizes = names[-1] == "Normalize"
    if normalizes:
        _, folder_name = modules[-1]
        file = root / folder_name / "config.json"
        _read_optional(file, js.OBJECT, "2_Normalize/config.json")

    transformer = _read_transformer(folder)
    poolings, include_prompt = _read_pooling(root / modules[1][1] / "config.json")
    folders = [root / path for name, path in modules if name == "Dense"]
    dense = _read_dense_layers(folders, config.hidden_size * len(poolings))

    prompts = settings.get("prompts") or {}
    similarity = settings.get("similarity_fn_name")
    if similarity not in SIMILARITIES:
        similarity = "cosine"  # which the library takes too
    return SentenceSettings(
        poolings,
        normalizes,
        _read_max_length(folder, transformer),
        lowercase=bool(transformer.get("do_lower_case")),
        prompts={name: text or "" for name, text in prompts.items()},
        default_prompt_name=settings.get("default_prompt_name"),
        include_prompt=include_prompt,
        similarity=similarity,
        dimensions=settings.get("truncate_dim"),
        dense=dense,
    )


def _check_order(modules: list[str], file: Path) -> None:
    """Raise a ValueError for modules that kbert does not compute, or in another order."""
    dense_count = modules[2:].count("Dense")
    expected = ["Transformer", "Pooling"] + ["Dense"] * dense_count
    if modules not in (expected, [*expected, "Normalize"]):
        raise ValueError(
            f"{file}: modules must be Transformer, Pooling, then any Dense, then "
            f"Normalize or nothing, got {', '.join(modules) or 'none'}"
        )


def _refuse_other_models(root: Path, modules: list[str]) -> None:
    """Raise a ValueError for a folder of sentence-transformers that has no sentence vectors."""
    stated = _read_optional(root / _SETTINGS, _PROMPTS).get("model_type")
    kinds = [stated, *(_OTHER_MODULES.get(name) for name in modules)]
    for kind in kinds:
        if kind in _OTHER_MODELS:
            raise ValueError(
                f"{root} is {_OTHER_MODELS[kind]}, which sentence_transformers.{kind} computes"
            )


def _list_modules(file: Path) -> list[tuple[str, str]]:
    """Return the modules' classes and folders; a dropout computes nothing, and is left out."""
    modules = []
    for entry in js.read(file, _LISTED):
        package, _, name = entry["type"].rpartition(".")
        if package.partition(".")[0] != "sentence_transformers":
            got = js.short_repr(entry["type"])
            raise ValueError(f"{file}: modules must be sentence-transformers' own, got {got}")
        path = entry["path"]
        if Path(path).name != path:
            raise ValueError(f"{file}: a module must be in the same folder, got {path!r}")

        if name in _TRANSFORMERS:
            name = "Transformer"
        if name != "Dropout":
            modules.append((name, path))
    return modules


def _read_optional(file: Path, kind: js.Kind, listed_as: str | None = None) -> dict:
    """Return the values in a file, {} without it; refuse those that the table of keys refuses."""
    values = js.read(file, kind) if file.is_file() else {}
    if listed_as is not None:
        setting_keys.check_settings(listed_as, values, str(file))
    return values


def _read_transformer(folder: Path) -> dict:
    """Return the Transformer's settings; a ValueError for one that kbert does not compute."""
    files = [folder / f"sentence_{kind}_config.json" for kind in _KINDS]
    present = (file for file in files if file.is_file())
    file = next(present, files[0])
    values = _read_optional(file, _TRANSFORMER)
    for key in _ARGUMENTS:
        arguments = values.get(key)
        if arguments:
            values[key] = {
                name: value for name, value in arguments.items() if name not in _HARMLESS
            }
    setting_keys.check_settings("sentence_bert_config.json", values, str(file))
    return values


def _read_pooling(file: Path) -> tuple[tuple[str, ...], bool]:
    """Return the poolings, and whether the prompt's tokens are pooled."""
    values = js.read(file, _POOLING)
    for key, value in values.items():
        if key.startswith("pooling_mode_") and key not in _MODES and value:
            known = ", ".join(_MODES)
            raise ValueError(f"{file}: the pooling must be one of {known}, got {key}")

    include_prompt = values.get("include_prompt", True)
    modes = values.get("pooling_mode")
    if isinstance(modes, str):
        return (modes,), include_prompt
    if modes is None:  # none is the mean, as in sentence-transformers
        modes = [mode for key, mode in _MODES.items() if values.get(key)]
        modes = modes or ["mean"]
    return tuple(modes), include_prompt


def _read_dense_layers(folders: list[Path], width: int) -> tuple[SentenceDense, ...]:
    """Return the dense layers, each as wide as the one before it; the first takes `width`."""
    layers: list[SentenceDense] = []
    for folder in folders:
        layer = _read_dense(folder, width)
        layers.append(layer)
        width = layer.shape[1]
    return tuple(layers)


def _read_dense(folder: Path, width: int) -> SentenceDense:
    file = folder / "config.json"
    values = js.read(file, _DENSE)
    setting_keys.check_settings("2_Dense/config.json", values, str(file))
    path = values.get("activation_function", torch_path("tanh"))
    activation = keras_activation(path, f"{file}: activation_function")

    inputs = values["in_features"]
    outputs = values["out_features"]
    expected: dict[str, tuple[int, ...]] = {"linear.weight": (outputs, inputs)}
    if values.get("bias", True):
        expected["linear.bias"] = (outputs,)
    tensors = read_tensors(folder)
    shapes = {tensor.name: tuple(tensor.shape) for tensor in tensors}
    if shapes != expected or inputs != width:
        raise ValueError(
            f"{folder}: a Dense of {width} numbers must have weights {expected}, got {shapes} of "
            f"{inputs} numbers"
        )

    arrays = {}
    for tensor in tensors:
        numbers = tensor.read()
        arrays[tensor.name] = np.asarray(numbers, "float32")
    kernel = arrays["linear.weight"].T.copy()
    return SentenceDense(kernel, arrays.get("linear.bias"), activation)


def _read_max_length(folder: Path, transformer: dict) -> int | None:
    """Return max_seq_length; since sentence-transformers 5 it is the tokenizer's own."""
    length = transformer.get("max_seq_length")
    if length is None:
        length = _read_optional(folder / "tokenizer_config.json", _LENGTH).get("model_max_length")
    has_limit = length is not None and length < _NO_LIMIT
    return length if has_limit else None


def write_sentence_settings(settings: SentenceSettings, config: BertConfig, folder: Path) -> None:
    """Write modules.json and the files that it names, which sentence-transformers opens."""
    for pooling in settings.poolings:
        if pooling not in _MODES.values():
            known = ", ".join(_MODES.values())
            raise ValueError(f"sentence-transformers pools by one of {known}, got {pooling}")

    dense = {f"{number}_Dense": layer for number, layer in enumerate(settings.dense, 2)}
    modules = {"": "Transformer", "1_Pooling": "Pooling"}
    modules |= dict.fromkeys(dense, "Dense")
    if settings.normalize:
        modules[f"{len(modules)}_Normalize"] = "Normalize"

    files: dict[str, Any] = {
        _MODULES: _module_list(modules),
        "1_Pooling/config.json": _pooling_values(settings, config.hidden_size),
        "sentence_bert_config.json": {
            "max_seq_length": settings.max_length or config.positions,
            "do_lower_case": settings.lowercase,
        },
        _SETTINGS: _prompt_values(settings),
    }
    for path, layer in dense.items():
        files[f"{path}/config.json"] = _dense_values(layer)
    for name, values in files.items():
        file = folder / name
        text = json.dumps(values, indent=2)
        file.parent.mkdir(exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")

    for path, layer in dense.items():
        arrays = {"linear.weight": layer.kernel.T}
        if layer.bias is not None:
            arrays["linear.bias"] = layer.bias
        save_tensors(arrays, folder / path / "model.safetensors")


def _module_list(modules: Mapping[str, str]) -> list[dict]:
    """Return the content of modules.json, of the modules' classes by their folders."""
    entries: list[dict] = []
    for path, name in modules.items():
        index = len(entries)
        kind = f"sentence_transformers.models.{name}"
        entry = {"idx": index, "name": str(index), "path": path, "type": kind}
        entries.append(entry)
    return entries


def _prompt_values(settings: SentenceSettings) -> dict:
    values: dict = {
        "prompts": dict(settings.prompts),
        "default_prompt_name": settings.default_prompt_name,
        "similarity_fn_name": settings.similarity,
    }
    if settings.dimensions is not None:
        values["truncate_dim"] = settings.dimensions
    return values


def _dense_values(layer: SentenceDense) -> dict:
    return {
        "in_features": layer.shape[0],
        "out_features": layer.shape[1],
        "bias": layer.bias is not None,
        "activation_function": torch_path(layer.activation),
    }


def _pooling_values(settings: SentenceSettings, width: int) -> dict:
    """Return the keys that every version reads; version 6's where it alone has the order."""
    poolings = list(settings.poolings)
    values: dict = {"word_embedding_dimension": width}
    for key, mode in _MODES.items():
        if key in _FIRST_MODES or mode in poolings:
            values[key] = mode in poolings

    usual_order = [mode for mode in _MODES.values() if mode in poolings]
    if poolings != usual_order:
        values["pooling_mode"] = poolings
    if not settings.include_prompt:
        values["include_prompt"] = False
    return values
