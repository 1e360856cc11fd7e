"""Parts of the documentation that are made from the code.

There is one module per kind of part. Its functions return Markdown, SVG or HTML as text and write
nothing. Numbers in them are computed, never typed.

Tables stand in the pages themselves, so that a code host shows them: see `tables.py`. Pictures, the
explorer, and copies of files beside docs/ are written when the site is built, not committed.
"""

import re
import shutil
from pathlib import Path

from from_code import mermaid, pictures

ROOT = Path(__file__).parents[2]

# Files beside docs/ that are pages of the site, by their place in the repository.
PAGES_OF_FILES = {
    "CHANGELOG.md": "contributing/changelog.md",
    "CONTRIBUTING.md": "contributing/contributing.md",
    "benchmarks/LOG.md": "benchmarks/log.md",
}
# Long records of what was done: a search for a function should not find them.
NOT_SEARCHED = ("CHANGELOG.md", "benchmarks/LOG.md")
_NOT_SEARCHED_MARK = "---\nnosearch: true\n---\n\n"


def write(docs: Path) -> None:
    """Write every part and page: only what has changed, so that Sphinx reads again only that."""
    for name, text in make_parts().items():
        _write(docs / "_generated" / name, text)

    for source, page in PAGES_OF_FILES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if source in NOT_SEARCHED:
            text = _NOT_SEARCHED_MARK + text
        _write(docs / page, text)

    _copy_notebooks(docs / "notebooks")


def _copy_notebooks(folder: Path) -> None:
    """Copy the notebooks, and delete copies of those that were renamed since the last build."""
    notebooks = list((ROOT / "notebooks").glob("*.ipynb"))
    names = {notebook.name for notebook in notebooks}

    folder.mkdir(exist_ok=True)
    for copied in folder.glob("*.ipynb"):
        if copied.name not in names:
            copied.unlink()
    for notebook in notebooks:
        shutil.copy2(notebook, folder)


def with_links_of_the_site(text: str) -> str:
    """Return a page with links that the site has: a code host has others.

    Files beside docs/ are pages of the site, and a function's link leads to the function.
    """
    text = re.sub(r"\]\((?:\.\./)+notebooks/", "](/notebooks/", text)
    text = re.sub(r"\]\((?:\.\./)*docs/", "](/", text)
    for source, page in PAGES_OF_FILES.items():
        name = re.escape(Path(source).name)
        text = re.sub(rf"\]\((?:\.\./)*(?:benchmarks/)?{name}", f"](/{page}", text)

    function = r"\[`(\w+)`\]\([\w/]+\.md#(kbert(?:\.\w+)+)\)"
    return re.sub(function, r"{py:obj}`\1 <\2>`", text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def make_parts() -> dict[str, str]:
    """Return the parts that are not committed, by the names of their files."""
    return {
        "architecture.svg": mermaid.drawn(ROOT / "docs" / "contributing" / "architecture.md"),
        **pictures.of_steps(),
        "explorer.html": pictures.explorer(),
        "live.html": pictures.live(),
    }
