"""How a sentence-transformers checkpoint makes one vector of a text: what its modules.json says."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from kbert.graph.config import BertConfig, require_positive
from kbert.io import json_schema as js

_logger = logging.getLogger("kbert")

POOLINGS = ("mean", "cls", "max", "pooler", "last")
OF_CHECKPOINTS = POOLINGS[:-1]


@dataclass(frozen=True)
class SentenceSettings:
    """A checkpoint's own way from token vectors to a sentence vector.

    Attributes:
        pooling: one of `OF_CHECKPOINTS`.
        normalize: whether the vector is brought to length 1.
        max_length: tokens that a text is cut to; None: the model's positions.

    Raises:
        ValueError: one that is of another type.
    """

    pooling: str
    normalize: bool
    max_length: int | None = None

    def __post_init__(self):
        if self.pooling not in OF_CHECKPOINTS:
            poolings = ", ".join(OF_CHECKPOINTS)
            raise ValueError(f"pooling must be one of {poolings}, got {js.shown(self.pooling)}")
        if not isinstance(self.normalize, bool):
            raise ValueError(f"normalize must be True or False, got {js.shown(self.normalize)}")
        if self.max_length is not None:
            require_positive("max_length", self.max_length)


# sentence-transformers' keys: each its own until version 5, then one `pooling_mode`
_MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}
_MODULES = ("Transformer", "Pooling", "Normalize")
_LISTED = js.list_of(
    js.fields({"type": js.TEXT, "path": js.TEXT}), "a list of modules with type and path"
)
_MODE = js.either(js.TEXT, js.list_of(js.TEXT))
_NONE = 1e9  # tokens; transformers writes 1e30 where a tokenizer has no limit
_LENGTHS = {
    "sentence_bert_config.json": ("max_seq_length", js.whole(1)),
    "tokenizer_config.json": ("model_max_length", js.either(js.whole(1), js.number(_NONE, 1e31))),
}


def read_sentence_settings(path: Path) -> SentenceSettings | None:
    """What the folder's modules.json says; None where there is none.

    Raises:
        FileNotFoundError: modules.json names a folder that is not there.
        ValueError: a module or a pooling that kbert does not know: named; a damaged file.
    """
    file = path / "modules.json"
    if not file.is_file():
        return None
    modules = _modules(file)
    pooling = "mean"
    if "Pooling" in modules:
        pooling = _pooling(path / modules["Pooling"] / "config.json")
    _warn_of_a_prompt(path)
    return SentenceSettings(pooling, "Normalize" in modules, _max_length(path))


def _modules(file: Path) -> dict[str, str]:
    """The modules' folders by their classes."""
    entries = js.read(file, _LISTED)
    found = [(entry["type"].rsplit(".", 1)[-1], entry["path"]) for entry in entries]
    outside = [place for _, place in found if Path(place).name != place]
    names = [name for name, _ in found]
    if names != list(_MODULES[: len(names)]) or not names:
        raise ValueError(
            f"{file}: modules must be {', '.join(_MODULES)} or the first of them, got "
            f"{', '.join(names) or 'none'}"
        )
    if outside:
        raise ValueError(f"{file}: a module must lie beside it, got {outside[0]!r}")
    return dict(found)


def _pooling(file: Path) -> str:
    values = js.read_object(file)
    flags = {key: js.FLAG for key in values if key.startswith("pooling_mode_")}
    js.check(values, js.fields(optional=flags | {"pooling_mode": _MODE}), str(file))
    modes = [key for key in flags if values[key]]
    if "pooling_mode" in values:
        modes = values["pooling_mode"]
        modes = modes if isinstance(modes, list) else [modes]
    pooling = [_MODES.get(mode, mode) for mode in modes]
    if len(pooling) != 1 or pooling[0] not in list(_MODES.values()):
        raise ValueError(
            f"{file}: the pooling must be one of {', '.join(_MODES.values())}, got "
            f"{', '.join(modes) or 'none'}"
        )
    return pooling[0]


def _max_length(path: Path) -> int | None:
    """max_seq_length; since sentence-transformers 5 the tokenizer's own, where it has one."""
    for name, (key, kind) in _LENGTHS.items():
        file = path / name
        values = (
            js.read(file, js.fields(optional={key: js.or_null(kind)})) if file.is_file() else {}
        )
        length = values.get(key)
        if length is not None and length < _NONE:
            return length
    return None


def _warn_of_a_prompt(path: Path) -> None:
    file = path / "config_sentence_transformers.json"
    prompt = js.fields(optional={"default_prompt_name": js.or_null(js.TEXT)})
    name = js.read(file, prompt).get("default_prompt_name") if file.is_file() else None
    if name is not None:
        _logger.warning("%s puts the prompt %r before each text: kbert puts none", file, name)


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
    pooling["pooling_mode_mean_sqrt_len_tokens"] = False  # text-embeddings-inference wants all four
    length = settings.max_length or config.positions
    files = {
        "modules.json": listed,
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": length, "do_lower_case": False},
    }
    for name, values in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
