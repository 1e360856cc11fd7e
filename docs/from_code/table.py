"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], lines: Iterable[Sequence], right: int = 0) -> str:
    """A table; the last `right` columns are set right."""
    rules = ["---"] * (len(header) - right) + ["---:"] * right
    rows = [header, rules, *([cell(value) for value in line] for line in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def cell(value) -> str:
    """A whole number with commas, else the text, on one line, with its bars escaped."""
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return " ".join(text.split()).replace("|", r"\|")
