"""Closed-form accounting: parameters, FLOPs and bytes of a configuration, in whole numbers."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from kbert.graph import aliases, closed_form
from kbert.graph.config import BertConfig, require_positive
from kbert.graph.formulas import compute, put_in_numbers
from kbert.graph.sources import resolve_graph
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import LORA_TARGETS, TrainedParts, trained_parts
from kbert.graph.training_cost import training_cost
from kbert.heads import HEADS
from kbert.io import printable
from kbert.io.wording import check_choice

# Bytes of a weight, a gradient, Adam's two moments, and a kept activation. In Keras's mixed
# policies variables, gradients and moments stay float32 (keras.io/api/mixed_precision).
DTYPES = {
    "float32": (4, 4, 8, 4),
    "mixed_bfloat16": (4, 4, 8, 2),
    "mixed_float16": (4, 4, 8, 2),
    "bfloat16": (2, 2, 4, 2),
    "float16": (2, 2, 4, 2),
}

_LETTERS = "Letters: B sequences per batch, S tokens per sequence, {more}w bytes per number."
_PREDICTED = "M predicted positions per sequence, "  # of a head that predicts tokens
_CONVENTIONS = (
    "FLOPs: matrix products only; a multiply-add counts as 2. Training is 3 × forward: once "
    "forward and twice backward (PaLM, arXiv 2204.02311, appendix B).",
    "Not counted as FLOPs: biases, normalizations, softmax, activations, dropouts, additions, "
    "embedding lookups, the loss, the optimizer.",
    "Activations: the tensors kept for the backward pass, without gradient checkpointing. Dropout "
    "masks take 1 byte per number, ids and the logits of the loss 4 bytes (Korthikanti et al. "
    "2022, arXiv 2205.05198, equation 1: S·B·H·(34 + 5·A·S/H) bytes per block in 16 bits with "
    "FFD = 4·H).",
    "Not counted as memory: temporary buffers, the framework, a 16-bit copy of the weights, "
    "fragmentation, the data.",
)

SELECTED = (
    "Selected positions: the last block computes R positions of a sequence, those that the heads "
    "read, and keys and values of all."
)
PACKED = "Packed rows: B rows hold X texts; scores are computed between all tokens of a row."

TRAINED_IN_PART = (
    "Frozen parts and LoRA: a frozen weight has no gradient, and layers below the lowest trained "
    "layer keep no activations. An adapter adds rank · (inputs + outputs) parameters, its products "
    "with A and B, and rank numbers per token to the activations."
)


@dataclass(frozen=True)
class LayerAccount:
    """One layer's parameters, FLOPs and activation bytes.

    Attributes:
        layer, type, output_shape, connected_to: as in `kbert.graph.closed_form.Row`.
        group: "embeddings", "encoder", "pooler", "MLM", "NSP", "classifier", "tokens" or "qa".
        params: number of parameters.
        formula: `params` in formula letters; "" if there are none.
        arithmetic: the formula with numbers filled in.
        flops: FLOPs of one forward pass over the batch.
        flops_formula: `flops` in formula letters.
        activation_bytes: bytes kept for the backward pass, for the batch.
        activation_formula: `activation_bytes` in formula letters.
    """

    layer: str
    type: str
    output_shape: str
    connected_to: str
    group: str
    params: int
    formula: str
    arithmetic: str
    flops: int
    flops_formula: str
    activation_bytes: int
    activation_formula: str

    def __repr__(self) -> str:
        return (
            f"LayerAccount({self.layer} ({self.type}) {self.output_shape}: {self.params:,} "
            f"parameters, {self.flops:,} FLOPs, {self.activation_bytes:,} activation bytes)"
        )


@dataclass(frozen=True)
class Totals:
    """Sums over some layers, and their fractions of the whole model's sums, as exact fractions.

    Attributes:
        params, flops, activation_bytes: the sums.
        params_share, flops_share, activation_share: their fractions of the whole model's.
    """

    params: int
    flops: int
    activation_bytes: int
    params_share: Fraction
    flops_share: Fraction
    activation_share: Fraction


@dataclass(frozen=True)
class Memory:
    """Memory of one training step with Adam, in bytes.

    Attributes:
        weights, gradients: of all weights, and of those that are trained.
        adam: both moments.
        activations: what the backward pass reads.
    """

    weights: int
    gradients: int
    adam: int
    activations: int

    @property
    def total(self) -> int:
        """Sum of all four."""
        return self.weights + self.gradients + self.adam + self.activations


@dataclass(frozen=True)
class Account:
    """Account of one graph, the result of `account`.

    Attributes:
        config, head, seq_len, batch_size, max_predictions, dtype, packed_texts, num_labels: the
            arguments.
        rows: one per layer.
        trained: what is trained; None: everything.
        selected: number of positions of a sequence that the last block computes; None: all.
    """

    config: BertConfig
    head: str
    seq_len: int
    batch_size: int
    max_predictions: int | None
    dtype: str
    rows: tuple[LayerAccount, ...]
    trained: TrainedParts | None = None
    selected: int | None = None
    packed_texts: int | None = None
    num_labels: int = 2

    def __repr__(self) -> str:
        trained = "" if self.trained is None else f"{self.trainable_params:,} trained, "
        return (
            f"Account({self.head}, {self.params:,} parameters, {trained}S={self.seq_len}, "
            f"B={self.batch_size}, {self.dtype}: {self.flops:,} FLOPs forward, "
            f"{self.memory.total:,} bytes to train)"
        )

    def _repr_html_(self) -> str:
        from kbert.io.row_formats import to_html

        header = ("", "parameters", "", "forward FLOPs", "", "activation bytes")
        lines = [*self._group_lines(), self._total_line()]
        return to_html(header, lines, repr(self))

    def to_latex(self, *, every_row: bool = False) -> str:
        """Return the groups, or every row, as a table for LaTeX, with booktabs' rules."""
        from kbert.io.latex import to_latex

        counts = ("Parameters", "Forward FLOPs", "Activation bytes")
        if every_row:
            lines = []
            for row in self.rows:
                lines.append((row.layer, row.params, row.flops, row.activation_bytes))
            total = ("Total", self.params, self.flops, self.activation_bytes)
            return to_latex(("Layer", *counts), lines, total)

        header = ("Group", "Parameters", "Share", "Forward FLOPs", "Share", "Activation bytes")
        last_line = ("Total", *self._total_line()[1:])
        return to_latex(header, self._group_lines(), last_line)

    def _group_lines(self) -> list[tuple]:
        lines = []
        for name, totals in self.groups.items():
            params_share = f"{float(totals.params_share):.1%}"
            flops_share = f"{float(totals.flops_share):.1%}"
            counts = (totals.params, params_share, totals.flops, flops_share)
            lines.append((name, *counts, totals.activation_bytes))
        return lines

    def _total_line(self) -> tuple:
        return ("total", self.params, "", self.flops, "", self.activation_bytes)

    @property
    def params(self) -> int:
        return sum(row.params for row in self.rows)

    @property
    def flops(self) -> int:
        """FLOPs of a forward pass over the batch."""
        return sum(row.flops for row in self.rows)

    @property
    def activation_bytes(self) -> int:
        return sum(row.activation_bytes for row in self.rows)

    @property
    def groups(self) -> dict[str, Totals]:
        """Totals by group, for the groups of the graph, in its order."""
        counts = ("params", "flops", "activation_bytes")
        wholes = [getattr(self, count) for count in counts]
        groups = {}
        for group in closed_form.GROUPS:
            layers = [row for row in self.rows if row.group == group]
            if layers:
                sums: list = [_sum_counts(layers, count) for count in counts]
                fractions: list = [Fraction(*pair) for pair in zip(sums, wholes, strict=True)]
                groups[group] = Totals(*sums, *fractions)
        return groups

    @property
    def trainable_params(self) -> int:
        """Number of parameters with a gradient: all, or the unfrozen ones and the adapters'."""
        if self.trained is None:
            return self.params
        layers = self.trained.frozen
        frozen = sum(row.params for row in self.rows if row.layer in layers)
        return self.params - frozen + self.trained.adapter_params

    @property
    def training_flops(self) -> int:
        """FLOPs of one training step over the batch: 3 × forward; fewer if parts are frozen."""
        return self._training_cost[0]

    @property
    def training_flops_per_sequence(self) -> int:
        """FLOPs of one training step, per sequence."""
        return self.training_flops // self.batch_size

    @property
    def memory(self) -> Memory:
        """Memory of a training step with Adam, in the account's dtype."""
        weight, gradient, adam = DTYPES[self.dtype][:3]
        adapter_params = self.trained.adapter_params if self.trained else 0
        params = self.params + adapter_params
        trained = self.trainable_params
        activations = self._training_cost[1]
        return Memory(params * weight, trained * gradient, trained * adam, activations)

    @property
    def conventions(self) -> tuple[str, ...]:
        """Counting conventions and their sources."""
        texts = list(list_conventions(self.head))
        if self.selected:
            texts.append(SELECTED)
        if self.packed_texts:
            texts.append(PACKED)
        if self.trained:
            texts.append(TRAINED_IN_PART)
        return tuple(texts)

    @property
    def _training_cost(self) -> tuple[int, int]:
        """FLOPs of a training step, and bytes of activations."""
        if self.trained is None:
            return 3 * self.flops, self.activation_bytes

        queries = tokens = self.batch_size * self.seq_len
        if self.selected:
            texts = None if HEADS[self.head].predicts_tokens else self.packed_texts
            queries = (texts or self.batch_size) * self.selected
        width = DTYPES[self.dtype][3]
        return training_cost(self.rows, self.trained, tokens, queries, width)


