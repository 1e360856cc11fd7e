"""Texts that the command line prints: results within 80 columns."""

import dataclasses
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from kbert.checkpoints.weight_names import named_parameters
from kbert.graph import names
from kbert.graph.accounting import DTYPES, Account, account, default_predictions
from kbert.graph.closed_form import config_letters
from kbert.graph.comparison import AccountComparison
from kbert.graph.config import BertConfig
from kbert.graph.published_totals import reconcile_totals
from kbert.graph.trained_parts import TrainedParts
from kbert.heads import HEADS
from kbert.io.row_formats import align

_WIDTH = 80
_LETTERS = {
    "T": "tokens",
    "H": "hidden size",
    "A": "heads",
    "L": "layers",
    "P": "positions",
    "FFD": "feed-forward",
    "S": "sequence length",
    "B": "batch size",
}
_STEPS = (  # of the summary, with the first block's layers
    names.TOKEN_IDS,
    names.TOKEN_EMBEDDING,
    names.SEGMENT_EMBEDDING,
    names.POSITION_EMBEDDING,
    names.EMBEDDING_NORM,
    names.encoder(1, names.ATTENTION),
    names.encoder(1, names.ATTENTION, "Norm"),
    names.encoder(1, names.FEED_FORWARD),
    names.encoder(1, names.FEED_FORWARD, "Norm"),
    names.MLM_DENSE,
    names.MLM_NORM,
    names.MLM_SIMILARITY,
    names.POOLER,
    names.NSP,
)
_STEPS_OF_BLOCK = range(6, 10)


def account_text(title: str, full: Account, every_row: bool = False) -> str:
    """Return an account: steps, groups, training cost, the bridge between totals, conventions."""
    predicts_tokens = HEADS[full.head].predicts_tokens
    sections = [_heading(title, full)]
    if predicts_tokens and full.max_predictions is None:
        sections.append(_steps(full))
    if every_row:
        sections.append(_every_row(full))

    sections.append(_groups(full))
    sections.append(_training(full))
    if predicts_tokens:
        sections.append(_totals(full.config))
    conventions = [paragraph(text) for text in full.conventions]
    sections.append("\n".join(["CONVENTIONS", *conventions]))
    return "\n\n".join(sections) + "\n"


def _heading(title: str, full: Account) -> str:
    """Return the model and its sizes in letters."""
    text = f"{title}, head {full.head}, {full.params:,} parameters"
    if full.max_predictions:
        text += f", M = {full.max_predictions} predicted positions"

    letters = config_letters(full.config)
    letters |= {"S": full.seq_len, "B": full.batch_size}
    values = [f"{key} = {value:,} {_LETTERS[key]}" for key, value in letters.items()]
    lines = [text]
    for line in (values[:4], values[4:6], values[6:]):
        lines.append(" · ".join(line))
    return "\n".join(lines)


def _every_row(full: Account) -> str:
    lines: list[Sequence[str]] = [("EVERY ROW", "parameters", "FLOPs", "act. bytes")]
    for row in full.rows:
        counts = f"{row.params:,}", f"{row.flops:,}", f"{row.activation_bytes:,}"
        lines.append((row.layer, *counts))
    return align(lines, gap=1)


def _totals(config: BertConfig) -> str:
    """Return how one published total becomes the next."""
    lines = ["FROM ONE TOTAL TO THE NEXT"]
    for step in reconcile_totals(config):
        lines.append(f"{step.sign + step.amount:>13}  {step.text}")
    return "\n".join(lines)


def comparison_text(comparison: AccountComparison) -> str:
    """Return models side by side, with the ratio of two."""
    lines: list[Sequence[str]] = [comparison.header]
    for name, *values in comparison.lines:
        cells = []
        for value in values:
            is_count = isinstance(value, int)
            cells.append(f"{value:,}" if is_count else value)
        lines.append((name, *cells))
    return align(lines) + "\n"


def _steps(full: Account) -> str:
    """Return the 14 steps of the summary; steps 6 to 9 stand for every encoder block."""
    accounts = {row.layer: row for row in full.rows}
    title = 'THE 14 STEPS OF "UNDERSTANDING BERT ARCHITECTURE"'
    lines = [f"{title:<52}{'parameters':>28}"]
    for number, name in enumerate(_STEPS, start=1):
        if name not in accounts:  # a family without this layer
            continue
        row = accounts[name]
        label = name
        params = f"{row.params:,}"
        if number == 1:
            label = "the three inputs" if full.config.family.segments else "the two inputs"
        elif number in _STEPS_OF_BLOCK:
            label = name.replace("-1-", "-n-")
            params = f"{full.config.num_hidden_layers} × {params}"
        lines.append(f"{number:>2}  {label:<48}{params:>28}")
        if row.formula:
            lines.append(f"      {row.formula} = {row.arithmetic}")

    wrapped = []
    for line in lines:
        is_long = len(line) > _WIDTH
        wrapped.append(paragraph(line, 8) if is_long else line)
    return "\n".join(wrapped)


