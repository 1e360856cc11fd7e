"""Checks of every task before the computation: texts, head, lengths."""

import os
from collections.abc import Iterable, Sequence

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.bert import Bert, load, require_bert
from kbert.data.tokenization.tokenizer import Tokenizer, check_text
from kbert.data.tokenization.tokenizer_files import UnknownCasing
from kbert.graph import names
from kbert.graph.config import require_positive
from kbert.heads import HEADS
from kbert.hub import fetching
from kbert.io import bounds
from kbert.io.wording import hint_of_path

DEFAULT_LENGTH = 128  # tokens of a training example, where the user names none
MLM_LAYERS = (names.MLM_DENSE, names.MLM_NORM, names.MLM_SIMILARITY)


def listed(texts: str | Iterable[str], name: str, pair_name: str = "") -> tuple[list[str], bool]:
    """Return the texts as a list, and whether there was only one, not in a list; check each.

    `pair_name` is the argument for second texts, if there is one.
    """
    if isinstance(texts, str):
        check_text(texts, name)
        return [texts], True
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise ValueError(f"{name} must be a str or a list of str, got {type(texts).__name__}")
    checked = list(texts)
    for index, text in enumerate(checked):
        if pair_name and isinstance(text, (tuple, list)):
            raise ValueError(
                f"{name}[{index}] must be a str, got {type(text).__name__}: for pairs, give the "
                f"first texts as {name}= and the second as {pair_name}="
            )
        check_text(text, f"{name}[{index}]")
    return checked, False


def require_tokenizer(bert: Bert, task: str) -> Tokenizer:
    """Return the model's tokenizer; a ValueError for what is no `Bert`, or has none."""
    require_bert(bert, task)
    if bert.tokenizer is None:
        raise ValueError(
            f"{task} needs a tokenizer, and the checkpoint has no vocabulary: put its vocab.txt "
            "into its folder, or add it to a file with kbert convert FILE FOLDER --vocab vocab.txt "
            "--uncased, in Python with dataclasses.replace(bert, tokenizer="
            "kbert.Tokenizer.from_vocab('vocab.txt', lowercase=True))"
        )
    if bert.tokenizer.pad_id != bert.config.pad_token_id:
        raise ValueError(
            f"{task} needs a model with the tokenizer's pad_token_id, "
            f"{bert.tokenizer.pad_id}, got {bert.config.pad_token_id}: build it with that one"
        )
    return bert.tokenizer


def require_source(source: object, task: str) -> None:
    """Raise an error unless a source is a model's name, a checkpoint's path or a `Bert`."""
    if not isinstance(source, (str, os.PathLike)):
        require_bert(source, task, "the name or path of a checkpoint, or a kbert.Bert,")
    elif os.fspath(source):  # an empty path has its own error
        fetching.refuse_unknown(source)


def require_data(**data: object) -> None:
    """Raise an OSError for labelled data at a path without a file, by its argument's name."""
    expected = (
        "Expected: labelled data, such as a .tsv, .csv, .jsonl or .json file, or rows in memory"
    )
    for name, path in data.items():
        if not isinstance(path, (str, os.PathLike)):
            continue
        if os.path.isdir(path):
            raise IsADirectoryError(f"{path} ({name}=): a folder. {expected}")
        if not os.path.exists(path):
            bounds.refuse_url(path)
            near = hint_of_path(path, os.path.isfile)
            raise FileNotFoundError(
                f"{path} ({name}=): no such file. {expected}" + (f": {near}" if near else "")
            )


def require_head(bert: Bert, task: str, head: str, layers: Sequence[str]) -> None:
    """Raise a ValueError unless the model has the head, and not a newly initialized one."""
    if bert.head != head:
        raise ValueError(
            f"{task} needs a model with the head {head!r}, got {bert.head!r}. If the checkpoint "
            f"has that head, use kbert.load(path, head={head!r}). Otherwise {HEADS[head].hint}"
        )
    require_trained(bert, task, layers)


def require_head_of(source: str, task: str, head: str, actual: str) -> None:
    """Raise a ValueError unless the checkpoint at a path has the head that a task needs."""
    if actual != head:
        raise ValueError(
            f"{task} needs a checkpoint with the head {head!r}, but {source} has the head "
            f"{actual!r}: take another checkpoint, or {HEADS[head].hint}"
        )


def require_trained(bert: Bert, task: str, layers: Sequence[str], head: str | None = None) -> None:
    """Raise a ValueError for newly initialized layers; the message says the way to `head`."""
    untrained = untrained_weights.find_untrained(bert)
    lacking = [layer for layer in layers if layer in untrained]
    if lacking:
        way = HEADS[head or bert.head].hint
        raise ValueError(
            f"{task} needs the weights of {', '.join(lacking)}, but they are "
            "not in the checkpoint and "
            f"are random here: take a checkpoint that has them, or {way}"
        )


def require_pooler(bert: Bert, task: str) -> None:
    """Raise a ValueError unless the model has a pooler, and not a newly initialized one."""
    if not bert.spec.has_pooler:
        raise ValueError(
            f"{task} needs a model with a pooler, got one with the head {bert.head!r}: "
            f"{HEADS['encoder'].hint}"
        )
    require_trained(bert, task, [names.POOLER], "encoder")


def load_of_casing(source: str | os.PathLike, tokenizer: Tokenizer, head: str | None) -> Bert:
    """Load a checkpoint; where its files do not say the casing, it is that of a tokenizer."""
    try:
        return load(source, head=head)
    except UnknownCasing:
        return load(source, head=head, lowercase=tokenizer.lowercase)


def require_two_segments(bert: Bert, task: str) -> None:
    """Raise a ValueError where the model cannot tell a second text from the first."""
    second = bert.tokenizer.second_segment if bert.tokenizer else 1
    if bert.config.family.segments and bert.config.type_vocab_size <= second:
        raise ValueError(
            f"{task} of two texts needs a model with two segments, got type_vocab_size = "
            f"{bert.config.type_vocab_size}"
        )


def check_max_length(bert: Bert, max_length: int | None) -> None:
    """Raise a ValueError where a user asks for more tokens than the model has positions."""
    if max_length is None:
        return
    limits = [bert.config.positions, bert.spec.seq_len or bert.config.positions]
    if require_positive("max_length", max_length) > min(limits):
        raise ValueError(
            f"max_length must be at most {min(limits)}, as many tokens as the model has positions, "
            f"got {max_length}"
        )


def length_of_examples(bert: Bert, max_length: int | None) -> int:
    """Return the tokens that a training example can have; None: 128, or the positions if fewer."""
    check_max_length(bert, max_length)
    return longest(bert, max_length) if max_length else min(DEFAULT_LENGTH, longest(bert))


def longest(bert: Bert, max_length: int | None = None) -> int:
    """Return the tokens that a sequence can have: positions, a fixed seq_len, `max_length`.

    Where no `max_length` is given, the tokenizer's own counts, transformers' `model_max_length`.
    """
    if max_length is not None:
        require_positive("max_length", max_length)
    elif bert.tokenizer is not None:
        max_length = bert.tokenizer.max_length
    limits = [bert.config.positions, bert.spec.seq_len, max_length]
    return min(limit for limit in limits if limit is not None)
