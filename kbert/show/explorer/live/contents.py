"""The live part of a page: what its scripts compute a sentence with, of a checkpoint or a model."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kbert.checkpoints.checkpoint import choose_activation
from kbert.checkpoints.sentence_settings import SentenceSettings, lowercase_text
from kbert.checkpoints.weight_names import Entry, entries_of
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.data.tokenization.vocabulary import Vocabulary
from kbert.graph import names
from kbert.graph.closed_form import config_letters
from kbert.graph.config import ACTIVATIONS
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS
from kbert.show.explorer.live.packing import PackedWeights, pack_weights
from kbert.show.explorer.live.tokenizer_rules import describe_tokenizer
from kbert.show.explorer.live.weight_options import check_size

if TYPE_CHECKING:
    from kbert.checkpoints.bert import Bert

# What a head's layer says of a text, by its name in a trace.
# By layer: the output, and a weight without which the layer is not trained.
_OUTPUTS = {
    names.MLM: ("mlm", f"{names.MLM_SIMILARITY}/bias"),
    names.NSP: ("nsp", f"{names.NSP}/kernel"),
    names.CLASSIFIER: ("classes", f"{names.CLASSIFIER}/kernel"),
    names.TOKEN_CLASSIFIER: ("tags", f"{names.TOKEN_CLASSIFIER}/kernel"),
    names.SPAN: ("answer", f"{names.SPAN}/kernel"),
}


@dataclass(frozen=True)
class LiveModel:
    """A model whose forward pass a page computes.

    Attributes:
        spec: its graph.
        tokenizer: its tokenizer; None: it has none.
        readers: functions that read its parameters, by "layer/variable"; those that the checkpoint
            lacks are left out. Matrices are (outputs, inputs).
        labels: the names of a classifier's outputs.
        sentence: its settings for sentence embeddings; None: it has none.
        problem_type: the kind of classifier, as in `kbert.Bert`.
    """

    spec: GraphSpec
    tokenizer: Tokenizer | None
    readers: Mapping[str, Callable[[], np.ndarray]]
    labels: tuple[str, ...] | None = None
    sentence: SentenceSettings | None = None
    problem_type: str | None = None

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        entries = entries_of(self.spec, "kbert")
        return sum(math.prod(entry.shape) for entry in entries)

    @property
    def problem(self) -> str | None:
        """Why a page cannot compute the model; None: it can."""
        family = self.spec.config.family
        if self.spec.config.model_type != "bert":
            return f"it computes BERT's graph, got {family.title}'s"
        if self.tokenizer is None:
            return "the checkpoint has no vocabulary"
        if not isinstance(self.tokenizer.vocabulary, Vocabulary):
            return "its tokenizer is WordPiece, which this model does not have"
        return None


def model_of_bert(bert: "Bert") -> LiveModel:
    """Return the live model of a loaded or built one."""
    from kbert.checkpoints.transfer import variable_of
    from kbert.checkpoints.untrained_weights import find_untrained

    untrained = find_untrained(bert)

    def read(entry: Entry) -> np.ndarray:
        return put_outputs_first(_to_numpy(variable_of(bert.model, entry)), entry)

    readers = {}
    for entry in entries_of(bert.spec, "kbert"):
        if entry.layer not in untrained:
            readers[entry.name] = functools.partial(read, entry)
    return LiveModel(
        bert.spec,
        bert.tokenizer,
        readers,
        bert.labels,
        bert.sentence,
        bert.problem_type,
    )


def _to_numpy(variable) -> np.ndarray:
    import keras

    return keras.ops.convert_to_numpy(variable).astype("float32", copy=False)


def require_tokenizer(model: LiveModel) -> Tokenizer:
    """Return the tokenizer of a model; raise a ValueError if there is none, or none that fits."""
    if model.tokenizer is None:
        raise ValueError(
            "a sentence needs a tokenizer, and the checkpoint has no vocabulary: put its vocab.txt "
            "into its folder"
        )
    if model.tokenizer.pad_id != model.spec.config.pad_token_id:
        raise ValueError(
            "a sentence needs a model with the tokenizer's pad_token_id, "
            f"{model.tokenizer.pad_id}, got {model.spec.config.pad_token_id}"
        )
    return model.tokenizer


def pack_model(model: LiveModel, precision: str) -> tuple[dict, PackedWeights]:
    """Return the page's data of a model, DATA.live, and its weights in a precision."""
    packed = pack_weights(_read_tensors(model), precision)
    check_size(packed, precision)
    assert model.tokenizer is not None
    tokenizer = describe_tokenizer(model.tokenizer, max_length(model), lowercases(model))
    layout = [[name, list(shape), form] for name, shape, form in packed.layout]
    data = describe_model(model)
    data["tokenizer"] = tokenizer
    data["place"] = "inside"
    data["precision"] = precision
    data["weights"] = layout
    return data, packed


