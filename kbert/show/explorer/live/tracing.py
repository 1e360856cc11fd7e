"""A trace: one request through a checkpoint, with every tensor and the outputs of its heads."""

import time
from dataclasses import dataclass

import numpy as np

from kbert.data.tokenization.encodings import Encoding
from kbert.graph import names
from kbert.graph.config import BertConfig
from kbert.io import json_schema as js
from kbert.show.explorer.live.contents import (
    LiveModel,
    max_length,
    prepare_text,
    require_tokenizer,
)
from kbert.show.explorer.live.forward import Changes, compute_tensors
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
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(type(number) is int for number in value)


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
    """A checkpoint whose traces a page shows. Several threads can call it at once."""

    def __init__(self, model: LiveModel):
        self.model = model
        self.arrays = {}
        for name, read in model.readers.items():
            self.arrays[name] = np.ascontiguousarray(read(), "float32")

    def trace(self, request: dict) -> Trace:
        """Return the trace of a request, which `REQUEST` describes.

        A text that is too long is truncated.

        Raises:
            ValueError: a second text for a model with one segment; a block that the model does not
                have; a text with the padding token; a model that computes NaN.
        """
        request = complete_request(js.check(request, REQUEST, "the request"))
        changes = read_changes(self.model.spec.config, request)
        start = time.perf_counter()
        encoding = self._encode(request["text"], request["pair"])
        tensors = compute_tensors(
            self.model.spec, self.arrays, encoding.ids, encoding.segment_ids, changes
        )
        last = tensors[names.encoder_output(self.model.spec.config.num_hidden_layers)]
        if not np.isfinite(last).all():
            raise ValueError(
                f"the model computes NaN or infinity of {js.short_repr(request['text'])}: kbert "
                "inspect shows which of its weights are not finite"
            )
        outputs = compute_outputs(self.model, self.arrays, encoding, tensors, request)
        milliseconds = 1000 * (time.perf_counter() - start)
        tokens = self._describe(encoding, request)
        return Trace(request, milliseconds, tokens, encoding.truncated, tensors, outputs)

    def _encode(self, text: str, pair: str | None) -> Encoding:
        config, tokenizer = self.model.spec.config, require_tokenizer(self.model)
        segments = config.type_vocab_size
        if pair is not None and config.family.segments and segments <= tokenizer.second_segment:
            raise ValueError(
                "a sentence with a second text needs a model with two segments, got "
                f"type_vocab_size = {segments}"
            )
        texts = [prepare_text(self.model, read_prompt(self.model) + text)]
        pairs = None if pair is None else [prepare_text(self.model, pair)]
        longest = max_length(self.model)
        (encoding,) = tokenizer.encode_batch(texts, pairs, max_length=longest)
        if max(encoding.ids) >= config.vocab_size:
            raise ValueError(
                f"the tokenizer's ids must be below vocab_size = {config.vocab_size}, got "
                f"{max(encoding.ids)}: the vocabulary is another model's"
            )
        return encoding

    def _describe(self, encoding: Encoding, request: dict) -> list[dict]:
        tokenizer = require_tokenizer(self.model)
        special = set(tokenizer.vocabulary.special_tokens.values())
        prompt = len(read_prompt(self.model)), 0  # offsets are in the texts that were typed
        texts = (request["text"], request["pair"] or "")
        units = [count_units(text) for text in texts]

        def find_unit(segment: int, offset: int) -> int:
            units_of_text = units[segment]
            index = max(0, offset - prompt[segment])
            last = len(units_of_text) - 1
            return units_of_text[min(index, last)]

        tokens = [tokenizer.token_of(number) for number in encoding.ids]
        encoded = zip(tokens, encoding.ids, encoding.text_numbers, encoding.offsets, strict=True)
        return [
            {
                "text": token,
                "id": number,
                "segment": segment,
                "special": token in special,
                "start": find_unit(segment, start),
                "end": find_unit(segment, end),
            }
            for token, number, segment, (start, end) in encoded
        ]


def read_prompt(model: LiveModel) -> str:
    """Return the text that a sentence model puts before each text; "" if there is none."""
    return model.sentence.default_prompt if model.sentence else ""


def check_sentence(model: LiveModel, request: dict) -> None:
    """Raise a ValueError for a sentence without a token, or with more than the model takes."""
    encoding = require_tokenizer(model).encode(request["text"], request["pair"])
    both = zip(encoding.text_numbers, encoding.word_ids, strict=True)
    numbers = {number for number, word in both if word is not None}
    texts = [request["text"]]
    if request["pair"] is not None:
        texts.append(request["pair"])
    for number, text in enumerate(texts):
        if number not in numbers:
            raise ValueError(
                f"a sentence must have a word, got {js.short_repr(text)}: it has no token"
            )
    if len(encoding) > max_length(model):
        raise ValueError(
            f"a sentence must have at most {max_length(model)} tokens, got {len(encoding)}: "
            f"shorten {js.short_repr(texts[0])}"
        )


def complete_request(request: dict) -> dict:
    """Return a request with every key of the contract."""
    nothing_off: dict = {
        "heads": [],
        "attention": [],
        "residuals": [],
        "positions": False,
    }
    return {
        "text": request["text"],
        "pair": request.get("pair"),
        "off": nothing_off | request.get("off", {}),
        "temperature": request.get("temperature", 1),
        "positions": request.get("positions", []),
    }


def read_changes(config: BertConfig, request: dict) -> Changes:
    """Return what a request switches off; raise a ValueError for what the model does not have."""
    off = request["off"]
    blocks = config.num_hidden_layers
    heads = config.num_attention_heads
    blocks_of_heads = [block for block, _ in off["heads"]]
    for block in [*off["attention"], *blocks_of_heads]:
        if not 1 <= block <= blocks:
            raise ValueError(f"a block to switch off must be 1 … {blocks}, got {block}")
    for _, head in off["heads"]:
        if not 1 <= head <= heads:
            raise ValueError(f"a head to switch off must be 1 … {heads}, got {head}")

    sums = set()
    for block in range(1, blocks + 1):
        sums.add(names.encoder(block, names.ATTENTION, "Add"))
        sums.add(names.encoder(block, names.FEED_FORWARD, "Add"))
    unknown = set(off["residuals"]) - sums
    if unknown:
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
