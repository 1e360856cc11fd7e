"""Settings of sentence-transformers: how a text becomes an embedding, and two texts a score.

`kbert.checkpoints.transformers.sentence_files` reads and writes them as sentence-transformers does.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from kbert.graph.config import require_positive
from kbert.io import json_schema as js
from kbert.io.wording import check_choice, hint

if TYPE_CHECKING:
    import numpy as np

# torch's activation classes, as sentence-transformers names them in its files
_LINEAR = "torch.nn.modules.linear"
_ACTIVATION = "torch.nn.modules.activation"
_NAMES = ("ELU", "GELU", "Mish", "ReLU", "SELU", "Sigmoid", "SiLU", "Softplus", "Tanh")
# Keras's function by torch's class with its default arguments
_KERAS = {"Identity": "linear"} | {name: name.lower() for name in _NAMES}
IDENTITY = f"{_LINEAR}.Identity"

OF_CHECKPOINTS = (
    "mean",
    "cls",
    "max",
    "weightedmean",
    "lasttoken",
    "mean_sqrt_len_tokens",
    "pooler",
)
POOLINGS = (*OF_CHECKPOINTS, "last")
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
# the prompts that a search takes
QUERY = "query"
DOCUMENT = "document"


@dataclass(frozen=True, eq=False)
class SentenceDense:
    """A dense layer after the pooling.

    Attributes:
        kernel: float32 (inputs, outputs).
        bias: float32 (outputs,); None: it has none.
        activation: Keras's name of the function.
    """

    kernel: "np.ndarray"
    bias: "np.ndarray | None" = None
    activation: str = "tanh"

    def __post_init__(self):
        bias = self.bias
        has_other_bias = bias is not None and bias.shape != self.shape[1:]
        if self.kernel.ndim != 2 or has_other_bias:
            raise ValueError(f"a dense layer must have a matrix and a bias, got {self.shape}")
        if self.activation not in _KERAS.values():
            raise ValueError(f"an unknown activation of a dense layer: {self.activation!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of inputs and outputs."""
        return self.kernel.shape