def _groups(full: Account) -> str:
    header = ("GROUPS", "parameters", "", "forward FLOPs", "", "activation bytes", "")
    lines: list[Sequence[str]] = [header]
    for name, group in full.groups.items():
        params = f"{group.params:,}", f"{float(group.params_share):.1%}"
        flops = f"{group.flops:,}", f"{float(group.flops_share):.1%}"
        activations = f"{group.activation_bytes:,}", f"{float(group.activation_share):.1%}"
        lines.append((name, *params, *flops, *activations))
    sums = f"{full.params:,}", "", f"{full.flops:,}", "", f"{full.activation_bytes:,}", ""
    lines.append(("total", *sums))

    half = _change(full, dtype="mixed_bfloat16").groups["encoder"].activation_bytes
    per_block = f"{half / full.config.num_hidden_layers / 2**20:,.2f} MiB per block in 16 bits"
    return f"{align(lines)}\nactivations in {full.dtype}; {per_block}"


def _training(full: Account) -> str:
    """Return FLOPs and memory of training, with the MLM head on every position and on some."""
    lines = [f"TRAINING, S = {full.seq_len}"]
    if full.trained is not None:
        lines.append(paragraph(_describe_trained(full, full.trained), 0))

    variants = {"": full}
    if HEADS[full.head].predicts_tokens and full.max_predictions is None:
        predictions = default_predictions(full.seq_len)
        some = _change(full, max_predictions=predictions)
        variants = {"full": full, f"M={predictions}": some}
        lines.append(
            f"The MLM head on all {full.seq_len} positions (full), or on the {predictions} "
            f"predicted (M={predictions})."
        )
    for name, variant in variants.items():
        flops = variant.training_flops_per_sequence
        lines.append(f"{name:<6}{flops:>22,} FLOPs per sequence ({flops:.4e})")
    return "\n".join([*lines, _training_memory(variants)])


def _describe_trained(full: Account, trained: TrainedParts) -> str:
    params = full.trainable_params
    share = params / full.params
    text = f"{params:,} of {full.params:,} parameters are trained ({share:.2%})"
    if trained.adapter_params:
        matrices = f"{len(trained.adapted)} matrices, rank {trained.rank}"
        text += f", {trained.adapter_params:,} of adapters on {matrices}"
    return text


def _training_memory(variants: Mapping[str, Account]) -> str:
    """Return the table of what training keeps in memory, by dtype and variant."""
    header = ("MiB", "weights", "gradients", "Adam", "activations", "total")
    table: list[Sequence[str]] = [header]
    for dtype in DTYPES:
        for name, variant in variants.items():
            memory = _change(variant, dtype=dtype).memory
            sizes = [
                memory.weights,
                memory.gradients,
                memory.adam,
                memory.activations,
                memory.total,
            ]
            cells = [f"{size / 2**20:,.1f}" for size in sizes]
            label = f"{dtype} {name}".strip()
            table.append((label, *cells))
    return align(table, 0, (22, 10, 11, 10, 13, 12))


def _change(full: Account, **changes) -> Account:
    names = ("head", "max_predictions", "num_labels", "packed_texts", "dtype")
    arguments = {name: getattr(full, name) for name in names}
    arguments["selected_positions"] = full.selected is not None
    arguments |= changes
    variant = account(full.config, full.seq_len, full.batch_size, **arguments)
    return dataclasses.replace(variant, trained=full.trained)


def params_text(config: BertConfig) -> str:
    """Return transformers' named parameters, and their sums by group."""
    parameters = named_parameters(config)
    lines = [f"{len(parameters)} named parameters", f"{'':<55} {'shape':>14} {'numel':>9}"]
    totals: Counter = Counter()
    for entry in parameters:
        lines.append(f"{entry.parameter:<55} {entry.shape!s:>14} {entry.numel:>9}")
        totals[entry.parameter.split(".")[0]] += entry.numel
    lines.append("")
    sums = {**totals, "total": totals.total()}
    lines += [f"{name:<12}{numel:>14,}" for name, numel in sums.items()]
    return "\n".join(lines) + "\n"


def heads_text(report) -> str:
    """Return one matrix or one for each head: the slices and the two computations."""
    hidden = report.config.hidden_size
    size = report.config.head_size
    heads = report.config.num_attention_heads
    lines = [
        f"One W_Q of {hidden} × {hidden} is {heads} matrices of {hidden} × {size}, side by side:",
        f"  [X·W_1 … X·W_{heads}] = X·[W_1 … W_{heads}]",
        f"  {hidden}·{hidden} = {heads}·({hidden}·{size}) = {hidden * hidden:,} weights; "
        "the same for W_K and W_V",
        "",
        "head  columns of W_Q      shape           weights",
    ]
    for head, first, last in report.slices:
        columns = f"{first} … {last}"
        shape = f"({hidden}, {size})"
        lines.append(f"{head:>4}  {columns:<18}  {shape:<14}{hidden * size:>9,}")

    where = "on a real layer" if report.built else "in NumPy (--built: on Keras's layer)"
    lines += ["", f"Largest absolute difference in float32, {where}:"]
    for name in ("W_Q", "W_K", "W_V"):
        text = f"X·{name} and the {heads} products side by side"
        lines.append(f"  {text:<58}{report.differences[name]:.1e}")
    text = f"the whole layer and the sum of its {heads} heads"
    lines.append(f"  {text:<58}{report.differences['layer']:.1e}")
    return "\n".join(lines) + "\n"


def paragraph(text: str, indent: int = 2) -> str:
    """Return a text within 80 columns; its lines after the first are indented."""
    first = ""
    if not text.startswith(" "):
        first = " " * max(0, indent - 2)
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
