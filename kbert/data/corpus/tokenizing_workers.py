"""Processes that tokenize blocks of text, and answer in the order in which they were asked.

They are plain `python -c` processes on pipes: multiprocessing would fork a process that may hold
TensorFlow's threads, or import the user's script again.
"""

import contextlib
import importlib.metadata
import os
import pickle
import queue
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from kbert.data.corpus.sentences import cut, parse
from kbert.data.corpus.text_files import Block

MOST_PROCESSES = 8  # of about 70 MB each; on more cores each has several threads

_PIECE = 1 << 17  # characters that are tokenized at a time: the Rust encodings are large


@dataclass(frozen=True)
class TokenizingSettings:
    """The settings of a tokenizing process.

    Attributes:
        tokenizer: the text of tokenizer.json.
        reserved: ids that a text must not have: they are the structure of an example.
        unknown: the id that replaces them.
        text_field, language: as in `sentences.parse`.
    """

    tokenizer: str
    reserved: tuple[int, ...]
    unknown: int
    text_field: str
    language: str


@dataclass(frozen=True)
class Tokens:
    """A block's tokens.

    Attributes:
        ids: uint32 (tokens,).
        lengths: of each sentence, in tokens, uint32 (sentences,); none is 0.
        begins: the sentences with which documents begin, int64.
        broken: whether the next block's first sentence begins a document.
    """

    ids: np.ndarray
    lengths: np.ndarray
    begins: np.ndarray
    broken: bool


def tokenize(
    blocks: Iterable[Block], settings: TokenizingSettings, processes: int
) -> Iterator[tuple[Block, Tokens]]:
    """Yield (block, its `Tokens`), in order; a few blocks a process are in memory at a time.

    Raises:
        ValueError: what `sentences.parse` refuses.
        RuntimeError: a process has died.
    """
    with contextlib.ExitStack() as stack:
        free: queue.SimpleQueue[subprocess.Popen] = queue.SimpleQueue()
        for _ in range(processes):
            free.put(stack.enter_context(_started(settings, processes)))
        threads = stack.enter_context(ThreadPoolExecutor(processes))
        stack.callback(threads.shutdown, cancel_futures=True)
        waiting: deque[tuple[Block, Future]] = deque()
        for block in blocks:
            waiting.append((block, threads.submit(_ask, free, block)))
            if len(waiting) > 2 * processes:
                yield _answer(*waiting.popleft())
        while waiting:
            yield _answer(*waiting.popleft())


def serve() -> None:
    """Run a worker process: read blocks and write their tokens until there are no more."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not end up among the answers
    # whoever asks may be killed at any time, in the middle of a message too
    ended = (EOFError, KeyboardInterrupt, BrokenPipeError, pickle.UnpicklingError)
    with contextlib.suppress(*ended):
        settings = pickle.load(source)
        import tokenizers

        rust = tokenizers.Tokenizer.from_str(settings.tokenizer)
        while True:
            pickle.dump(answer_to(pickle.load(source), rust, settings), sink, protocol=5)
            sink.flush()


def software() -> dict[str, str]:
    """Return the versions of what cuts text: with others the tokens may be others."""
    return {name: importlib.metadata.version(name) for name in ("sentencex", "tokenizers")}


def answer_to(block: Block, rust, settings: TokenizingSettings) -> Tokens | str:
    """Return a block's tokens, or what is wrong with its text, in words."""
    try:
        return tokens_of(block, rust, settings)
    except ValueError as error:
        return str(error)


def tokens_in(answer: Tokens | str) -> Tokens:
    """Return the tokens of an answer; a ValueError where the text is wrong."""
    if isinstance(answer, str):
        raise ValueError(answer)
    return answer


def tokens_of(block: Block, rust, settings: TokenizingSettings) -> Tokens:
    """Return a block's tokens, by the Rust tokenizer."""
    parsed = parse(block, text_field=settings.text_field, language=settings.language)
    found, lengths = [np.zeros(0, np.uint32)], np.zeros(len(parsed.sentences), np.uint32)
    for places, texts in _pieces(parsed.sentences):
        encodings = rust.encode_batch_fast(texts, add_special_tokens=False)
        for place, encoding in zip(places, encodings, strict=True):
            found.append(np.array(encoding.ids, np.uint32))
            lengths[place] += len(found[-1])
    ids = np.concatenate(found)
    # "[SEP]" in a text is a special token to the tokenizer, and would end a segment.
    ids[np.isin(ids, settings.reserved)] = settings.unknown
    begins = np.array(parsed.begins, np.int64)
    return Tokens(ids, *_without_empty(lengths, begins, parsed.broken))


def _without_empty(
    lengths: np.ndarray, begins: np.ndarray, broken: bool
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Remove sentences without tokens (control characters only) and empty documents."""
    kept = lengths > 0
    before = np.concatenate([[0], np.cumsum(kept)])
    begins = np.unique(before[begins])
    if len(begins) and begins[-1] == before[-1]:
        begins, broken = begins[:-1], True
    return lengths[kept], begins, broken


def _pieces(sentences: list[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Yield the sentences in portions of bounded size.

    A huge one comes in several, cut at spaces.
    """
    places, texts, size = [], [], 0
    for place, sentence in enumerate(sentences):
        for text in cut(sentence, _PIECE):
            places.append(place)
            texts.append(text)
            size += len(text)
            if size >= _PIECE:
                yield places, texts
                places, texts, size = [], [], 0
    if texts:
        yield places, texts


@contextlib.contextmanager
def _started(settings: TokenizingSettings, processes: int) -> Iterator[subprocess.Popen]:
    """Start a worker process, which serves until the end of the context."""
    threads = max(1, (os.cpu_count() or 1) // processes)
    process = subprocess.Popen(
        [sys.executable, "-c", "from kbert.data.corpus.tokenizing_workers import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        | {"TOKENIZERS_PARALLELISM": str(threads > 1).lower(), "RAYON_NUM_THREADS": str(threads)}
        | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        assert process.stdin  # a pipe, as asked
        pickle.dump(settings, process.stdin, protocol=5)
        yield process
    finally:
        process.kill()
        process.communicate()


def _ask(free: queue.SimpleQueue, block: Block):
    process = free.get()
    try:
        pickle.dump(block, process.stdin, protocol=5)
        process.stdin.flush()
        return pickle.load(process.stdout)
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        process.wait()
        raise RuntimeError(
            f"a process that tokenizes has ended with status {process.returncode} at "
            f"{block.path}, line {block.line}: killed, or out of memory? Run it again: what is "
            "done is kept"
        ) from error
    finally:
        free.put(process)


def _answer(block: Block, future: Future) -> tuple[Block, Tokens]:
    return block, tokens_in(future.result())
