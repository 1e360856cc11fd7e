"""Figures of turns: a turn is a dict with its contender, heat and round, and what was measured."""

import math
import statistics


def of(turns: list[dict], name: str, figure: str = "seconds") -> list[float]:
    """A contender's figures, in the order of its turns."""
    return [turn[figure] for turn in turns if turn["contender"] == name and figure in turn]


def middle(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0


def quartiles(values: list[float]) -> tuple[float, float]:
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def exponent(sizes: list[float], values: list[float]) -> float:
    """k of value = c · size^k, by least squares of the logarithms."""
    line = statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(value) for value in values]
    )
    return line.slope
