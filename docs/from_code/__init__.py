"""Parts of the site that are made from the code at build time, in docs/_generated.

There is one module per kind of page. Its functions return Markdown, SVG or HTML as text and write
nothing. Numbers on these pages are computed, never typed. The folder is not committed.
"""

import re
import shutil
from pathlib import Path

from from_code import (
    aliases,
    api,
    commands,
    environment,
    mermaid,
    names,
    pictures,
    presets,
    records,
    settings_of_files,
    versions,
)

ROOT = Path(__file__).parents[2]

# Files beside docs/ that are pages of the site, by their place in the repository.
PAGES_OF_FILES = {
    "CHANGELOG.md": "contributing/changelog.md",
    "CONTRIBUTING.md": "contributing/contributing.md",
    "benchmarks/LOG.md": "benchmarks/log.md",
}


def write(docs: Path) -> None:
    """Writes every part and page: only what has changed, so that Sphinx reads again only that."""
    for name, text in parts().items():
        _write(docs / "_generated" / name, text)
    for source, page in PAGES_OF_FILES.items():
        _write(docs / page, (ROOT / source).read_text(encoding="utf-8"))
    _copy_notebooks(docs / "notebooks")


def _copy_notebooks(folder: Path) -> None:
    """Copy the notebooks, and delete copies of those that were renamed since the last build."""
    notebooks = list((ROOT / "notebooks").glob("*.ipynb"))
    folder.mkdir(exist_ok=True)
    for copied in folder.glob("*.ipynb"):
        if copied.name not in {notebook.name for notebook in notebooks}:
            copied.unlink()
    for notebook in notebooks:
        shutil.copy2(notebook, folder)


def with_links_of_the_site(text: str) -> str:
    """Links as GitHub has them, to files beside docs/, as links to the site's pages."""
    text = re.sub(r"\]\((?:\.\./)+notebooks/", "](/notebooks/", text)
    text = re.sub(r"\]\((?:\.\./)*docs/", "](/", text)
    for source, page in PAGES_OF_FILES.items():
        name = re.escape(Path(source).name)
        text = re.sub(rf"\]\((?:\.\./)*(?:benchmarks/)?{name}", f"](/{page}", text)
    return text


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def parts() -> dict[str, str]:
    """The parts by the names of their files."""
    return {
        "aliases.md": aliases.page(),
        "api.md": api.page(),
        "commands.md": commands.page(),
        "environment.md": environment.page(),
        "names.md": names.page(),
        "presets.md": presets.page(),
        "records.md": records.page(),
        "settings.md": settings_of_files.page(),
        "published.md": presets.published(),
        "versions.md": versions.page(),
        "architecture.svg": mermaid.drawn(ROOT / "docs" / "contributing" / "architecture.md"),
        **pictures.of_steps(),
        "explorer.html": pictures.explorer(),
    }
