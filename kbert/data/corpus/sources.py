"""Sources of a corpus: texts with a name, and the share of the tokens that each shall have."""

import math
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kbert.data.corpus.text_files import find_files
from kbert.io.wording import name_setting

_NAMED = re.compile(r"([A-Za-z][\w-]*)=(.+)", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """Files that are read one after the other.

    Attributes:
        name: None: the corpus has no names.
        text_column: the field of a JSON line, or the column of a table, that holds the text.
        weight: its share of the tokens, more than 0; None: all of its text is taken.
    """

    name: str | None
    files: list[Path]
    text_column: str
    weight: float | None = None


def find_sources(
    corpus,
    mix: Mapping[str, float] | str | None = None,
    text_column: str | Mapping[str, str] = "text",
) -> list[Source]:
    """Return the sources of a corpus, in their order.

    Args:
        corpus: see `text_files.find_files`; or a dict of such, by name; or texts "NAME=PATH", where
            a name may come several times.
        mix: the sources' shares of the tokens, by name, or "wiki=0.7,books=0.3"; their sum counts
            as 1. None: all text, one source after the other.
        text_column: the column of the texts; or the sources' columns by name, or
            "wiki=text,books=body".

    Raises:
        OSError: as of `find_files`.
        ValueError: some sources without a name, or of another name than a share or a column; a
            file of two sources.
    """
    entries = _sort_by_name(corpus)
    weights = _read_mix(mix)
    names = list(entries)
    if mix is not None:
        _check_names("mix", "a share", weights, names)
    if None in entries and len(entries) > 1:
        raise ValueError(
            "the corpus must have a name for each source or for none, got "
            f"{entries[None][0]!r} without one: write NAME=PATH"
        )

    columns = _read_columns(text_column, names)
    total = sum(weights.values())
    sources = []
    owners: dict[Path, str | None] = {}
    for name, paths in entries.items():
        weight = weights[name] / total if name is not None and mix is not None else None
        files = find_files(paths)
        for file in files:
            if file in owners:
                raise ValueError(f"{file} must be of one source, is of {owners[file]} and {name}")
            owners[file] = name
        sources.append(Source(name, files, columns[name], weight))
    return sources


def _check_names(setting: str, what: str, values: Collection[str], names: Iterable) -> None:
    """Raise a ValueError unless a setting has a value for each source."""
    if set(values) != set(names):
        named = [name for name in names if name is not None]
        raise ValueError(
            f"{name_setting(setting)} must have {what} for each source, has {', '.join(values)}; "
            f"the corpus has {', '.join(named) or 'no names: give NAME=PATH'}"
        )


def _read_columns(text_column: str | Mapping[str, str], names: list) -> Mapping:
    """Return the sources' columns by name."""
    columns = text_column
    if isinstance(columns, str):
        matches = [_NAMED.fullmatch(part.strip()) for part in columns.split(",")]
        if None in names or None in matches:
            return dict.fromkeys(names, columns)
        columns = {match[1]: match[2] for match in matches if match}
    _check_names("text_column", "a column", columns, names)
    return columns


def list_files(corpus) -> list[Path]:
    """Return the files of all sources of a corpus, in their order."""
    return join_files(find_sources(corpus))


def join_files(sources: Iterable[Source]) -> list[Path]:
    """Return the files of sources, in their order."""
    files: list[Path] = []
    for source in sources:
        files += source.files
    return files


def _sort_by_name(corpus) -> dict[str | None, list]:
    """Return the entries of a corpus by their names; None for those that have none."""
    if isinstance(corpus, Mapping):
        by_name: dict[str | None, list] = {}
        for name, paths in corpus.items():
            if not isinstance(name, str) or not _NAMED.fullmatch(f"{name}=x"):
                raise ValueError(
                    "a source's name must be letters, digits, _ and -, a letter first, got "
                    f"{name!r}"
                )
            by_name[name] = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        return by_name

    if isinstance(corpus, (str, os.PathLike)):
        corpus = [corpus]
    by_name = {}
    for entry in corpus:
        match = _NAMED.fullmatch(entry) if isinstance(entry, str) else None
        if match is None or os.path.exists(entry):
            by_name.setdefault(None, []).append(entry)
        else:
            name, path = match.groups()
            by_name.setdefault(name, []).append(path)
    return by_name or {None: []}


def _read_mix(mix: Mapping[str, float] | str | None) -> dict[str, float]:
    """Return the shares of a mix by name; a ValueError for what is no share."""
    what = f"{name_setting('mix')} must be shares such as wiki=0.7,books=0.3"
    weights: dict[str, float] = {}
    if mix is None:
        return weights

    pairs: Iterable = mix.items() if isinstance(mix, Mapping) else _split_mix(mix, what)
    for name, value in pairs:
        try:
            weight = float(value)
        except (TypeError, ValueError):
            weight = math.nan
        if not 0 < weight < math.inf:
            raise ValueError(f"{what}, each more than 0, got {name}={value}")
        if name in weights:
            raise ValueError(f"{what}, got {name} twice")
        weights[name] = weight
    if not weights:
        raise ValueError(f"{what}, got none")
    return weights


def _split_mix(mix: str, what: str) -> list[tuple[str, str]]:
    pairs = []
    for part in mix.split(","):
        match = _NAMED.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{what}, got {part.strip()!r}")
        pairs.append((match[1], match[2]))
    return pairs
