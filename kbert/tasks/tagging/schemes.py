"""Schemes of entity tags: the ways in which labels of words say where an entity begins and ends.

A label is a tag and the entity's type: B-PER, B_PER, PER-B, PER_B, or B alone. The tags are those
of BIO (IOB1, IOB2), IO, BIOES, and the other letters for the same: BILOU's L and U are E and S, the
M of BMES is I.
"""

import re
from collections.abc import Collection
from typing import NamedTuple

OUTSIDE = "O"
_TAGS = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S", "M": "I"}
_PREFIX = re.compile(r"(?P<tag>[BIESLUM])-(?P<type>.+)", re.DOTALL)
# Other labels look like these too ("vitamin-B"), so only data with O have them.
_RARER = (
    re.compile(r"(?P<tag>[BIESLUM])_(?P<type>.+)", re.DOTALL),
    re.compile(r"(?P<type>.+)-(?P<tag>[BIESLUM])", re.DOTALL),
    re.compile(r"(?P<type>.+)_(?P<tag>[BIESLUM])", re.DOTALL),
)
_BARE = re.compile(r"(?P<tag>[BIESLUM])(?P<type>)")


class Scheme(NamedTuple):
    """The labels of a tagger as tags of entities.

    Attributes:
        tags: by label, O or a tag of BIOES, "-" and the type, which may be empty.
        odd: labels that are no tags of entities; their tag is O.
    """

    tags: dict[str, str]
    odd: tuple[str, ...]

    @property
    def types(self) -> tuple[str, ...]:
        """Types of the entities, sorted."""
        return tuple(sorted({tag[2:] for tag in self.tags.values() if tag != OUTSIDE}))


def find_scheme(labels: Collection[str]) -> Scheme | None:
    """Return the scheme of a tagger's labels; None if they are no tags of entities.

    There may be odd labels beside the tags (X, PAD), as many as there are tags at most.
    """
    tags = _read_tags(labels, _PREFIX)
    if OUTSIDE in labels:
        rarer = [_read_tags(labels, pattern) for pattern in _RARER]
        tags = max([tags, *rarer], key=len)  # the first of equals
    tags = tags or _read_bare(labels)

    odd = tuple(label for label in labels if label not in tags and label != OUTSIDE)
    if not tags or len(odd) > len(tags):
        return None
    return Scheme(dict.fromkeys(labels, OUTSIDE) | tags, odd)


def _read_tags(labels: Collection[str], pattern: re.Pattern) -> dict[str, str]:
    """Return the labels that match, by label as "B-type"."""
    matches = {label: pattern.fullmatch(label) for label in labels}
    return {
        label: f"{_TAGS[match['tag']]}-{match['type']}" for label, match in matches.items() if match
    }


def _read_bare(labels: Collection[str]) -> dict[str, str]:
    """Return tags without a type: B and others, and nothing else but O; or none."""
    tags = _read_tags(labels, _BARE)
    others = {*labels} - {"B"}
    is_scheme = "B" in tags and others <= {*_TAGS, OUTSIDE} and others & {OUTSIDE, "I", "E"}
    return tags if is_scheme else {}
