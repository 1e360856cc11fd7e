"""The tokenizer of a checkpoint or preset, without its weights."""

import os
from pathlib import Path
from typing import Any

from kbert.checkpoints import formats
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.graph.config import BertConfig
from kbert.graph.presets import PRESETS, get_config
from kbert.hub import hugging_face
from kbert.hub.names import ModelName, find_release


def find_tokenizer(source: Any, lowercase: bool | None) -> tuple[Tokenizer, BertConfig]:
    """Return the tokenizer and the configuration of a `Bert`, or of a checkpoint or preset.

    A preset has the vocabulary of Google's release of its size, if that is in the cache. No weights
    are read.
    """
    if not isinstance(source, (str, os.PathLike)):
        tokenizer = getattr(source, "tokenizer", None)
        if tokenizer is None:
            raise ValueError(
                f"text needs a vocabulary, and this {type(source).__name__} has none: give a model "
                "with a vocabulary, by its name or its path"
            )
        return tokenizer, source.config
    if os.fspath(source) in PRESETS:
        source = _find_release(os.fspath(source))
    path = formats.locate(source)
    if _has_no_weights(path):
        return _load(path, str(source), {}, lowercase), get_config(path)
    with formats.open_checkpoint(path) as checkpoint:
        vocabulary = checkpoint.vocabulary
        if vocabulary is None:
            raise ValueError(_explain_no_vocabulary(str(source)))
        rules = dict(checkpoint.rules)
        return _load(vocabulary, str(source), rules, lowercase), checkpoint.spec.config


def _has_no_weights(path: Path) -> bool:
    """Return whether a folder has a configuration, and no weights of any format."""
    if not (path / "config.json").is_file():
        return False
    try:
        formats.recognize(path)
    except FileNotFoundError:
        return True
    return False


def _find_release(preset: str) -> Path:
    """Return the folder of a preset's release in the cache."""
    release = find_release(preset)
    name = ModelName.parse(release)
    folder = hugging_face.find_cached(name, certain=False) if name else None
    if folder is None:
        raise ValueError(
            f"text needs a vocabulary, and {preset!r} is a configuration without one: give a "
            f"model, such as {release}"
        )
    return folder


def _load(path: Path, source: str, rules: dict, lowercase: bool | None) -> Tokenizer:
    if lowercase is not None:
        rules["lowercase"] = lowercase
    try:
        return Tokenizer.load(path, **rules)
    except FileNotFoundError:
        raise ValueError(_explain_no_vocabulary(source)) from None


def _explain_no_vocabulary(source: str) -> str:
    return (
        f"{source} has no vocabulary: text needs one, such as a vocab.txt or a tokenizer.json in "
        "its folder"
    )
