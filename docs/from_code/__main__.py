"""`python docs/from_code` writes the tables of the pages again."""

import sys
from pathlib import Path

DOCS = Path(__file__).parents[1]
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

from from_code import tables  # noqa: E402

for page, text in tables.make_pages(DOCS).items():
    if page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")
        print(page.relative_to(DOCS))
