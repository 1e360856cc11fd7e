"""Configuration of a BERT, with the keys of `bert_config.json` and `config.json`."""

import dataclasses
import difflib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

from kbert.graph.families import FAMILIES, MODEL_TYPES, Family, explain_model_type
from kbert.io import bounds, printable, setting_keys
from kbert.io import json_schema as js
from kbert.io.atomic_write import check_new_file, write_atomically
from kbert.io.wording import hint

# Names of `hidden_act`, as transformers has them, and the functions that they mean, by the names of
# kbert's or Keras's. transformers' prelu and xielu have weights of their own.
ACTIVATIONS = {
    "gelu": "gelu",  # x · Φ(x), by erf: Google's first release
    "gelu_new": "gelu_tanh",  # the approximation by tanh: Google's current code
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_10": "gelu_10",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "relu2": "relu_squared",
    "relu6": "relu6",
    "leaky_relu": "leaky_relu_01",
    "silu": "silu",
    "swish": "silu",
    "hardswish": "hard_silu",
    "mish": "mish",
    "laplace": "laplace",
    "sqrtsoftplus": "sqrt_softplus",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "linear": "linear",
}

_FILES = ("config.json", "bert_config.json")  # in a model's folder: transformers' or Google's
_MISSPELLED = 0.85  # how alike a key and a field's name are, 0 to 1
_SHOWN_KEYS = 20  # of a configuration, in an error
_HEADS_RATES = ("classifier_dropout", "qa_dropout")
_RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob", *_HEADS_RATES)


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """The configuration of a BERT. The defaults are those of BERT base (the paper, section 3).

    Args:
        vocab_size: number of tokens (T). The paper says 30,000; the released uncased models have
            30,522.
        hidden_size: size of a token's hidden state (H).
        num_hidden_layers: number of encoder blocks (L).
        num_attention_heads: attention heads per block (A); must divide `hidden_size`.
        intermediate_size: size of the feed-forward layer (FFD); 4·H in every released model.
        hidden_act: the activation function of the feed-forward layer, by its name in transformers,
            such as "gelu" (exact, by erf), "gelu_new" (approximated by tanh), "relu" or "silu"; all
            names are in `kbert.graph.config.ACTIVATIONS`.
        hidden_dropout_prob: dropout rate between layers, in [0, 1).
        attention_probs_dropout_prob: dropout rate of the attention probabilities, in [0, 1).
        max_position_embeddings: maximum number of tokens in a sequence (P).
        type_vocab_size: number of segments (2: A and B).
        initializer_range: standard deviation of the truncated normal distribution that initializes
            the weights.
        layer_norm_eps: epsilon, added to the variance in every layer normalization.
        classifier_dropout: dropout rate before a classifier of sequences or tokens, in [0, 1);
            None: `hidden_dropout_prob`.
        qa_dropout: dropout rate before the question answering head; for DistilBERT only.
        pad_token_id: the id of the padding token, which attention ignores.
        model_type: the family: "bert", "roberta", "xlm-roberta", "camembert", "data2vec-text" or
            "distilbert". `kbert.graph.families` lists how their graphs differ.

    Raises:
        ValueError: a size that is not a positive whole number; a rate outside [0, 1); a hidden size
            that the number of heads does not divide; an unknown activation.
    """

    vocab_size: int = 30_000
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    classifier_dropout: float | None = None
    qa_dropout: float | None = None
    pad_token_id: int = 0
    model_type: str = "bert"

    def __post_init__(self):
        if self.model_type not in MODEL_TYPES:
            raise explain_model_type(self.model_type, "model_type")
        for field in dataclasses.fields(self):
            if field.type is int and field.name != "pad_token_id":  # a size; NumPy's becomes an int
                size = require_positive(field.name, getattr(self, field.name))
                object.__setattr__(self, field.name, size)
        if self.num_hidden_layers > bounds.DEEPEST:
            raise ValueError(
                f"num_hidden_layers must be at most {bounds.DEEPEST:,}, got "
                f"{self.num_hidden_layers:,}"
            )

        size, heads = self.hidden_size, self.num_attention_heads
        if size % heads:
            closest = _closest_divisors(size, heads)
            raise ValueError(
                f"hidden_size must be a multiple of num_attention_heads, got {size} and {heads}: "
                f"heads that divide it: {', '.join(str(divisor) for divisor in closest)}"
            )

        for key, holds, expected in self._requirements():
            if not holds:
                raise ValueError(f"{key} must {expected}, got {js.short_repr(getattr(self, key))}")

    def _requirements(self) -> Iterator[tuple[str, bool, str]]:
        """Yield each key, whether its value is valid, and what it must; later ones need earlier."""
        for key in _RATES:
            rate = getattr(self, key)
            is_unset = rate is None and key in _HEADS_RATES
            yield key, is_unset or (_is_number(rate) and 0 <= rate < 1), "be a rate in [0, 1)"

        for key in ("initializer_range", "layer_norm_eps"):
            value = getattr(self, key)
            yield key, _is_number(value) and 0 < value < math.inf, "be a positive number"

        name = self.hidden_act
        is_known = isinstance(name, str) and name in ACTIVATIONS
        yield "hidden_act", is_known, f"be one of {', '.join(ACTIVATIONS)}"

        pad = self.pad_token_id
        is_whole = isinstance(pad, int) and not isinstance(pad, bool)
        is_token = is_whole and 0 <= pad < self.vocab_size
        tokens = f"be a token of the vocabulary, 0 … {self.vocab_size - 1}"
        yield "pad_token_id", is_token, tokens

        family = self.family
        unused = f"be above {self.first_position}, the rows that {family.title} leaves unused"
        yield "max_position_embeddings", self.positions >= 1, unused
        left_out = f"be left out of {family.title}, which drops nothing there"
        yield "qa_dropout", self.qa_dropout is None or family.drops_answers, left_out
        single = f"be 1 of {family.title}, which has no segments"
        yield "type_vocab_size", family.segments or self.type_vocab_size == 1, single

    @property
    def family(self) -> Family:
        """Differences between the family's graph and BERT's."""
        return FAMILIES[self.model_type]

    @property
    def first_position(self) -> int:
        """Row of the position table for a sequence's first token."""
        above = self.family.first_position
        return 0 if above is None else self.pad_token_id + above

    @property
    def positions(self) -> int:
        """Maximum number of tokens in a sequence: usable rows of the position table."""
        return self.max_position_embeddings - self.first_position

    @property
    def head_size(self) -> int:
        """Size of one attention head: H / A."""
        return self.hidden_size // self.num_attention_heads

    def replace(self, **changes: int | float | str | None) -> "BertConfig":
        """Return a copy with some values changed; raise a ValueError for an unknown key."""
        fields = [field.name for field in dataclasses.fields(self)]
        for key in changes:
            if key not in fields:
                near = hint(key, fields, "the keys are")
                raise ValueError(
                    f"the configuration has an unknown key {js.short_repr(key)}: {near}"
                )
        return BertConfig(**self.to_dict() | changes)

    def to_dict(self) -> dict:
        """Return the values by key, in the order of the class, without those that are implied.

        Implied are BERT's model_type, and `qa_dropout` except for DistilBERT.
        """
        values = dataclasses.asdict(self)
        if self.model_type == "bert":
            del values["model_type"]
        if not self.family.drops_answers:
            del values["qa_dropout"]
        return values

    def to_google_dict(self) -> dict:
        """Return the values by key, in the format of a `bert_config.json`.

        Keys that Google's file does not have are included only if they differ from the default.
        """
        optional = ("layer_norm_eps", "pad_token_id", "classifier_dropout")
        return {
            key: value
            for key, value in self.to_dict().items()
            if key not in optional or value != getattr(BertConfig, key)
        }

    def to_transformers_dict(self) -> dict:
        """Return the values by key, in the format of transformers' `config.json`."""
        if self.model_type == "bert":
            return self.to_dict() | {"model_type": "bert", "architectures": ["BertModel"]}

        theirs = {ours: key for key, ours in self.family.renamed}
        unsaid = dict(self.family.fixed)
        values = {
            theirs.get(key, key): value
            for key, value in self.to_dict().items()
            if key not in unsaid
        }
        for key in ("seq_classif_dropout", "qa_dropout"):  # of which transformers knows no None
            if key in values and values[key] is None:
                values[key] = self.hidden_dropout_prob
        return values

    @classmethod
    def from_dict(cls, values: dict, *, source: str = "the configuration") -> "BertConfig":
        """Create a configuration from the keys of `bert_config.json` or `config.json`.

        Raises:
            ValueError: a key whose value names another architecture, a misspelled key, no
                `vocab_size`, or a value that `BertConfig` refuses. Other keys are ignored: see
                `kbert.io.setting_keys`.
        """
        if not isinstance(values, dict):
            raise ValueError(f"{source} must be a JSON object, got {type(values).__name__}")
        model_type = values.get("model_type", "bert")
        if model_type not in MODEL_TYPES:
            raise explain_model_type(model_type, source)
        family = FAMILIES[model_type]
        setting_keys.check_settings("config.json", values, source)

        fields = {field.name for field in dataclasses.fields(cls)}
        ours = dict(family.renamed)
        known = {}
        for key, value in values.items():
            field = ours.get(key, key)
            if field in fields:
                known[field] = value
        _check_keys(values, missing=fields - set(known), source=source)
        if known.get("pad_token_id", 0) is None:  # as transformers writes "no padding token"
            del known["pad_token_id"]

        of_family = dict(family.fixed + family.unsaid)
        defaults = {"pad_token_id": family.pad_token_id} | of_family
        try:
            config = cls(**defaults | known)
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None
        _check_implied_sizes(config, values, source)
        return config

    @classmethod
    @printable.escape_errors()
    def from_json(cls, path: str | os.PathLike) -> "BertConfig":
        """Read a `bert_config.json` (Google) or a `config.json` (transformers).

        Raises:
            FileNotFoundError, OSError: the file does not exist or cannot be read.
            ValueError: the file is not JSON, or `from_dict` refuses the configuration.
        """
        values = js.read(path, what="JSON of a configuration")
        return cls.from_dict(values, source=str(path))

    def to_json(self, path: str | os.PathLike | None = None, *, overwrite: bool = False) -> str:
        """Return the configuration as JSON text; write it to a file if `path` is given.

        A file named `bert_config.json` gets Google's keys; any other name gets transformers' keys,
        with `model_type` and `architectures`. The file is written atomically.

        Raises:
            FileExistsError: without `overwrite`, a file at the path.
        """
        is_googles = path is not None and Path(path).name == "bert_config.json"
        values = self.to_google_dict() if is_googles else self.to_transformers_dict()
        text = json.dumps(values, indent=2, sort_keys=True) + "\n"
        if path is not None:
            write_atomically(check_new_file(path, overwrite=overwrite), text.encode())
        return text


