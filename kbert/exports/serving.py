"""The model that is exported: any batch and length, float32, inference alone; and its names.

Inputs are int32 with the graph's names: Input-Token, Input-Segment and, if the model has one,
Input-Masked (B, S) or Input-Positions (B, M); any batch, any length up to the configuration's
positions. A SavedModel and a LiteRT file write Input_Token. Outputs are float32 with the names of
their layers, an encoder's two sequence_output and pooled_output. If the checkpoint has settings for
sentence embeddings, sentence_embedding (B, H) is `kbert.embed`'s. An id outside its table gives NaN
or the runtime's own error. An ONNX and a LiteRT file have no vocabulary.
"""

import contextlib
import dataclasses
import logging
import os
import sys
from collections.abc import Collection, Iterator, Mapping

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.sentence_settings import SentenceSettings
from kbert.graph import names

# An ONNX file and a LiteRT file are one message each, of 2 GiB at most; the graph needs some room.
_LARGEST = 2**31 - 2**26
SENTENCE = "sentence_embedding"  # the output with a text's vector

_logger = logging.getLogger("kbert")


def serving_model(bert, form: str, with_embedding: bool = True):
    """Return the model to export; the sentence embedding is one more output if it has settings."""
    inputs = [tensor.name for tensor in bert.model.inputs]
    expected = [names.TOKEN_IDS]
    if bert.config.family.segments:
        expected.append(names.SEGMENT_IDS)
    if inputs[: len(expected)] != expected:
        raise ValueError(
            f"{form} needs a model that kbert built, with inputs {' and '.join(expected)}, got "
            f"{', '.join(inputs)}"
        )

    model = free_model(bert)
    has_settings = bert.sentence is not None or bert.sentence_problem is not None
    if not with_embedding or not has_settings:
        return model
    reason = _lacking(bert)
    if reason:
        _logger.warning("the export has no %s: %s", SENTENCE, reason)
        return model
    from kbert.model.bert_model import BertModel

    outputs = [*model.outputs, sentence_vector(model, bert.sentence)]
    return BertModel(model.inputs, outputs, spec=None)


def free_model(bert, **changes):
    """Return the model of any length in float32, itself or a copy; `changes` are of its spec."""
    changes = {"seq_len": None} | changes
    is_same = all(getattr(bert.spec, name) == value for name, value in changes.items())
    dtypes = {layer.compute_dtype for layer in bert.model.layers}
    if is_same and dtypes.isdisjoint(("float16", "bfloat16", "float64")):
        return bert.model
    import keras

    from kbert.model import builder

    spec = dataclasses.replace(bert.spec, **changes, dtype="float32")
    model = builder.build(spec)
    weights = zip(model.weights, bert.model.weights, strict=True)
    for new, old in weights:
        new.assign(keras.ops.convert_to_numpy(old))
    return model


def check_backend(form: str, backends: Collection[str] = ("tensorflow",)) -> str:
    """Keras's backend, or before Keras is imported the one that will be; else a ValueError."""
    backend = os.environ.get("KERAS_BACKEND", next(iter(backends)))
    if "keras" in sys.modules:
        backend = sys.modules["keras"].backend.backend()
    if backend not in backends:
        raise ValueError(
            f"{form} must be written on the backend {' or '.join(backends)}, got {backend}: set "
            f"KERAS_BACKEND={next(iter(backends))} and load the checkpoint there"
        )
    return backend


def longest(bert, own: int | None = None) -> int:
    """Return the maximum tokens of a text: positions, a fixed length, or the checkpoint's limit."""
    limit = own
    if limit is None and bert.tokenizer is not None:
        limit = bert.tokenizer.max_length
    limits = [bert.config.positions, bert.spec.seq_len, limit]
    return min(limit for limit in limits if limit is not None)


def parameter(name: str) -> str:
    """Return an input's name as an identifier: Input_Token for Input-Token."""
    return name.replace("-", "_")


def output_names(model) -> list[str]:
    """Return the names of the outputs: the field's for the encoder's two, else layer names."""
    outputs = list(model.output_names)
    if len(outputs) == 1 and outputs[0].startswith("Encoder-"):
        outputs = ["sequence_output"]
    if outputs[1:2] == [names.POOLER]:  # keras_bert's name, NSP-Dense, says little
        outputs[:2] = ["sequence_output", "pooled_output"]
    return outputs


def outputs_of(model, inputs: list) -> dict:
    """Return the outputs at inference, by `output_names`."""
    import keras

    outputs = keras.tree.flatten(model(inputs, training=False))
    return dict(zip(output_names(model), outputs, strict=True))


def warn_of_untrained(bert, path, model, outputs: Mapping | None = None) -> None:
    """Log which of an export's outputs, symbolic tensors by name, depend on untrained weights."""
    import keras

    untrained = set(untrained_weights.find_untrained(bert))
    if not untrained:
        return
    if outputs is None:
        tensors = zip(output_names(model), model.outputs, strict=True)
        outputs = dict(tensors)

    used = set()
    meaningless = []
    for name, tensor in outputs.items():
        used_graph = keras.Model(model.inputs, tensor)
        layers = {layer.name for layer in used_graph.layers}
        used |= layers
        if layers & untrained:
            meaningless.append(name)
    untrained_weights.warn_of_untrained(bert, path, used, meaningless)


def refuse_too_large(model, form: str) -> None:
    """Raise a ValueError where the weights do not fit into a single file of 2 GiB."""
    size = 4 * model.count_params()
    if size > _LARGEST:
        raise ValueError(
            f"{form} must be smaller than 2 GiB, got {size / 2**30:.1f} GiB of weights: write a "
            "SavedModel (format='saved_model')"
        )


@contextlib.contextmanager
def only_errors_of(name: str) -> Iterator[None]:
    """Keep one library's remarks, which say nothing about the file, out of the user's log."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _lacking(bert) -> str | None:
    """Return why a sentence vector cannot be computed from token ids alone, or None."""
    if bert.sentence_problem is not None:
        return bert.sentence_problem
    if "pooler" in bert.sentence.poolings and not bert.spec.has_pooler:
        return f"head {bert.head} has no pooler"
    prompts = bert.sentence.prompts.values()
    if not bert.sentence.include_prompt and any(prompts):
        return "the checkpoint leaves a prompt's tokens out of the pooling (include_prompt)"
    return None


def sentence_vector(model, sentence: SentenceSettings):
    """Return `kbert.embed`'s embedding of a text, a symbolic tensor (B, D) of the model's graph."""
    import keras

    from kbert.model.probes import build_pooled

    pooled = build_pooled(model, sentence.pooling, dense=sentence.dense)
    embeddings = pooled.outputs[0]
    if sentence.normalize and sentence.dimensions is None:
        return keras.layers.UnitNormalization(name=SENTENCE)(embeddings)
    if sentence.normalize:
        embeddings = keras.layers.UnitNormalization()(embeddings)
    first_dimensions = embeddings[:, : sentence.dimensions]
    return keras.layers.Identity(name=SENTENCE)(first_dimensions)
