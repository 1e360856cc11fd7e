"""Trained parts of a graph: frozen parts, low-rank adapters, learning rate per layer.

All of it is closed form: names of layers, numbers of parameters, factors of the learning rate.
"""

import itertools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kbert.graph import names
from kbert.graph.closed_form import config_letters
from kbert.graph.closed_form import layers as graph_layers
from kbert.graph.config import require_positive
from kbert.graph.spec import GraphSpec

FREEZABLE = ("embeddings", "encoder", "pooler", "head")  # that `freeze` names, beside blocks
LORA_TARGETS = "query,value"  # the paper's (arXiv 2106.09685, section 4.2) and PEFT's for BERT


class Matrix(NamedTuple):
    """A matrix of an encoder block that an adapter can go on; its sizes in formula letters.

    `variable` is its path within `part`, the sublayer that has it.
    """

    part: str
    variable: str
    inputs: str = "H"
    outputs: str = "H"


MATRICES = {
    "query": Matrix(names.ATTENTION, "query/kernel"),
    "key": Matrix(names.ATTENTION, "key/kernel"),
    "value": Matrix(names.ATTENTION, "value/kernel"),
    "attention_output": Matrix(names.ATTENTION, "attention_output/kernel"),
    "intermediate": Matrix(names.FEED_FORWARD, "intermediate/kernel", "H", "FFD"),
    "output": Matrix(names.FEED_FORWARD, "output/kernel", "FFD", "H"),
}

# What the two settings must, in words.
FREEZE = f"name parts between commas, of {', '.join(FREEZABLE)}, and blocks, 3 or 1-8"
ON = f"name matrices in a list or between commas, of {', '.join(MATRICES)}"


class AdaptedMatrix(NamedTuple):
    """A matrix with an adapter: W + scale · B·A, A (rank, inputs) and B (outputs, rank).

    Attributes:
        block: its encoder block, from 1.
        name: one of `MATRICES`, such as "query".
        inputs, outputs: its sizes.
    """

    block: int
    name: str
    inputs: int
    outputs: int

    @property
    def layer(self) -> str:
        """Layer of the graph that has it."""
        return names.encoder(self.block, MATRICES[self.name].part)

    @property
    def variable(self) -> str:
        """Path of its variable within that layer."""
        return MATRICES[self.name].variable


@dataclass(frozen=True)
class TrainedParts:
    """The trained parts of a graph, returned by `trained_parts`.

    Attributes:
        spec: the graph.
        frozen: the layers with frozen weights.
        adapted: the matrices with an adapter; none without LoRA.
        rank: rank of the adapters.
        alpha: scale of the adapters, times the rank: B·A is multiplied by alpha / rank.
    """

    spec: GraphSpec
    frozen: frozenset[str]
    adapted: tuple[AdaptedMatrix, ...] = ()
    rank: int = 0
    alpha: float = 0.0

    @property
    def adapter_params(self) -> int:
        """Number of parameters of all A and B: rank · (inputs + outputs) per matrix."""
        sizes = [matrix.inputs + matrix.outputs for matrix in self.adapted]
        return sum(self.rank * size for size in sizes)


def read_freeze(text: str) -> tuple[frozenset[str], tuple[range, ...]]:
    """Return the parts and the ranges of blocks that a text such as "embeddings,1-8" names."""
    groups, blocks = set(), []
    for word in _names(text):
        if word in FREEZABLE:
            groups.add(word)
            continue
        numbers = _read_blocks(word)
        if not numbers:
            raise ValueError(f"freeze must {FREEZE}, got {text!r}")
        blocks.append(numbers)
    return frozenset(groups), tuple(blocks)


def _read_blocks(word: str) -> range:
    """Return the blocks that "3" or "1-8" names; an empty range for another word."""
    match = re.fullmatch(r"([0-9]{1,8})(?:-([0-9]{1,8}))?", word)
    if not match:
        return range(0)
    first = int(match[1])
    last = int(match[2] or match[1])
    return range(first, last + 1) if first else range(0)


