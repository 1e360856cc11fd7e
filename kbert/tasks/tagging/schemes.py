"""Schemes of entity tags: the ways in which labels of words say where an entity begins and ends.

A label is a tag and the entity's type: B-PER, B_PER, PER-B, PER_B, or B alone. The tags are those
of BIO (IOB1, IOB2), IO, BIOES, and the other letters for the same: BILOU's L and U are E and S, the
M of BMES is I.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

OUTSIDE = "O"
_TAGS = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S", "M": "I"}
# Tags of which a type has one where it has the tag: each scheme ends or goes on what it began.
_COMPANIONS = {"E": "BI", "L": "B", "M": "B"}
_PREFIX = re.compile(r"(?P<tag>[BIESLUM])-(?P<type>.+)", re.DOTALL)
# Other labels look like these too ("vitamin-B"), so only data with O, and with B and I of a type,
# have them.
_RARER = (
    re.compile(r"(?P<tag>[BIESLUM])_(?P<type>.+)", re.DOTALL),
    re.compile(r"(?P<type>.+)-(?P<tag>[BIESLUM])", re.DOTALL),
    re.compile(r"(?P<type>.+)_(?P<tag>[BIESLUM])", re.DOTALL),
)
_BARE = re.compile(r"(?P<tag>[BIESLUM])(?P<type>)")
_FILLER = re.compile(r"X|\W*(PAD|CLS|SEP|UNK)\W*", re.IGNORECASE)  # labels of no word


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
        inside = {*self.tags.values()} - {OUTSIDE}
        types = {tag[2:] for tag in inside}
        return tuple(sorted(types))

    def read(self, sentences: Iterable[Sequence[str]]) -> list[list[str]]:
        """Return the tags of the labels of sentences' words."""
        tags = []
        for labels in sentences:
            tags.append([self.tags[label] for label in labels])
        return tags


def find_scheme(labels: Collection[str]) -> Scheme | None:
    """Return the scheme of a tagger's labels; None if they are no tags of entities.

    There may be odd labels beside the tags: fillers (X, PAD), and half as many others as there are
    tags at most. Where there is neither B nor I, there may be only fillers.
    """
    tags = _read_tags(labels, _PREFIX)
    if OUTSIDE in labels:
        for pattern in _RARER:
            candidate = _read_tags(labels, pattern)
            if _has_both(candidate) and len(candidate) > len(tags):
                tags = candidate
    if not tags:
        tags = _read_bare(labels)

    odd = tuple(label for label in labels if label not in tags and label != OUTSIDE)
    unknown = [label for label in odd if not _FILLER.fullmatch(label)]
    begins = any(tag[0] in "BI" for tag in tags.values())
    has_many_unknown = 2 * len(unknown) > len(tags)
    if not tags or has_many_unknown or (unknown and not begins):
        return None
    return Scheme(dict.fromkeys(labels, OUTSIDE) | tags, odd)


def _read_tags(labels: Collection[str], pattern: re.Pattern) -> dict[str, str]:
    """Return the labels that match, by label as "B-type", except those that fit no scheme."""
    matches = {}
    letters_of_type: dict[str, str] = {}
    for label in labels:
        match = pattern.fullmatch(label)
        if match:
            matches[label] = match
            entity_type = match["type"]
            letters = letters_of_type.get(entity_type, "")
            letters_of_type[entity_type] = letters + match["tag"]

    is_ioe = _is_ioe(letters_of_type.values())
    tags = {}
    for label, match in matches.items():
        letter = match["tag"]
        entity_type = match["type"]
        companions = _COMPANIONS.get(letter)
        letters_with_type = {*letters_of_type[entity_type]}
        if companions is None or is_ioe or {*companions} & letters_with_type:
            tags[label] = f"{_TAGS[letter]}-{entity_type}"
    return tags


def _is_ioe(letters_of_types: Collection[str]) -> bool:
    """Return whether tags may be of IOE2, which has no B: an entity of one word is E."""
    all_letters = {*"".join(letters_of_types)}
    if all_letters & {*"BSLUM"}:
        return False
    return any("I" in letters and "E" in letters for letters in letters_of_types)


def _has_both(tags: dict[str, str]) -> bool:
    """Return whether there are a B and an I of the same type."""
    values = {*tags.values()}
    begins = [tag for tag in values if tag[0] == "B"]
    return any(f"I{tag[1:]}" in values for tag in begins)


def _read_bare(labels: Collection[str]) -> dict[str, str]:
    """Return tags without a type: B and others, and nothing else but O; or none."""
    rest = {*labels} - {"B"}
    are_tags = "B" in labels and rest <= {*_TAGS, OUTSIDE}
    if not are_tags or not rest & {OUTSIDE, "I", "E"}:
        return {}
    return _read_tags(labels, _BARE)
