"""Texts that the command line prints: results within 80 columns."""

import dataclasses
import textwrap
from collections import Counter
from collections.abc import Sequence

from kbert.checkpoints.weight_names import named_parameters
from kbert.graph import names
from kbert.graph.accounting import DTYPES, Account, account, default_predictions
from kbert.graph.closed_form import config_letters
from kbert.graph.comparison import AccountComparison
from kbert.graph.config import BertConfig
from kbert.graph.published_totals import reconcile_totals
from kbert.heads import HEADS

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


def account_text(title: str, full: Account, every_row: bool = False) -> str:
    """Return an account: steps, groups, training cost, the bridge between totals, conventions."""
    letters = config_letters(full.config) | {"S": full.seq_len, "B": full.batch_size}
    values = [f"{key} = {value:,} {_LETTERS[key]}" for key, value in letters.items()]
    head = f"{title}, head {full.head}, {full.params:,} parameters"
    if full.max_predictions:
        head += f", M = {full.max_predictions} predicted positions"
    parts = values[:4], values[4:6], values[6:]
    sections = ["\n".join([head, *(" · ".join(part) for part in parts)])]
    if HEADS[full.head].predicts_tokens and full.max_predictions is None:
        sections.append(_steps(full))
    if every_row:
        lines: list[Sequence[str]] = [("EVERY ROW", "parameters", "FLOPs", "act. bytes")]
        for row in full.rows:
            counts = (row.params, row.flops, row.activation_bytes)
            lines.append((row.layer, *(f"{count:,}" for count in counts)))
        sections.append(align(lines, gap=1))
    sections += [_groups(full), _training(full)]
    if HEADS[full.head].predicts_tokens:
        steps = [
            f"{one.sign + one.amount:>13}  {one.text}" for one in reconcile_totals(full.config)
        ]
        sections.append("\n".join(["FROM ONE TOTAL TO THE NEXT", *steps]))
    sections.append("CONVENTIONS\n" + "\n".join(paragraph(text) for text in full.conventions))
    return "\n\n".join(sections) + "\n"


def comparison_text(comparison: AccountComparison) -> str:
    """Return models side by side, with the ratio of two."""
    lines: list[Sequence[str]] = [comparison.header]
    for name, *values in comparison.lines:
        lines.append((name, *(f"{n:,}" if isinstance(n, int) else n for n in values)))
    return align(lines) + "\n"


def _steps(full: Account) -> str:
    """Return the 14 steps of the summary; steps 6 to 9 stand for every encoder block."""
    accounts = {row.layer: row for row in full.rows}
    attention, feed_forward = names.ATTENTION, names.FEED_FORWARD
    layers = [
        *(names.TOKEN_IDS, names.TOKEN_EMBEDDING, names.SEGMENT_EMBEDDING),
        *(names.POSITION_EMBEDDING, names.EMBEDDING_NORM),
        *(names.encoder(1, attention), names.encoder(1, attention, "Norm")),
        *(names.encoder(1, feed_forward), names.encoder(1, feed_forward, "Norm")),
        *(names.MLM_DENSE, names.MLM_NORM, names.MLM_SIMILARITY, names.POOLER, names.NSP),
    ]
    title = 'THE 14 STEPS OF "UNDERSTANDING BERT ARCHITECTURE"'
    lines = [f"{title:<52}{'parameters':>28}"]
    for number, name in enumerate(layers, start=1):
        if (row := accounts.get(name)) is None:  # of the family, what has no such layer
            continue
        label, times = name, ""
        if number == 1:
            label = "the three inputs" if full.config.family.segments else "the two inputs"
        elif 6 <= number <= 9:
            label, times = name.replace("-1-", "-n-"), f"{full.config.num_hidden_layers} × "
        lines.append(f"{number:>2}  {label:<48}{times + format(row.params, ','):>28}")
        if row.formula:
            lines.append(f"      {row.formula} = {row.arithmetic}")
    return "\n".join(paragraph(line, 8) if len(line) > _WIDTH else line for line in lines)


