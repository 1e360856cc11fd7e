"""Turn books of Project Gutenberg into a corpus that `kbert vocab` and `kbert prepare` read.

`python docs/small_model/prepare_books.py FOLDER CORPUS` reads the books of FOLDER, the .txt files
as Project Gutenberg publishes them, and writes CORPUS in WikiText's format.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

DOCUMENT = 15_000  # characters of a document, at least, but for a book's last one
SHORTEST = 40  # characters of a paragraph: shorter ones are headings and lists
BEGIN = re.compile(
    r"\*\*\* ?START OF TH[^\n]*\n|\*END\*? ?THE SMALL PRINT[^\n]*\n|Produced by[^\n]*\n"
)
END = re.compile(r"\*\*\* ?END OF TH|End of (the )?Project Gutenberg")
NOT_THE_BOOK = ("Illustration", "Gutenberg", "Produced by")
PLAIN_SIGNS = str.maketrans({"“": '"', "”": '"', "’": "'", "‘": "'", "_": ""})


def read_book(path: Path) -> str:
    """Return the text between the publisher's first and last remarks.

    Raises:
        ValueError: the file has no remark that says where the book begins.
    """
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    text = text.replace("\r\n", "\n").replace("\r", "\n")

    begin = BEGIN.search(text)
    if begin is None:
        raise ValueError(
            f"{path} must be a book of Project Gutenberg: its *** START *** is missing"
        )
    end = END.search(text)
    return text[begin.end() : end.start() if end else None]


def list_paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a book, each as one line."""
    for paragraph in re.split(r"\n\s*\n", text):
        line = " ".join(paragraph.split()).translate(PLAIN_SIGNS).replace("--", " -- ")
        is_heading = len(line) <= SHORTEST or line.isupper()
        if not is_heading and not any(word in line for word in NOT_THE_BOOK):
            yield line


def split_documents(paragraphs: Iterator[str]) -> Iterator[list[str]]:
    """Yield documents of consecutive paragraphs."""
    document: list[str] = []
    for paragraph in paragraphs:
        document.append(paragraph)
        if sum(map(len, document)) > DOCUMENT:
            yield document
            document = []
    if document:
        yield document


def write_corpus(folder: Path, corpus: Path) -> None:
    """Write all books of a folder into one corpus."""
    with corpus.open("w", encoding="utf-8") as file:
        for book in sorted(folder.glob("*.txt")):
            for number, document in enumerate(split_documents(list_paragraphs(read_book(book))), 1):
                file.write(f" \n = {book.stem}, part {number} = \n \n")
                file.writelines(f" {paragraph} \n" for paragraph in document)


if __name__ == "__main__":
    write_corpus(Path(sys.argv[1]), Path(sys.argv[2]))