def _check_keys(values: dict, missing: set[str], source: str) -> None:
    """Raise a ValueError for a misspelled key, one close to a missing one, or no vocab_size."""
    listed = {row.key for row in setting_keys.setting_keys("config.json")}
    for key in values:
        near = difflib.get_close_matches(str(key), missing, n=1, cutoff=_MISSPELLED)
        if near and key not in listed:
            raise ValueError(
                f"{source} has an unknown key {js.short_repr(key)}: did you mean {near[0]}?"
            )

    if "vocab_size" in missing:
        keys = ", ".join(list(values)[:_SHOWN_KEYS]) or "no keys"
        raise ValueError(f"{source} must say vocab_size, got {keys}")


def _closest_divisors(size: int, number: int) -> list[int]:
    """Return the three divisors of a size that are closest to a number."""
    divisors = set()
    for divisor in range(1, math.isqrt(size) + 1):
        if size % divisor == 0:
            divisors.add(divisor)
            divisors.add(size // divisor)

    by_distance = sorted(divisors, key=lambda divisor: (abs(divisor - number), divisor))
    return sorted(by_distance[:3])


def _check_implied_sizes(config: BertConfig, values: dict, source: str) -> None:
    """Raise a ValueError if a key of other models says another size than BERT's is."""
    implied = {
        "embedding_size": config.hidden_size,
        "embedding_width": config.hidden_size,
        "num_key_value_heads": config.num_attention_heads,
        "head_dim": config.head_size,
        "attention_head_size": config.head_size,
    }
    for key, size in implied.items():
        if values.get(key) not in (None, size):
            raise ValueError(
                f"{source}: {key} must be {size}, as in every BERT of these sizes, got "
                f"{js.short_repr(values[key])}"
            )


def find_config(folder: Path) -> Path | None:
    """Return the file of the configuration in a model's folder; None: there is none."""
    for name in _FILES:
        if (folder / name).is_file():
            return folder / name
    return None


def require_positive(name: str, value) -> int:
    """Return the value as an int; raise a ValueError unless it is a whole number of 1 to 2³¹ - 1.

    No backend supports larger indices.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        got = js.short_repr(value)
        raise ValueError(f"{name} must be a whole number of at least 1, got {got}")
    if int(value) > js.MOST:
        raise ValueError(f"{name} must be at most {js.MOST:,}, got {value}")
    return int(value)


def _is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