def _groups(full: Account) -> str:
    header = ("GROUPS", "parameters", "", "forward FLOPs", "", "activation bytes", "")
    lines: list[Sequence[str]] = [header]
    for name, one in full.groups.items():
        params = f"{one.params:,}", f"{float(one.params_share):.1%}"
        flops = f"{one.flops:,}", f"{float(one.flops_share):.1%}"
        activations = f"{one.activation_bytes:,}", f"{float(one.activation_share):.1%}"
        lines.append((name, *params, *flops, *activations))
    sums = f"{full.params:,}", "", f"{full.flops:,}", "", f"{full.activation_bytes:,}", ""
    lines.append(("total", *sums))
    half = _change(full, dtype="mixed_bfloat16").groups["encoder"].activation_bytes
    per_block = f"{half / full.config.num_hidden_layers / 2**20:,.2f} MiB per block in 16 bits"
    return f"{align(lines)}\nactivations in {full.dtype}; {per_block}"


def align(lines: Sequence[Sequence[str]], gap: int = 2) -> str:
    """Return columns as wide as their longest cell and a gap; all but the first are set right."""
    widths = [max(map(len, column)) + gap for column in zip(*lines, strict=True)]
    widths[0] -= gap
    return "\n".join(_align_line(line, widths) for line in lines)


def _align_line(line: Sequence[str], widths: Sequence[int]) -> str:
    numbers = zip(line[1:], widths[1:], strict=True)
    return (line[0].ljust(widths[0]) + "".join(cell.rjust(n) for cell, n in numbers)).rstrip()


def _training(full: Account) -> str:
    """Return FLOPs and memory of training, with the MLM head on every position and on some."""
    lines = [f"TRAINING, S = {full.seq_len}"]
    if full.trained is not None:
        trained, share = full.trainable_params, full.trainable_params / full.params
        text = f"{trained:,} of {full.params:,} parameters are trained ({share:.2%})"
        if adapters := full.trained.adapter_params:
            count, rank = len(full.trained.adapted), full.trained.rank
            text += f", {adapters:,} of adapters on {count} matrices, rank {rank}"
        lines.append(paragraph(text, 0))
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
    table: list[Sequence[str]] = [("MiB", "weights", "gradients", "Adam", "activations", "total")]
    for dtype in DTYPES:
        for name, variant in variants.items():
            memory = _change(variant, dtype=dtype).memory
            sizes = (memory.weights, memory.gradients, memory.adam, memory.activations)
            cells = (f"{size / 2**20:,.1f}" for size in (*sizes, memory.total))
            table.append((f"{dtype} {name}".strip(), *cells))
    return "\n".join([*lines, *(_align_line(line, (22, 10, 11, 10, 13, 12)) for line in table)])


def _change(full: Account, **changes) -> Account:
    names = ("head", "max_predictions", "num_labels", "packed_texts", "dtype")
    arguments = {name: getattr(full, name) for name in names}
    arguments["selected_positions"] = full.selected is not None
    variant = account(full.config, full.seq_len, full.batch_size, **(arguments | changes))
    return dataclasses.replace(variant, trained=full.trained)


def params_text(config: BertConfig) -> str:
    """Return transformers' named parameters, and their sums by group."""
    parameters = named_parameters(config)
    lines = [f"{len(parameters)} named parameters", f"{'':<55} {'shape':>14} {'numel':>9}"]
    totals: Counter = Counter()
    for entry in parameters:
        lines.append(f"{entry.parameter:<55} {entry.shape!s:>14} {entry.numel:>9}")
        totals[entry.parameter.split(".")[0]] += entry.numel
    sums = {**totals, "total": totals.total()}
    return "\n".join([*lines, "", *(f"{name:<12}{n:>14,}" for name, n in sums.items())]) + "\n"


def heads_text(report) -> str:
    """Return one matrix or one for each head: the slices and the two computations."""
    config, hidden, size = report.config, report.config.hidden_size, report.config.head_size
    heads = config.num_attention_heads
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
    lines += ["", f"Both ways {where}, float32: largest absolute difference"]
    for name in ("W_Q", "W_K", "W_V"):
        text = f"X·{name} and the {heads} products side by side"
        lines.append(f"  {text:<58}{report.differences[name]:.1e}")
    text = f"the whole layer and the sum of its {heads} heads"
    lines.append(f"  {text:<58}{report.differences['layer']:.1e}")
    return "\n".join(lines) + "\n"


def paragraph(text: str, indent: int = 2) -> str:
    """Return a text within 80 columns; its lines after the first are indented."""
    first = " " * max(0, indent - 2) if not text.startswith(" ") else ""
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
