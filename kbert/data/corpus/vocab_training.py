"""Training of a WordPiece vocabulary from raw text, by the Rust package `tokenizers`."""

import functools
import itertools
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral

import tokenizers

from kbert.data.corpus.sentences import cut, parse_corpus
from kbert.data.corpus.sources import list_files
from kbert.data.tokenization.tokenizer import FILES, Tokenizer
from kbert.data.tokenization.vocabulary import MAX_WORD_CHARS, SPECIAL_TOKENS, bert_normalizer
from kbert.graph.aliases import answer_old_names
from kbert.graph.config import require_positive
from kbert.io import printable
from kbert.io.atomic_write import refuse_input
from kbert.io.folders import atomic_folder, check_new_folder

# tokenizers' BertWordPieceTokenizer.train has these defaults
MIN_FREQUENCY = 2
ALPHABET = 1000

_PIECE = 1 << 16  # characters that are normalized at a time: Rust keeps where each came from
# What may hold a long word; each of the commonest Chinese characters is a word of its own
_LONG_RUN = re.compile(rf"[^\s\u3400-\u4dbf\u4e00-\u9fff]{{{MAX_WORD_CHARS + 1},}}")

_logger = logging.getLogger("kbert")


@printable.escape_errors()
@answer_old_names
def train_vocab(
    corpus: str | os.PathLike | Iterable[str | os.PathLike],
    size: int,
    output: str | os.PathLike,
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    min_frequency: int = MIN_FREQUENCY,
    alphabet: int = ALPHABET,
    unused: int = 0,
    corpus_format: str | None = None,
    text_column: str | Mapping[str, str] = "text",
    language: str = "en",
    overwrite: bool = False,
) -> Tokenizer:
    """Train a vocabulary, and write it as `vocab.txt` with transformers' settings.

    [PAD], [UNK], [CLS], [SEP], [MASK] have the ids 0 … 4. [unused0] … follow, then the characters,
    then the pieces, the most frequent first. The same corpus always gives the same file; the Rust
    trainer alone does not ensure this, because it orders characters and breaks ties by a random
    hash. Words of more than 100 characters are left out: tokenizers read them as [UNK], and the
    trainer's time grows with their square.

    Args:
        corpus: files, folders or globs, see `corpus.find_files`; read three times.
        size: number of tokens, special tokens included.
        output: the folder to write, new or empty, which `Tokenizer.load` reads.
        lowercase: whether to lowercase texts first (an uncased vocabulary).
        strip_accents: whether to strip accents; None: same as `lowercase`.
        min_frequency: how often two pieces must occur side by side to be merged.
        alphabet: how many characters get a token, the most frequent first; others are [UNK].
        unused: number of [unused…] tokens, reserved for tokens that you add later.
        corpus_format, text_column, language: as for `prepare`.
        overwrite: whether to write into a folder with files; those of the same names are replaced.

    Returns:
        The new `Tokenizer`.

    Raises:
        FileExistsError: without `overwrite`, a folder with files.
        OSError: a file cannot be read or written.
        ValueError: no text; a size too small for the special tokens, the characters and the
            [unused…] tokens; a file of the corpus that would be replaced.
    """
    _check_size(size, unused)
    require_positive("min_frequency", min_frequency)
    require_positive("alphabet", alphabet)
    folder = check_new_folder(output, overwrite=overwrite)
    for name in FILES:
        refuse_input(folder / name, list_files(corpus))
    special = list(SPECIAL_TOKENS.values())
    special += [f"[unused{number}]" for number in range(unused)]
    rules = functools.partial(
        Tokenizer.from_vocab, lowercase=lowercase, strip_accents=strip_accents
    )
    rules(special)  # raises for an invalid casing
    rust = _build_untrained(bert_normalizer(lowercase, strip_accents, tokenize_chinese_chars=True))

    def texts() -> Iterator[list[str]]:
        parsed = parse_corpus(
            corpus, corpus_format=corpus_format, text_column=text_column, language=language
        )
        for _, sentences in parsed:
            yield _cut_sentences(rust, sentences)

    characters = _common_characters(rust, texts(), alphabet)
    if not characters:
        first_files = list_files(corpus)[:3]
        names = ", ".join(path.name for path in first_files)
        raise ValueError(f"the corpus must hold text, got no sentence in {names}")
    first = special + characters
    # the ##x that occur, in any order: a training without merges finds them
    unlimited = 1 << 60
    tokens = _train(rust, texts(), len(first), first, characters, unlimited)
    first += sorted(set(tokens) - set(first))
    if len(first) > size:
        raise ValueError(
            f"size must be at least {len(first)} ({len(special)} special tokens and "
            f"{len(first) - len(special)} single characters), got {size}: raise size, or lower "
            "alphabet"
        )

    tokens = _train(rust, texts(), size, first, characters, min_frequency)
    tokenizer = rules(tokens)
    with atomic_folder(output) as part:
        tokenizer.save(part)
    return tokenizer


