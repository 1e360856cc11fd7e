"""Sequences through a model: compiled once, in batches of similar lengths."""

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypedDict

import keras
import numpy as np

from kbert.checkpoints import transfer
from kbert.checkpoints.bert import Bert
from kbert.data.padding import LENGTHS, batches_by_length
from kbert.data.tokenization.encodings import Encoding
from kbert.graph import names
from kbert.graph.config import require_positive
from kbert.io.progress import progress_bar
from kbert.io.wording import check_choice
from kbert.model.bert_model import BertModel
from kbert.model.deferred import cast_model
from kbert.model.jax_inference import compile_forward
from kbert.model.summary import ids_of
from kbert.ops.forks import check_process
from kbert.tasks import PRECISIONS
from kbert.tasks.common.checks import (
    listed,
    longest,
    require_head,
    require_tokenizer,
    require_two_segments,
)
from kbert.tasks.common.encoding import split_by_size

BATCH_SIZE = 32
CHUNK = 4096  # texts at most that are tokenized, sorted by length and computed at a time

_LENGTHS = sorted({8, 24, *LENGTHS})  # that JAX compiles for: many texts are short

_logger = logging.getLogger("kbert")
# A function holds layers and tensors of its model, never the model itself: it goes with it.
_functions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_building = threading.RLock()  # threads that need the same function wait for one that builds it


class InferenceOptions(TypedDict, total=False):
    """Keyword arguments that the inference functions share."""

    batch_size: int
    precision: str | None
    progress: bool


def list_texts(
    bert: Bert,
    task: str,
    texts,
    pairs,
    name: str = "texts",
    pair_name: str = "pairs",
    optional: bool = True,
) -> tuple[list[str], Any, bool]:
    """Return texts and pairs as lists, and whether it was one text; check the model for them.

    Unless they are `optional`, pairs must not be None.
    """
    require_tokenizer(bert, task)
    first, is_single = listed(texts, name, pair_name)
    if pairs is None and optional:
        return first, None, is_single

    second, also_single = listed(pairs, pair_name)
    if is_single != also_single:
        kind, pair_kind = ("a str", "a list") if is_single else ("a list", "a str")
        raise ValueError(
            f"{name} and {pair_name} must both be a str or both a list, got {kind} and "
            f"{pair_kind}: give two texts, or two lists"
        )
    if len(first) != len(second):
        raise ValueError(f"{pair_name} must be as many as {name}, {len(first)}, got {len(second)}")
    require_two_segments(bert, task)
    return first, second, is_single


def get_function(
    bert: Bert,
    key: tuple,
    build: Callable[[keras.Model], keras.Model],
    precision: str | None = None,
) -> Callable:
    """Return the compiled function of a model made from `bert.model`, one for each model and key.

    `build` makes a model with the inputs Input-Token and Input-Segment, not `bert.model` itself;
    `key` is what it depends on. The function takes two int32 arrays (B, S) and returns a list of
    arrays, which are float32 in another precision (one of `PRECISIONS`) than the model's own.
    """
    check_process()
    if precision is not None:
        check_choice(precision, PRECISIONS, "precision")
    with _building:
        model = bert.model
        if precision is not None:
            model = cast(bert, precision.removeprefix("mixed_"))
        functions = _functions.setdefault(model, {})
        if key not in functions:
            function = compile_model(build(model))
            is_copy = model is not bert.model
            functions[key] = _convert_outputs(function) if is_copy else function
        return functions[key]


def _convert_outputs(function: Callable) -> Callable:
    """Return a compiled function with float32 outputs."""

    def compute(*ids):
        return [np.asarray(output, "float32") for output in function(*ids)]

    return compute


def cast(bert: Bert, dtype: str) -> keras.Model:
    """Return the model's copy in a dtype; the model itself if all of it has that dtype."""
    check_process()
    layers = [layer for layer in bert.model.layers if layer.weights]
    dtypes = {layer.compute_dtype for layer in layers}
    for layer in layers:
        dtypes |= {weight.dtype for weight in layer.weights}
    if dtypes == {dtype}:
        return bert.model
    transfer.check_whole(bert.model, bert.spec)
    return cast_model(bert.model, bert.spec, dtype)


def get_output_function(bert: Bert, layers: Sequence[str], precision: str | None) -> Callable:
    """Return the compiled function of the outputs of the named layers; see `get_function`."""

    def build(model: keras.Model) -> BertModel:
        outputs = [model.get_layer(name).output for name in layers]
        return BertModel(ids_of(model), outputs, spec=None)

    return get_function(bert, tuple(layers), build, precision)


