"""Recordings: traces of given sentences, written into a page in half precision.

A page needs few of a trace's tensors: scores, probs, context, sums and the activation follow from
the others, by the same formulas in `complete_tensors` and in `page/live/recorded.js`. Stored are
11·S·H numbers per block of S tokens instead of 18·S·H + 2·A·S²: of base and 16 tokens 1.7 million,
4.5 MB as base64. Where sentences need more than a page may have, less is stored (`LEVELS`), and the
page's data say what is left out. At the last level a page has attention's weights alone
(`attention_weights.py`).
"""

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kbert.graph import names
from kbert.graph.config import ACTIVATIONS, BertConfig
from kbert.show.explorer.live.activations import activate
from kbert.show.explorer.live.attention_weights import (
    ALONE,
    choose_dtype,
    clean_text,
    count_bytes,
    describe_left_out,
    pack_weights,
)
from kbert.show.explorer.live.contents import LiveModel, describe_model, require_tokenizer
from kbert.show.explorer.live.forward import (
    NO_CHANGES,
    Changes,
    clear_heads,
    compute_attention,
)
from kbert.show.explorer.live.tracing import Trace, Tracer, check_sentence

MOST_BYTES = 24_000_000  # of all recordings in a file
MOST_FRAME_BYTES = 3_000_000  # in a notebook, which saves its frames
MOST_VIEW_BYTES = 8_000_000  # in the page of `kbert attention` and `kbert attribute`
SENTENCES = ("The animal didn't cross the street because it was too tired.",)  # of a notebook
_HALF, _SINGLE = np.dtype("<f2"), np.dtype("<f4")

_ATTENTION, _FEED_FORWARD = names.ATTENTION, names.FEED_FORWARD
# Of a block, by the ends of their names: the tensors that are stored, the first level that fits.
LEVELS = (
    (
        f"{_ATTENTION}/query",
        f"{_ATTENTION}/key",
        f"{_ATTENTION}/value",
        _ATTENTION,
        f"{_ATTENTION}-Norm",
        f"{_FEED_FORWARD}/intermediate",
        _FEED_FORWARD,
        f"{_FEED_FORWARD}-Norm",
    ),
    (
        f"{_ATTENTION}/query",
        f"{_ATTENTION}/key",
        f"{_ATTENTION}/value",
        _ATTENTION,
        f"{_ATTENTION}-Norm",
        _FEED_FORWARD,
        f"{_FEED_FORWARD}-Norm",
    ),
    (f"{_ATTENTION}/query", f"{_ATTENTION}/key", f"{_FEED_FORWARD}-Norm"),
    (),
)
# By the ends of their names: the tensors that follow from stored ones, and from which.
_DERIVED = {
    f"{_ATTENTION}/scores": f"{_ATTENTION}/query",
    f"{_ATTENTION}/probs": f"{_ATTENTION}/query",
    f"{_ATTENTION}/context": f"{_ATTENTION}/value",
    f"{_ATTENTION}-Add": _ATTENTION,
    f"{_FEED_FORWARD}/activation": f"{_FEED_FORWARD}/intermediate",
    f"{_FEED_FORWARD}-Add": _FEED_FORWARD,
}
_SUMS = (names.TOKEN_PLUS_SEGMENT, names.POSITION_EMBEDDING)


@dataclass(frozen=True)
class Recordings:
    """Recordings of a page, and how far their numbers are from float32.

    Attributes:
        recordings: the traces for the page's data.
        left_out: names of tensors that no recording has; {n} stands for any block.
        precision: "float16", or "float32" where a number is too large for half precision.
        difference: the largest difference of a hidden state and of an attention probability, and
            the smallest cosine of the sentence vector; None: there is no hidden state.
        note: what a page says of attention's weights.
    """

    recordings: list[dict]
    left_out: list[str]
    precision: str
    difference: dict | None
    note: str = ""


def record_sentences(
    model: LiveModel,
    sentences: Sequence[str | Sequence[str]],
    most_bytes: int = MOST_BYTES,
    *,
    for_view: bool = False,
) -> Recordings:
    """Record sentences; each is a text, or a text and its pair.

    With `for_view`, as `kbert attention` and `kbert attribute` read texts, a sentence that is too
    long is truncated, one without a token is recorded, and the last of `LEVELS` is a level.

    Raises:
        ValueError: a sentence that is no text, has no token or too many; recordings that are larger
            than `most_bytes`.
    """
    requests = [make_request(sentence, n) for n, sentence in enumerate(sentences)]
    if not for_view:
        for request in requests:
            check_sentence(model, request)
    tracer = Tracer(model)
    traces = [tracer.trace(request) for request in requests]

    levels = LEVELS if for_view else LEVELS[:-1]
    level = levels[_choose_level(traces, most_bytes, levels)]
    if not level:
        return _record_weights(model.spec.config, traces)

    stored = [keep_tensors(trace.tensors, level) for trace in traces]
    dtype = choose_dtype(stored)
    recordings = [
        _write_recording(trace, tensors, dtype)
        for trace, tensors in zip(traces, stored, strict=True)
    ]
    return Recordings(
        recordings,
        find_left_out(level),
        "float16" if dtype == _HALF else "float32",
        _measure_rounding(model.spec.config, traces, stored, dtype),
    )


