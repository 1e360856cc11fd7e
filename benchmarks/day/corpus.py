"""English prose from Debian's packages, as JSON lines: `python -m benchmarks.day.corpus OUT`.

It downloads packages of Debian 12 with apt-get, unpacks them, and takes the paragraphs of their
HTML pages. A page is a document. Nothing is installed.
"""

import argparse
import html.parser
import json
import subprocess
from pathlib import Path

# The packages, and where their English pages are.
PACKAGES = {
    "anarchism": "usr/share/doc/anarchism/html",
    "debian-reference-en": "usr/share/debian-reference",
    "gimp-help-en": "usr/share/gimp/2.0/help/en",
    "gnucash-docs": "usr/share/doc/gnucash-docs",
    "linux-doc-6.1": "usr/share/doc/linux-doc-6.1/html",
}
OTHER_LANGUAGES = ("-de", "-it", "-ja", "-pt", "-ru")  # of GnuCash's guides
SHORTEST = 60  # characters of a paragraph: what is shorter are titles and links
HELD_OUT = 20  # each 20th document is for evaluation


class _Paragraphs(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.texts: list[str] = []
        self._open = False

    def handle_starttag(self, tag, attrs):
        if tag == "p":
            self._open = True
            self.texts.append("")

    def handle_endtag(self, tag):
        if tag == "p":
            self._open = False

    def handle_data(self, data):
        if self._open:
            self.texts[-1] += data


def read_page(path: Path) -> str:
    """Return the paragraphs of a page, one a line."""
    parser = _Paragraphs()
    parser.feed(path.read_text(encoding="utf-8", errors="ignore"))
    paragraphs = [" ".join(text.split()) for text in parser.texts]
    return "\n".join(text for text in paragraphs if len(text) >= SHORTEST)


def unpack(package: str, folder: Path) -> Path:
    """Download a package into a folder, unpack it there, and return where."""
    target = folder / package
    if not target.exists():
        subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True)
        [archive] = folder.glob(f"{package}_*.deb")
        subprocess.run(["dpkg", "-x", archive, target], check=True)
    return target


def write(file: Path, texts: list[str]) -> None:
    """Write documents as JSON lines."""
    file.parent.mkdir(exist_ok=True)
    lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
    file.write_text("".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for package, place in PACKAGES.items():
        pages = sorted((unpack(package, folder) / place).rglob("*.html"))
        texts = []
        for page in pages:
            is_other = any(part.endswith(OTHER_LANGUAGES) for part in page.parts)
            text = "" if is_other else read_page(page)
            if text:
                texts.append(text)
        write(folder / "dev" / f"{package}.jsonl", texts[::HELD_OUT])
        kept = [text for number, text in enumerate(texts) if number % HELD_OUT]
        write(folder / "train" / f"{package}.jsonl", kept)
        size = sum(map(len, texts)) / 1e6
        print(f"{package}: {len(texts):,} documents, {size:.2f} million characters")


if __name__ == "__main__":
    main()