def run_texts(
    bert: Bert,
    task: str,
    function: Callable,
    texts: list[str],
    pairs: list[str] | None = None,
    *,
    convert: Callable[[int, Encoding, list[np.ndarray]], object],
    check: Callable[[int, Encoding], None] = lambda index, encoding: None,
    batch_size: int = BATCH_SIZE,
    progress: bool = True,
) -> list:
    """Return `convert(index, encoding, outputs)` of each text, in order.

    Outputs that go over the tokens are as long as the padded batch. Texts that are too long are
    truncated; a warning counts them. `check` sees every encoding before it is computed.
    """
    tokenizer, limit = require_tokenizer(bert, task), longest(bert)
    results: list = [None] * len(texts)

    def encode(part: slice) -> list[list[Encoding]]:
        second = None if pairs is None else pairs[part]
        encodings = tokenizer.encode_batch(texts[part], second, max_length=limit).encodings
        for index, encoding in enumerate(encodings, part.start):
            check(index, encoding)
        return [[encoding] for encoding in encodings]

    for index, (encoding,), (outputs,) in run_windows(
        bert, task, function, [texts, pairs or texts], encode, batch_size, progress
    ):
        results[index] = convert(index, encoding, outputs)
    return results


def compute_logits(
    bert: Bert,
    task: str,
    head: str,
    layer: str,
    texts: list[str],
    pairs: Any,
    options: InferenceOptions,
) -> np.ndarray:
    """Return the logits of a head's layer on the pooler, float32 (N, labels), of each text."""
    require_head(bert, task, head, [names.POOLER, layer])
    if not texts:
        num_labels = bert.model.get_layer(layer).output.shape[-1]
        return np.zeros((0, num_labels), "float32")
    logits = run_texts(
        bert,
        task,
        get_output_function(bert, [layer], options["precision"]),
        texts,
        pairs,
        convert=lambda index, encoding, outputs: outputs[0],
        batch_size=options["batch_size"],
        progress=options["progress"],
    )
    return np.stack(logits).astype("float32")


class Window(NamedTuple):
    """Tokens of a part of a text, with [CLS] and [SEP]; the note says which part, if needed."""

    ids: Sequence[int]
    segment_ids: Sequence[int]
    note: Any = None
    truncated: bool = False


def run_windows(
    bert: Bert,
    task: str,
    function: Callable,
    columns: Sequence[Sequence[str]],
    encode: Callable[[slice], list[list]],
    batch_size: int,
    progress: bool,
) -> Iterator[tuple[int, list, list[list[np.ndarray]]]]:
    """Yield each text's index, its windows, and the outputs of each window; in any order.

    `columns` are the texts, and their pairs if there are any. `encode` returns the windows of each
    text of a slice, one or more, with `ids`, `segment_ids` and `truncated`; a warning counts those
    that are. `function` is from `get_function`.
    """
    total = len(columns[0])
    truncated: list[int] = []  # their lengths
    with progress_bar(total, " texts", progress) as bar:
        for part in split_by_size(*columns, most=CHUNK):
            windows_by_text = encode(part)
            owners, sequences = [], []
            for text, windows in enumerate(windows_by_text):
                for n, window in enumerate(windows):
                    owners.append((text, n))
                    sequences.append((window.ids, window.segment_ids))
                    if window.truncated:
                        truncated.append(len(window.ids))

            outputs: list[list] = [[None] * len(windows) for windows in windows_by_text]
            missing = [len(windows) for windows in windows_by_text]
            for index, arrays in run_sequences(bert, function, sequences, batch_size):
                text, n = owners[index]
                outputs[text][n] = arrays
                missing[text] -= 1
                if not missing[text]:
                    yield part.start + text, windows_by_text[text], outputs[text]
                    outputs[text] = []  # they may be large
                    bar.update()
    warn_of_truncated(task, len(truncated), total, max(truncated, default=0))