def _record_weights(config: BertConfig, traces: Sequence[Trace]) -> Recordings:
    """Return recordings that have no tensor but attention's weights."""
    blocks = tuple(range(1, config.num_hidden_layers + 1))
    heads = tuple(range(1, config.num_attention_heads + 1))
    layers = [names.encoder(block, _ATTENTION) for block in blocks]
    recordings = []
    weights = []
    for trace in traces:
        probs = np.stack([trace.tensors[f"{layer}/probs"] for layer in layers])
        recording = _write_recording(trace, {}, _HALF)
        recording["attention"] = pack_weights(probs, blocks, heads)
        recordings.append(recording)
        weights.append(probs)
    return Recordings(recordings, [ALONE], "float16", None, describe_left_out(weights))


def record_model(
    model: LiveModel,
    sentences: Sequence[str | Sequence[str]],
    most_bytes: int = MOST_BYTES,
    *,
    for_view: bool = False,
) -> dict:
    """Return DATA.live of a page with recordings; errors as in `record_sentences`."""
    recorded = record_sentences(model, sentences, most_bytes, for_view=for_view)
    return describe_without_vocabulary(model) | {
        "place": "recorded",
        "precision": recorded.precision,
        "difference": recorded.difference,
        "recordings": recorded.recordings,
        "leftOut": recorded.left_out,
        "note": recorded.note,
        "sentences": list_examples(sentences),
    }


def describe_served(model: LiveModel, sentences: Sequence[str | Sequence[str]]) -> dict:
    """Return DATA.live of a page behind which kbert computes."""
    return describe_without_vocabulary(model) | {
        "place": "served",
        "precision": "float32",
        "sentences": list_examples(sentences),
    }


def describe_without_vocabulary(model: LiveModel) -> dict:
    """Return what the pages of a model share; of its tokenizer the special tokens alone."""
    special = dict(require_tokenizer(model).vocabulary.special_tokens)
    tokenizer = {"special": special, "maskId": require_tokenizer(model).mask_id}
    return describe_model(model) | {"tokenizer": tokenizer}


def list_examples(sentences: Sequence[str | Sequence[str]]) -> list[str]:
    """Return sentences for the sentence line; a tab is between the texts of a pair."""
    examples = []
    for number, sentence in enumerate(sentences):
        request = make_request(sentence, number)
        text, pair = request["text"], request["pair"]
        examples.append(text if pair is None else f"{text}\t{pair}")
    return examples


def make_request(sentence: str | Sequence[str], number: int) -> dict:
    """Return the request of a sentence, a text or a pair; raise a ValueError for another value."""
    if isinstance(sentence, str):
        return {"text": clean_text(sentence), "pair": None}
    if isinstance(sentence, (list, tuple)) and len(sentence) == 2:
        text, pair = sentence
        if isinstance(text, str) and isinstance(pair, str):
            return {"text": clean_text(text), "pair": clean_text(pair)}
    raise ValueError(
        f"sentences[{number}] must be a str or a pair of two, got {type(sentence).__name__}"
    )


