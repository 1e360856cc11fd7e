"""Sequences through a model: compiled once, in batches of similar lengths."""

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np

from kbert.checkpoints import transfer
from kbert.checkpoints.bert import Bert
from kbert.data.padding import LENGTHS, batches_by_length
from kbert.data.tokenization.encodings import Encoding
from kbert.graph.config import require_positive
from kbert.io.progress import progress_bar
from kbert.model.bert_model import BertModel
from kbert.model.deferred import cast_model
from kbert.model.jax_inference import compile_forward
from kbert.model.summary import ids_of
from kbert.tasks.checks import longest, require_tokenizer
from kbert.tasks.precisions import dtype_of

BATCH_SIZE = 32
CHUNK = 4096  # texts that are tokenized, sorted by length and computed at a time

_LENGTHS = sorted({8, 24, *LENGTHS})  # that JAX compiles for: many texts are short

_logger = logging.getLogger("kbert")
# A function holds layers and tensors of its model, never the model itself: it goes with it.
_functions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_making = threading.RLock()  # threads that ask for the same function wait for one that makes it


def function_of(
    bert: Bert,
    key: tuple,
    build: Callable[[keras.Model], keras.Model],
    precision: str | None = None,
) -> Callable:
    """Return the compiled function of a model made from `bert.model`.

    Made once for each model and key.

    Args:
        bert: whose model.
        key: what `build` depends on, beside the model.
        build: makes a model with the inputs Input-Token and Input-Segment, not `bert.model` itself.
        precision: one of `kbert.tasks.precisions.PRECISIONS`; None: the model's own.

    Returns:
        A function of two int32 arrays (B, S) that gives the outputs, a list of arrays; in another
        precision than the model's own they are float32.

    Raises:
        ValueError: an unknown precision, or another than its own for a model that is not that of
            its configuration.
    """
    with _making:
        model = bert.model if precision is None else _in_precision(bert, dtype_of(precision))
        functions = _functions.setdefault(model, {})
        if key not in functions:
            view = build(model)
            function = compiled(view)
            functions[key] = function if model is bert.model else _in_float32(function)
        return functions[key]


def _in_precision(bert: Bert, dtype: str) -> keras.Model:
    """Return the model's cast; itself where it is of the dtype throughout."""
    layers = [layer for layer in bert.model.layers if layer.weights]
    weights = {weight.dtype for layer in layers for weight in layer.weights}
    if weights == {layer.compute_dtype for layer in layers} == {dtype}:
        return bert.model
    transfer.check_whole(bert.model, bert.spec)
    return cast_model(bert.model, bert.spec, dtype)


def _in_float32(call: Callable) -> Callable:
    """Return a function whose outputs are in float32."""
    return lambda *ids: [np.asarray(output, "float32") for output in call(*ids)]


def outputs_of(*layers: str) -> Callable[[keras.Model], BertModel]:
    """Return a function that builds a model whose outputs are those of the named layers."""

    def build(model: keras.Model) -> BertModel:
        outputs = [model.get_layer(name).output for name in layers]
        return BertModel(ids_of(model), outputs, spec=None)

    return build


def run_texts(
    bert: Bert,
    task: str,
    function: Callable,
    texts: list[str],
    pairs: list[str] | None = None,
    *,
    max_length: int | None = None,
    batch_size: int = BATCH_SIZE,
    progress: bool = True,
    check: Callable[[int, Encoding], None] = lambda place, encoding: None,
) -> Iterator[tuple[int, Encoding, list[np.ndarray]]]:
    """Yield each text's place, encoding and outputs, not in the order of the texts.

    Outputs that go over the tokens are as long as the padded batch. Texts that are too long are
    cut; a warning at the end counts them. `check` sees every encoding before it is computed.
    """
    tokenizer = require_tokenizer(bert, task)
    limit, cut = longest(bert, max_length), 0
    with progress_bar(len(texts), " texts", progress) as bar:
        for start in range(0, len(texts), CHUNK):
            part = slice(start, start + CHUNK)
            encodings = tokenizer.encode_batch(
                texts[part], None if pairs is None else pairs[part], max_length=limit
            ).encodings
            cut += sum(encoding.truncated for encoding in encodings)
            for place, encoding in enumerate(encodings, start):
                check(place, encoding)
            rows = [(encoding.ids, encoding.segment_ids) for encoding in encodings]
            for place, outputs in run_rows(bert, function, rows, batch_size):
                yield start + place, encodings[place], outputs
                bar.update()
    warn_of_cut(task, cut, len(texts), limit)


