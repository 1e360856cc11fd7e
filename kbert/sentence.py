"""How a sentence-transformers checkpoint makes one vector of a text: what its modules.json says."""

import json
from dataclasses import dataclass
from pathlib import Path

from kbert.config import BertConfig
from kbert.files import read_json

POOLINGS = ("mean", "cls", "max", "pooler", "last")


@dataclass(frozen=True)
class SentenceSettings:
    """A checkpoint's own way from token vectors to a sentence vector.

    Attributes:
        pooling: one of `POOLINGS`, but "last".
        normalize: whether the vector is brought to length 1.
        max_length: tokens that a text is cut to; None: the model's positions.
    """

    pooling: str
    normalize: bool
    max_length: int | None = None


_MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}


def read_sentence_settings(path: Path) -> SentenceSettings | None:
    """What the folder's modules.json says; None where there is none.

    Raises:
        ValueError: a module or a pooling that kbert does not know: named.
    """
    file = path / "modules.json"
    if not file.is_file():
        return None
    modules = {entry["type"].rsplit(".", 1)[-1]: entry["path"] for entry in read_json(file)}
    if unknown := set(modules) - {"Transformer", "Pooling", "Normalize"}:
        raise ValueError(
            f"{file}: modules must be Transformer, Pooling and Normalize, got "
            f"{', '.join(sorted(unknown))} as well"
        )
    pooling = "mean"
    if "Pooling" in modules:
        pooling = _pooling(path / modules["Pooling"] / "config.json")
    return SentenceSettings(pooling, "Normalize" in modules, _max_length(path))


def _pooling(file: Path) -> str:
    values = read_json(file)
    modes = [key for key, value in values.items() if key.startswith("pooling_mode_") and value]
    if len(modes) != 1 or modes[0] not in _MODES:
        raise ValueError(
            f"{file}: the pooling must be one of {', '.join(_MODES)}, got {', '.join(modes)}"
        )
    return _MODES[modes[0]]


def _max_length(path: Path) -> int | None:
    file = path / "sentence_bert_config.json"
    return read_json(file).get("max_seq_length") if file.is_file() else None


def write_sentence_settings(settings: SentenceSettings, config: BertConfig, folder: Path) -> None:
    """Writes modules.json and what it names, which sentence-transformers opens.

    Raises:
        ValueError: a pooling that sentence-transformers does not have.
    """
    names = {pooling: key for key, pooling in _MODES.items()}
    if settings.pooling not in names:
        raise ValueError(
            f"sentence-transformers pools by one of {', '.join(names)}, got {settings.pooling}"
        )
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    modules += [("2_Normalize", "Normalize")] if settings.normalize else []
    listed = [
        {
            "idx": place,
            "name": str(place),
            "path": path,
            "type": f"sentence_transformers.models.{name}",
        }
        for place, (path, name) in enumerate(modules)
    ]
    pooling = {"word_embedding_dimension": config.hidden_size}
    pooling |= {key: key == names[settings.pooling] for key in _MODES}
    length = settings.max_length or config.max_position_embeddings
    files = {
        "modules.json": listed,
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": length, "do_lower_case": False},
    }
    for name, values in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
