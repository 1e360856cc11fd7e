"""Numbers as a line has room for them."""


def duration(seconds: float) -> str:
    """As 3d04h, 3h05m, 2m10s or 7s."""
    seconds = max(0, round(seconds))
    for size, unit, inner, inner_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // inner:02d}{inner_unit}"
    return f"{seconds // 60}m{seconds % 60:02d}s" if seconds >= 60 else f"{seconds}s"


def short(number: float) -> str:
    """As 1.23M, 45.6k or 789."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"
