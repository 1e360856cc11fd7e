"""Comparison of a checkpoint with the graph of a head: matches and mismatches."""

import fnmatch
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kbert.checkpoints import transfer, weight_names
from kbert.checkpoints.checkpoint import Checkpoint, Tensor
from kbert.checkpoints.weight_names import TABLE, Entry
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec
from kbert.io.wording import hint

_SIZES = {  # by their letter in the shapes of the table of names
    "T": "vocab_size",
    "H": "hidden_size",
    "FFD": "intermediate_size",
    "P": "max_position_embeddings",
    "G": "type_vocab_size",
}
_MOST_BLOCKS = 100  # more than any BERT has
_BLOCK = re.compile(r"((?:layer[._]|Encoder-)\D*?)(\d+)")


@dataclass(frozen=True)
class Fit:
    """The result of a comparison; names are those of the checkpoint's format."""

    entries: list[Entry]  # parameters of the graph that the format has names for
    nameless: list[str]  # its other parameters, as "layer/variable"
    tensors: dict[str, Tensor]  # that may be loaded into the graph
    others: list[str]  # tensors with the name of a parameter that belong to another head
    problems: list[str]  # mismatches, one line each: configuration keys first, then tensors

    def check(self, source: str) -> None:
        """Raise a ValueError for a checkpoint, called `source`, that does not fit."""
        if not self.problems:
            return
        count = f"{len(self.problems)} problem{'s' if len(self.problems) > 1 else ''}"
        unexpected = any(problem.startswith("unexpected") for problem in self.problems)
        raise ValueError(
            f"{source} does not fit the model of its configuration, {count}: "
            + summarize(self.problems)
            + (
                " (to leave out what is unexpected: kbert convert --ignore PATTERN, in Python "
                "ignore=[…])"
                if unexpected
                else ""
            )
        )


def fit(
    checkpoint: Checkpoint,
    spec: GraphSpec,
    allow_missing: Collection[str] = (),
    ignore: Collection[str] = (),
    tokens: int | None = None,
) -> Fit:
    """Compare a checkpoint, and the number of its tokens, with a graph of its configuration.

    A part of which the checkpoint has nothing may be missing, and a part of another head may be
    there; a part of which it has something must be whole. A classifier with another number of
    labels is another head. Raise a ValueError if `allow_missing` or `ignore` has a name that
    neither the checkpoint nor any graph has.
    """
    config, column = spec.config, checkpoint.column
    allow_missing = _resolve_names("allow_missing", allow_missing, checkpoint)
    ignore = _resolve_names("ignore", ignore, checkpoint)
    parts, own_parts = (
        (weight_names.parts_of(one.head, one.config), one.num_labels)
        for one in (spec, checkpoint.spec)
    )
    tensors = dict(checkpoint.tensors)
    names = {
        part: {entry.name for entry in weight_names.entries([part], config, column)}
        for part in weight_names.PARTS
        if part not in weight_names.BODY
    }
    # A classifier of sequences and one of tokens have one name in transformers: not taken for it.
    templates = [row for row in weight_names.TEMPLATES if "N" in row.shape]
    classifiers = sorted({row.names[column] for row in templates if column in row.names})
    is_own = parts == own_parts
    others = [] if is_own else [name for name in classifiers if tensors.pop(name, None)]
    absent = [group for group in names.values() if not group & set(tensors)]
    entries = weight_names.entries_of(spec, column)
    problems = transfer.problems(
        entries,
        tensors,
        allow_missing={*allow_missing, *set().union(*absent)},
        ignore={*ignore, *set().union(*names.values())},
    )
    if problems:
        problems = [
            f"{key} is {getattr(config, key)} in the configuration, {size} in the tensors"
            for key, size in read_sizes(tensors, column).items()
            if getattr(config, key) != size
        ] + problems
    problems += vocabulary_problems(tokens, config)
    templates = weight_names.templates_of(parts[0], config)
    nameless = [row.names["kbert"] for row in templates if column not in row.names]
    return Fit(entries, nameless, tensors, others, problems)