def run_rows(
    bert: Bert,
    function: Callable,
    rows: Sequence[tuple[list[int], list[int]]],
    batch_size: int = BATCH_SIZE,
) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Yield each row's place and outputs, longest rows first.

    Args:
        bert: whose model.
        function: from `function_of`.
        rows: token ids and segment ids, as long as each other.
        batch_size: rows computed at a time.
    """
    batch_size = require_positive("batch_size", batch_size)
    _check_ids(bert, rows)
    batches = batches_by_length(
        rows,
        batch_size,
        pad_id=bert.config.pad_token_id,
        length_for=lambda tokens: _padded_length(bert, tokens),
        count_for=lambda count: _padded_count(count, batch_size),
        longest_first=True,
    )
    for places, outputs in _computed(function, batches, len(rows) > batch_size):
        for row, place in enumerate(places):
            yield place, [output[row] for output in outputs]


def _computed(function: Callable, batches: Iterator, several: bool) -> Iterator:
    """Yield each batch's places and outputs, in order.

    On TensorFlow two at a time: while one is in an operation that keeps one core busy, as many of
    short texts do, the other has the rest. The numbers are the same.
    """
    if not several or keras.backend.backend() != "tensorflow":
        yield from ((places, function(*ids)) for places, *ids in batches)
        return
    with ThreadPoolExecutor(2) as pool:
        begun: deque = deque()
        for places, *ids in batches:
            begun.append((places, pool.submit(function, *ids)))
            if len(begun) > 2:
                places, outputs = begun.popleft()
                yield places, outputs.result()
        for places, outputs in begun:
            yield places, outputs.result()


def warn_of_cut(task: str, cut: int, total: int, limit: int) -> None:
    """Warn once per call about texts that were too long."""
    if cut:
        way_out = ". long='window' (--long window) reads them whole" if task == "embed" else ""
        _logger.warning("%s: %d of %d texts cut to %d tokens%s", task, cut, total, limit, way_out)


def compiled(model: keras.Model) -> Callable:
    """Return the model as a function of int32 (B, S) arrays, its inputs in their order.

    Others follow.

    No new length or batch size retraces it.
    """
    count = len(model.inputs)  # one where there are no segments
    if keras.backend.backend() == "jax":
        forward = compile_forward(model)
        return lambda *ids: [np.asarray(one) for one in _listed(forward(list(ids[:count])))]
    if keras.backend.backend() == "torch":
        return lambda *ids: _listed(model.predict_on_batch(list(ids[:count])))
    traced = _traced(lambda *ids: model(list(ids), training=False), count)
    return lambda *ids: traced(*ids[:count])


def _traced(call: Callable, inputs: int) -> Callable:
    import tensorflow as tf  # predict_on_batch traces up to three times, which takes seconds

    any_ids = tf.TensorSpec((None, None), "int32")
    traced = tf.function(call, input_signature=[any_ids] * inputs, autograph=False)
    # The concrete function: TensorFlow warns of retracing where one process opens five models.
    concrete = traced.get_concrete_function()
    return lambda *ids: [value.numpy() for value in _listed(concrete(*map(tf.constant, ids)))]


def _listed(outputs) -> list:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _padded_length(bert: Bert, tokens: int) -> int:
    if bert.spec.seq_len is not None:
        return bert.spec.seq_len
    if keras.backend.backend() != "jax":
        return tokens
    bucket = next((length for length in _LENGTHS if length >= tokens), tokens + -tokens % 256)
    return min(bucket, bert.config.positions)


def _padded_count(rows: int, batch_size: int) -> int:
    """Return rows of a batch.

    On JAX a power of two, or a whole batch, so that it compiles for few.
    """
    if keras.backend.backend() != "jax":
        return rows
    return min(1 << (rows - 1).bit_length(), batch_size)


def _check_ids(bert: Bert, rows) -> None:
    largest = max((max(ids) for ids, _ in rows if ids), default=0)
    if largest >= bert.config.vocab_size:
        raise ValueError(
            f"the tokenizer's ids must be within the embedding, 0 … {bert.config.vocab_size - 1}, "
            f"got {largest}: the vocabulary is another model's: "
            "put this model's vocab.txt into its folder"
        )


def softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis, in float32; −inf becomes 0."""
    logits = logits.astype("float32")
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """1 / (1 + e^−x) in float32, without overflow."""
    return (0.5 * (1 + np.tanh(0.5 * logits.astype("float32")))).astype("float32")