def read_lora_targets(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return names, in a list or between commas, in the order of `MATRICES`, each once."""
    is_list = isinstance(names, (list, tuple))
    targets = list(names) if is_list else _names(names)

    if not targets or any(name not in tuple(MATRICES) for name in targets):
        raise ValueError(f"lora_targets must {ON}, got {names!r}")
    return tuple(name for name in MATRICES if name in targets)


def trained_parts(
    spec: GraphSpec,
    freeze: str | None = None,
    lora_rank: int | None = None,
    lora_targets: str = LORA_TARGETS,
    lora_alpha: float | None = None,
    also: Collection[str] = (),
) -> TrainedParts:
    """Return the parts of a graph that are trained with these settings.

    Args:
        spec: the graph.
        freeze: frozen parts, separated by commas: "embeddings", "encoder", "pooler", "head", and
            blocks, from 1: "3" or "1-8"; None: none.
        lora_rank: rank of the adapters; then all weights are frozen except for the head's (Hu et
            al. 2021, arXiv 2106.09685). None: no adapters.
        lora_targets: the matrices with an adapter, separated by commas, of `MATRICES`; in all
            blocks that are not frozen.
        lora_alpha: adapters are multiplied by lora_alpha / lora_rank; None: by 1.
        also: layers that are trained with LoRA too, unless they are frozen: the newly initialized
            ones.

    Raises:
        ValueError: blocks or parts that the graph does not have, a rank beyond a matrix's, nothing
            left to train or to adapt.
    """
    frozen, blocks = _read_frozen(spec, freeze)
    owners = [layer for layer in graph_layers(spec) if layer.params]
    if lora_rank is None:
        if all(layer.name in frozen for layer in owners):
            raise ValueError(
                f"freeze must leave something to train, got {freeze!r}: the whole model"
            )
        return TrainedParts(spec, frozen)

    rank = require_positive("lora_rank", lora_rank)
    all_blocks = range(1, spec.config.num_hidden_layers + 1)
    free = [block for block in all_blocks if block not in blocks]
    if not free:
        raise ValueError(
            f"freeze must leave lora_rank a block to adapt, got {freeze!r}: all blocks"
        )
    adapted = _list_matrices(spec, free, read_lora_targets(lora_targets))
    _check_rank(rank, adapted)

    owners_in_head = {layer.name for layer in owners if part_of(layer.group) == "head"}
    unfrozen = (owners_in_head | set(also)) - frozen
    base = frozenset(layer.name for layer in owners if layer.name not in unfrozen)
    alpha = float(rank) if lora_alpha is None else lora_alpha
    return TrainedParts(spec, base, adapted, rank, alpha)


def _list_matrices(
    spec: GraphSpec, blocks: Sequence[int], targets: Sequence[str]
) -> tuple[AdaptedMatrix, ...]:
    letters = config_letters(spec.config)
    adapted = []
    for block in blocks:
        for name in targets:
            matrix = MATRICES[name]
            inputs, outputs = letters[matrix.inputs], letters[matrix.outputs]
            adapted.append(AdaptedMatrix(block, name, inputs, outputs))
    return tuple(adapted)


def _check_rank(rank: int, adapted: Sequence[AdaptedMatrix]) -> None:
    small = min(adapted, key=_smaller_side)
    if rank > _smaller_side(small):
        raise ValueError(
            f"lora_rank must be at most {_smaller_side(small)}, the smaller side "
            f"of {small.name}'s {small.inputs} × {small.outputs}, got {rank}"
        )


def _smaller_side(matrix: AdaptedMatrix) -> int:
    return min(matrix.inputs, matrix.outputs)


def learning_rate_factors(
    spec: GraphSpec, layer_decay: float | None = None, head_share: float = 1.0
) -> dict[str, float]:
    """Return the factor of the learning rate for each layer.

    ELECTRA's form (Clark et al. 2020, arXiv 2003.10555, table 6; google-research/electra,
    model/optimization.py): layer_decay^(L + 2 − depth), with a depth of 0 for the embeddings, n for
    block n, L + 2 for the head, whose factor is `head_share`. Its graph has no pooler; BERT's has
    the depth between, L + 1.
    """
    top = spec.config.num_hidden_layers + 2
    depths = {"embeddings": 0, "pooler": top - 1, "head": top}
    decay = 1.0 if layer_decay is None else layer_decay
    factors = {}
    for layer in graph_layers(spec):
        part = part_of(layer.group)
        depth = depths.get(part) or names.block_of(layer.name)
        factors[layer.name] = head_share if depth == top else decay ** (top - depth)
    return factors


def part_of(group: str) -> str:
    """Return the one of `FREEZABLE` that a group of `kbert.graph.closed_form.GROUPS` belongs to."""
    return group if group in FREEZABLE else "head"


def _read_frozen(spec: GraphSpec, freeze: str | None) -> tuple[frozenset[str], set[int]]:
    """Return the layers that `freeze` names, and the encoder blocks among them."""
    if freeze is None:
        return frozenset(), set()

    groups, ranges = read_freeze(freeze)
    layers = graph_layers(spec)
    count = spec.config.num_hidden_layers
    for numbers in ranges:
        if numbers[-1] > count:
            raise ValueError(f"freeze must name blocks of 1 … {count}, got {numbers[-1]}")
    if "pooler" in groups and not any(layer.group == "pooler" for layer in layers):
        raise ValueError(
            f"freeze must name parts that the graph has, got 'pooler', which the head {spec.head} "
            "has not"
        )

    blocks = set(itertools.chain.from_iterable(ranges))
    if "encoder" in groups:
        blocks = set(range(1, count + 1))
    frozen = set()
    for layer in layers:
        part = part_of(layer.group)
        is_named = part in groups or names.block_of(layer.name) in blocks
        if layer.params and is_named:
            frozen.add(layer.name)
    return frozenset(frozen), blocks


def _names(text) -> list[str]:
    if not isinstance(text, str):
        return [""]
    return [word.strip() for word in text.split(",")]
