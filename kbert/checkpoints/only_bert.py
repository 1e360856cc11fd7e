"""Formats that only a BERT with a WordPiece tokenizer has, and none of its family."""

from kbert.data.tokenization.vocabulary import Vocabulary

_WAY_OUT = ": save it with format='transformers'"


def check_model(bert, what: str, way_out: str = "") -> None:
    """Raise a ValueError for another family: `what` begins the sentence, advice ends it."""
    if bert.config.model_type != "bert":
        raise ValueError(f"{what} must be of a BERT, got {bert.config.family.title}{way_out}")


def check(bert, form: str) -> None:
    """Raise a ValueError for another of the family, or another tokenizer."""
    check_model(bert, f"format {form}", _WAY_OUT)
    if bert.tokenizer and not isinstance(bert.tokenizer.vocabulary, Vocabulary):
        raise ValueError(
            f"format {form} must have a WordPiece tokenizer, got one of "
            f"{bert.tokenizer.vocabulary.kind}{_WAY_OUT}"
        )
