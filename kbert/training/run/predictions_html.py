"""A run's predictions for its dev data as HTML: tables, a picture, the worst examples."""

import math
from collections.abc import Sequence
from html import escape

from kbert.io import printable
from kbert.training.run.curves import draw_points
from kbert.training.run.predictions import (
    AnswerProb,
    LabelScores,
    PredictedExample,
    Predictions,
    TextPiece,
)

# Around the section: a resumed run's page keeps that of its last evaluation.
BEGIN, END = "<!--predictions-->", "<!--end of predictions-->"
_SHADES = 10  # of a cell of the confusion matrix
_IN_SIGHT = 8  # examples; the others are folded
_LONGEST_TEXT, _LONGEST_LABEL = 600, 60  # characters
# labels and characters above columns; of more they stand upright
_MOST_LEVEL, _LONGEST_LEVEL = 8, 12
_MOST_SCORES = 200  # labels of the table; of more the most frequent ones
_PRIVACY = (
    "These texts are from your dev data, and this page is a file in the run’s folder: remember it "
    "before you pass the folder on. kbert finetune --no-report-examples leaves them out."
)


def write_section(predictions: Predictions, step: int, with_examples: bool) -> str:
    """Return the section of the predictions that were made after a step."""
    sections = [
        _write_matrix(predictions),
        _write_scores(predictions),
        draw_points(predictions.points, predictions.axes),
    ]
    shown = "".join(sections)
    examples = _write_examples(predictions) if with_examples else ""
    if not shown and not examples:
        return ""
    note = f"<p class=small>{escape(predictions.note)}</p>" if predictions.note else ""
    about = f"{predictions.count:,} {predictions.what}, after step {step:,}"
    return (
        f"{BEGIN}<h2>Predictions <span class=dim>{escape(about)}</span></h2>"
        f"<div class=predictions>{shown}</div>{note}{examples}{END}"
    )


def find_section(page: str) -> str:
    """Return the section in a page that was written before; "" if there is none."""
    _, beginning, rest = page.partition(BEGIN)
    section, ended, _ = rest.partition(END)
    return BEGIN + section + END if beginning and ended else ""


def _write_matrix(predictions: Predictions) -> str:
    """Return the confusion matrix: rows of the data's labels, columns of predicted ones."""
    labels = [_cut_label(label) for label in predictions.labels]
    if not labels:
        return ""

    longest = max(len(label) for label in predictions.labels)
    is_upright = len(labels) > _MOST_LEVEL or longest > _LONGEST_LEVEL
    heads = "".join(f'<th scope="col">{label}</th>' for label in labels)
    lines = []
    counts_of_labels = zip(labels, predictions.matrix, strict=True)
    for row, (label, counts) in enumerate(counts_of_labels):
        cells = _write_cells(counts, row)
        lines.append(f'<tr><th scope="row">{label}</th>{cells}</tr>')
    return (
        "<section><h3>Confusion matrix</h3><p class=small>Rows are the labels of the data, columns "
        'the predicted ones.</p><div class="table" tabindex="0">'
        f'<table class="matrix{" upright" if is_upright else ""}">'
        f"<thead><tr><td></td>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div></section>"
    )


def _write_cells(counts: Sequence[int], row: int) -> str:
    """Return the cells of a row of the confusion matrix, which hits in the column of its number."""
    total = sum(counts)
    cells = []
    for column, count in enumerate(counts):
        kind = "hit" if column == row else "miss"
        cells.append(f'<td class="{kind} s{_shade(count, total)}">{count:,}</td>')
    return "".join(cells)


def _shade(count: int, total: int) -> int:
    """Return how dark a cell is: by its share of the row, never white where there is something."""
    if not count:
        return 0
    shade = round(_SHADES * count / total)
    return max(1, shade)


