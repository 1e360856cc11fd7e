"""Splitting of raw text into sentences and documents.

Wikimedia's `sentencex` splits paragraphs: rules in Rust for about 300 languages, 60 MB/s on a core,
no downloads (blingfire, pysbd and syntok have had no release since 2022; pysbd does 0.2 MB/s).
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kbert.data.corpus import text_files
from kbert.data.corpus.blocks import Block
from kbert.data.corpus.sources import find_sources
from kbert.data.corpus.text_files import decode_line
from kbert.io.wording import check_choice

_TIED = re.compile(r" @([-,])@(?: |$)")  # WikiText writes "two @-@ part", "1 @,@ 000", "0 @.@ 5"
_POINT = "\ue000"  # a decimal point while sentences are cut: "3.<unk>" looks like two of them
_PIECE = 1 << 20  # characters of a paragraph that are cut into sentences at a time


def parse(block: Block, *, language: str = "en") -> list[str]:
    """Return the sentences of a block; an empty text stands where a document ends.

    Titles and deeper headings of WikiText begin documents or are dropped: the paper keeps "only
    the text passages" of Wikipedia. ` @-@ ` becomes `-`, `<unk>` becomes [UNK]. A line that is not
    UTF-8, or no JSON object with the text field, raises a ValueError with its file and number.
    """
    sentences: list[str] = []
    lines = block.data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if block.line == 1:
        lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")

    for number, line in enumerate(lines, block.line):
        where = block.where(number)
        if block.form == "wikitext":
            sentences += _parse_wikitext(line, where, language)
            continue

        text = decode_line(line, where).strip()
        if block.form == "sentences":
            if text or sentences[-1:] != [""]:
                sentences.append(text)
        elif text:
            document = text_files.parse_json(text, block.text_column, where)
            sentences.append("")
            sentences += _split(document, language)
    return sentences


def _parse_wikitext(line: bytes, where: str, language: str) -> Iterator[str]:
    """Yield the sentences of a line of WikiText; an empty text for a title."""
    level = text_files.heading_level(line)
    if level == 1:
        yield ""
    if level:
        return

    text = decode_line(line, where).strip()
    text = _TIED.sub(r"\1", text.replace(" @.@ ", _POINT))
    for sentence in _split(text, language):
        yield sentence.replace(_POINT, ".").replace("<unk>", "[UNK]")


def parse_corpus(
    corpus: str | os.PathLike | Iterable[str | os.PathLike],
    *,
    corpus_format: str | None = None,
    text_column: str | Mapping[str, str] = "text",
    language: str = "en",
) -> Iterator[tuple[Path, list[str]]]:
    """Yield the sentences of a corpus, block by block, each with its file.

    The arguments are as for `prepare`; it raises what `find_sources`, `read_blocks` and `parse` do.
    """
    chosen = "sentences" if corpus_format is None else corpus_format
    check_choice(chosen, text_files.FORMATS, "corpus_format")
    for source in find_sources(corpus, text_column=text_column):
        for path in source.files:
            form = corpus_format or text_files.format_of(path)
            for block in text_files.read_blocks(path, form, source.text_column):
                yield path, parse(block, language=language)


def cut(text: str, size: int) -> Iterator[str]:
    """Cut a text into pieces of at most `size` characters, at spaces where there are any."""
    start = 0
    while len(text) - start > size:
        space = text.rfind(" ", start, start + size)
        end = space if space > start else start + size
        yield text[start:end]
        start = end
    yield text[start:]


def _split(text: str, language: str) -> Iterator[str]:
    from sentencex import segment

    for paragraph in text.split("\n"):
        for start in range(0, len(paragraph), _PIECE):
            for sentence in segment(language, paragraph[start : start + _PIECE]):
                stripped = sentence.strip()
                if stripped:
                    yield stripped