def _sum_counts(layers: Iterable[LayerAccount], count: str) -> int:
    return sum(getattr(row, count) for row in layers)


def list_conventions(head: str) -> tuple[str, ...]:
    """Return the conventions of every graph with a head; its letters come first."""
    more = _PREDICTED if HEADS[head].predicts_tokens else ""
    return (_LETTERS.format(more=more), *_CONVENTIONS)


@printable.escape_errors()
@aliases.answer_old_names
def account(
    config: BertConfig | str | os.PathLike,
    seq_len: int | None = None,
    batch_size: int = 1,
    *,
    head: str | None = None,
    max_predictions: int | None = None,
    num_labels: int | None = None,
    selected_positions: bool = False,
    packed_texts: int | None = None,
    dtype: str = "float32",
    freeze: str | None = None,
    lora_rank: int | None = None,
    lora_targets: str = LORA_TARGETS,
) -> Account:
    """Count the parameters, FLOPs and bytes of a BERT from its configuration alone.

    Args:
        config: a `BertConfig`, a preset's name, a path to a JSON file or a model's folder.
        seq_len: tokens in a sequence (S); default: the configuration's positions, 512 in every
            preset.
        batch_size: sequences in a batch (B).
        head: one of `kbert.heads.HEADS`, such as "classifier"; None: the head of the model in the
            folder, "encoder" if it has none; without a folder "pretraining".
        max_predictions: predicted positions per sequence (M), if the MLM head sees only these;
            None: the head sees every position, as in keras_bert's graph.
        num_labels: number of labels of the heads "classifier" and "tokens"; None: that of the
            folder or the JSON file, else 2.
        selected_positions: whether the last block computes only the positions that the heads read,
            as in `kbert.build_bert`.
        packed_texts: number of texts (X) that the batch's sequences, as rows, hold together; None:
            one each. See `FinetuningSettings.packing`.
        dtype: "float32", "mixed_bfloat16", "mixed_float16", "bfloat16" or "float16"; sets the bytes
            per kept activation (w) and per number of `memory`.
        freeze, lora_rank, lora_targets: what is trained, as in `kbert.finetune` (see
            `kbert.graph.trained_parts.trained_parts`); they affect `trainable_params`,
            `training_flops` and `memory`.

    Returns:
        An `Account`: one row per layer, groups, totals; every number is an int or an exact
        fraction. Its `conventions` say what is counted, with sources.

    Raises:
        ValueError: an argument out of range; the message says which one and what was expected.
    """
    config, head, num_labels = resolve_graph(config, head, num_labels)
    seq_len = config.positions if seq_len is None else seq_len
    spec = GraphSpec(
        config,
        head,
        seq_len=seq_len,
        max_predictions=max_predictions,
        num_labels=num_labels,
        selected_positions=selected_positions,
        packed=packed_texts is not None,
        dtype=dtype,
    )
    batch_size = require_positive("batch_size", batch_size)
    check_choice(dtype, DTYPES, "dtype")
    if packed_texts is not None:
        require_positive("packed_texts", packed_texts)

    letters = closed_form.config_letters(config)
    bytes_of_number = DTYPES[dtype][3]
    letters |= {"S": seq_len, "B": batch_size, "w": bytes_of_number}
    optional = {"M": max_predictions, "R": spec.selected, "X": packed_texts}
    letters |= {letter: value for letter, value in optional.items() if value is not None}
    trained = None
    if freeze is not None or lora_rank is not None:
        trained = trained_parts(spec, freeze, lora_rank, lora_targets)

    return Account(
        config=config,
        head=spec.head,
        seq_len=seq_len,
        batch_size=batch_size,
        max_predictions=max_predictions,
        dtype=dtype,
        rows=_account_layers(spec, letters),
        trained=trained,
        selected=spec.selected,
        packed_texts=packed_texts,
        num_labels=spec.num_labels,
    )


def _account_layers(spec: GraphSpec, letters: dict[str, int]) -> tuple[LayerAccount, ...]:
    accounts = []
    layers = closed_form.layers(spec)
    closed_forms = closed_form.rows(spec)
    for layer, row in zip(layers, closed_forms, strict=True):
        layer_account = LayerAccount(
            layer=row.layer,
            type=row.type,
            output_shape=row.output_shape,
            connected_to=row.connected_to,
            group=layer.group,
            params=row.params,
            formula=layer.params,
            arithmetic=put_in_numbers(layer.params, letters),
            flops=compute(layer.flops, letters),
            flops_formula=layer.flops,
            activation_bytes=compute(layer.kept, letters),
            activation_formula=layer.kept,
        )
        accounts.append(layer_account)
    return tuple(accounts)


def default_predictions(seq_len: int) -> int:
    """Return 15 % of a sequence, rounded down: 76 of 512 (the paper, section 3.1); at least 1."""
    return max(1, seq_len * 15 // 100)
