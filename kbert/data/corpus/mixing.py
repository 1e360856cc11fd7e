"""Tokens of several sources, one after the other or mixed by their shares of the tokens.

A mix takes the next document of the source that lacks most, by the tokens that were taken, and ends
where that source has no more text. So all sources have their shares at every moment, but for a
document, and the order depends on the texts alone.
"""

from collections import deque
from collections.abc import Generator, Iterator
from typing import NamedTuple

import numpy as np

from kbert.data.corpus.blocks import Block
from kbert.data.corpus.duplicates import UniqueDocuments
from kbert.data.corpus.tokenizing import Tokens


class Taken(NamedTuple):
    """Tokens that were taken from a source.

    Attributes:
        file: number of the file that they are from, among all files.
        size: bytes of text that were read for them and what is still to come.
    """

    tokens: Tokens
    file: int
    size: int


class SourceReader:
    """What is left of a source: its tokens, block by block, or document by document.

    Documents that repeat one of `unique` are left out.

    Attributes:
        unique: the documents that were kept; None: repeated ones are not left out.
        taken: number of tokens that were taken.
        position: where to go on: file, offset, line, the tokens that were taken, and the
            duplicates that were left out.
    """

    def __init__(
        self,
        answers: Generator[tuple[Block, Tokens], None, None],
        numbers: dict[str, int],
        position: dict,
        unique: UniqueDocuments | None = None,
    ):
        self._answers = answers
        self._numbers = numbers
        self._position = position
        self._documents: deque[Taken] = deque()
        self._rest: list[Tokens] = []  # of the last document, which goes on in the next block
        self.unique = unique
        self.taken = position.get("tokens", 0)
        self.duplicates = position.get("duplicates", 0)

    @property
    def position(self) -> dict:
        return self._position | {"tokens": self.taken, "duplicates": self.duplicates}

    def close(self) -> None:
        """Let go of the blocks that are read ahead."""
        self._answers.close()

    def take_block(self) -> Taken | None:
        """Return the tokens of the next block; None at the end."""
        answer = next(self._answers, None)
        if answer is None:
            return None
        block, tokens = answer
        number = self._numbers[block.path]
        self._position = {"file": number, "offset": block.end, "line": block.next_line}
        self.taken += len(tokens.ids)
        return Taken(tokens, number, len(block.data))

    def take_document(self) -> Taken | None:
        """Return the tokens of the next document; None at the end."""
        while True:
            while self._documents:
                document = self._documents.popleft()
                if self._keep(document):
                    return document
            answer = next(self._answers, None)
            if answer is not None:
                block, tokens = answer
                self._split(tokens, self._numbers[block.path], block)
            elif self._rest:
                self._end_rest()
            else:
                return None

    def take_read(self) -> list[Taken]:
        """Return the documents of the blocks that were read, with what there is of the last one.

        After it the position is the end of a block, where reading can be resumed.
        """
        self._end_rest()
        documents = [document for document in self._documents if self._keep(document)]
        self._documents.clear()
        return documents

    def _keep(self, document: Taken) -> bool:
        """Count a document, and return whether it repeats none that was kept."""
        if self.unique is not None and not self.unique.add(document.tokens.signatures):
            self.duplicates += 1
            return False
        self.taken += len(document.tokens.ids)
        return True

    def _end_rest(self) -> None:
        """Add what there is of a document, whose end was not read, to those that wait."""
        if self._rest:
            tokens = _join([*self._rest, _END])
            self._documents.append(Taken(tokens, self._position["file"], 0))
            self._rest = []

    def _split(self, tokens: Tokens, number: int, block: Block) -> None:
        """Add the documents of a block to those that wait."""
        if number != self._position["file"]:
            self._end_rest()
        self._position = {"file": number, "offset": block.end, "line": block.next_line}

        ends = np.flatnonzero(tokens.lengths == 0)
        sums = np.cumsum(tokens.lengths, dtype=np.int64)
        begin = first = 0  # of the document, among the lengths and among the ids
        size = len(block.data)
        signatures: list | np.ndarray = [None] * (len(ends) + 1)
        if tokens.signatures is not None:
            signatures = tokens.signatures
        for signature, end in zip(signatures, ends, strict=False):
            last = int(sums[end])
            ids = tokens.ids[first:last]
            self._rest.append(Tokens(ids, tokens.lengths[begin : end + 1], signature))
            document = _join(self._rest)
            self._rest = []
            if len(document.ids):
                self._documents.append(Taken(document, number, size))
                size = 0
            begin, first = int(end) + 1, last
        if first < len(tokens.ids):
            self._rest.append(Tokens(tokens.ids[first:], tokens.lengths[begin:], signatures[-1]))


_END = Tokens(np.zeros(0, np.uint32), np.zeros(1, np.uint32))


def _join(pieces: list[Tokens]) -> Tokens:
    if len(pieces) == 1:
        return pieces[0]
    ids = np.concatenate([piece.ids for piece in pieces])
    lengths = np.concatenate([piece.lengths for piece in pieces])
    signatures = [piece.signatures for piece in pieces if piece.signatures is not None]
    return Tokens(ids, lengths, np.minimum.reduce(signatures) if signatures else None)


def take_all(readers: list[SourceReader]) -> Iterator[Taken]:
    """Yield the tokens of sources, one after the other, in blocks, or in documents to drop some."""
    for reader in readers:
        take = reader.take_block if reader.unique is None else reader.take_document
        yield from iter(take, None)


def take_mix(readers: list[SourceReader], weights: list[float]) -> Iterator[Taken]:
    """Yield documents of sources so that each has its share of the tokens; see the module."""
    while True:
        lacking = [reader.taken / weight for reader, weight in zip(readers, weights, strict=True)]
        reader = readers[lacking.index(min(lacking))]
        document = reader.take_document()
        if document is None:
            return
        yield document