def vocabulary_problems(tokens: int | None, config: BertConfig) -> list[str]:
    """Return why a vocabulary of so many tokens does not fit the embedding."""
    if tokens is None or tokens <= config.vocab_size:
        return []
    return [
        f"the vocabulary must have at most {config.vocab_size} tokens, as many as the embedding "
        f"has rows, got {tokens}: use the checkpoint's own vocabulary, or leave this one out (in "
        "Python, tokenizer=False)"
    ]


def summarize(problems: Collection[str], most: int = 20) -> str:
    """Problems as one line: those alike but for their encoder block as one, the first `most`."""
    blocks: dict[str, list[int]] = {}
    for problem in problems:
        block = _BLOCK.search(problem)
        number = int(block[2]) if block else 0
        blocks.setdefault(_BLOCK.sub(r"\1{}", problem, count=1), []).append(number)
    texts = [text.replace("{}", _ranges(numbers), 1) for text, numbers in blocks.items()]
    left = sum(len(numbers) for numbers in list(blocks.values())[most:])
    more = [f"and {left} more, which `kbert inspect` lists"] if left else []
    return "; ".join(texts[:most] + more)


def _ranges(numbers: Collection[int]) -> str:
    """3, {0…11} or {0, 2}."""
    numbers = sorted(set(numbers))
    if len(numbers) == 1:
        return str(numbers[0])
    whole = numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{{{numbers[0]}…{numbers[-1]}}}" if whole else f"{{{', '.join(map(str, numbers))}}}"


def read_sizes(tensors: Mapping[str, Tensor], column: str) -> dict[str, int]:
    """Return the sizes of a configuration that the tensors' shapes say."""
    by_letter: dict[str, int] = {}
    for row in (row.fill_in_block(0) for part in weight_names.BODY for row in TABLE[part]):
        tensor = tensors.get(row.names.get(column, ""))
        if tensor and not row.variable.endswith("kernel"):  # each format has its own kernels
            by_letter = dict(zip(row.shape, tensor.shape, strict=False)) | by_letter
    sizes = {key: by_letter[letter] for letter, key in _SIZES.items() if letter in by_letter}
    blocks = 0  # that the tensors are of, from the first on without a gap
    while blocks < _MOST_BLOCKS and any(
        row.fill_in_block(blocks).names.get(column) in tensors for row in TABLE["encoder"]
    ):
        blocks += 1
    return sizes | {"num_hidden_layers": blocks} if blocks else sizes


def _resolve_names(argument: str, names: Collection[str], checkpoint: Checkpoint) -> set[str]:
    """Return the names as the table has them; raise a ValueError for one that stands nowhere.

    A name may be a pattern, such as "adapter.*": it stands for every name that it matches.
    """
    if isinstance(names, str) or not isinstance(names, Collection):
        raise ValueError(f"{argument} must be a list of tensors' names, got {names!r}")
    table = weight_names.entries(weight_names.PARTS, checkpoint.spec.config, checkpoint.column)
    in_table = {entry.name for entry in table} | set(checkpoint.tensors)
    by_name = {tensor.name: name for name, tensor in checkpoint.tensors.items()}
    by_name |= {f"bert.{name}": name for name in in_table if f"bert.{name}" not in in_table}
    by_name |= {name: name for name in (*in_table, *checkpoint.left_out)}
    names = [one for name in names for one in (fnmatch.filter(by_name, name) or [name])]
    if unknown := [name for name in names if name not in by_name]:
        near = hint(unknown[0], by_name, "")
        raise ValueError(
            f"{argument} must name tensors of the checkpoint or the model, got "
            f"{', '.join(map(repr, unknown))}{near and f': {near}'}"
        )
    return {by_name[name] for name in names}
