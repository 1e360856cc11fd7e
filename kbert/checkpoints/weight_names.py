"""Names of the weights in every format (names.tsv): one row per parameter, a column per format.

Names and order are those of transformers' `BertModel.named_parameters()`; {i} is a checkpoint's
layer, from 0, and {n} the graph's encoder block, from 1. Every format is read and written by its
column here. The shapes of the kernels differ too:

    transformers, roberta, distilbert  (outputs, inputs)
    google            (inputs, outputs); its heads' output_weights are (outputs, inputs)
    keras_bert        (inputs, outputs)
    keras_hub, kbert  (inputs, outputs), with one axis per attention head: (H, A, H/A), (A, H/A, H)

The columns roberta (XLM-R's too) and distilbert are transformers' names of those families.
"""

import csv
import dataclasses
import itertools
import math
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources

from kbert.graph import names
from kbert.graph.config import BertConfig
from kbert.graph.families import FAMILIES
from kbert.graph.presets import get_config
from kbert.graph.reference import NamedParameter
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS, Head

COLUMNS = ("transformers", "google", "keras_hub", "keras_bert", "kbert")
OF_FAMILY = ("roberta", "distilbert")  # columns too
_OUTPUTS_FIRST = ("transformers", *OF_FAMILY)  # columns whose kernels are (outputs, inputs)
_HEADS_APART = ("keras_hub", "kbert")  # columns whose attention kernels have an axis of heads
SIZES = {  # of a configuration, by their letters in the shapes
    "T": "vocab_size",
    "H": "hidden_size",
    "FFD": "intermediate_size",
    "P": "max_position_embeddings",
    "G": "type_vocab_size",
    "A": "num_attention_heads",
    "L": "num_hidden_layers",
}


@dataclass(frozen=True)
class Entry:
    """One parameter in one format: its name and shape there, and its layer and path within it."""

    name: str
    shape: tuple[int, ...]
    outputs_first: bool  # whether it is a kernel stored as (outputs, inputs)
    layer: str
    variable: str


@dataclass(frozen=True)
class Template:
    """A row of the table: one parameter, or one parameter of every encoder block."""

    part: str  # of the graph, one of `PARTS`
    names: Mapping[str, str]  # by column; formats without such a parameter are left out
    shape: tuple[str, ...]  # in transformers: formula letters, G segments, N labels, or numbers
    layer: str
    variable: str  # its path within the layer

    def fill_in_block(self, index: int) -> "Template":
        """Return the row with the numbers of one encoder block filled in."""
        numbers = {"i": index, "n": index + 1}
        filled = {column: name.format(**numbers) for column, name in self.names.items()}
        layer = self.layer.format(**numbers)
        return dataclasses.replace(self, names=filled, layer=layer)

    def make_entry(self, column: str, config: BertConfig, num_labels: int) -> Entry:
        """Return the parameter in a format that has a name for it."""
        letters = {letter: getattr(config, key) for letter, key in SIZES.items()}
        letters["N"] = num_labels
        shape: tuple[int, ...] = ()
        for size in self.shape:
            shape += (letters[size] if size in letters else int(size),)
        name = self.names[column]
        is_kernel = self.variable.endswith("kernel")
        outputs_first = column in _OUTPUTS_FIRST or name.endswith("output_weights")
        if is_kernel and not outputs_first:
            shape = shape[::-1]

        heads = (config.num_attention_heads, config.head_size)
        if column in _HEADS_APART and self.variable.startswith(("query", "key", "value")):
            shape = (*shape[:-1], *heads)
        if column in _HEADS_APART and self.variable == "attention_output/kernel":
            shape = (*heads, shape[1])
        outputs_first = is_kernel and outputs_first
        return Entry(name, shape, outputs_first, self.layer, self.variable)


def _read_table() -> dict[str, tuple[Template, ...]]:
    file = resources.files("kbert.checkpoints") / "names.tsv"
    text = file.read_text(encoding="utf-8")
    table: dict[str, tuple[Template, ...]] = {}
    for row in csv.DictReader(text.splitlines(), delimiter="\t"):
        part = row.pop("part")
        shape = tuple(row.pop("shape").split())
        layer = row.pop("layer")
        variable = row.pop("variable")
        by_column = {column: name for column, name in row.items() if name != "-"}
        by_column["kbert"] = f"{layer}/{variable}"
        template = Template(part, by_column, shape, layer, variable)
        table[part] = (*table.get(part, ()), template)
    return table


TABLE = _read_table()  # rows by part: {i} and {n} for an encoder block
PARTS = tuple(TABLE)
TEMPLATES = tuple(itertools.chain.from_iterable(TABLE.values()))

