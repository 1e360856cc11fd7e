"""Comparison of a checkpoint with the graph of a head: matches and mismatches."""

import fnmatch
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kbert.checkpoints import transfer, weight_names
from kbert.checkpoints.checkpoint import Checkpoint, Tensor
from kbert.checkpoints.weight_names import SIZES, TABLE, Entry
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec
from kbert.io.wording import hint

_MOST_BLOCKS = 100  # more than any BERT has
_BLOCK = re.compile(r"((?:layer[._]|Encoder-)\D*?)(\d+)")


@dataclass(frozen=True)
class Fit:
    """The result of a comparison; names are those of the checkpoint's format."""

    entries: list[Entry]  # parameters of the graph that the format has names for
    nameless: list[str]  # its other parameters, as "layer/variable"
    tensors: dict[str, Tensor]  # that may be loaded into the graph
    of_other_heads: list[str]  # tensors with the name of a parameter that belong to another head
    problems: list[str]  # mismatches, one line each: configuration keys first, then tensors

    def check(self, source: str) -> None:
        """Raise a ValueError for a checkpoint, called `source`, that does not fit."""
        if not self.problems:
            return
        count = f"{len(self.problems)} problem{'s' if len(self.problems) > 1 else ''}"
        advice = ""
        if any(problem.startswith("unexpected") for problem in self.problems):
            advice = (
                " (to leave out what is unexpected: kbert convert --ignore PATTERN, in Python "
                "ignore=[…])"
            )
        raise ValueError(
            f"{source} does not fit the model of its configuration, {count}: "
            f"{summarize(self.problems)}{advice}"
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
    config = spec.config
    column = checkpoint.column
    missing_names = _resolve_names("allow_missing", allow_missing, checkpoint)
    ignored_names = _resolve_names("ignore", ignore, checkpoint)
    parts = weight_names.parts_of(spec.head, config)

    tensors = dict(checkpoint.tensors)
    of_other_heads: list[str] = []
    stored = checkpoint.spec
    is_same_head = parts == weight_names.parts_of(stored.head, stored.config)
    if not is_same_head or spec.num_labels != stored.num_labels:
        of_other_heads = _remove_classifiers(tensors, column)

    entries = weight_names.entries_of(spec, column)
    groups = [
        weight_names.names_of(part, column)
        for part in weight_names.PARTS
        if part not in weight_names.BODY
    ]
    # A part of which the checkpoint has nothing may be missing, one of another head may be there.
    absent = [group for group in groups if group.isdisjoint(tensors)]
    problems = transfer.problems(
        entries,
        tensors,
        allow_missing=missing_names.union(*absent),
        ignore=ignored_names.union(*groups),
    )
    if problems:
        problems = _size_problems(tensors, config, column) + problems
    problems += vocabulary_problems(tokens, config)

    templates = weight_names.templates_of(parts, config)
    nameless = [row.names["kbert"] for row in templates if column not in row.names]
    return Fit(entries, nameless, tensors, of_other_heads, problems)


def _remove_classifiers(tensors: dict[str, Tensor], column: str) -> list[str]:
    """Remove the classifiers' tensors, and return their names.

    A classifier of sequences and one of tokens have one name in transformers: not taken for it.
    """
    templates = [row for row in weight_names.TEMPLATES if "N" in row.shape]
    classifiers = {row.names[column] for row in templates if column in row.names}
    removed = sorted(name for name in classifiers if name in tensors)
    for name in removed:
        del tensors[name]
    return removed


def _size_problems(tensors: Mapping[str, Tensor], config: BertConfig, column: str) -> list[str]:
    """Return the sizes of which the configuration and the tensors say different values."""
    lines = []
    for key, size in read_sizes(tensors, column).items():
        if getattr(config, key) != size:
            lines.append(
                f"{key} is {getattr(config, key)} in the configuration, {size} in the tensors"
            )
    return lines


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
        text = _BLOCK.sub(r"\1{}", problem, count=1)
        blocks.setdefault(text, []).append(number)

    texts = [text.replace("{}", _ranges(numbers), 1) for text, numbers in blocks.items()]
    shown = texts[:most]
    unshown = list(blocks.values())[most:]
    left = sum(len(numbers) for numbers in unshown)
    if left:
        shown.append(f"and {left} more, which `kbert inspect` lists")
    return "; ".join(shown)


def _ranges(numbers: Collection[int]) -> str:
    """3, {0…11} or {0, 2}."""
    numbers = sorted(set(numbers))
    first = numbers[0]
    last = numbers[-1]
    if first == last:
        return str(first)
    if numbers == list(range(first, last + 1)):
        return f"{{{first}…{last}}}"
    return f"{{{', '.join([str(number) for number in numbers])}}}"


def read_sizes(tensors: Mapping[str, Tensor], column: str) -> dict[str, int]:
    """Return the sizes of a configuration that the tensors' shapes say."""
    by_letter: dict[str, int] = {}
    for part in weight_names.BODY:
        for template in TABLE[part]:
            row = template.fill_in_block(0)
            tensor = tensors.get(row.names.get(column, ""))
            if tensor and not row.variable.endswith("kernel"):  # each format has its own kernels
                sizes = dict(zip(row.shape, tensor.shape, strict=False))
                by_letter = sizes | by_letter

    sizes = {key: by_letter[letter] for letter, key in SIZES.items() if letter in by_letter}
    blocks = _count_blocks(tensors, column)
    return sizes | {"num_hidden_layers": blocks} if blocks else sizes


def _count_blocks(tensors: Mapping[str, Tensor], column: str) -> int:
    """Count the blocks that the tensors are of, from the first on without a gap."""
    for block in range(_MOST_BLOCKS):
        templates = [row.fill_in_block(block) for row in TABLE["encoder"]]
        names = [template.names.get(column) for template in templates]
        if not any(name in tensors for name in names):
            return block
    return _MOST_BLOCKS


def _resolve_names(argument: str, names: Collection[str], checkpoint: Checkpoint) -> set[str]:
    """Return the names as the table has them; raise a ValueError for one that stands nowhere.

    A name may be a pattern, such as "adapter.*": it stands for every name that it matches.
    """
    if isinstance(names, str) or not isinstance(names, Collection):
        raise ValueError(f"{argument} must be a list of tensors' names, got {names!r}")
    if len(names) == 0:  # of an array, too
        return set()

    config = checkpoint.spec.config
    table = weight_names.entries(weight_names.PARTS, config, checkpoint.column)
    in_table = {entry.name for entry in table} | set(checkpoint.tensors)
    by_name = {tensor.name: name for name, tensor in checkpoint.tensors.items()}
    by_name |= {f"bert.{name}": name for name in in_table if f"bert.{name}" not in in_table}
    by_name |= {name: name for name in (*in_table, *checkpoint.left_out)}

    matches: list[str] = []
    for name in names:
        matches += fnmatch.filter(by_name, name) or [name]
    unknown = [name for name in matches if name not in by_name]
    if unknown:
        near = hint(unknown[0], by_name, "")
        shown = ", ".join([repr(name) for name in unknown])
        raise ValueError(
            f"{argument} must name tensors of the checkpoint or the model, got "
            f"{shown}{near and f': {near}'}"
        )
    return {by_name[name] for name in matches}
