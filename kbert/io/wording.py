"""Wording that errors share: the first few of many, the known name closest to an unknown one."""

import difflib
import re
from collections.abc import Collection, Sequence

from kbert.io import printable


def first_few(texts: Sequence, most: int = 5, between: str = ", ") -> str:
    """Join the first of some texts, each on one line, and say how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return between.join(map(printable.line, texts[:most])) + more


def data_of(place: str) -> str:
    """Return the data that a record is in: "a.tsv" for "a.tsv, line 3", "train" for "train[2]"."""
    return re.sub(r", line \d+$|\[\d+\]$", "", place)


def hint(name, known: Collection[str], what: str) -> str:
    """Suggest the known name that an unknown one was meant to be.

    Every suggestion of kbert comes from here. Only a close name is suggested, by difflib's own
    cutoff, upper and lower case alike.

    Args:
        name: the unknown name.
        known: the known names.
        what: what begins the list of all names where none is close; "": there is no list.
    """
    by_lower = {one.lower(): one for one in reversed(list(known))}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    if close:
        return f"did you mean {by_lower[close[0]]}?"
    return f"{what} {', '.join(known)}" if what else ""
