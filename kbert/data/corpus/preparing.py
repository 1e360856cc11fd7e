"""Prepare a corpus: tokenize raw text once into shards, streaming and resumable.

A folder of shards holds

    index.json            what it was made from and what it holds, with hashes; written last
    tokens-00000.npy …    token ids, uint16 (uint32 beyond 65,536 tokens), about `SHARD` each
    sentences.npy         int64 (sentences + 1,): where each begins among all tokens
    documents.npy         int64 (documents + 1,): where each begins among all sentences
    vocabulary/           the tokenizer

The arrays are memory-mapped. TFRecord or ArrayRecord would not do: pairs and masks are sampled
again in every epoch, so an example is any slice of tokens, at random, on any host. Those formats
hold fixed records and need packages that not every platform has. The plan of an epoch needs the
lengths of all sentences without reading any token.

While `prepare` runs there are also begun.json (what it is made from), and for each shard
part-00000.json, -sentences.npy and -documents.npy; part-….json is written last and says where to
resume. The end of a shard depends on the text alone. So the bytes do not depend on the number of
interruptions, on the number of processes, or on the executor that tokenizes.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from kbert.data.corpus.corpus_warnings import warn_of_corpus
from kbert.data.corpus.shard_writer import ShardWriter
from kbert.data.corpus.shards import Shards, open_shards
from kbert.data.corpus.text_files import check_format, describe, find_files, format_of, read_blocks
from kbert.data.corpus.tokenizing_executor import tokenize_with
from kbert.data.corpus.tokenizing_workers import (
    MOST_PROCESSES,
    TokenizingSettings,
    software,
    tokenize,
)
from kbert.data.tokenization.tokenizer import Tokenizer, require_wordpiece
from kbert.data.tokenization.wordpiece import WordPiece
from kbert.graph import aliases
from kbert.graph.config import require_positive
from kbert.io.progress import progress_bar

SHARD = 1 << 24  # tokens; at most that many are lost by an interruption


@aliases.answer_old_names
def prepare(
    corpus: str | os.PathLike | Iterable[str | os.PathLike],
    vocab: str | os.PathLike | Tokenizer,
    output: str | os.PathLike,
    *,
    format: str | None = None,
    text_field: str = "text",
    language: str = "en",
    lowercase: bool | None = None,
    processes: int | None = None,
    executor: Executor | None = None,
    shard_tokens: int = SHARD,
    progress: bool = False,
) -> Shards:
    """Tokenize a corpus once into a folder of memory-mapped shards.

    Call it again after an interruption to resume; the result has the same bytes. Memory does not
    grow with the corpus: it stays below 1 GiB, worker processes included.

    Args:
        corpus: files, folders or globs, also compressed with gzip, see `corpus.find_files`.
        vocab: a `Tokenizer`, or anything that `Tokenizer.load` reads.
        output: the folder; it is created if necessary.
        format: "sentences", "wikitext" or "jsonl"; None: guessed from the first lines of each file.
        text_field: the field of a JSON line that holds the text.
        language: ISO 639 code, for splitting paragraphs into sentences.
        lowercase: whether the vocabulary is uncased, if the files of `vocab` do not say.
        processes: number of tokenizing processes, at most the number of cores or 8; None: one per
            core, at most 8 (each has several threads).
        executor: an executor whose workers tokenize instead; it is not closed. The workers need
            kbert but no disk: they get blocks of 1 MiB as bytes, 64 at a time. See
            docs/how_to/several_machines.md.
        shard_tokens: minimum number of tokens in a shard.
        progress: whether to show a progress bar on stderr after two seconds.

    Returns:
        The opened `Shards`.

    Raises:
        OSError: a file cannot be read or written.
        RuntimeError: a process or the executor failed (the finished shards are kept), or another
            process prepares the same folder.
        TypeError: `executor` is not an executor.
        ValueError: no sentence in the corpus; a text that `sentences.parse` refuses (with file and
            line; unfinished shards are removed, because the text must change); an `output` that
            holds shards of something else (the message names the difference); `processes` together
            with an `executor`.
    """
    check_format(format)
    require_positive("shard_tokens", shard_tokens)
    tokenizing = _tokenizing(processes, executor)
    files, folder = find_files(corpus), Path(output)
    tokenizer = (
        vocab if isinstance(vocab, Tokenizer) else Tokenizer.load(vocab, lowercase=lowercase)
    )
    forms = [format or format_of(file) for file in files]
    identity = {
        "corpus": [
            describe(file) | {"format": form} for file, form in zip(files, forms, strict=True)
        ],
        "vocabulary": vocabulary_of(tokenizer),
        "settings": {"text_field": text_field, "language": language, "shard_tokens": shard_tokens},
        "software": software(),
    }
    with _alone(folder):
        writer = ShardWriter(folder, identity, tokenizer)
        if not writer.done:
            tokenized = partial(tokenizing, settings=_settings(tokenizer, text_field, language))
            try:
                _write(writer, files, forms, tokenized, shard_tokens, progress)
            except ValueError:  # of the text: once it is mended, what was begun is of another one
                writer.discard()
                raise
            writer.finish()
        writer.clean()
    shards = open_shards(folder)
    warn_of_corpus(shards)
    return shards


def _tokenizing(processes: int | None, executor: Executor | None):
    """Return the tokenizing worker pool: local processes or an executor."""
    if executor is None:
        return partial(tokenize, processes=_processes(processes))
    if not isinstance(executor, Executor):
        raise TypeError(
            f"executor must be a concurrent.futures.Executor, got a {type(executor).__name__}: of "
            "Dask's clients it is client.get_executor()"
        )
    if processes is not None:
        raise ValueError(
            f"processes must be left out where there is an executor, got {processes!r}: its "
            "workers tokenize"
        )
    return partial(tokenize_with, executor)


def _processes(asked: int | None) -> int:
    """Return the number of tokenizing processes."""
    cores = os.cpu_count() or 1
    if asked is None:
        return min(cores, MOST_PROCESSES)
    most = max(cores, MOST_PROCESSES)
    if require_positive("processes", asked) > most:
        raise ValueError(
            f"processes must be at most {most}, one a core, or {MOST_PROCESSES}, got {asked}"
        )
    return int(asked)


def vocabulary_of(tokenizer: Tokenizer) -> dict:
    """Return what identifies a vocabulary."""
    text = WordPiece(require_wordpiece(tokenizer, "prepare")).to_json()
    return {
        "size": tokenizer.vocab_size,
        "lowercase": tokenizer.lowercase,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }


def _write(writer: ShardWriter, files, forms, tokenized, shard_tokens, progress) -> None:
    numbers = {str(file): number for number, file in enumerate(files)}
    with (
        contextlib.closing(tokenized(blocks=_blocks(files, forms, writer.place))) as answers,
        progress_bar(_size(files), "B", progress, unit_scale=True) as bar,
    ):
        for block, tokens in answers:
            writer.add(tokens, numbers[block.path])
            bar.update(len(block.data))
            if writer.tokens >= shard_tokens:
                place = {"file": numbers[block.path], "offset": block.end, "line": block.next_line}
                writer.write_shard(place)
    writer.write_shard({"file": len(files), "offset": 0, "line": 1})


def _blocks(files, forms, place: dict):
    first = place["file"]
    for number in range(first, len(files)):
        offset, line = (place["offset"], place["line"]) if number == first else (0, 1)
        yield from read_blocks(files[number], forms[number], offset, line)


def _settings(tokenizer: Tokenizer, text_field: str, language: str) -> TokenizingSettings:
    reserved = (tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
    text = WordPiece(require_wordpiece(tokenizer, "prepare")).to_json()
    return TokenizingSettings(text, reserved, tokenizer.unk_id, text_field, language)


def _size(files: list[Path]) -> int | None:
    """Return the bytes of text; None if a file is compressed."""
    packed = any(file.suffix == ".gz" for file in files)
    return None if packed else sum(file.stat().st_size for file in files)


@contextlib.contextmanager
def _alone(folder: Path):
    """Make the folder and lock it, where the system can do that; it goes again if nothing is in it.

    Raises:
        RuntimeError: another process prepares the folder.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _locked(folder):
            yield
    except BaseException:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
        raise


@contextlib.contextmanager
def _locked(folder: Path):
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise RuntimeError(f"{folder}: another process prepares this folder: wait for it") from None
    finally:
        os.close(handle)
