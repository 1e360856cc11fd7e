"""A low-rank adapter that is added to a model's weights: W + scale · B·A in the place of W.

Hu et al. 2021, arXiv 2106.09685. Names and shapes are transformers' and PEFT's.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kbert.checkpoints import transfer, weight_names
from kbert.checkpoints.transformers.classes import CLASSES, classes_by_column
from kbert.checkpoints.weight_names import Entry
from kbert.graph.closed_form import config_letters
from kbert.graph.config import BertConfig
from kbert.graph.families import FAMILIES
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import MATRICES, AdaptedMatrix
from kbert.heads import HEADS_WITH_LABELS
from kbert.io.wording import first_few

MatrixKey = tuple[int, str]  # the block, from 1, and the name in `MATRICES`


class Pair(NamedTuple):
    """Adapter of one matrix.

    Attributes:
        a, b: float32 A (rank, inputs) and B (outputs, rank).
        scale: the factor of B·A.
    """

    a: np.ndarray
    b: np.ndarray
    scale: float


@dataclass(frozen=True, eq=False)
class LoraAdapter:
    """The LoRA adapters of a model's matrices, and other weights that were trained with them.

    Attributes:
        pairs: the adapters by (block, from 1; matrix, one of `MATRICES`).
        saved: other weights, the head's, by transformers' names without the family's prefix
            ("bert.").
        column: the family of those names; None: BERT or RoBERTa.
        head, labels, problem_type, split_punctuation: as of `kbert.Bert`; None: unknown.
        base: `digest` of the matrices that it was trained on.
        base_path: the path of the base, or its name on a hub with the commit.
        dropout: dropout rate of the input of A in training.
        merged: `digest` of the matrices with the adapter; None: it is not merged.
    """

    pairs: Mapping[MatrixKey, Pair]
    saved: Mapping[str, np.ndarray]
    column: str | None = None
    head: str | None = None
    labels: tuple[str, ...] | None = None
    problem_type: str | None = None
    split_punctuation: str | None = None
    base: str | None = None
    base_path: str | None = None
    dropout: float = 0.0
    merged: str | None = None

    @property
    def num_labels(self) -> int | None:
        """Number of labels of its head; None if it has none."""
        if self.head not in (None, *HEADS_WITH_LABELS):
            return None
        return weight_names.find_num_labels(self.saved, *classes_by_column())

    def layers(self, config: BertConfig) -> frozenset[str]:
        """Return the layers of a base's graph, whatever its head, that `saved` has weights of."""
        column = weight_names.column_of(config)
        templates = weight_names.TEMPLATES
        layers = {row.layer for row in templates if row.names.get(column) in self.saved}
        return frozenset(layers)

    def __repr__(self) -> str:
        ranks = set()
        params = 0
        for a, b, _ in self.pairs.values():
            ranks.add(a.shape[0])
            params += a.size + b.size
        matrices = [name for _, name in self.pairs]
        names = list(dict.fromkeys(matrices))
        return (
            f"LoraAdapter(rank {first_few(sorted(ranks))}, {', '.join(names)}, "
            f"{len(self.pairs)} matrices, {params:,} parameters)"
        )


