"""Tokenizing of blocks of text in other processes, in the order of the blocks.

The workers are processes of kbert's, or those of any `concurrent.futures.Executor`: a pool, a
client of Dask, of MPI. A block goes to a worker as bytes and comes back as tokens, so that no
worker needs a disk.
"""

import contextlib
import functools
import importlib.metadata
import os
import pickle
import subprocess
import sys
import threading
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kbert.data.corpus.blocks import BLOCK, Block
from kbert.data.corpus.duplicates import sign_documents
from kbert.data.corpus.sentences import cut, parse

MOST_PROCESSES = 8  # of about 70 MB each; on more cores each has several threads
IN_FLIGHT = 64  # blocks that are with an executor, or whose tokens wait for their turn
ANSWER_S = 600.0  # for the first block too: a cluster may have to start its machines

_PIECE = 1 << 17  # characters that are tokenized at a time: the Rust encodings are large


@dataclass(frozen=True)
class TokenizingSettings:
    """The settings of a tokenizing process."""

    tokenizer: str  # the text of tokenizer.json
    reserved: tuple[int, ...]  # ids of an example's structure, which a text must not have
    unknown: int  # replaces them
    language: str
    signs: bool = False  # whether documents get the signatures that tell duplicates


class Tokens(NamedTuple):
    """A block's tokens: their ids, uint32, and the number of each sentence's tokens, uint32.

    A length of 0 stands where a document ends. `signatures` is of `duplicates.sign_documents`.
    """

    ids: np.ndarray
    lengths: np.ndarray
    signatures: np.ndarray | None = None