def describe_model(model: LiveModel) -> dict:
    """Return the data that the pages of a model share, wherever it computes."""
    config = model.spec.config
    letters = config_letters(config)
    sizes = {
        "L": letters["L"],
        "H": letters["H"],
        "A": letters["A"],
        "F": letters["FFD"],
        "T": letters["T"],
        "P": letters["P"],
        "G": config.type_vocab_size,
        "eps": config.layer_norm_eps,
        "activation": ACTIVATIONS[config.hidden_act],
        "padId": config.pad_token_id,
    }
    label_function = choose_activation(model.problem_type, model.spec.num_labels)

    return {
        "config": sizes,
        "head": model.spec.head,
        "outputs": list_outputs(model),
        "labels": name_labels(model),
        "labelFunction": label_function,
        "pooling": _describe_pooling(model),
        "difference": None,
        "recordings": [],
        "sentences": [],
    }


def put_outputs_first(array: np.ndarray, entry: Entry) -> np.ndarray:
    """Return a parameter with matrices as (outputs, inputs), however its format has them."""
    if not entry.variable.endswith("kernel") or entry.outputs_first:
        return array
    if entry.variable == "attention_output/kernel":  # (A, H/A, H) in some formats
        return array.reshape(-1, array.shape[-1]).T
    return array.reshape(array.shape[0], -1).T


def _read_tensors(model: LiveModel) -> Iterator[tuple[str, np.ndarray]]:
    for name, read in model.readers.items():
        yield name, read()
    if model.sentence is None:
        return
    for number, layer in enumerate(model.sentence.dense, 1):
        yield f"Sentence-Dense-{number}/kernel", layer.kernel.T
        if layer.bias is not None:
            yield f"Sentence-Dense-{number}/bias", layer.bias


def name_labels(model: LiveModel) -> list[str]:
    """Return the names of the outputs of a head that has labels."""
    if not model.spec.has_labels:
        return []
    if model.labels:
        return list(model.labels)
    return [f"LABEL_{n}" for n in range(model.spec.num_labels)]


def list_outputs(model: LiveModel) -> list[str]:
    """Return the names of the outputs that a trace of the model may have."""
    layers = HEADS[model.spec.head].layers
    outputs = []
    for layer, (output, weight) in _OUTPUTS.items():
        if layer in layers and weight in model.readers:
            outputs.append(output)
    if choose_settings(model) is not None:
        outputs.append("vector")
    return outputs


def _describe_pooling(model: LiveModel) -> dict | None:
    """Return the settings of the sentence embedding."""
    settings = choose_settings(model)
    if settings is None:
        return None
    values = dataclasses.asdict(dataclasses.replace(settings, dense=()))
    return {
        "poolings": list(settings.poolings),
        "normalize": settings.normalize,
        "dense": [layer.activation for layer in settings.dense],
        "dimensions": values["dimensions"],
        "prompt": settings.default_prompt,
        "skip": count_skipped(model, settings),
        "similarity": settings.similarity,
    }


def choose_settings(model: LiveModel) -> SentenceSettings | None:
    """Return how a sentence vector is pooled; the mean for an encoder that says nothing."""
    is_encoder = model.spec.head == "encoder"
    return model.sentence or (SentenceSettings("mean", True) if is_encoder else None)


def count_skipped(model: LiveModel, settings: SentenceSettings) -> int:
    """Return how many tokens at the beginning, [CLS] and the prompt's, are not pooled."""
    prompt = settings.default_prompt
    if settings.include_prompt or not prompt or model.tokenizer is None:
        return 0
    return len(model.tokenizer.encode(prepare_text(model, prompt))) - 1


def lowercases(model: LiveModel) -> bool:
    """Return whether texts are lowercased before a tokenizer that does not do it itself."""
    is_set = model.sentence is not None and model.sentence.lowercase
    return is_set and model.tokenizer is not None and not model.tokenizer.lowercase


def prepare_text(model: LiveModel, text: str) -> str:
    """Return a text as the tokenizer gets it."""
    if not lowercases(model):
        return text
    return lowercase_text(text, require_tokenizer(model).vocabulary.special_tokens.values())


def max_length(model: LiveModel) -> int:
    """Return the number of tokens that a text is cut to."""
    limits: list[int | None] = [model.spec.config.positions]
    limits += [model.tokenizer.max_length] if model.tokenizer else []
    limits += [model.sentence.max_length] if model.sentence else []
    return min(limit for limit in limits if limit is not None)
