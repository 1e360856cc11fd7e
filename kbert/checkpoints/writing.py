"""What writers of several formats have in common: refusals, warnings, files."""

import contextlib
import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.model_files import SOURCE_FILE
from kbert.data.tokenization.vocabulary import Vocabulary
from kbert.io.folders import atomic_folder

_logger = logging.getLogger("kbert")


def require_wordpiece_bert(bert, path: Path, form: str) -> None:
    """Raise a ValueError for a model that formats of BERT alone cannot hold, or a .zip."""
    way_out = ": save it with format='transformers'"
    if Path(path).suffix == ".zip":
        raise ValueError(f"format {form} is written as a folder, got {path}: leave .zip out")
    if bert.config.model_type != "bert":
        raise ValueError(
            f"format {form} must be of a BERT, got {bert.config.family.title}{way_out}"
        )
    if bert.tokenizer and not isinstance(bert.tokenizer.vocabulary, Vocabulary):
        raise ValueError(
            f"format {form} must have a WordPiece tokenizer, got one of "
            f"{bert.tokenizer.vocabulary.kind}{way_out}"
        )


@contextlib.contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Yield a folder for a checkpoint's files, see `atomic_folder`.

    The address that `download` wrote into `path` goes with the files that came from there.
    """
    with atomic_folder(path, superseded=[SOURCE_FILE]) as folder:
        yield folder


def refuse_leftovers(path: Path, names: Sequence[str]) -> None:
    """Raise a ValueError if a folder to write to has files that would be read with the new ones."""
    leftovers = [name for name in names if (path / name).is_file()]
    if leftovers:
        raise ValueError(
            f"{path} must hold nothing that would be read as a part of this checkpoint, got "
            f"{', '.join(leftovers)}: choose another folder"
        )


def warn_of_losses(
    bert, path: Path, form: str, losses: Sequence[str], layers: Collection[str] | None = None
) -> None:
    """Log what a format cannot store, and which of its `layers` (None: all) are untrained."""
    if losses:
        _logger.warning("%s: %s cannot store: %s", path, form, ", ".join(losses))
    untrained_weights.warn_of_untrained(bert, path, layers)


def save_tensors(arrays: Mapping[str, np.ndarray], file: Path) -> None:
    """Write a safetensors file that torch's loaders open."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        save_file(contiguous, file, metadata={"format": "pt"})
    except SafetensorError as error:
        raise OSError(5, f"the weights cannot be written, {error}", str(file)) from None


def write_json(file: Path, values: dict) -> None:
    """Write a JSON object with its keys sorted."""
    text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")
