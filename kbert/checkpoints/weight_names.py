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
import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import resources

from kbert.graph import names
from kbert.graph.closed_form import config_letters
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


@dataclass(frozen=True)
class Template:
    """A row of the table: one parameter, or one parameter of every encoder block.

    Attributes:
        names: its name by column; a format without such a parameter is left out.
        shape: its shape in transformers, in formula letters; G is the number of segments, N of
            labels.
        layer: the kbert layer that has it.
        variable: its path within that layer.
    """

    names: Mapping[str, str]
    shape: tuple[str, ...]
    layer: str
    variable: str

    def fill_in_block(self, index: int) -> "Template":
        """Return the row with the numbers of one encoder block filled in."""
        numbers = {"i": index, "n": names.from_checkpoint_index(index)}
        filled = {column: name.format(**numbers) for column, name in self.names.items()}
        return dataclasses.replace(self, names=filled, layer=self.layer.format(**numbers))


@dataclass(frozen=True)
class Entry:
    """One parameter in one format: its name and shape there, and its layer and path within it.

    `outputs_first` says that it is a kernel stored as (outputs, inputs).
    """

    name: str
    shape: tuple[int, ...]
    outputs_first: bool
    layer: str
    variable: str


def _read_table() -> dict[str, tuple[Template, ...]]:
    text = (resources.files("kbert.checkpoints") / "names.tsv").read_text(encoding="utf-8")
    table: dict[str, tuple[Template, ...]] = {}
    for row in csv.DictReader(text.splitlines(), delimiter="\t"):
        part, shape, layer, variable = map(row.pop, ("part", "shape", "layer", "variable"))
        by_column = {column: name for column, name in row.items() if name != "-"}
        by_column["kbert"] = f"{layer}/{variable}"
        template = Template(by_column, tuple(shape.split()), layer, variable)
        table[part] = (*table.get(part, ()), template)
    return table


_TABLE = _read_table()
PARTS = tuple(_TABLE)

_BODY = ("embeddings", "encoder")
_NO_HEAD = next(head for head in HEADS.values() if not head.layers)
_PARTS_OF_NO_HEAD = set(_NO_HEAD.variant(FAMILIES["bert"]).parts)  # the pooler
PARTS_OF_HEAD = {
    name: (*_BODY, *head.variant(FAMILIES["bert"]).parts) for name, head in HEADS.items()
}


def parts_of(head: str, config: BertConfig) -> tuple[str, ...]:
    """Return the parts of the table, of `PARTS`, that the graph of a head has."""
    return (*_BODY, *HEADS[head].variant(config.family).parts)


def find_head(tensors: Collection[str], column: str) -> str:
    """Return the head of a checkpoint with tensors of these names in one of the columns.

    The pretraining heads come last: a fine-tuned checkpoint may still have them. Of heads that
    give a tensor the same name, the first with tensors of all its parts is found, else the first.
    """
    family = FAMILIES[column if column in OF_FAMILY else "bert"]
    parts = {head.name: head.variant(family).parts for head in _heads_to_find()}
    found = {
        name: own
        for name, parts_of_one in parts.items()
        if (own := _names_of(set(parts_of_one) - _PARTS_OF_NO_HEAD, column) & set(tensors))
    }
    if not found:
        return _NO_HEAD.name
    first = next(iter(found))
    whole = (
        name
        for name, own in found.items()
        if own & found[first]
        and all(not _names_of({part}, column).isdisjoint(tensors) for part in parts[name])
    )
    return next(whole, first)


def _heads_to_find() -> list[Head]:
    """Return one head for each set of layers, in the order in which `find_head` tries them."""
    by_layers: dict[tuple[str, ...], Head] = {}
    for head in HEADS.values():
        by_layers.setdefault(head.layers, head)
    heads = [head for head in by_layers.values() if head.layers]
    return sorted(heads, key=lambda head: (head.reads == "predicted", head.has_labels))


def _names_of(parts: Collection[str], column: str) -> set[str]:
    return {row.names[column] for part in parts for row in _TABLE[part] if column in row.names}


def column_of(config: BertConfig) -> str:
    """Return the column with transformers' names for a configuration's family."""
    if config.model_type == "bert":
        return "transformers"
    return "roberta" if config.family.first_position is not None else config.model_type


def rows_of(part: str, config: BertConfig) -> list[Template]:
    """Return the rows of one of `PARTS` that the graph has, repeated per encoder block."""
    rows = _TABLE[part]
    if part != "encoder":
        segments = config.family.segments
        return [row for row in rows if segments or row.layer != names.SEGMENT_EMBEDDING]
    return [row.fill_in_block(index) for index in range(config.num_hidden_layers) for row in rows]


def templates_of(part: str) -> tuple[Template, ...]:
    """Return the unexpanded rows of one of `PARTS`: {i} and {n} for an encoder block."""
    return _TABLE[part]


def entries(part: str, config: BertConfig, column: str, num_labels: int = 2) -> list[Entry]:
    """Return a column's parameters of one of `PARTS`; empty if the column has none."""
    return [
        Entry(
            name,
            _shape(row, column, config, num_labels),
            _is_kernel(row) and _is_outputs_first(column, name),
            row.layer,
            row.variable,
        )
        for row in rows_of(part, config)
        if (name := row.names.get(column))
    ]


def entries_of(spec: GraphSpec, column: str) -> list[Entry]:
    """Return the parameters of a graph in one of the columns."""
    return [
        entry
        for part in parts_of(spec.head, spec.config)
        for entry in entries(part, spec.config, column, spec.num_labels)
    ]


def shape_of(row: Template, config: BertConfig, num_labels: int = 2) -> tuple[int, ...]:
    """Return the parameter's shape in transformers."""
    letters = config_letters(config) | {"G": config.type_vocab_size, "N": num_labels, "2": 2}
    return tuple(letters[letter] for letter in row.shape)


def templates(config: BertConfig) -> list[Template]:
    """Return the rows of transformers' BertModel, or of its family's model, in its order."""
    return [row for part in parts_of("encoder", config) for row in rows_of(part, config)]


def named_parameters(config: BertConfig | str | os.PathLike) -> tuple[NamedParameter, ...]:
    """Return transformers' `named_parameters()` of BertModel or its family's model, in closed form.

    Args:
        config: a `BertConfig`, a preset's name or a path to a JSON file.
    """
    config = get_config(config)
    parameters = []
    for row in templates(config):
        shape = shape_of(row, config)
        name = row.names[column_of(config)]
        parameters.append(NamedParameter(name, shape, math.prod(shape)))
    return tuple(parameters)


def group(parameter: str) -> str:
    """Return the group of a parameter by its name: embeddings, encoder or pooler."""
    return parameter.split(".")[0]


def _is_kernel(row: Template) -> bool:
    return row.variable.endswith("kernel")


def _is_outputs_first(column: str, name: str) -> bool:
    return column in _OUTPUTS_FIRST or (column == "google" and name.endswith("output_weights"))


def _shape(row: Template, column: str, config: BertConfig, num_labels: int) -> tuple[int, ...]:
    shape = shape_of(row, config, num_labels)
    if _is_kernel(row) and not _is_outputs_first(column, row.names[column]):
        shape = shape[::-1]
    heads = (config.num_attention_heads, config.head_size)
    if column in _HEADS_APART and row.variable.startswith(("query", "key", "value")):
        return (*shape[:-1], *heads)
    if column in _HEADS_APART and row.variable == "attention_output/kernel":
        return (*heads, shape[1])
    return shape
