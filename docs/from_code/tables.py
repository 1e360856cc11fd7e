"""The tables that pages of docs/ have from the code.

A table stands in its page, between two comments, so that a code host shows it too:

    <!-- from code: presets -->
    ...
    <!-- end -->

`python docs/from_code` writes all of them again. A test compares the pages with the code.
"""

import functools
import re
from collections.abc import Callable
from pathlib import Path

from from_code import (
    accounting,
    aliases,
    api,
    commands,
    environment,
    models,
    names,
    presets,
    records,
    settings_of_files,
    versions,
)

TABLES: dict[str, Callable[[], str]] = {
    "aliases": aliases.page,
    "api index": api.index,
    "commands": commands.page,
    "environment": environment.page,
    "errata": accounting.errata,
    "memory": accounting.memory,
    "models": models.page,
    "names": names.page,
    "presets": presets.page,
    "published": presets.published,
    "records": records.page,
    "settings": settings_of_files.page,
    "steps": accounting.steps,
    "versions": versions.page,
}
for _group in api.GROUPS:
    TABLES[f"api {_group}"] = functools.partial(api.page, _group)

_TABLE = re.compile(r"(<!-- from code: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def make_pages(docs: Path) -> dict[Path, str]:
    """Return the text that each page with a table must have, by the page's path."""
    pages = {}
    for page in sorted(docs.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if _TABLE.search(text):
            pages[page] = _TABLE.sub(_fill, text)
    return pages


def _fill(found: re.Match) -> str:
    begin, name, end = found.groups()
    return f"{begin}\n{TABLES[name]().strip()}\n\n{end}"
