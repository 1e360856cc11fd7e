"""Tokenizing of blocks of text in other processes, in the order of the blocks.

The workers are processes of kbert's, or those of any `concurrent.futures.Executor`: a pool, a
client of Dask, of MPI. A block goes to a worker as bytes and comes back as tokens, so that no
worker needs a disk.

kbert's own are plain `python -c` processes on pipes. multiprocessing, and so ProcessPoolExecutor,
would fork a process that may hold TensorFlow's threads or import the user's script again, and
workers would outlive a killed `prepare`.
"""

import contextlib
import functools
import importlib.metadata
import os
import pickle
import queue
import subprocess
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from kbert.data.corpus.sentences import cut, parse
from kbert.data.corpus.text_files import BLOCK, Block

MOST_PROCESSES = 8  # of about 70 MB each; on more cores each has several threads
IN_FLIGHT = 64  # blocks that are with an executor, or whose tokens wait for their turn
ANSWER_S = 600.0  # for the first block too: a cluster may have to start its machines

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
    """Yield (block, its `Tokens`), in order; a few blocks per process are in memory at a time.

    Raises:
        ValueError: `sentences.parse` refuses the text.
        RuntimeError: a process has died.
    """
    with contextlib.ExitStack() as stack:
        free: queue.SimpleQueue[subprocess.Popen] = queue.SimpleQueue()
        for _ in range(processes):
            free.put(stack.enter_context(_start_worker(settings, processes)))
        threads = stack.enter_context(ThreadPoolExecutor(processes))
        yield from _tokenize_in_order(
            blocks,
            lambda block: threads.submit(_ask, free, block),
            lambda block, future: future.result(),
            2 * processes + 1,
        )


def tokenize_with(
    executor: Executor, blocks: Iterable[Block], settings: TokenizingSettings
) -> Iterator[tuple[Block, Tokens]]:
    """Do the same by an executor's workers; `IN_FLIGHT` blocks are in memory at a time.

    Raises:
        ValueError: `sentences.parse` refuses the text.
        RuntimeError: a worker has died, the executor does not answer or refuses work, or a worker
            has other versions of the packages that cut text.
    """
    packed = _pack(settings)  # with each block: nobody says which workers know it already

    def submit(block: Block) -> Future:
        try:
            return executor.submit(_tokenize_in_worker, block, packed)
        except Exception as error:  # each executor has its own
            raise _executor_error(block, error) from error

    def wait(block: Block, future: Future):
        try:
            return future.result(ANSWER_S)
        except Exception as error:  # as above; an error of the text comes as an answer
            future.cancel()
            raise _executor_error(block, error) from error

    yield from _tokenize_in_order(blocks, submit, wait, IN_FLIGHT)


def _tokenize_in_order(
    blocks: Iterable[Block],
    submit: Callable[[Block], Future],
    wait: Callable[[Block, Future], Tokens | str],
    limit: int,
) -> Iterator[tuple[Block, Tokens]]:
    waiting: deque[tuple[Block, Future]] = deque()

    def is_full() -> bool:  # by number, or by bytes where lines are so long that blocks are
        size = sum(len(block.data) for block, _ in waiting)
        return len(waiting) >= limit or size >= IN_FLIGHT * BLOCK

    def next_answer() -> tuple[Block, Tokens]:
        block, future = waiting.popleft()
        answer = wait(block, future)
        if isinstance(answer, str):
            raise ValueError(answer)
        return block, answer

    try:
        for block in blocks:
            waiting.append((block, submit(block)))
            while is_full():
                yield next_answer()
        while waiting:
            yield next_answer()
    finally:
        for _, future in waiting:
            future.cancel()


def _executor_error(block: Block, error: Exception) -> RuntimeError:
    what = " ".join(f"{type(error).__name__}: {error}".removesuffix(": ").split())
    if isinstance(error, TimeoutError):
        what = f"no answer within {ANSWER_S:g} seconds"
    elif isinstance(error, CancelledError):
        what = "its work cancelled, as where a scheduler is lost"
    return RuntimeError(
        f"the executor failed to tokenize {block.path}, line {block.line}: {what.rstrip('.')}. "
        "Check its workers and run it again: what is done is kept"
    )


