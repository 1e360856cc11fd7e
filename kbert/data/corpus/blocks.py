"""Blocks of a corpus: what is read, sent to a process and tokenized at a time."""

from dataclasses import dataclass

BLOCK = 1 << 20  # bytes of text
LONGEST_TEXT = 16 << 20  # bytes of a line, or of a row of a table; so that memory has a bound


@dataclass(frozen=True)
class Block:
    """Some whole lines of a text file; or rows of a table, as JSON lines.

    Attributes:
        data: the lines, UTF-8, each with LF at its end but perhaps the last.
        path: the file's, for errors.
        form: how the lines are read: "sentences", "wikitext" or "jsonl".
        text_column: the field of a JSON line that holds the text.
        line: number of the first line or row, from 1.
        end: where the next block begins: bytes of the unpacked text file, or rows of the table.
        next_line: number of the first line or row of the next block.
        unit: what is counted, for errors: "line" or "row".
    """

    data: bytes
    path: str
    form: str
    text_column: str
    line: int
    end: int
    next_line: int
    unit: str = "line"

    def where(self, number: int | None = None) -> str:
        """Return the place of a line or row, by default the first one, for an error."""
        return f"{self.path}, {self.unit} {self.line if number is None else number}"