@dataclass(frozen=True)
class SentenceSettings:
    """A checkpoint's settings for sentence embeddings.

    Attributes:
        pooling: "mean", "cls", "max", "weightedmean", "lasttoken", "mean_sqrt_len_tokens" or
            "pooler"; or a tuple of several, whose embeddings are concatenated.
        normalize: whether embeddings are scaled to length 1.
        max_length: the number of tokens that a text is truncated to; None: the model's positions.
        lowercase: whether texts are lowercased before they are tokenized.
        prompts: prompts by name; a prompt is text put before the input text.
        default_prompt_name: the prompt used if none is chosen; None: no prompt.
        include_prompt: whether the prompt's tokens are pooled too.
        similarity: the similarity function: "cosine", "dot", "euclidean" or "manhattan".
        dimensions: the number of leading dimensions to keep; None: all.
        dense: dense layers after the pooling and before the normalization.

    Raises:
        ValueError: a value of the wrong type, or a default prompt that is not among the prompts.
    """

    pooling: str | tuple[str, ...]
    normalize: bool
    max_length: int | None = None
    lowercase: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict, hash=False)
    default_prompt_name: str | None = None
    include_prompt: bool = True
    similarity: str = "cosine"
    dimensions: int | None = None
    dense: tuple[SentenceDense, ...] = ()

    def __post_init__(self):
        object.__setattr__(self, "pooling", check_pooling(self.pooling, OF_CHECKPOINTS))
        object.__setattr__(self, "dense", tuple(self.dense))
        for name in ("normalize", "lowercase", "include_prompt"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be True or False, got {js.short_repr(value)}")
        for name in ("max_length", "dimensions"):
            if getattr(self, name) is not None:
                require_positive(name, getattr(self, name))

        if self.similarity not in SIMILARITIES:
            check_choice(self.similarity, SIMILARITIES, "similarity")
        prompts = js.mapping_of(js.TEXT)
        js.check(dict(self.prompts), prompts, "prompts")
        if self.default_prompt_name is not None:
            self.prompt(self.default_prompt_name)

    def __repr__(self) -> str:
        """Return the settings that differ from a model that only pools."""
        defaults = {setting.name: setting.default for setting in fields(self)}
        defaults["prompts"] = {}
        shown = []
        for name, default in defaults.items():
            value = getattr(self, name)
            if value != default:
                shown.append(f"{name}={value!r}")
        return f"SentenceSettings({', '.join(shown)})"

    @property
    def poolings(self) -> tuple[str, ...]:
        """Pooling methods in order, always as a tuple."""
        if isinstance(self.pooling, str):
            return (self.pooling,)
        return self.pooling

    @property
    def default_prompt(self) -> str:
        """Text put before every input text if no prompt is chosen."""
        return "" if self.default_prompt_name is None else self.prompt(self.default_prompt_name)

    def prompt(self, name: str) -> str:
        """Return the prompt of a name; raise a ValueError if there is none.

        As in sentence-transformers, "query" and "document" always exist; they are "" if the
        checkpoint does not have them.
        """
        known = dict.fromkeys((*self.prompts, QUERY, DOCUMENT))
        check_choice(name, known, "prompt_name")
        return self.prompts.get(name, "")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings for JSON; of each dense layer the activation only."""
        names = [setting.name for setting in fields(self)]
        values = {name: getattr(self, name) for name in names}
        values["dense"] = [layer.activation for layer in self.dense]
        return values | {"prompts": dict(self.prompts)}

    def arrays(self) -> "dict[str, np.ndarray]":
        """Return the weights of the dense layers, by their number and name."""
        arrays = {}
        for number, layer in enumerate(self.dense):
            arrays[f"{number}.kernel"] = layer.kernel
            if layer.bias is not None:
                arrays[f"{number}.bias"] = layer.bias
        return arrays

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], arrays: "Mapping[str, np.ndarray]"
    ) -> "SentenceSettings":
        """Create the settings from the results of `to_dict` and `arrays`."""
        dense = []
        for number, activation in enumerate(values.get("dense", ())):
            kernel = arrays.get(f"{number}.kernel")
            if kernel is None:
                raise ValueError(f"dense layer {number} must have weights, got none")
            dense.append(SentenceDense(kernel, arrays.get(f"{number}.bias"), activation))
        return cls(**{**values, "dense": tuple(dense)})


@dataclass(frozen=True)
class CrossEncoderSettings:
    """A cross-encoder's settings: how its single logit becomes a score.

    Attributes:
        activation: the path of torch's class; None: the checkpoint has none.
        prompt: the text put before the first text.
    """

    activation: str | None = None
    prompt: str = ""


def check_pooling(pooling, known: tuple[str, ...]) -> str | tuple[str, ...]:
    """Return a pooling, or a tuple of several; raise a ValueError for an unknown one."""
    is_list = isinstance(pooling, (list, tuple))
    several = tuple(pooling) if is_list else (pooling,)
    unknown = [name for name in several if name not in known]
    if not several or unknown or len(set(several)) < len(several):
        text = f"pooling must be one of {', '.join(known)}, got {js.short_repr(pooling)}"
        near = hint(unknown[0], known, "") if unknown else ""
        raise ValueError(f"{text}: {near}" if near else text)

    if len(several) == 1:
        return several[0]
    if "last" in several:
        raise ValueError("pooling 'last' goes with no other pooling")
    return several


DEFAULT = SentenceSettings("mean", False)  # of a checkpoint that says nothing


def settings_of(bert, task: str) -> SentenceSettings:
    """Return a model's settings for sentence embeddings; mean pooling if the checkpoint has none.

    Raise a ValueError, which names the task, for settings that kbert cannot compute.
    """
    if bert.sentence_problem is not None:
        raise ValueError(
            f"{task} needs the checkpoint's own pooling, which kbert cannot compute: "
            f"{bert.sentence_problem.removesuffix('.')}. Choose another one, such as "
            "pooling='mean' (--pooling mean)"
        )
    return bert.sentence or DEFAULT


def keras_activation(path: object, source: str) -> str:
    """Return the name of Keras's function for the dotted path of torch's class.

    The path is such as "torch.nn.modules.activation.Tanh" or "torch.nn.Tanh"; any other is refused,
    as nothing is imported by a name in a file. `source` is the file and key, for the error.
    """
    module = name = ""
    if isinstance(path, str):
        module, _, name = path.rpartition(".")
    if module not in ("torch.nn", _LINEAR, _ACTIVATION) or name not in _KERAS:
        known = ", ".join(_KERAS)
        raise ValueError(f"{source} must be one of torch.nn's {known}, got {js.short_repr(path)}")
    return _KERAS[name]


def torch_path(activation: str) -> str:
    """Return the path of torch's class for the name of Keras's function."""
    name = next(name for name, keras_name in _KERAS.items() if keras_name == activation)
    return IDENTITY if name == "Identity" else f"{_ACTIVATION}.{name}"


def lowercase_text(text: str, special_tokens: Iterable[str]) -> str:
    """Lowercase all but special tokens, each character for itself, as the Rust tokenizers do."""
    escaped = [re.escape(token) for token in special_tokens]
    pattern = "|".join(escaped)
    pieces = re.split(f"({pattern})", text)
    texts = pieces[::2]
    pieces[::2] = [text.replace("Σ", "σ").lower() for text in texts]
    return "".join(pieces)