@contextlib.contextmanager
def _start_worker(settings: TokenizingSettings, processes: int) -> Iterator[subprocess.Popen]:
    """Start a worker process, which serves until the end of the context."""
    threads = max(1, (os.cpu_count() or 1) // processes)
    process = subprocess.Popen(
        [sys.executable, "-c", "from kbert.data.corpus.tokenizing import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        | {"TOKENIZERS_PARALLELISM": str(threads > 1).lower(), "RAYON_NUM_THREADS": str(threads)}
        | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        assert process.stdin
        pickle.dump(_pack(settings), process.stdin, protocol=5)
        yield process
    finally:
        process.kill()
        process.communicate()


def _ask(free: queue.SimpleQueue, block: Block) -> Tokens | str:
    """Let a free worker process tokenize a block."""
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


def serve() -> None:
    """Run a worker process: read blocks and write their tokens until there are no more."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not end up among the answers
    # the process at the other end may be killed at any time, in the middle of a message too
    ended = (EOFError, KeyboardInterrupt, BrokenPipeError, pickle.UnpicklingError)
    with contextlib.suppress(*ended):
        packed = pickle.load(source)
        while True:
            pickle.dump(_tokenize_in_worker(pickle.load(source), packed), sink, protocol=5)
            sink.flush()


def software() -> dict[str, str]:
    """Return the versions of the packages that cut text, which the tokens depend on."""
    return {name: importlib.metadata.version(name) for name in ("sentencex", "tokenizers")}


def _pack(settings: TokenizingSettings) -> bytes:
    return zlib.compress(pickle.dumps((settings, software())))


@functools.lru_cache(maxsize=2)
def _unpack(packed: bytes):
    """Return the Rust tokenizer and the settings, once in each worker.

    Raises:
        RuntimeError: other versions than where the shards are written: the bytes would differ.
    """
    import tokenizers

    settings, expected = pickle.loads(zlib.decompress(packed))
    if (here := software()) != expected:
        wanted, got = (", ".join(map(" ".join, v.items())) for v in (expected, here))
        raise RuntimeError(f"a worker must have {wanted}, as here, got {got}")
    return tokenizers.Tokenizer.from_str(settings.tokenizer), settings


def _tokenize_in_worker(block: Block, packed: bytes) -> Tokens | str:
    """Return a block's tokens, or what is wrong with its text, in words."""
    rust, settings = _unpack(packed)
    try:
        return _tokenize_block(block, rust, settings)
    except ValueError as error:
        return str(error)


def _tokenize_block(block: Block, rust, settings: TokenizingSettings) -> Tokens:
    parsed = parse(block, text_field=settings.text_field, language=settings.language)
    ids, lengths = [np.zeros(0, np.uint32)], np.zeros(len(parsed.sentences), np.uint32)
    for numbers, texts in _portions(parsed.sentences):
        encodings = rust.encode_batch_fast(texts, add_special_tokens=False)
        for number, encoding in zip(numbers, encodings, strict=True):
            ids.append(np.array(encoding.ids, np.uint32))
            lengths[number] += len(ids[-1])
    tokens = np.concatenate(ids)
    # "[SEP]" in a text is a special token to the tokenizer, and would end a segment.
    tokens[np.isin(tokens, settings.reserved)] = settings.unknown
    begins = np.array(parsed.begins, np.int64)
    return Tokens(tokens, *_drop_empty(lengths, begins, parsed.broken))


def _drop_empty(
    lengths: np.ndarray, begins: np.ndarray, broken: bool
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Remove sentences without tokens (control characters only) and empty documents."""
    mask = lengths > 0
    before = np.concatenate([[0], np.cumsum(mask)])
    begins = np.unique(before[begins])
    if len(begins) and begins[-1] == before[-1]:
        begins, broken = begins[:-1], True
    return lengths[mask], begins, broken


def _portions(sentences: list[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Yield (numbers, texts) of sentences in portions of bounded size, huge ones in pieces."""
    numbers, texts, size = [], [], 0
    for number, sentence in enumerate(sentences):
        for text in cut(sentence, _PIECE):
            numbers.append(number)
            texts.append(text)
            size += len(text)
            if size >= _PIECE:
                yield numbers, texts
                numbers, texts, size = [], [], 0
    if texts:
        yield numbers, texts
