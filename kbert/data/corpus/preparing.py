"""Prepare a corpus: tokenize raw text once into shards, streaming and resumable.

A folder of shards holds

    index.json            what it was made from and what it holds, with hashes; written last
    tokens-00000.npy …    token ids, uint16 (uint32 beyond 65,536 tokens), about `SHARD` each
    sentences.npy         int64 (sentences + 1,): where each begins among all tokens
    documents.npy         int64 (documents + 1,): where each begins among all sentences
    vocabulary/           the tokenizer

The arrays are memory-mapped. TFRecord and ArrayRecord hold fixed records, but pairs and masks are
sampled again in every epoch, so an example is any slice of tokens, at random, on any host. The
plan of an epoch needs the lengths of all sentences without reading any token.

While `prepare` runs there are also begun.json (what it is made from), and for each shard
part-00000.json, -sentences.npy and -documents.npy; part-….json is written last and says where to
resume. The end of a shard depends on the text alone. So the bytes do not depend on the number of
interruptions, on the number of processes, or on the executor that tokenizes.
"""

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from kbert.data.corpus import table_files, tokenizing
from kbert.data.corpus.blocks import Block
from kbert.data.corpus.corpus_warnings import warn_of_corpus
from kbert.data.corpus.duplicates import UniqueDocuments, choose_bands
from kbert.data.corpus.mixing import SourceReader, Taken, take_all, take_mix
from kbert.data.corpus.shard_writer import ShardWriter
from kbert.data.corpus.shards import Shards, open_shards
from kbert.data.corpus.sources import Source, find_sources, join_files
from kbert.data.corpus.text_files import (
    FORMATS,
    describe,
    format_of,
    read_blocks,
)
from kbert.data.tokenization.tokenizer import Tokenizer, require_wordpiece
from kbert.graph import aliases
from kbert.graph.config import require_positive
from kbert.io import extras, printable
from kbert.io.bucket_folder import BucketFolder
from kbert.io.folders import check_new_folder
from kbert.io.progress import progress_bar
from kbert.io.remote_files import is_remote
from kbert.io.text_bytes import is_packed
from kbert.io.wording import check_choice, name_setting

_logger = logging.getLogger("kbert")

SHARD = 1 << 24  # tokens; at most that many are lost by an interruption
_MOST_OFF = 0.01  # of the tokens that a source may have more or less than its share


