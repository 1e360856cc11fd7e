"""The live part of a page: the model's weights, or recordings of sentences."""

import contextlib
import logging
from collections.abc import Sequence

import numpy as np

from kbert.show.explorer.live import recording
from kbert.show.explorer.live.contents import LiveModel, pack_model
from kbert.show.explorer.live.difference import NO_DIFFERENCE, measure_difference
from kbert.show.explorer.live.packing import PackedWeights, unpack_weights
from kbert.show.explorer.live.tracing import check_sentence
from kbert.show.explorer.live.weight_options import MOST_INSIDE, WeightOptions

Sentences = Sequence[str | Sequence[str]]  # texts, or pairs of texts
LivePart = tuple[dict, PackedWeights | None]  # DATA.live, and the weights that it computes with

_logger = logging.getLogger("kbert")


def make_live_part(
    model: LiveModel, options: WeightOptions | None, sentences: Sentences | None
) -> LivePart | None:
    """Return the live part of a model's page; None: it has none.

    Args:
        model: the model.
        options: which weights the page gets; None: none, in a notebook. It has one recording of a
            sentence that kbert chooses, if there are no others.
        sentences: examples for a page with weights, else what is recorded; None: not given.

    Raises:
        ValueError: a sentence without a token, or with too many; a model without a tokenizer, or
            one that a page cannot compute; recordings that are too large.
    """
    for number, sentence in enumerate(sentences or []):
        check_sentence(model, recording.make_request(sentence, number))
    precision = None
    if options is not None and (options.is_requested or can_hold(model) or not sentences):
        precision = options.choose_precision(model.parameters, model.problem)
    not_finite = None if precision is None else _find_not_finite(model)
    if options is not None and not_finite:
        problem = f"{not_finite} has NaN or infinite numbers (kbert inspect lists all)"
        if options.is_requested:
            raise ValueError(f"weights in a page must be finite: {problem}")
        precision = None
        if not sentences:  # else recording them is what fails
            _logger.warning("no sentence goes through the page: %s", problem)

    if precision is not None:
        data, packed = pack_model(model, precision)
        return data | {
            "difference": _measure(model, packed, precision),
            "sentences": recording.list_examples(sentences or []),
        }, packed
    if sentences:
        return recording.record_model(model, sentences), None
    return None if options is not None else _record_for_notebook(model)


def can_hold(model: LiveModel) -> bool:
    """Return whether a page gets the model's weights if nothing else is asked for."""
    return model.problem is None and model.parameters <= MOST_INSIDE


def _find_not_finite(model: LiveModel) -> str | None:
    """Return the name of a tensor with NaN or infinity; None: there is none."""
    for name, read in model.readers.items():
        if not np.isfinite(read()).all():
            return name
    return None


def _measure(model: LiveModel, packed: PackedWeights, precision: str) -> dict:
    """Return how far the packed weights are from the model's."""
    if precision == "float32":
        return NO_DIFFERENCE
    before = {name: np.asarray(read(), "float32") for name, read in model.readers.items()}
    after = unpack_weights(packed)
    return measure_difference(model, before, after)


def _record_for_notebook(model: LiveModel) -> LivePart | None:
    """Return one recording; None: the model has no tokenizer, too few positions or NaN."""
    with contextlib.suppress(ValueError):
        most = recording.MOST_FRAME_BYTES
        return recording.record_model(model, recording.SENTENCES, most), None
    return None
