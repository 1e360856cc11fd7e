"""Formats that only a BERT with a WordPiece tokenizer has, and none of its family."""

from kbert.data.tokenization.vocabulary import Vocabulary


def check_model(bert, what: str) -> None:
    """A ValueError for another of the family: `what` begins the sentence."""
    if bert.config.model_type != "bert":
        raise ValueError(f"{what} must be of a BERT, got {bert.config.family.title}")


def check(bert, form: str) -> None:
    """A ValueError for another of the family, or another tokenizer."""
    title = bert.config.family.title
    if bert.config.model_type != "bert":
        raise ValueError(
            f"format {form} must be of a BERT, got {title}: save it with format='transformers'"
        )
    if bert.tokenizer and not isinstance(bert.tokenizer.vocabulary, Vocabulary):
        raise ValueError(
            f"format {form} must have a WordPiece tokenizer, got one of "
            f"{bert.tokenizer.vocabulary.kind}: save it with format='transformers'"
        )
