"""Replace values of a JSON text, wherever kbert reads JSON."""

import collections
import json
import random
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kbert.data.tokenization.tokenizer_files import UnknownCasing
from kbert.io import printable

HOLE = "@@here@@"
DEEP = 100_000
SECONDS = 20  # of the processor for one mutation: a hang, whatever else the machine does
# As text, since several are no JSON that Python's writer would write.
VALUES = {
    "null": "null",
    "true": "true",
    "minus one": "-1",
    "zero": "0",
    "a fraction": "1.5",
    "infinite": "1e400",
    "not a number": "NaN",
    "25 digits": str(10**25),
    "10,000 digits": "9" * 10_000,
    "empty": '""',
    "x": '"x"',
    "half a character": '"\\ud800"',
    "controls": '"a\\nkbert: all is well\\u001b[2J"',
    "no list": "[]",
    "no object": "{}",
    "list of list": "[[]]",
    "50 levels": "[" * 50 + "]" * 50,
    "levels": "[" * DEEP + "]" * DEEP,
    "twice": '{"a": 1, "a": 2}',
}


@dataclass(frozen=True)
class Document:
    """JSON in a file, an archive or an attribute: its name, its text, and how it is replaced."""

    name: str
    text: str
    write: Callable[[str], None]


def documents_of_folder(folder) -> list[Document]:
    """Every .json below a folder."""
    return [
        Document(file.relative_to(folder).as_posix(), file.read_text(encoding="utf-8"), written)
        for file in sorted(folder.rglob("*.json"))
        for written in [lambda text, file=file: file.write_text(text, encoding="utf-8")]
    ]


def documents_of_archive(path) -> list[Document]:
    """Every .json in a zip."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}

    def write(name: str, text: str) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for other, content in members.items():
                archive.writestr(other, text.encode() if other == name else content)

    return [
        Document(name, members[name].decode(), lambda text, name=name: write(name, text))
        for name in sorted(members)
        if name.endswith(".json")
    ]


def places(value, most: int, path: tuple = ()) -> Iterator[tuple]:
    """The way to each value, the whole among them; of many alike, `most` at equal distances."""
    yield path
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    else:
        return
    step = max(1, len(keys) // most)
    for key in keys[::step]:
        yield from places(value[key], most, (*path, key))


def mutated(text: str, path: tuple, literal: str) -> str:
    """The text with the value there replaced."""
    whole = {"": json.loads(text)}
    holder, key = whole, ""
    for step in path:
        holder, key = holder[key], step
    holder[key] = HOLE
    return json.dumps(whole[""], ensure_ascii=False).replace(f'"{HOLE}"', literal)


def mutations(
    documents: list[Document], seed: int, count: int | None, most: int = 25
) -> list[tuple[Document, tuple, str]]:
    """(document, place, name of the value): all of them, or so many of each document."""
    chosen = []
    draw = random.Random(seed)
    for document in documents:
        every = [
            (document, path, name)
            for path in places(json.loads(document.text), most)
            for name in VALUES
        ]
        few = count is not None and count < len(every)
        chosen += draw.sample(every, count) if few else every
    return chosen


def try_mutations(
    chosen, look, names=("",), longest: int = 1000, errors=(ValueError, FileNotFoundError)
) -> collections.Counter:
    """Count how the mutations end: "read" or "refused"; assert that none ends otherwise.

    `look` reads what was mutated. Each error is of one of these types and no other, and its message
    has the document's name or one of `names`, and fewer than `longest` characters.
    """
    counts, wrong = collections.Counter(), []
    for document, place, name in chosen:
        document.write(mutated(document.text, place, VALUES[name]))
        start = time.process_time()
        try:
            look()
            ended = "read"
        except Exception as error:
            said = str(error)
            file = str(getattr(error, "filename", None))
            named = any(part in f"{said} {file}" for part in (document.name.split("/")[-1], *names))
            plain = type(error) in (*errors, UnknownCasing)
            one_line = printable.line(said) == said and len(said) < longest
            ended = "refused" if named and plain and one_line else f"{error!r:.300}"
        if (taken := time.process_time() - start) > SECONDS:
            ended = f"{taken:.0f} s, {ended}"
        counts[ended] += 1
        if ended not in ("read", "refused"):
            wrong.append(f"{document.name} {place} = {name}: {ended}")
        document.write(document.text)
    look()  # whole again
    assert not wrong, f"{len(wrong)} of {len(chosen)}:\n" + "\n".join(wrong[:40])
    return counts
