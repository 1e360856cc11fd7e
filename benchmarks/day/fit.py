"""What the runs say: tables, a fit of the loss over size and tokens, and what it predicts.

`python -m benchmarks.day.fit` prints the tables of docs/how_to/bert_in_a_day.md and draws its chart
from results.jsonl. The fit is Hoffmann et al. 2022 (arXiv 2203.15556), section 3.3: loss = E +
A / N^a + B / D^b with N parameters without the token table and D tokens, by Huber's loss (1e-3) of
the logarithms, from several starts.
"""

import itertools
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from benchmarks.day.runs import RECIPES, SIZES, read_results
from kbert.io import palette

CHART = Path(__file__).parents[2] / "docs" / "how_to" / "bert_in_a_day.svg"
DAY = 86_400  # seconds
UTILIZATION = 0.4
# TFLOP/s in bfloat16, as `kbert plan` has them
DEVICES = {"A100": 312, "H100": 989, "RTX 4090": 165.2, "v5e-8": 8 * 197}
HUBER = 1e-3


class Fit(NamedTuple):
    """Parameters of the loss, and the residuals of the runs that they were fitted to."""

    floor: float
    size_factor: float
    size_power: float
    token_factor: float
    token_power: float
    residuals: np.ndarray

    def predict(self, parameters, tokens):
        """The loss after some tokens, of a model with some parameters."""
        of_size = self.size_factor / parameters**self.size_power
        return self.floor + of_size + self.token_factor / tokens**self.token_power


def fit_loss(parameters, tokens, losses) -> Fit:
    """Fit the five parameters to runs, from several starts."""
    size, data, target = (
        np.log(np.asarray(values, float)) for values in (parameters, tokens, losses)
    )

    def predict(theta):
        floor, factor, power, token_factor, token_power = theta
        terms = [
            np.full_like(size, floor),
            factor - power * size,
            token_factor - token_power * data,
        ]
        return np.logaddexp.reduce(terms, axis=0)

    def cost(theta):
        error = np.abs(predict(theta) - target)
        huber = np.where(error < HUBER, error**2 / 2, HUBER * (error - HUBER / 2))
        return huber.sum()

    starts = itertools.product([-1, 1.5], [0, 8], [0.1, 0.5], [0, 8], [0.1, 0.5])
    bounds = [(-5, 2), (-5, 25), (0, 2), (-5, 25), (0, 2)]
    best = min(
        (minimize(cost, start, method="L-BFGS-B", bounds=bounds) for start in starts),
        key=lambda found: found.fun,
    )
    floor, factor, power, token_factor, token_power = best.x
    residuals = np.exp(target) - np.exp(predict(best.x))
    return Fit(
        math.exp(floor),
        math.exp(factor),
        power,
        math.exp(token_factor),
        token_power,
        residuals,
    )


def read_ends(recipe: str) -> list[tuple[dict, dict]]:
    """The runs of a recipe, each with its last evaluation."""
    runs = [run for run in read_results() if run["recipe"] == recipe]
    runs.sort(key=lambda run: (SIZES.index(run["size"]), run["minutes"]))
    return [(run, run["points"][-1]) for run in runs]


def fit_recipe(ends) -> Fit:
    """Fit the loss at the ends of runs."""
    parameters = [run["parameters"] for run, _ in ends]
    tokens = [end["tokens"] for _, end in ends]
    losses = [end["loss"] for _, end in ends]
    return fit_loss(parameters, tokens, losses)


def count_base() -> tuple[int, dict[str, int]]:
    """The parameters of base without its token table; by recipe, training FLOPs per token."""
    import kbert

    config = kbert.get_config("base")
    flops = {}
    for recipe, predictions in (("original", 20), ("cramming", 32)):
        costs = kbert.account(config, 128, max_predictions=predictions)
        flops[recipe] = costs.training_flops / 128
    return costs.params - config.vocab_size * config.hidden_size, flops


def predict_base() -> dict[str, dict[str, tuple[float, float, float, float]]]:
    """By recipe and device: tokens of a day, the loss, and the range when one run is left out."""
    parameters, flops = count_base()
    predicted: dict[str, dict] = {}
    for recipe in RECIPES:
        ends = read_ends(recipe)
        fits = [fit_recipe(ends)]
        for left in range(len(ends)):
            others = ends[:left] + ends[left + 1 :]
            fits.append(fit_recipe(others))
        predicted[recipe] = {}
        for device, peak in DEVICES.items():
            tokens = UTILIZATION * peak * 1e12 * DAY / flops[recipe]
            losses = [fit.predict(parameters, tokens) for fit in fits]
            predicted[recipe][device] = tokens, losses[0], min(losses), max(losses)
    return predicted


