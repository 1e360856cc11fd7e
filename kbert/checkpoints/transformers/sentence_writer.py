"""sentence-transformers' files around a model, written; see `sentence_files`."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from kbert.checkpoints.sentence_settings import SentenceDense, SentenceSettings, torch_path
from kbert.checkpoints.transformers.sentence_files import MODES, MODULES, SETTINGS
from kbert.graph.config import BertConfig

_FIRST_MODES = list(MODES)[:4]  # text-embeddings-inference wants these


def write_sentence_settings(settings: SentenceSettings, config: BertConfig, folder: Path) -> None:
    """Write modules.json and the files that it names, which sentence-transformers opens."""
    poolings = settings.poolings
    if other := [pooling for pooling in poolings if pooling not in MODES.values()]:
        known = ", ".join(MODES.values())
        raise ValueError(f"sentence-transformers pools by one of {known}, got {other[0]}")
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    modules += [(f"{2 + n}_Dense", "Dense") for n in range(len(settings.dense))]
    modules += [(f"{len(modules)}_Normalize", "Normalize")] if settings.normalize else []
    listed = [
        {
            "idx": index,
            "name": str(index),
            "path": path,
            "type": f"sentence_transformers.models.{name}",
        }
        for index, (path, name) in enumerate(modules)
    ]
    files: dict[str, Any] = {
        MODULES: listed,
        "1_Pooling/config.json": _pooling_values(settings, config.hidden_size),
        "sentence_bert_config.json": {
            "max_seq_length": settings.max_length or config.positions,
            "do_lower_case": settings.lowercase,
        },
        SETTINGS: {
            "prompts": dict(settings.prompts),
            "default_prompt_name": settings.default_prompt_name,
            "similarity_fn_name": settings.similarity,
        },
    }
    if settings.dimensions is not None:
        files[SETTINGS]["truncate_dim"] = settings.dimensions
    for number, layer in enumerate(settings.dense):
        files[f"{2 + number}_Dense/config.json"] = {
            "in_features": layer.shape[0],
            "out_features": layer.shape[1],
            "bias": layer.bias is not None,
            "activation_function": torch_path(layer.activation),
        }
    for name, values in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    for number, layer in enumerate(settings.dense):
        _save_dense(layer, folder / f"{2 + number}_Dense" / "model.safetensors")


def _pooling_values(settings: SentenceSettings, width: int) -> dict:
    """Return the keys that every version reads; version 6's where it alone has the order."""
    poolings = settings.poolings
    values: dict = {"word_embedding_dimension": width}
    for key, mode in MODES.items():
        if key in _FIRST_MODES or mode in poolings:
            values[key] = mode in poolings
    if list(poolings) != [mode for mode in MODES.values() if mode in poolings]:
        values["pooling_mode"] = list(poolings)
    if not settings.include_prompt:
        values["include_prompt"] = False
    return values


def _save_dense(layer: SentenceDense, file: Path) -> None:
    from safetensors.numpy import save_file

    arrays = {"linear.weight": np.ascontiguousarray(layer.kernel.T)}
    if layer.bias is not None:
        arrays["linear.bias"] = layer.bias
    save_file(arrays, file, metadata={"format": "pt"})