def digest(model, matrices: Iterable[MatrixKey]) -> str:
    """SHA-256 of a model's matrices, by block and name, as float32."""
    sha = hashlib.sha256()
    for block, name in sorted(matrices):
        _, array = _read_kernel(model, block, name)
        sha.update(f"\0{block} {name}\0".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def digest_arrays(adapter: LoraAdapter) -> str:
    """SHA-256 of an adapter's own numbers: A, B, the scales, and what was saved with them."""
    sha = hashlib.sha256()
    for matrix, (a, b, scale) in sorted(adapter.pairs.items()):
        sha.update(f"\0{matrix} {scale}\0".encode())
        sha.update(np.ascontiguousarray(a).data)
        sha.update(np.ascontiguousarray(b).data)
    for name, array in sorted(adapter.saved.items()):
        sha.update(f"\0{name}\0".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()


def add_to(model, spec: GraphSpec, adapter: LoraAdapter, source: str, base: str) -> LoraAdapter:
    """Merge an adapter into a model's weights, and put in the weights that were saved with it.

    `model` is the base, of the spec's graph. `source` and `base` are the names of the adapter and
    the base in errors. Return the adapter with the digests of the matrices before and after. Raise
    a ValueError for an adapter of another base: other shapes, other blocks, other weights.
    """
    column = weight_names.column_of(spec.config)
    tied = CLASSES[spec.config.model_type].tied
    listed = weight_names.entries_of(spec, column)
    entries = {entry.name: entry for entry in listed}
    adapter = _tied(model, adapter, tied, entries, source)
    problems = _problems(spec, adapter, entries)
    if problems:
        raise ValueError(f"{source} must be an adapter of {base}, got another's: {problems[0]}")

    before = digest(model, adapter.pairs)
    if adapter.base not in (None, before):
        raise ValueError(
            f"{source} must be an adapter of {base}, got one that was trained on other weights of "
            "this shape"
        )

    for matrix, pair in adapter.pairs.items():
        _merge_pair(model, matrix, pair, source)
    for name, array in adapter.saved.items():
        entry = entries[name]
        variable = transfer.variable_of(model, entry)
        if entry.outputs_first:
            array = array.T
        variable.assign(array.reshape(variable.shape))
    after = digest(model, adapter.pairs)
    return dataclasses.replace(adapter, base=before, merged=after)


def _merge_pair(model, matrix: MatrixKey, pair: Pair, source: str) -> None:
    """Merge an adapter of one matrix, W + scale · B·A; refuse one that makes it infinite."""
    from kbert.model.lora import merge  # imports Keras

    block, name = matrix
    variable, array = _read_kernel(model, block, name)
    with np.errstate(over="ignore", invalid="ignore"):
        merged = merge(array, *pair)
    was_finite = np.isfinite(array).all()
    if was_finite and not np.isfinite(merged).all():
        raise ValueError(
            f"{source} must hold finite numbers, got others in {name} of block {block}"
        )
    variable.assign(merged)


def _tied(model, adapter: LoraAdapter, tied: Mapping[str, str], entries, source) -> LoraAdapter:
    """Return the adapter without copies of tied weights; PEFT may have trained such a copy."""
    for copy, name in tied.items():
        if copy not in adapter.saved:
            continue
        original = adapter.saved.get(name)
        if original is None and name in entries:
            arrays = transfer.arrays_of(model, [entries[name]])
            (original,) = arrays.values()
        trained = adapter.saved[copy]
        if original is None or not np.array_equal(original, trained):
            raise ValueError(
                f"{source} must have {copy} equal to {name}, to which it is tied in the "
                "graph, got others: train it with the head left out of modules_to_save"
            )
    saved = {name: array for name, array in adapter.saved.items() if name not in tied}
    return dataclasses.replace(adapter, saved=saved)


def _problems(spec: GraphSpec, adapter: LoraAdapter, entries: Mapping[str, Entry]) -> list[str]:
    """Return the adapter's mismatches with the base, one line each."""
    lines = []
    if adapter.column not in (None, weight_names.column_of(spec.config)):
        family = FAMILIES.get(adapter.column or "", FAMILIES["bert"])
        lines.append(f"names of a {family.title} for a {spec.config.family.title}")
    lines += _matrix_problems(spec.config, adapter.pairs)

    for name, array in adapter.saved.items():
        if name not in entries:
            lines.append(f"{name}, for which the head {spec.head} has no place")
        elif array.shape != entries[name].shape:
            lines.append(f"{name} of {array.shape}, expected {entries[name].shape}")
    return lines


def _matrix_problems(config: BertConfig, pairs: Mapping[MatrixKey, Pair]) -> list[str]:
    """Return the mismatches of the adapted matrices with the base's, one line each."""
    letters = config_letters(config)
    blocks = config.num_hidden_layers
    lines = []
    for (block, name), pair in pairs.items():
        if block > blocks:
            lines.append(f"block {block}, of {blocks}")
            continue
        matrix = MATRICES[name]
        inputs = letters[matrix.inputs]
        outputs = letters[matrix.outputs]
        sizes = (pair.a.shape[-1], pair.b.shape[0])
        if sizes != (inputs, outputs):
            shapes = f"a matrix of {sizes[0]} × {sizes[1]}, expected {inputs} × {outputs}"
            lines.append(f"{name} of block {block} for {shapes}")
    return lines


def _read_kernel(model, block: int, name: str):
    """Return a matrix's Keras variable, and its float32 numbers."""
    import keras

    matrix = AdaptedMatrix(block, name, 0, 0)
    variable = transfer.variable_of(model, matrix)
    array = keras.ops.convert_to_numpy(variable)
    return variable, array.astype("float32", copy=False)
