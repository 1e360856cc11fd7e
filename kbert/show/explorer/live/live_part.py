"""The live part of a page: the model's weights, or recordings of sentences."""

from collections.abc import Sequence

from kbert.data.tokenization.vocabulary import Vocabulary
from kbert.show.explorer.live.contents import LiveModel, pack_model
from kbert.show.explorer.live.packing import PackedWeights
from kbert.show.explorer.live.recording import MOST_BYTES, list_examples, make_request, record_model
from kbert.show.explorer.live.tracing import check_sentence

Sentences = Sequence[str | Sequence[str]]  # texts, or pairs of texts
LivePart = tuple[dict, PackedWeights | None]  # DATA.live, and the weights that it computes with


def make_live_part(
    model: LiveModel, precision: str | None, sentences: Sentences, most_bytes: int = MOST_BYTES
) -> LivePart | None:
    """Return the live part of a model's page; None: no weights and no sentences are wanted.

    Args:
        model: the model.
        precision: of the weights in the page; None: no weights.
        sentences: examples for a page with weights, else what is recorded.
        most_bytes: of all recordings.

    Raises:
        ValueError: a sentence without a token, or with too many; recordings that are too large.
    """
    for number, sentence in enumerate(sentences):
        check_sentence(model, make_request(sentence, number))
    if precision is not None and can_compute(model):
        data, packed = pack_model(model, precision)
        return data | {"sentences": list_examples(sentences)}, packed
    return (record_model(model, sentences, most_bytes), None) if sentences else None


def can_compute(model: LiveModel) -> bool:
    """Return whether the page's scripts can compute a model: a BERT with a WordPiece tokenizer."""
    is_wordpiece = isinstance(model.tokenizer.vocabulary, Vocabulary)
    return model.spec.config.model_type == "bert" and is_wordpiece
