"""Blocks of text that the workers of a `concurrent.futures.Executor` tokenize, in order.

The executor is the caller's: a pool of processes, a client of Dask, of MPI. A block goes to a
worker as bytes and comes back as tokens, so that no worker needs a disk: a path and an offset would
save little, since whoever prepares reads the text anyway, to see where its lines end. With each
block goes the tokenizer, compressed: an executor does not say which of its workers know it.
"""

import functools
import pickle
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future

from kbert.data.corpus.text_files import BLOCK, Block
from kbert.data.corpus.tokenizing_workers import (
    TokenizingSettings,
    Tokens,
    answer_to,
    software,
    tokens_in,
)

IN_FLIGHT = 64  # blocks that are with the executor, or whose tokens wait for their turn
ANSWER_S = 600.0  # for the first block too: a cluster may have to start its machines


def tokenize_with(
    executor: Executor, blocks: Iterable[Block], settings: TokenizingSettings
) -> Iterator[tuple[Block, Tokens]]:
    """Yield (block, its `Tokens`), in order; `IN_FLIGHT` blocks are in memory at a time.

    Raises:
        ValueError: what `sentences.parse` refuses.
        RuntimeError: a worker has died, the executor does not answer or refuses work, or a worker
            has other versions of what cuts text.
    """
    packed = zlib.compress(pickle.dumps((settings, software())))
    waiting: deque[tuple[Block, Future]] = deque()
    try:
        for block in blocks:
            waiting.append((block, _submit(executor, block, packed)))
            while _full(waiting):
                yield _answer(*waiting.popleft())
        while waiting:
            yield _answer(*waiting.popleft())
    finally:
        for _, future in waiting:
            future.cancel()


def _full(waiting: deque[tuple[Block, Future]]) -> bool:
    """By number, or by bytes where lines are so long that blocks are."""
    held = sum(len(block.data) for block, _ in waiting)
    return len(waiting) >= IN_FLIGHT or held >= IN_FLIGHT * BLOCK


def _submit(executor: Executor, block: Block, packed: bytes) -> Future:
    try:
        return executor.submit(_tokenized, block, packed)
    except Exception as error:  # each executor has its own
        raise _failed(block, error) from error


def _answer(block: Block, future: Future) -> tuple[Block, Tokens]:
    try:
        answer = future.result(ANSWER_S)
    except Exception as error:  # as above; text that is wrong comes as an answer
        future.cancel()
        raise _failed(block, error) from error
    return block, tokens_in(answer)


def _failed(block: Block, error: Exception) -> RuntimeError:
    what = " ".join(f"{type(error).__name__}: {error}".removesuffix(": ").split())
    if isinstance(error, TimeoutError):
        what = f"no answer within {ANSWER_S:g} seconds"
    elif isinstance(error, CancelledError):
        what = "its work cancelled, as where a scheduler is lost"
    return RuntimeError(
        f"the executor failed to tokenize {block.path}, line {block.line}: {what.rstrip('.')}. "
        "Check its workers and run it again: what is done is kept"
    )


def _tokenized(block: Block, packed: bytes) -> Tokens | str:
    """Tokenize a block in a worker."""
    return answer_to(block, *_unpacked(packed))


@functools.lru_cache(maxsize=2)
def _unpacked(packed: bytes):
    """Return the Rust tokenizer and the settings, once in each worker.

    Raises:
        RuntimeError: other versions than where the shards are written: the bytes would differ.
    """
    import tokenizers

    settings, expected = pickle.loads(zlib.decompress(packed))
    if (there := software()) != expected:
        raise RuntimeError(f"a worker must have {_named(expected)}, as here, got {_named(there)}")
    return tokenizers.Tokenizer.from_str(settings.tokenizer), settings


def _named(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
