"""Pages' blocks of code: run in their order; what they print is compared with what is shown.

Comments of a page say how, each on a line before the block that it is for:

    <!-- given: minilm sst2 -->         what lies in the cache and in the folder, see `GIVEN`
    <!-- file: lines.txt: one / two --> a file of these lines
    <!-- smaller: 10_000 | 2 -->       what a test replaces, so that it is quick
    <!-- not run: a TPU -->             why the block does not run here

A block in `text` right behind a block is what that prints; … stands for anything, alone on a line
for any lines. In `console`, lines with $ are commands and the others what they print.

`python -m helpers.page_blocks.py PAGE …` writes into pages what their blocks print.
"""

import contextlib
import io
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from helpers.hub_cache import add_minilm, make_snapshot, use_cache
from helpers.sizes import ROOT, SHARED

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_NOT_OURS = ("docs/_generated/", "docs/notebooks/", "docs/benchmarks/", "docs/contributing/")
OURS = [page for page in PAGES if not page.relative_to(ROOT).as_posix().startswith(_NOT_OURS)]
_FENCE = re.compile(
    r"(?P<marks>(?:<!--[^>]*-->\n)*)```(?P<kind>[^\n]*)\n(?P<text>.*?)```\n", re.DOTALL
)
HOME = ".cache"  # of Hugging Face, in the folder where a page runs
_NUMBER = r"-?\d+\.\d+(?:e[+-]\d+)?"
_WORDS = ["a", "cat", "sat", "on", "the", "mat", "dog", "ran"]
_WORDS += ["fine", "film", "dull", "bad", "good"]


@dataclass
class Block:
    """A block of a page; `shown` is the block behind it with what it prints, where there is one."""

    kind: str
    text: str
    marks: dict[str, list[str]] = field(default_factory=dict)
    shown: "Block | None" = None
    place: tuple[int, int] = (0, 0)  # of the text, in the page


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The blocks of code of a page, in their order; Sphinx's own are none."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = -1
    for match in _FENCE.finditer(text):
        if match["kind"].startswith("{"):
            continue
        block = Block(
            match["kind"], match["text"], _marks(match["marks"]), None, match.span("text")
        )
        if block.kind == "text" and found and text[end : match.start()].strip() == "":
            found[-1].shown = block
        else:
            found.append(block)
        end = match.end()
    return found


def _marks(comments: str) -> dict[str, list[str]]:
    marks: dict[str, list[str]] = {}
    for comment in re.findall(r"<!-- (.*?) -->", comments):
        name, _, value = comment.partition(": ")
        marks.setdefault(name, []).append(value)
    return marks


def runs(block: Block) -> bool:
    return block.kind in ("python", "console") and "not run" not in block.marks


def run(page: Path, folder: Path):
    """Runs a page's blocks in a folder; gives each with what it printed.

    Names of models mean those in the folder's own cache: nothing is downloaded.
    """
    names: dict = {"__name__": "__main__"}
    with contextlib.chdir(folder), use_cache(folder / HOME):
        for block in blocks(page):
            for given in " ".join(block.marks.get("given", ())).split():
                GIVEN[given](folder)
            for file in block.marks.get("file", ()):
                name, _, lines = file.partition(": ")
                Path(name).write_text(lines.replace(" / ", "\n") + "\n", encoding="utf-8")
            if runs(block):
                text = block.text
                for change in block.marks.get("smaller", ()):
                    large, _, small = change.partition(" | ")
                    assert large in text, change
                    text = text.replace(large, small)
                yield block, _printed(block.kind, text, names)


def _printed(kind: str, text: str, names: dict) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if kind == "python":
            exec(compile(text, "a block", "exec"), names)
        else:
            for line in text.splitlines():
                if line.startswith("$ "):
                    out.write(f"{line}\n")
                    _command(line.removeprefix("$ "))
    return out.getvalue()


def _command(line: str) -> None:
    from kbert.cli.main import main

    program, *arguments = shlex.split(line)
    assert program == "kbert", line
    try:
        main(arguments)
    except SystemExit as end:
        assert not end.code, line


def same(shown: str, printed: str) -> bool:
    """Whether a text is what is shown; numbers with a point to one and a half of the last digit."""
    lines = [line.rstrip() for line in shown.strip().splitlines()]
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else f"{_line(line)}\n" for line in lines)
    text = "".join(f"{line.rstrip()}\n" for line in printed.strip().splitlines())
    match = re.fullmatch(pattern, text)
    expected = re.findall(_NUMBER, "\n".join(line for line in lines if line != "…"))
    return bool(match) and all(map(_near, expected, match.groups()))


def _line(line: str) -> str:
    parts = re.split(f"({_NUMBER})", line)
    return "".join(
        f"({_NUMBER})" if place % 2 else re.escape(part).replace("…", ".*")
        for place, part in enumerate(parts)
    )


def _near(expected: str, found: str) -> bool:
    if "e" in expected:  # a rounding difference
        return abs(float(found)) < 10 * abs(float(expected))
    digits = len(expected.partition(".")[2])
    return abs(float(expected) - float(found)) < 1.5 * 10**-digits


def _minilm(folder: Path) -> None:
    add_minilm(folder / HOME / "hub")


def _stand_in(repo: str):
    """Return what puts a small BERT into the cache in the place of a published model.

    It has newly initialized weights and a vocabulary of a few words.
    """

    def put(folder: Path) -> None:
        import kbert

        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_WORDS]
        config = kbert.get_config("tiny").replace(vocab_size=len(tokens), num_hidden_layers=1)
        tokenizer = kbert.Tokenizer.from_vocab(tokens, lowercase=True)
        bert = kbert.Bert(config, "pretraining", kbert.build_bert(config), tokenizer)
        kbert.save(bert, make_snapshot(folder / HOME / "hub", repo), overwrite=True)

    return put


def _sst2(folder: Path) -> None:
    for part in ("train", "dev", "test"):
        text = "a fine film\t1\nit was dull\t0\nwarm and good\t1\n" * 13
        if SHARED.is_dir():
            text = (SHARED / "data" / "sst2" / f"{part}.tsv").read_text(encoding="utf-8")
        (folder / f"{part}.tsv").write_text("".join(text.splitlines(True)[:40]), encoding="utf-8")


def _docs(folder: Path) -> None:
    (folder / "docs").symlink_to(ROOT / "docs")


_STAND_INS = (
    "google-bert/bert-base-uncased",
    "google-bert/bert-base-cased",
    "google-bert/bert-large-uncased",
    "google/bert_uncased_L-4_H-512_A-8",
)
GIVEN = {
    "minilm": _minilm,
    "sst2": _sst2,
    "docs": _docs,
    **{repo.partition("/")[2]: _stand_in(repo) for repo in _STAND_INS},
}


def write(page: Path) -> None:
    """Puts into a page what its blocks print, but where what is shown has an ellipsis."""
    changes = []
    with tempfile.TemporaryDirectory() as folder:
        for block, printed in run(page, Path(folder)):
            place = block if block.kind == "console" else block.shown
            if place is not None and "…" not in place.text:
                changes.append((place.place, printed.strip() + "\n"))
            elif place is not None and not same(place.text, printed):
                print(f"{page}: shows\n{place.text}prints\n{printed}")
    text = page.read_text(encoding="utf-8")
    for (start, end), new in reversed(changes):
        text = text[:start] + new + text[end:]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    for name in sys.argv[1:]:
        print(name, flush=True)
        write(ROOT / name)