def keep_tensors(tensors: dict[str, np.ndarray], level: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the tensors that are stored: of blocks those of a level, of others all but sums.

    The last level has none at all.
    """
    if not level:
        return {}
    stored = {}
    for name, tensor in tensors.items():
        is_of_block = names.block_of(name) > 0
        if _without_block(name) in level if is_of_block else name not in _SUMS:
            stored[name] = tensor
    return stored


def _without_block(name: str) -> str:
    """Return a tensor's name without its block: MultiHeadSelfAttention/query."""
    return name.removeprefix(f"Encoder-{names.block_of(name)}-")


def find_left_out(level: Sequence[str]) -> list[str]:
    """Return the tensors of a block that are neither stored nor follow from what is stored."""
    left_out = set(LEVELS[0]) - set(level)
    left_out.update(name for name, source in _DERIVED.items() if source not in level)
    return sorted(f"Encoder-{{n}}-{name}" for name in left_out)


def complete_tensors(
    config: BertConfig, stored: dict[str, np.ndarray], changes: Changes = NO_CHANGES
) -> dict[str, np.ndarray]:
    """Return stored tensors with those that follow from them, as `page/live/recorded.js` does."""
    tensors = dict(stored)
    x = tensors[names.TOKEN_EMBEDDING]
    if config.family.segments:
        x = tensors[names.TOKEN_PLUS_SEGMENT] = x + tensors[names.SEGMENT_EMBEDDING]
    tensors[names.POSITION_EMBEDDING] = x + tensors[f"{names.POSITION_EMBEDDING}/position"]
    x = tensors[names.EMBEDDING_NORM]
    for block in range(1, config.num_hidden_layers + 1):
        _complete_attention(tensors, block, changes)
        _complete_activation(tensors, block, ACTIVATIONS[config.hidden_act])
        for part in (_ATTENTION, _FEED_FORWARD):
            layer = names.encoder(block, part)
            if layer in tensors:
                is_off = f"{layer}-Add" in changes.residuals
                tensors[f"{layer}-Add"] = tensors[layer] if is_off else x + tensors[layer]
                x = tensors[f"{layer}-Norm"]
        x = tensors[names.encoder_output(block)]
    return tensors


def _complete_attention(tensors: dict[str, np.ndarray], block: int, changes: Changes) -> None:
    """Add scores and probabilities of a block, and with its values the context."""
    layer = names.encoder(block, _ATTENTION)
    query, key = tensors[f"{layer}/query"], tensors[f"{layer}/key"]
    value = tensors.get(f"{layer}/value", query)
    attended = compute_attention(query, key, value, changes.temperature)
    if f"{layer}/value" not in tensors:
        del attended["context"]
    else:
        clear_heads(attended["context"], block, changes)
    for part, tensor in attended.items():
        tensors[f"{layer}/{part}"] = tensor


def _complete_activation(tensors: dict[str, np.ndarray], block: int, activation: str) -> None:
    layer = names.encoder(block, _FEED_FORWARD)
    if f"{layer}/intermediate" in tensors:
        tensors[f"{layer}/activation"] = activate(tensors[f"{layer}/intermediate"], activation)


def _choose_level(traces: Sequence[Trace], most_bytes: int, levels: Sequence) -> int:
    """Return the first level at which all recordings fit."""
    sizes = []
    for number, level in enumerate(levels):
        size = 0
        for trace in traces:
            stored = keep_tensors(trace.tensors, level).values()
            numbers = sum(tensor.size for tensor in stored)
            size += numbers * _HALF.itemsize if level else _count_weights(trace)
        sizes.append(math.ceil(size / 3) * 4)  # base64
        if sizes[-1] <= most_bytes:
            return number
    raise ValueError(
        f"the recordings of {len(traces)} sentences need {sizes[-1] / 1e6:.0f} MB, more than "
        f"{most_bytes / 1e6:.0f} MB: give fewer or shorter sentences"
    )


def _count_weights(trace: Trace) -> int:
    """Return the bytes of a trace's attention weights."""
    maps = [tensor for name, tensor in trace.tensors.items() if name.endswith("/probs")]
    heads, _, length = maps[0].shape
    return count_bytes(len(maps) * heads, length)


def _write_recording(trace: Trace, stored: dict[str, np.ndarray], dtype: np.dtype) -> dict:
    """Return a trace for a page's data: names and shapes, and all numbers in one text."""
    recording = write_header(trace, stored)
    pieces = [tensor.astype(dtype).tobytes() for tensor in stored.values()]
    data = b"".join(pieces)
    recording["data"] = base64.b64encode(data).decode()
    return recording


def write_header(trace: Trace, stored: dict[str, np.ndarray]) -> dict:
    """Return a trace without numbers: they follow in the order of `tensors`."""
    outputs = dict(trace.outputs)
    if "vector" in outputs:
        outputs["vector"] = [float(f"{number:.7g}") for number in outputs["vector"]]

    return {
        "request": trace.request,
        "milliseconds": round(trace.milliseconds, 1),
        "tokens": trace.tokens,
        "truncated": trace.truncated,
        "tensors": [[name, list(tensor.shape)] for name, tensor in stored.items()],
        "outputs": outputs,
    }


def _measure_rounding(
    config: BertConfig, traces: Sequence[Trace], stored: Sequence[dict], dtype: np.dtype
) -> dict:
    """Return the largest differences that the type of the numbers makes, over all recordings."""
    hidden, attention = 0.0, 0.0
    for trace, tensors in zip(traces, stored, strict=True):
        rounded = {}
        for name, tensor in tensors.items():
            rounded[name] = tensor.astype(dtype).astype("float32")
        completed = complete_tensors(config, rounded)

        for name, tensor in completed.items():
            differences = np.abs(tensor - trace.tensors[name])
            difference = float(differences.max())
            if name.endswith("/probs"):
                attention = max(attention, difference)
            elif name.endswith("-Norm"):
                hidden = max(hidden, difference)
    return {"hidden": hidden, "attention": attention, "cosine": 1.0, "texts": len(traces)}