@printable.escape_errors()
@aliases.answer_old_names
def prepare(
    corpus: str | os.PathLike | Iterable[str | os.PathLike] | Mapping[str, Any],
    vocab: str | os.PathLike | Tokenizer,
    output: str | os.PathLike,
    *,
    mix: Mapping[str, float] | str | None = None,
    drop_duplicates: float | None = None,
    corpus_format: str | None = None,
    text_column: str | Mapping[str, str] = "text",
    language: str = "en",
    lowercase: bool | None = None,
    processes: int | None = None,
    executor: Executor | None = None,
    shard_tokens: int = SHARD,
    progress: bool = False,
) -> Shards:
    """Tokenize a corpus once into a folder of memory-mapped shards.

    Call it again after an interruption to resume; the result has the same bytes. Memory does not
    grow with the corpus: it stays below 1 GiB, worker processes included. `drop_duplicates` needs
    about 0.4 GB more per million documents.

    Args:
        corpus: files, folders or globs, also compressed, see `text_files.find_files`; or a dict of
            such by the names of the sources, or texts NAME=PATH.
        vocab: a `Tokenizer`, or anything that `Tokenizer.load` reads.
        output: the folder; it is created if necessary. Also s3://… or gs://…: shards are sent there
            one by one, from a copy that is removed at the end.
        mix: shares of the tokens that the sources shall have, {"wiki": 0.7, "books": 0.3}. The
            shards end where the source that lacks most has no more text. None: all text, one source
            after the other.
        drop_duplicates: leave out documents whose similarity to one before is about this or more,
            above 0 and at most 1, such as 0.8: their Jaccard similarity by 5-grams of words, by
            MinHash, see `duplicates`. Of documents near the limit some stay: with 0.8, about 40 %
            of similarity 0.8 are found, 89 % of 0.89, 8 % of 0.7. The first one stays. Equal ones
            are always found, unless the end of a block of 1 MiB cuts one in a text file.
            index.json says how many were left out. None: all documents stay.
        corpus_format: "sentences", "wikitext", "jsonl", "parquet" or "arrow"; None: recognized from
            each file's first bytes and lines.
        text_column: the field of a JSON line, or the column of a table, that holds the text; or a
            dict of such by the names of the sources, or "wiki=text,books=body".
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
        ImportError: a package that reads the corpus, or tells duplicates, is not installed.
        OSError: a file cannot be read or written.
        RuntimeError: a process or the executor failed (the finished shards are kept), or another
            process prepares the same folder.
        TypeError: `executor` is not an executor.
        ValueError: no sentence in the corpus; a text that `sentences.parse` refuses (with file and
            line; unfinished shards are removed, because the text must change); an `output` that
            holds shards of something else (the message names the difference); `processes` together
            with an `executor`.
    """
    check_choice("sentences" if corpus_format is None else corpus_format, FORMATS, "corpus_format")
    require_positive("shard_tokens", shard_tokens)
    duplicates = _describe_duplicates(drop_duplicates)
    workers = _choose_workers(processes, executor)
    sources = find_sources(corpus, mix, text_column)
    files = join_files(sources)
    folder, bucket = _open_output(output)
    if isinstance(vocab, Tokenizer):
        tokenizer = vocab
    else:
        tokenizer = Tokenizer.load(vocab, lowercase=lowercase)

    formats = [corpus_format or format_of(file) for file in files]
    text = require_wordpiece(tokenizer, "prepare").engine().to_json()
    identity = {
        "corpus": _describe_files(files, formats),
        "vocabulary": {
            "size": tokenizer.vocab_size,
            "lowercase": tokenizer.lowercase,
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        },
        "settings": {"language": language, "shard_tokens": shard_tokens}
        | _describe_sources(sources)
        | duplicates,
        "software": tokenizing.software(bool(duplicates)),
    }
    reserved = (tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
    settings = tokenizing.TokenizingSettings(
        text, reserved, tokenizer.unk_id, language, bool(duplicates)
    )

    with _make_folder(folder):
        if bucket is not None:
            bucket.claim()
        writer = ShardWriter(folder, identity, tokenizer, _list_beginnings(sources), bucket)
        if not writer.done:
            try:
                _write(writer, sources, formats, settings, workers, shard_tokens, progress)
            except Exception as error:
                # with a ValueError the text must change, and the unfinished shards with it
                if isinstance(error, ValueError) or not writer.has_shards:
                    writer.discard()
                raise
            writer.finish()
        writer.clean()
    shards = open_shards(output if bucket else folder)
    if duplicates:
        _logger.info("near-duplicates left out: %s", shards.index["duplicates"])
    warn_of_corpus(shards)
    return shards


def _open_output(output: str | os.PathLike) -> tuple[Path, BucketFolder | None]:
    """Return the folder to write to, and what it is the local copy of, if that is in a bucket."""
    if not is_remote(output):
        return check_new_folder(output, overwrite=True), None
    bucket = BucketFolder(output)
    bucket.fetch()
    return bucket.path, bucket


def _describe_files(files: Sequence[Path], formats: Sequence[str]) -> list[dict]:
    """Return what tells the files of a corpus from others, as JSON."""
    descriptions = []
    for file, form in zip(files, formats, strict=True):
        descriptions.append(describe(file) | {"format": form})
    return descriptions


def _describe_sources(sources: Sequence[Source]) -> dict[str, Any]:
    """Return the sources' numbers of files, weights and text columns, by name if they have one."""
    described: dict[str, Any] = {}
    if sources[0].name is not None:
        described["sources"] = {source.name: len(source.files) for source in sources}
    if sources[0].weight is not None:
        described["mix"] = {source.name: source.weight for source in sources}

    columns = {source.name: source.text_column for source in sources}
    # "text_field": as in shards of older releases
    described["text_field"] = columns
    if len(set(columns.values())) == 1:
        described["text_field"] = sources[0].text_column
    return described


def _describe_duplicates(similarity: float | None) -> dict[str, dict]:
    """Return the settings that tell duplicates, as JSON; {}: they stay."""
    if similarity is None:
        return {}
    if isinstance(similarity, bool) or not 0 < similarity <= 1:
        raise ValueError(
            f"{name_setting('drop_duplicates')} must be a similarity more than 0 and at most 1, "
            f"such as 0.8, got {similarity!r}"
        )
    extras.require(name_setting("drop_duplicates"), "corpora", "rensa")
    bands, rows = choose_bands(similarity)
    described = {"similarity": similarity, "bands": bands, "rows": rows}
    return {"drop_duplicates": described}


def _choose_workers(
    processes: int | None, executor: Executor | None
) -> contextlib.AbstractContextManager[Executor]:
    """Return the workers that tokenize; an executor of the user is not closed with the context."""
    if executor is None:
        cores = os.cpu_count() or 1
        most = max(cores, tokenizing.MOST_PROCESSES)
        if processes is not None and require_positive("processes", processes) > most:
            raise ValueError(
                f"processes must be at most {most}, one a core, or {tokenizing.MOST_PROCESSES}, "
                f"got {processes}"
            )
        count = processes or min(cores, tokenizing.MOST_PROCESSES)
        return tokenizing.WorkerProcesses(int(count))

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
    return contextlib.nullcontext(executor)


def _list_beginnings(sources: Sequence[Source]) -> list[dict]:
    """Return where the sources begin, as positions of `ShardWriter`; files count through all."""
    beginnings = []
    number = 0
    for source in sources:
        beginnings.append({"file": number, "offset": 0, "line": 1})
        number += len(source.files)
    return beginnings


def _write(
    writer: ShardWriter,
    sources: Sequence[Source],
    formats: Sequence[str],
    settings: tokenizing.TokenizingSettings,
    workers: contextlib.AbstractContextManager[Executor],
    shard_tokens: int,
    progress: bool,
) -> None:
    """Tokenize what is left of the sources, and write it in shards."""
    files = join_files(sources)
    size = None  # bytes of text; unknown if a file is compressed, or a table
    has_tables = not table_files.NAMES.keys().isdisjoint(formats)
    if not has_tables and not any(is_packed(file) for file in files):
        size = sum(file.stat().st_size for file in files)
    weights = [source.weight for source in sources if source.weight is not None]

    with workers as executor, contextlib.ExitStack() as stack:
        unique = None
        if settings.signs:
            described = writer.identity["settings"]["drop_duplicates"]
            unique = UniqueDocuments(described["bands"], described["rows"], writer.read_unique())
        readers = _open_readers(stack, writer.resume, sources, formats, settings, executor, unique)
        bar = stack.enter_context(progress_bar(size, "B", progress, unit_scale=True))

        def add(taken: Iterable[Taken]) -> None:
            for tokens, number, read_bytes in taken:
                writer.add(tokens, number)
                bar.update(read_bytes)

        def write(positions: list[dict]) -> None:
            writer.write_shard(positions, unique.take_fresh() if unique else None)

        for taken in take_mix(readers, weights) if weights else take_all(readers):
            add([taken])
            if writer.tokens >= shard_tokens:
                for reader in readers:
                    add(reader.take_read())
                write([reader.position for reader in readers])

    # each source at its end, so that nothing is taken if it is killed after this shard
    end = {"file": len(files), "offset": 0, "line": 1}
    write([reader.position | end for reader in readers])
    if weights:
        _warn_of_mix(sources, readers)


def _open_readers(
    stack: contextlib.ExitStack,
    positions: Sequence[dict],
    sources: Sequence[Source],
    formats: Sequence[str],
    settings: tokenizing.TokenizingSettings,
    executor: Executor,
    unique: UniqueDocuments | None,
) -> list[SourceReader]:
    """Return the readers of the sources from these positions on; the stack closes them."""
    files = join_files(sources)
    numbers = {str(file): number for number, file in enumerate(files)}
    ends = [beginning["file"] for beginning in _list_beginnings(sources)]
    ends = [*ends[1:], len(files)]

    readers = []
    for source, position, end in zip(sources, positions, ends, strict=True):
        blocks = _iterate_blocks(files[:end], formats, source.text_column, position)
        answers = tokenizing.tokenize(blocks, settings, executor)
        reader = SourceReader(answers, numbers, position, unique)
        stack.callback(reader.close)
        readers.append(reader)
    return readers


def _warn_of_mix(sources: Sequence[Source], readers: Sequence[SourceReader]) -> None:
    """Log shares that are off by more than `_MOST_OFF`: documents are taken whole."""
    total = sum(reader.taken for reader in readers)
    off = []
    for source, reader in zip(sources, readers, strict=True):
        ratio = reader.taken / max(total, 1)
        if abs(ratio - source.weight) > _MOST_OFF:
            off.append(f"{source.name} has {ratio:.1%} of the tokens, not {source.weight:.1%}")
    if off:
        _logger.warning(
            "%s: its documents are long, or one source has little text. Documents are taken whole",
            "; ".join(off),
        )


def _iterate_blocks(
    files: Sequence[Path], formats: Sequence[str], text_column: str, resume: dict
) -> Iterator[Block]:
    """Yield the blocks of files, from where to resume: the file, its offset and its line."""
    first = resume["file"]
    for number in range(first, len(files)):
        start = (resume["offset"], resume["line"]) if number == first else ()
        yield from read_blocks(files[number], formats[number], text_column, *start)


@contextlib.contextmanager
def _make_folder(folder: Path):
    """Make and lock the folder; remove it after an error if it is new and empty.

    Raise a RuntimeError if another process prepares it.
    """
    is_new = not folder.exists()
    handle = None
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with contextlib.suppress(ImportError):  # Windows
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BaseException as error:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
        if isinstance(error, BlockingIOError):
            text = f"{folder}: another process prepares this folder: wait for it"
            raise RuntimeError(text) from None
        raise
    finally:
        if handle is not None:
            os.close(handle)