def write_runs() -> str:
    """The table of all runs, with the residuals of the fit."""
    lines = ["| recipe | model | minutes | steps | tokens | FLOPs | loss | fit − loss |"]
    lines.append("|---|---|--:|--:|--:|--:|--:|--:|")
    for recipe in RECIPES:
        ends = read_ends(recipe)
        residuals = fit_recipe(ends).residuals
        for (run, end), residual in zip(ends, residuals, strict=True):
            cells = [recipe, run["size"], run["minutes"], f"{run['steps']:,}"]
            cells += [f"{end['tokens'] / 1e6:.2f} M", f"{end['flops']:.2e}", f"{end['loss']:.3f}"]
            lines.append("| " + " | ".join(map(str, [*cells, f"{-residual:+.3f}"])) + " |")
    return "\n".join(lines)


def write_fits() -> str:
    """The table of the fits' parameters."""
    lines = ["| recipe | E | A | a | B | b | largest residual |", "|---|--:|--:|--:|--:|--:|--:|"]
    for recipe in RECIPES:
        fit = fit_recipe(read_ends(recipe))
        numbers = [f"{number:.3g}" for number in fit[:5]]
        largest = np.abs(fit.residuals).max()
        lines.append("| " + " | ".join([recipe, *numbers, f"{largest:.3f}"]) + " |")
    return "\n".join(lines)


def write_predictions() -> str:
    """The table of what the fits predict for base in a day."""
    lines = ["| device | tokens | `original` | `cramming` |", "|---|--:|--:|--:|"]
    predicted = predict_base()
    for device in DEVICES:
        cells = [device, f"{predicted['original'][device][0] / 1e9:.1f} G"]
        for recipe in RECIPES:
            _, loss, least, most = predicted[recipe][device]
            cells.append(f"{loss:.2f} ({least:.2f} … {most:.2f})")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw_chart() -> str:
    """The losses against tokens and against FLOPs, as SVG."""
    width, height, gap = 400, 230, 40
    colours = dict(zip(RECIPES, (palette.ORANGE.light, palette.WEIGHTS["light"][4]), strict=True))
    dashes = dict(zip(SIZES, ("2 2", "6 3", "none"), strict=True))
    runs = read_results()
    losses = [point["loss"] for run in runs for point in run["points"]]
    low, high = min(losses) - 0.1, max(losses) + 0.1
    parts = []
    for panel, quantity in enumerate(("tokens", "flops")):
        values = [math.log10(point[quantity]) for run in runs for point in run["points"]]
        left, right = min(values), max(values)
        top = panel * (height + gap) + 62

        def place(point, left=left, right=right, top=top, quantity=quantity):
            x = 40 + (width - 60) * (math.log10(point[quantity]) - left) / (right - left)
            return x, top + height * (high - point["loss"]) / (high - low)

        parts.append(_text(40, top - 8, f"held-out MLM loss against {_NAMES[quantity]}"))
        for loss in range(math.ceil(low), math.floor(high) + 1):
            _, y = place({quantity: 10**left, "loss": loss})
            parts.append(f'<path d="M40 {y:.1f}H{width - 20}" stroke="#bbb" stroke-width="0.5"/>')
            parts.append(_text(20, y + 4, str(loss)))
        for power in range(math.ceil(left), math.floor(right) + 1):
            x, _ = place({quantity: 10**power, "loss": low})
            parts.append(_text(x - 12, top + height + 16, f"1e{power}"))
        for run in runs:
            points = [place(point) for point in run["points"]]
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            style = f'stroke="{colours[run["recipe"]]}" stroke-dasharray="{dashes[run["size"]]}"'
            parts.append(f'<path d="M{path}" fill="none" {style}/>')
            x, y = points[-1]
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colours[run["recipe"]]}"/>'
            )
    for number, recipe in enumerate(RECIPES):
        parts.append(_text(40 + 110 * number, 16, recipe, colours[recipe]))
    legend = ", ".join(f"{size} {style}" for size, style in zip(SIZES, _STYLES, strict=True))
    parts.append(_text(40, 32, legend))
    total = 2 * (height + gap) + 52
    size = f'width="{width}" height="{total}" viewBox="0 0 {width} {total}"'
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
    paper = f'<rect width="{width}" height="{total}" fill="{palette.PAPER.light}"/>'
    return "\n".join([begin, paper, *parts, "</svg>\n"])


_NAMES = {"tokens": "tokens", "flops": "FLOPs of training"}
_STYLES = ("dotted", "dashed", "solid")


def _text(x: float, y: float, text: str, colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" fill="{colour}">{text}</text>'


def write_tables() -> list[str]:
    """The tables of the page: runs, fits, predictions."""
    return [write_runs(), write_fits(), write_predictions()]


def main() -> None:
    for table in write_tables():
        print(table, end="\n\n")
    CHART.write_text(draw_chart(), encoding="utf-8")


if __name__ == "__main__":
    main()
