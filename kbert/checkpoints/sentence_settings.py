"""Settings of sentence-transformers: from a text to its embedding, from two texts to a score.

`kbert.checkpoints.transformers.sentence_files` reads and writes them as sentence-transformers does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from kbert.checkpoints.torch_activations import is_known
from kbert.graph.config import require_positive
from kbert.io import json_schema as js

if TYPE_CHECKING:
    import numpy as np

POOLINGS = (
    "mean",
    "cls",
    "max",
    "weightedmean",
    "lasttoken",
    "mean_sqrt_len_tokens",
    "pooler",
    "last",
)
OF_CHECKPOINTS = POOLINGS[:-1]
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
QUERY, DOCUMENT = "query", "document"  # the prompts that a search takes


@dataclass(frozen=True, eq=False)
class SentenceDense:
    """A dense layer after the pooling.

    Attributes:
        kernel: float32 (inputs, outputs).
        bias: float32 (outputs,), or None.
        activation: Keras's name of the function.

    Raises:
        ValueError: shapes that do not fit each other, an unknown activation.
    """

    kernel: "np.ndarray"
    bias: "np.ndarray | None" = None
    activation: str = "tanh"

    def __post_init__(self):
        if self.kernel.ndim != 2 or (self.bias is not None and self.bias.shape != self.shape[1:]):
            raise ValueError(f"a dense layer must have a matrix and a bias, got {self.shape}")
        if not is_known(self.activation):
            raise ValueError(f"an unknown activation of a dense layer: {self.activation!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Inputs and outputs."""
        return self.kernel.shape


@dataclass(frozen=True)
class SentenceSettings:
    """A checkpoint's own way from a text to a sentence vector.

    Attributes:
        pooling: one of `OF_CHECKPOINTS`, or several: their vectors are concatenated.
        normalize: whether the vector is brought to length 1.
        max_length: tokens that a text is cut to; None: the model's positions.
        lowercase: whether texts are lowercased before the tokenizer.
        prompts: texts that are put before a text, by their names.
        default_prompt_name: the prompt of a text for which none is chosen; None: no prompt.
        include_prompt: whether the prompt's tokens are pooled as well.
        similarity: what compares two vectors, one of `SIMILARITIES`.
        dimensions: the first numbers of the vector, which are kept; None: all.
        dense: layers after the pooling, before the normalization.

    Raises:
        ValueError: one that is of another type, or a default prompt that is not among the prompts.
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
            if not isinstance(getattr(self, name), bool):
                got = js.shown(getattr(self, name))
                raise ValueError(f"{name} must be True or False, got {got}")
        for name in ("max_length", "dimensions"):
            if getattr(self, name) is not None:
                require_positive(name, getattr(self, name))
        if self.similarity not in SIMILARITIES:
            known = ", ".join(SIMILARITIES)
            raise ValueError(f"similarity must be one of {known}, got {js.shown(self.similarity)}")
        js.check(dict(self.prompts), js.mapping_of(js.TEXT), "prompts")
        if self.default_prompt_name is not None:
            self.prompt(self.default_prompt_name)

    def __repr__(self) -> str:
        """Name what is not as in a model that only pools."""
        plain = {one.name: one.default for one in fields(self)} | {"prompts": {}}
        values = {name: getattr(self, name) for name in plain}
        own = [f"{name}={value!r}" for name, value in values.items() if value != plain[name]]
        return f"SentenceSettings({', '.join(own)})"

    @property
    def poolings(self) -> tuple[str, ...]:
        """The poolings in their order, one or several."""
        return (self.pooling,) if isinstance(self.pooling, str) else self.pooling

    @property
    def default_prompt(self) -> str:
        """The text that stands before every text for which no prompt is chosen."""
        return "" if self.default_prompt_name is None else self.prompt(self.default_prompt_name)

    def prompt(self, name: str) -> str:
        """Return the prompt of a name; a ValueError where there is none.

        A query's and a document's are in every model, as in sentence-transformers, if need be "".
        """
        if name not in (*self.prompts, QUERY, DOCUMENT):
            known = ", ".join(dict.fromkeys((*self.prompts, QUERY, DOCUMENT)))
            raise ValueError(f"prompt_name must be one of {known}, got {js.shown(name)}")
        return self.prompts.get(name, "")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON has them; of a dense layer the activation alone."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values["dense"] = [layer.activation for layer in self.dense]
        return values | {"prompts": dict(self.prompts)}

    def arrays(self) -> "dict[str, np.ndarray]":
        """Return the dense layers' weights, by their number and name."""
        found = {}
        for number, layer in enumerate(self.dense):
            found[f"{number}.kernel"] = layer.kernel
            if layer.bias is not None:
                found[f"{number}.bias"] = layer.bias
        return found

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], arrays: "Mapping[str, np.ndarray]"
    ) -> "SentenceSettings":
        """Make the settings that `to_dict` and `arrays` gave.

        Raises:
            ValueError: a value of another type, a dense layer without weights.
        """
        dense = []
        for number, activation in enumerate(values.get("dense", ())):
            if f"{number}.kernel" not in arrays:
                raise ValueError(f"dense layer {number} must have weights, got none")
            kernel, bias = arrays[f"{number}.kernel"], arrays.get(f"{number}.bias")
            dense.append(SentenceDense(kernel, bias, activation))
        return cls(**{**values, "dense": tuple(dense)})


@dataclass(frozen=True)
class CrossEncoderSettings:
    """A cross-encoder's settings: from its one logit to a score, as sentence-transformers.

    Attributes:
        activation: the path of torch's class, as the folder says it; None: it says none.
        prompt: what is put before the first text.
    """

    activation: str | None = None
    prompt: str = ""


def check_pooling(pooling, known: tuple[str, ...]) -> str | tuple[str, ...]:
    """Return a pooling, or a tuple of several; a ValueError for others than the known ones."""
    several = tuple(pooling) if isinstance(pooling, (list, tuple)) else (pooling,)
    if not several or any(one not in known for one in several) or len(set(several)) < len(several):
        raise ValueError(f"pooling must be one of {', '.join(known)}, got {js.shown(pooling)}")
    if len(several) == 1:
        return several[0]
    if "last" in several:
        raise ValueError("pooling 'last' goes with no other pooling")
    return several


DEFAULT = SentenceSettings("mean", False)  # of a checkpoint that says nothing


def settings_of(bert, task: str) -> SentenceSettings:
    """Return how a model's sentence vectors are made; the mean where the checkpoint says nothing.

    Args:
        bert: a `kbert.Bert`.
        task: what needs it, for the error.

    Raises:
        ValueError: the checkpoint says it in a way that kbert does not compute.
    """
    if bert.sentence_problem is not None:
        raise ValueError(
            f"{task} needs the checkpoint's own pooling, which kbert cannot compute: "
            f"{bert.sentence_problem}; choose one with pooling="
        )
    return bert.sentence or DEFAULT