def run_sequences(
    bert: Bert,
    function: Callable,
    sequences: Sequence[tuple[Sequence[int], Sequence[int]]],
    batch_size: int = BATCH_SIZE,
) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Yield the index and the outputs of each sequence of token ids and segment ids.

    The longest sequences come first. `function` is from `get_function`.
    """
    batch_size = require_positive("batch_size", batch_size)
    check_ids(bert, (ids for ids, _ in sequences))

    def count_for(count: int) -> int:
        return _pad_count(count, batch_size)

    batches = batches_by_length(
        sequences,
        batch_size,
        pad_id=bert.config.pad_token_id,
        length_for=lambda tokens: pad_length(bert, tokens),
        count_for=count_for,
        longest_first=True,
    )
    for indices, outputs in _compute_batches(function, batches, len(sequences) > batch_size):
        for row, index in enumerate(indices):
            yield index, [output[row] for output in outputs]


def _compute_batches(function: Callable, batches: Iterator, several: bool) -> Iterator:
    """Yield each batch's indices and outputs, in order.

    On TensorFlow two at a time: while one is in an operation that uses one core, as many of short
    texts do, the other has the rest. The numbers are the same.
    """
    if not several or keras.backend.backend() != "tensorflow":
        for indices, *ids in batches:
            yield indices, function(*ids)
        return

    with ThreadPoolExecutor(2) as pool:
        running: deque = deque()
        for indices, *ids in batches:
            running.append((indices, pool.submit(function, *ids)))
            if len(running) > 2:
                indices, outputs = running.popleft()
                yield indices, outputs.result()
        for indices, outputs in running:
            yield indices, outputs.result()


def warn_of_truncated(task: str, count: int, total: int, limit: int) -> None:
    """Warn once per call about texts that were too long."""
    if count:
        way_out = ". long='window' (--long window) reads them whole" if task == "embed" else ""
        _logger.warning("%s: %d of %d texts cut to %d tokens%s", task, count, total, limit, way_out)


def compile_model(model: keras.Model) -> Callable:
    """Return the model as a function of int32 (B, S) arrays; further arrays are ignored.

    A new length or batch size does not retrace it.
    """
    count = len(model.inputs)  # one where there are no segments
    if keras.backend.backend() == "jax":
        forward = compile_forward(model)

        def compute_by_jax(*ids):
            outputs = forward(list(ids[:count]))
            return [np.asarray(output) for output in keras.tree.flatten(outputs)]

        return compute_by_jax
    if keras.backend.backend() != "tensorflow":

        def compute_by_keras(*ids):
            outputs = model.predict_on_batch(list(ids[:count]))
            return keras.tree.flatten(outputs)

        return compute_by_keras

    import tensorflow as tf  # predict_on_batch traces up to three times, which takes seconds

    from kbert.ops.tensorflow import forward_only

    traced = tf.function(
        lambda *ids: model(list(ids), training=False),
        input_signature=[tf.TensorSpec((None, None), "int32")] * count,
        autograph=False,
    )
    with forward_only():
        # The concrete function: TensorFlow warns of retracing where one process opens five models.
        concrete = traced.get_concrete_function()

    def compute_by_tensorflow(*ids):
        tensors = [tf.constant(array) for array in ids[:count]]
        outputs = concrete(*tensors)
        return [output.numpy() for output in keras.tree.flatten(outputs)]

    return compute_by_tensorflow


def pad_length(bert: Bert, tokens: int) -> int:
    """Return the length of a batch with padding: few lengths on JAX, which compiles for each."""
    if bert.spec.seq_len is not None:
        return bert.spec.seq_len
    if keras.backend.backend() != "jax":
        return tokens
    bucket = tokens + -tokens % 256
    for length in _LENGTHS:
        if length >= tokens:
            bucket = length
            break
    return min(bucket, bert.config.positions)


def _pad_count(count: int, batch_size: int) -> int:
    """Return the size of a batch: on JAX a power of two or a whole batch, so few are compiled."""
    if keras.backend.backend() != "jax":
        return count
    return min(1 << (count - 1).bit_length(), batch_size)


def check_ids(bert: Bert, sequences: Iterable[Sequence[int]]) -> None:
    """Raise a ValueError for a token id that the model does not have."""
    largest_ids = [max(ids) for ids in sequences if ids]
    largest = max(largest_ids, default=0)
    if largest >= bert.config.vocab_size:
        raise ValueError(
            f"the tokenizer's ids must be within the embedding, 0 … {bert.config.vocab_size - 1}, "
            f"got {largest}: the vocabulary is another model's: "
            "put this model's vocab.txt into its folder"
        )


def softmax(logits: np.ndarray) -> np.ndarray:
    """Compute the softmax over the last axis, in float32; −inf becomes 0."""
    logits = logits.astype("float32")
    largest = logits.max(axis=-1, keepdims=True)
    powers = np.exp(logits - largest)
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Compute 1 / (1 + e^−x) in float32, without overflow."""
    logits = logits.astype("float32")
    probabilities = 0.5 * (1 + np.tanh(0.5 * logits))
    return probabilities.astype("float32")