def _write_scores(predictions: Predictions) -> str:
    if not predictions.label_scores:
        return ""
    name = escape(predictions.scored)
    scores = predictions.label_scores
    note = "Support: how often it is in the data."
    if len(scores) > _MOST_SCORES:
        note += f" The {_MOST_SCORES} most frequent of {len(scores):,}."
        scores = sorted(scores, key=lambda row: -row.support)
        scores = scores[:_MOST_SCORES]

    fields = LabelScores._fields[1:]
    heads = "".join(f'<th class="n" scope="col">{field}</th>' for field in fields)
    lines = []
    for row in scores:
        ratios = (row.precision, row.recall, row.f1)
        cells = "".join(f'<td class="n">{ratio:.1%}</td>' for ratio in ratios)
        lines.append(
            f'<tr><th scope="row">{_cut_label(row.label)}</th>{cells}'
            f'<td class="n">{row.support:,}</td></tr>'
        )
    return (
        f"<section><h3>Each {name}</h3><p class=small>{note}</p>"
        '<div class="table" tabindex="0"><table class="scores">'
        f'<thead><tr><th scope="col">{name}</th>{heads}</tr>'
        f"</thead><tbody>{''.join(lines)}</tbody></table></div></section>"
    )


def _write_examples(predictions: Predictions) -> str:
    examples = predictions.examples
    if not examples:
        return ""
    items = [_write_example(example, predictions.error) for example in examples]
    rest = items[_IN_SIGHT:]
    folded = ""
    if rest:
        folded = (
            f"<details data-name=examples><summary>{len(rest)} more</summary>"
            f'<ol class="examples" start="{_IN_SIGHT + 1}">{"".join(rest)}</ol></details>'
        )
    return (
        f"<h2>Worst examples <span class=dim>by {escape(predictions.error)}</span></h2>"
        f'<ol class="examples">{"".join(items[:_IN_SIGHT])}</ol>{folded}'
        f"<p class=small>{_PRIVACY}</p>"
    )


def _write_example(example: PredictedExample, error: str) -> str:
    texts = "".join(f'<p dir="auto">{_write_pieces(pieces)}</p>' for pieces in example.texts)
    answers = ""
    if example.gold:
        answers += f"<dt>data</dt><dd>{_write_answers(example.gold)}</dd>"
    kind = "wrong" if example.is_wrong else "right"
    answers += f'<dt>model</dt><dd class="{kind}">{_write_answers(example.predicted)}</dd>'
    where = escape(printable.line(_shorten_location(example.location)))
    size = f"{example.error:.3g}" if math.isfinite(example.error) else "not finite"
    facts = f"{where} · {escape(error)} {size}"
    return f'<li><div>{texts}<p class="small">{facts}</p></div><dl>{answers}</dl></li>'


def _write_pieces(pieces: tuple[TextPiece, ...]) -> str:
    left = _LONGEST_TEXT
    html = ""
    for text, mark in pieces:
        if left <= 0:
            return html + " …"
        in_one_line = " ".join(text[:left].splitlines())
        shown = escape(printable.line(in_one_line))
        left -= len(text)
        if mark:
            label = ""
            if mark != "predicted":
                label = f"<i>{escape(printable.cut(mark, _LONGEST_LABEL))}</i>"
            shown = f"<mark>{shown}{label}</mark>"
        html += shown
    return f"{html}…" if left < 0 else html


def _write_answers(answers: tuple[AnswerProb, ...]) -> str:
    written = []
    for text, prob in answers:
        answer = f"<b>{escape(printable.cut(text, 2 * _LONGEST_LABEL))}</b>"
        if prob is not None:
            answer += f" {_write_prob(prob)}"
        written.append(answer)
    return ", ".join(written)


def _write_prob(prob: float) -> str:
    """Return a probability in percent, with the digits that tell it from 0 and 1."""
    if not math.isfinite(prob):
        return "not finite"
    return f"{prob:.1%}" if prob < 0.01 or prob > 0.99 else f"{prob:.0%}"


def _cut_label(label: str) -> str:
    return escape(printable.cut(label, _LONGEST_LABEL))


def _shorten_location(location: str) -> str:
    """Return the location without folders: the page may be passed on."""
    return location.replace("\\", "/").rpartition("/")[2]
