"""What errors say alike: the first few of many, the nearest name to one that is unknown."""

import difflib
from collections.abc import Collection, Sequence


def first_few(texts: Sequence, most: int = 5, between: str = ", ") -> str:
    """The first of some texts, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return between.join(map(str, texts[:most])) + more


def hint(name, known: Collection[str], what: str) -> str:
    """The known name that is nearest to one that is unknown, else all of them, behind `what`."""
    near = difflib.get_close_matches(str(name), known, n=1)
    return f"did you mean {near[0]}?" if near else f"{what} {', '.join(known)}"