def _cut_sentences(rust, sentences: Iterable[str]) -> list[str]:
    """Return the pieces of sentences that the trainer reads, without the words that it cannot use.

    [UNK] stands for words of WikiText that nobody knows.
    """
    pieces: list[str] = []
    for sentence in sentences:
        if sentence:
            known = sentence.replace(SPECIAL_TOKENS["unk"], " ")
            pieces += cut(_drop_long_words(rust, known), _PIECE)
    return pieces


def _check_size(size: int, unused: int) -> None:
    count = len(SPECIAL_TOKENS)
    if require_positive("size", size) <= count:
        listed = ", ".join(SPECIAL_TOKENS.values())
        raise ValueError(f"size must be more than {count} ({listed}), got {size}")

    most = size - count
    is_whole = isinstance(unused, Integral) and not isinstance(unused, bool)
    if not is_whole or not 0 <= unused <= most:
        raise ValueError(
            f"unused must be a whole number from 0 to {most}, size less the special "
            f"tokens, got {unused!r}"
        )


def _drop_long_words(rust, text: str) -> str:
    """Remove the words that every tokenizer reads as [UNK]."""

    def drop(run: re.Match) -> str:
        normalized = rust.normalizer.normalize_str(run[0])
        pieces = rust.pre_tokenizer.pre_tokenize_str(normalized)
        short = [piece for piece, _ in pieces if len(piece) <= MAX_WORD_CHARS]
        if len(short) == len(pieces):
            return run[0]
        return " ".join(short)

    return _LONG_RUN.sub(drop, text)


def _build_untrained(normalizer: tokenizers.normalizers.Normalizer) -> tokenizers.Tokenizer:
    """Return a Rust tokenizer with BERT's rules and no tokens."""
    unknown = SPECIAL_TOKENS["unk"]
    model = tokenizers.models.WordPiece(unk_token=unknown)
    rust = tokenizers.Tokenizer(model)
    rust.normalizer = normalizer
    rust.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return rust


def _common_characters(rust, texts: Iterable[list[str]], most: int) -> list[str]:
    """Return the most frequent characters, by code point; ties go to the lower one."""
    counts: Counter[str] = Counter()
    for text in itertools.chain.from_iterable(texts):
        counts.update(rust.normalizer.normalize_str(text))
    common = sorted(counts, key=lambda character: (-counts[character], character))
    visible = [character for character in common if not character.isspace()]
    return sorted(visible[:most])


def _train(rust, texts, size, first, characters, min_frequency) -> list[str]:
    """Train the tokens: `first`, then the trainer's; warn if there are too few."""
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=first,  # they keep their order
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        show_progress=False,
    )
    fresh = _build_untrained(rust.normalizer)
    fresh.train_from_iterator(texts, trainer)
    ids = fresh.get_vocab()
    if len(ids) < size:
        _logger.warning(
            "the corpus is too small for %d tokens: the vocabulary has %d, and no other pair of "
            "tokens is adjacent %d times. Use it as it is, or add text",
            size,
            len(ids),
            min_frequency,
        )
    return sorted(ids, key=ids.__getitem__)