BODY = ("embeddings", "encoder")
_NO_HEAD = next(head for head in HEADS.values() if not head.layers)
_PARTS_OF_NO_HEAD = set(_NO_HEAD.variant(FAMILIES["bert"]).parts)  # the pooler


def parts_of(head: str, config: BertConfig) -> tuple[str, ...]:
    """Return the parts of the table, of `PARTS`, that the graph of a head has."""
    variant = HEADS[head].variant(config.family)
    return (*BODY, *variant.parts)


def find_head(tensors: Collection[str], column: str) -> str:
    """Return the head of a checkpoint with tensors of these names in one of the columns.

    The pretraining heads come last: a fine-tuned checkpoint may still have them. Of heads that
    give a tensor the same name, the one with most tensors is found, of those with tensors of all
    their parts; else the first.
    """
    family = FAMILIES[column if column in OF_FAMILY else "bert"]
    parts = {head.name: head.variant(family).parts for head in _list_heads()}
    present: dict[str, set[str]] = {}  # the names of the tensors of each head
    for name, groups in parts.items():
        expected: set[str] = set()
        for group in set(groups) - _PARTS_OF_NO_HEAD:
            expected |= names_of(group, column)
        if not expected.isdisjoint(tensors):
            present[name] = expected & set(tensors)
    if not present:
        return _NO_HEAD.name

    first = next(iter(present))
    whole = []
    for name, names_in_file in present.items():
        has_common_names = not names_in_file.isdisjoint(present[first])
        if has_common_names and _is_whole_head(tensors, parts[name], column):
            whole.append(name)
    return max(whole, key=lambda name: len(present[name]), default=first)


def _list_heads() -> list[Head]:
    """Return one head for each set of layers, the pretraining heads last."""
    by_layers: dict[tuple[str, ...], Head] = {}
    for head in HEADS.values():
        by_layers.setdefault(head.layers, head)
    heads = [head for head in by_layers.values() if head.layers]
    return sorted(heads, key=lambda head: (head.predicts_tokens, head.has_labels))


def _is_whole_head(tensors: Collection[str], groups: Iterable[str], column: str) -> bool:
    """Return whether a checkpoint has tensors of each part of a head."""
    names = [names_of(group, column) for group in groups]
    return not any(group_names.isdisjoint(tensors) for group_names in names)


def names_of(part: str, column: str) -> set[str]:
    """Return the names that a format has for the weights of a part of the heads."""
    return {row.names[column] for row in TABLE[part] if column in row.names}


def find_num_labels(tensors: Mapping, *columns: str) -> int | None:
    """Return the labels that a checkpoint's head has; None without a head that has any."""
    templates = [row for row in TEMPLATES if row.shape == ("N",)]  # biases
    for column in columns:
        for row in templates:
            name = row.names.get(column)
            if name in tensors and tensors[name].shape:
                return tensors[name].shape[0]
    return None


def column_of(config: BertConfig) -> str:
    """Return the column with transformers' names for a configuration's family."""
    if config.model_type == "bert":
        return "transformers"
    return "roberta" if config.family.first_position is not None else config.model_type


def templates_of(parts: Iterable[str], config: BertConfig) -> list[Template]:
    """Return the rows of some of `PARTS` that the graph has, repeated per encoder block."""
    templates: list[Template] = []
    for part in parts:
        if part == "encoder":
            for index in range(config.num_hidden_layers):
                templates += [row.fill_in_block(index) for row in TABLE[part]]
        else:
            without = () if config.family.segments else (names.SEGMENT_EMBEDDING,)
            templates += [row for row in TABLE[part] if row.layer not in without]
    return templates


def entries(
    parts: Iterable[str], config: BertConfig, column: str, num_labels: int = 2
) -> list[Entry]:
    """Return a column's parameters of some of `PARTS`; none of those that the column lacks."""
    templates = templates_of(parts, config)
    present = [row for row in templates if column in row.names]
    return [row.make_entry(column, config, num_labels) for row in present]


def entries_of(spec: GraphSpec, column: str) -> list[Entry]:
    """Return the parameters of a graph in one of the columns."""
    parts = parts_of(spec.head, spec.config)
    return entries(parts, spec.config, column, spec.num_labels)


def named_parameters(config: BertConfig | str | os.PathLike) -> tuple[NamedParameter, ...]:
    """Return transformers' `named_parameters()` of BertModel or its family's model, in closed form.

    Args:
        config: a `BertConfig`, a preset's name or a path to a JSON file.
    """
    config = get_config(config)
    spec = GraphSpec(config, "encoder")
    parameters = []
    for entry in entries_of(spec, column_of(config)):
        size = math.prod(entry.shape)
        parameters.append(NamedParameter(entry.name, entry.shape, size))
    return tuple(parameters)
