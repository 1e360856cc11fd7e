"""A trace: one request through a checkpoint, with every tensor and the outputs of its heads."""

import time
from dataclasses import dataclass

import numpy as np

from kbert.checkpoints import transfer
from kbert.checkpoints.bert import Bert
from kbert.data.tokenization.encodings import Encoding
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.graph import names
from kbert.graph.config import BertConfig
from kbert.io import json_schema as js
from kbert.show.explorer.live.forward import Changes, compute_tensors, read_arrays
from kbert.show.explorer.live.outputs import compute_outputs, count_units

_HEAD = js.Kind("a pair of a block and a head", lambda value: _is_pair(value))
_OFF = js.fields(
    optional={
        "heads": js.list_of(_HEAD),
        "attention": js.list_of(js.whole(1)),
        "residuals": js.list_of(js.TEXT),
        "positions": js.FLAG,
    }
)
REQUEST = js.fields(
    {"text": js.TEXT},
    {
        "pair": js.or_null(js.TEXT),
        "off": _OFF,
        "temperature": js.number(0.001, 1000),
        "positions": js.list_of(js.whole()),
    },
)


def _is_pair(value) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(n) is int for n in value)


@dataclass(frozen=True, eq=False)
class Trace:
    """What a request comes to; `page/live/client.js` describes its fields."""

    request: dict
    milliseconds: float
    tokens: list[dict]
    truncated: bool
    tensors: dict[str, np.ndarray]
    outputs: dict


class Tracer:
    """A checkpoint whose traces a page shows. Several threads can call it at once.

    Raises:
        ValueError: a checkpoint without a tokenizer, or with weights that do not fit its graph.
    """

    def __init__(self, bert: Bert):
        self.bert = bert
        self.tokenizer = require_tokenizer(bert)
        transfer.check_whole(bert.model, bert.spec)
        self._arrays = read_arrays(bert.model)

    @property
    def longest(self) -> int:
        """The number of tokens that a sequence can have."""
        bert = self.bert
        limits = [bert.config.positions, bert.spec.seq_len, self.tokenizer.max_length]
        limits += [bert.sentence.max_length] if bert.sentence else []
        return min(limit for limit in limits if limit is not None)

    def trace(self, request: dict) -> Trace:
        """Return the trace of a request, which `REQUEST` describes.

        A text that is too long is truncated.

        Raises:
            ValueError: a second text for a model with one segment; a block that the model does not
                have; a text with the padding token; a model that computes NaN.
        """
        request = complete_request(js.check(request, REQUEST, "the request"))
        changes = read_changes(self.bert.config, request)
        start = time.perf_counter()
        encoding = self._encode(request["text"], request["pair"])
        tensors = compute_tensors(
            self.bert.spec, self._arrays, encoding.ids, encoding.segment_ids, changes
        )
        last = tensors[names.encoder_output(self.bert.config.num_hidden_layers)]
        if not np.isfinite(last).all():
            raise ValueError(
                f"the model computes NaN or infinity of {js.short_repr(request['text'])}: kbert "
                "inspect shows which of its weights are not finite"
            )
        outputs = compute_outputs(self.bert, self._arrays, encoding, tensors, request)
        milliseconds = 1000 * (time.perf_counter() - start)
        tokens = self._describe(encoding, request)
        return Trace(request, milliseconds, tokens, encoding.truncated, tensors, outputs)

    def check_sentence(self, request: dict) -> None:
        """Raise a ValueError for a sentence without a token, or with more than the model takes."""
        encoding = self.tokenizer.encode(request["text"], request["pair"])
        both = zip(encoding.text_numbers, encoding.word_ids, strict=True)
        numbers = {number for number, word in both if word is not None}
        texts = [text for text in (request["text"], request["pair"]) if text is not None]
        for number, text in enumerate(texts):
            if number not in numbers:
                raise ValueError(
                    f"a sentence must have a word, got {js.short_repr(text)}: it has no token"
                )
        if len(encoding) > self.longest:
            raise ValueError(
                f"a sentence must have at most {self.longest} tokens, got {len(encoding)}: "
                f"shorten {js.short_repr(texts[0])}"
            )

    def _encode(self, text: str, pair: str | None) -> Encoding:
        config = self.bert.config
        segments = config.type_vocab_size
        if (
            pair is not None
            and config.family.segments
            and segments <= self.tokenizer.second_segment
        ):
            raise ValueError(
                "a sentence with a second text needs a model with two segments, got "
                f"type_vocab_size = {segments}"
            )
        pairs = None if pair is None else [pair]
        (encoding,) = self.tokenizer.encode_batch([text], pairs, max_length=self.longest)
        if max(encoding.ids) >= config.vocab_size:
            raise ValueError(
                f"the tokenizer's ids must be below vocab_size = {config.vocab_size}, got "
                f"{max(encoding.ids)}: the vocabulary is another model's"
            )
        return encoding

    def _describe(self, encoding: Encoding, request: dict) -> list[dict]:
        special = set(self.tokenizer.vocabulary.special_tokens.values())
        units = [count_units(text) for text in (request["text"], request["pair"] or "")]
        rows = zip(
            encoding.tokens, encoding.ids, encoding.text_numbers, encoding.offsets, strict=True
        )
        return [
            {
                "text": token,
                "id": number,
                "segment": segment,
                "special": token in special,
                "start": units[segment][start],
                "end": units[segment][end],
            }
            for token, number, segment, (start, end) in rows
        ]


def require_tokenizer(bert: Bert) -> Tokenizer:
    """Return a checkpoint's tokenizer; raise a ValueError if there is none that fits."""
    if bert.tokenizer is None:
        raise ValueError(
            "a sentence needs a tokenizer, and the checkpoint has no vocabulary: put its vocab.txt "
            "into its folder"
        )
    if bert.tokenizer.pad_id != bert.config.pad_token_id:
        raise ValueError(
            "a sentence needs a model with the tokenizer's pad_token_id, "
            f"{bert.tokenizer.pad_id}, got {bert.config.pad_token_id}"
        )
    return bert.tokenizer


def complete_request(request: dict) -> dict:
    """Return a request with every key of the contract."""
    nothing_off: dict = {"heads": [], "attention": [], "residuals": [], "positions": False}
    return {
        "text": request["text"],
        "pair": request.get("pair"),
        "off": nothing_off | request.get("off", {}),
        "temperature": request.get("temperature", 1),
        "positions": request.get("positions", []),
    }


def read_changes(config: BertConfig, request: dict) -> Changes:
    """Return what a request switches off; raise a ValueError for what the model does not have."""
    off, blocks = request["off"], config.num_hidden_layers
    for block in [*off["attention"], *(block for block, _ in off["heads"])]:
        if not 1 <= block <= blocks:
            raise ValueError(f"a block to switch off must be 1 … {blocks}, got {block}")
    for _, head in off["heads"]:
        if not 1 <= head <= config.num_attention_heads:
            raise ValueError(
                f"a head to switch off must be 1 … {config.num_attention_heads}, got {head}"
            )
    sums = {
        names.encoder(block, part, "Add")
        for block in range(1, blocks + 1)
        for part in (names.ATTENTION, names.FEED_FORWARD)
    }
    if unknown := set(off["residuals"]) - sums:
        raise ValueError(
            "a residual to switch off must be an Add layer of the model, got "
            f"{js.short_repr(min(unknown))}"
        )
    return Changes(
        heads=frozenset((block, head) for block, head in off["heads"]),
        attention=frozenset(off["attention"]),
        residuals=frozenset(off["residuals"]),
        positions=off["positions"],
        temperature=float(request["temperature"]),
    )