class WorkerProcesses(ThreadPoolExecutor):
    """Executor of kbert's own: each of its threads waits for the answers of one process.

    The processes are plain `python -c` on pipes. multiprocessing, and so ProcessPoolExecutor, would
    fork a process that may hold TensorFlow's threads or import the user's script again, and workers
    would outlive a killed `prepare`.
    """

    def __init__(self, count: int):
        super().__init__(count)
        self.limit = 2 * count + 1  # blocks in memory at a time
        threads = max(1, (os.cpu_count() or 1) // count)
        self._environment = {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "TOKENIZERS_PARALLELISM": str(threads > 1).lower(),
            "RAYON_NUM_THREADS": str(threads),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self._processes: list[subprocess.Popen] = []
        self._own = threading.local()

    def submit(self, fn, /, *args, **kwargs) -> Future:
        return super().submit(self._ask, fn, *args)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)
        for process in self._processes:
            process.kill()
            process.communicate()

    def _ask(self, function: Callable, block: Block, *arguments):
        """Let this thread's process call a function."""
        if not hasattr(self._own, "process"):
            self._own.process = subprocess.Popen(
                [sys.executable, "-c", "from kbert.data.corpus.tokenizing import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | self._environment,
            )
            self._processes.append(self._own.process)

        process = self._own.process
        try:
            request = (function, block, *arguments)
            pickle.dump(request, process.stdin, protocol=5)
            process.stdin.flush()
            return pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            process.wait()
            raise RuntimeError(
                f"a process that tokenizes has ended with status {process.returncode} at "
                f"{block.where()}: killed, or out of memory? Run it again: what is "
                "done is kept"
            ) from error


def serve() -> None:
    """Run a worker process: call functions and write their results until there are no more."""
    source = sys.stdin.buffer
    output = os.dup(1)
    sink = os.fdopen(output, "wb")
    os.dup2(2, 1)  # whatever prints must not end up among the answers
    # the process at the other end may be killed at any time, in the middle of a message too
    ended = (EOFError, KeyboardInterrupt, BrokenPipeError, pickle.UnpicklingError)
    with contextlib.suppress(*ended):
        while True:
            function, *arguments = pickle.load(source)
            pickle.dump(function(*arguments), sink, protocol=5)
            sink.flush()


def tokenize(
    blocks: Iterable[Block], settings: TokenizingSettings, executor: Executor
) -> Generator[tuple[Block, Tokens], None, None]:
    """Yield (block, its `Tokens`), in order; a limited number of blocks is in memory at a time.

    Raise a ValueError if `sentences.parse` refuses the text, a RuntimeError if a process has died,
    the executor does not answer or a worker has other versions of the packages that cut text.
    """
    limit = IN_FLIGHT
    timeout: float | None = ANSWER_S
    explain: Callable[[Block], contextlib.AbstractContextManager] = _explain_failure
    if isinstance(executor, WorkerProcesses):  # which explain failures themselves
        limit, timeout, explain = executor.limit, None, contextlib.nullcontext
    # It goes with each block: nobody says which workers know it already.
    pickled = pickle.dumps((settings, software(settings.signs)))
    packed = zlib.compress(pickled)
    waiting: deque[tuple[Block, Future]] = deque()

    def is_full() -> bool:  # by number, or by bytes where lines are so long that blocks are
        size = sum(len(block.data) for block, _ in waiting)
        return len(waiting) >= limit or size >= IN_FLIGHT * BLOCK

    def next_answer() -> tuple[Block, Tokens]:  # a function, so that nothing keeps the future
        block, future = waiting[0]
        with explain(block):
            answer = future.result(timeout)
        waiting.popleft()
        if isinstance(answer, str):
            raise ValueError(answer)
        return block, answer

    try:
        for block in blocks:
            with explain(block):
                waiting.append((block, executor.submit(_tokenize_in_worker, block, packed)))
            while is_full():
                yield next_answer()
        while waiting:
            yield next_answer()
    finally:
        for _, future in waiting:
            future.cancel()


@contextlib.contextmanager
def _explain_failure(block: Block) -> Iterator[None]:
    """Turn whatever an executor raises into one line; an error of the text comes as an answer."""
    try:
        yield
    except Exception as error:  # each executor has its own
        what = " ".join(f"{type(error).__name__}: {error}".removesuffix(": ").split())
        if isinstance(error, TimeoutError):
            what = f"no answer within {ANSWER_S:g} seconds"
        elif isinstance(error, CancelledError):
            what = "its work cancelled, as where a scheduler is lost"
        raise RuntimeError(
            f"the executor failed to tokenize {block.where()}: {what.rstrip('.')}. "
            "Check its workers and run it again: what is done is kept"
        ) from error


def software(signs: bool = False) -> dict[str, str]:
    """Return the versions of the packages that cut, and sign, text: the tokens depend on them."""
    names = ["sentencex", "tokenizers"]
    if signs:
        names.append("rensa")
    return {name: importlib.metadata.version(name) for name in names}


@functools.lru_cache(maxsize=2)
def unpack(packed: bytes):
    """Return the Rust tokenizer and the settings, once in each worker."""
    import tokenizers

    settings, expected = pickle.loads(zlib.decompress(packed))
    here = software(settings.signs)
    if here != expected:  # the shards' bytes would differ
        wanted, got = _list_versions(expected), _list_versions(here)
        raise RuntimeError(f"a worker must have {wanted}, as here, got {got}")
    return tokenizers.Tokenizer.from_str(settings.tokenizer), settings


def _list_versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _tokenize_in_worker(block: Block, packed: bytes) -> Tokens | str:
    """Return a block's tokens, or what is wrong with its text, in words."""
    rust, settings = unpack(packed)
    try:
        sentences = parse(block, language=settings.language)
    except ValueError as error:
        return str(error)

    ids = [np.zeros(0, np.uint32)]
    lengths = np.zeros(len(sentences), np.uint32)
    for numbers, texts in _portions(sentences):
        encodings = rust.encode_batch_fast(texts, add_special_tokens=False)
        for number, encoding in zip(numbers, encodings, strict=True):
            piece = np.array(encoding.ids, np.uint32)
            ids.append(piece)
            lengths[number] += len(piece)

    tokens = np.concatenate(ids)
    # "[SEP]" in a text is a special token to the tokenizer, and would end a segment.
    tokens[np.isin(tokens, settings.reserved)] = settings.unknown
    is_end = np.array([not sentence for sentence in sentences], bool)
    has_length = is_end | (lengths > 0)  # some have control characters alone
    signatures = sign_documents(sentences) if settings.signs else None
    return Tokens(tokens, lengths[has_length], signatures)


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
