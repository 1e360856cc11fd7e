"""What writers of several formats have in common: refusals, warnings, JSON files."""

import json
import logging
from collections.abc import Collection, Sequence
from pathlib import Path

from kbert.checkpoints import untrained_weights

_logger = logging.getLogger("kbert")


def refuse_leftovers(path: Path, names: Sequence[str]) -> None:
    """Raise a ValueError if a folder to write to has files that would be read with the new ones."""
    if others := [name for name in names if (path / name).is_file()]:
        raise ValueError(
            f"{path} must hold nothing that would be read as a part of this checkpoint, got "
            f"{', '.join(others)}: choose another folder"
        )


def warn_of_losses(
    bert, path: Path, form: str, losses: Sequence[str], layers: Collection[str] | None = None
) -> None:
    """Log what a format, or a class of one, cannot store, and which weights are untrained.

    `layers` are those that the files have, None: all.
    """
    if losses:
        _logger.warning("%s: %s cannot store: %s", path, form, ", ".join(losses))
    untrained_weights.warn_of_untrained(bert, path, layers)


def write_json(file: Path, values: dict) -> None:
    """Write a JSON object with its keys sorted."""
    text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    file.write_text(text, encoding="utf-8")
