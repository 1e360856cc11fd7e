"""Tokenizers on the Rust package `tokenizers`: texts to ids and back, on every backend.

WordPiece is here; RoBERTa's byte-level BPE and XLM-R's Unigram are in `subwords.py`.

    text → clean, lowercase, strip accents → words and punctuation → word pieces → ids

The rules are those of google-research/bert's `tokenization.py`. The Rust package differs from it in
a few cases; there kbert gives the same ids as transformers' BertTokenizer, which is the same
package: private-use characters are dropped; a capital sigma at a word's end becomes σ and not ς;
U+2B820 … U+2B91F are not words of their own; punctuation and marks newer than its Unicode tables
are not known as such; a word of 101 to 200 characters is [UNK]; and "[MASK]" in a text is the mask.
"""

import functools
import json
import operator
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Unpack

from kbert.data.padding import pad_sequences
from kbert.data.tokenization.encodings import EncodedBatch, Encoding
from kbert.data.tokenization.long_runs import Cuts, may_shorten, shorten
from kbert.data.tokenization.subwords import Subwords
from kbert.data.tokenization.tokenizer_files import read_vocabulary
from kbert.data.tokenization.vocabulary import Rules, Vocabulary, read_tokens
from kbert.graph.aliases import Answering, answer_old_names
from kbert.graph.config import require_positive
from kbert.io import json_schema as js
from kbert.io import printable
from kbert.io.atomic_write import refuse_existing
from kbert.io.folders import atomic_folder
from kbert.io.wording import check_choice

FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")  # that `Tokenizer.save` writes
PADDINGS = ("longest", "max_length")


class Tokenizer(Answering):
    """A tokenizer: texts to BERT's word pieces and ids. Create one with `from_vocab` or `load`.

    A special token in a text, such as "[MASK]", is read as that token.

    Args:
        vocabulary: the tokens and the normalization rules.

    Raises:
        TypeError: a path or a list of tokens, which `from_vocab` takes.

    Attributes:
        tokens: every token, by id.
        vocab_size: number of tokens.
        pad_id, unk_id, cls_id, sep_id, mask_id: ids of the special tokens.
        between_ids: the ids between two texts: [SEP], or RoBERTa's </s></s>.
        second_segment: the segment of a second text: 1, or RoBERTa's 0.
        lowercase: whether texts are lowercased.
        max_length: number of tokens that tasks truncate texts to, if the model has more positions;
            None: no limit of its own.
    """

    def __init__(self, vocabulary: Vocabulary | Subwords):
        if not isinstance(vocabulary, (Vocabulary, Subwords)):
            raise TypeError(
                f"Tokenizer must get a Vocabulary, got {type(vocabulary).__name__}: "
                "kbert.Tokenizer.from_vocab(vocab, lowercase=True) takes a vocab.txt or a list of "
                "tokens, kbert.Tokenizer.load(path) a folder or a file"
            )
        self.vocabulary = vocabulary
        self.lowercase = vocabulary.lowercase
        self.max_length = vocabulary.max_length
        self.tokens = vocabulary.all_tokens
        self.vocab_size = len(self.tokens)
        self._ids = {token: index for index, token in enumerate(self.tokens)}

        special = vocabulary.special_tokens
        self.pad_id = self._ids[special["pad"]]
        self.unk_id = self._ids[special["unk"]]
        self.cls_id = self._ids[special["cls"]]
        self.sep_id = self._ids[special["sep"]]
        self.mask_id = self._ids[special["mask"]]

        self._pieces = vocabulary.engine()
        [pair] = self._pieces.encode([""], [""], True, None, "longest_first")
        self._segments = getattr(vocabulary, "segments", True)
        self.between_ids = pair.ids[1:-1]
        self.second_segment = pair.type_ids[-1] if self._segments else 0

    @classmethod
    def from_vocab(
        cls, vocab: str | os.PathLike | Iterable[str], *, lowercase: bool, **rules: Unpack[Rules]
    ) -> "Tokenizer":
        """Create a tokenizer from a `vocab.txt` or from a list of tokens.

        Args:
            vocab: the path of the file, or the tokens in the order of their ids.
            lowercase: True for an uncased vocabulary, False for a cased one.
            rules: `strip_accents`, `tokenize_chinese_chars`, `special_tokens`, see `Vocabulary`.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is empty or not UTF-8, or a special token is missing.
        """
        if isinstance(vocab, (str, os.PathLike)):
            tokens = read_tokens(vocab)
            rules.setdefault("source", str(vocab))
        else:
            tokens = tuple(vocab)
        return cls(Vocabulary(tokens=tokens, lowercase=lowercase, **rules))

    @classmethod
    @printable.escape_errors()
    def load(
        cls, path: str | os.PathLike, *, lowercase: bool | None = None, **rules: Unpack[Rules]
    ) -> "Tokenizer":
        """Load a tokenizer from a folder or a file.

        kbert reads `tokenizer.json`, else `vocab.txt`, with transformers' settings. RoBERTa's
        folders have `tokenizer.json` too, or `vocab.json` with `merges.txt`.

        Args:
            path: the folder, or one of the files.
            lowercase: whether the vocabulary is uncased; None: `do_lower_case` of
                `tokenizer_config.json`, else the normalizer of `tokenizer.json`. If neither says,
                kbert raises an error; transformers lowercases.
            rules: as for `from_vocab`; they override the files' settings.

        Raises:
            FileNotFoundError: neither file exists.
            ValueError: the casing is unknown; a `tokenizer.json` that is not BERT's WordPiece,
                byte-level BPE or Unigram; a file that is not UTF-8, not JSON or empty; a vocabulary
                that `from_vocab` refuses.
        """
        return cls(read_vocabulary(path, lowercase=lowercase, **rules))

    @answer_old_names
    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        add_special_tokens: bool = True,
        max_length: int | None = None,
        truncation: str = "longest_first",
    ) -> Encoding:
        """Encode one text, or two, to ids: [CLS] text [SEP], or [CLS] text [SEP] pair [SEP].

        Args:
            text: the text.
            pair: the second text.
            add_special_tokens: whether to add [CLS] and [SEP].
            max_length: maximum number of tokens, [CLS] and [SEP] included; they are never
                truncated.
            truncation: the text to truncate: "longest_first" (the longer one until both are equally
                long), "only_first" or "only_second".

        Returns:
            An `Encoding`.

        Raises:
            ValueError: the text is not a str or has a lone surrogate; `max_length` is too small for
                the special tokens; `truncation` cannot reach `max_length`.
        """
        check_text(text, "text")
        pairs = None
        if pair is not None:
            check_text(pair, "pair")
            pairs = [pair]

        [encoding] = self._encode([text], pairs, add_special_tokens, max_length, truncation)
        return encoding

    @answer_old_names
    def encode_batch(
        self,
        texts: Iterable[str],
        pairs: Iterable[str] | None = None,
        *,
        add_special_tokens: bool = True,
        max_length: int | None = None,
        truncation: str = "longest_first",
        padding: str = "longest",
        pad_to_multiple_of: int | None = None,
    ) -> EncodedBatch:
        """Encode texts, or pairs of texts, to ids, on all cores.

        Args:
            texts: the texts.
            pairs: the second texts, as many as `texts`.
            add_special_tokens, max_length, truncation: as for `encode`.
            padding: the length S of the arrays: "longest" (of the batch) or "max_length".
            pad_to_multiple_of: rounds S up to a multiple, for tensor cores or for fewer compiled
                shapes; `max_length` must be a multiple of it.

        Returns:
            An `EncodedBatch`: the encodings, and int32 arrays token_ids and segment_ids (B, S).

        Raises:
            ValueError: as for `encode`, with the index in the batch; the number of pairs differs
                from that of texts; an unknown `padding`, or "max_length" without a `max_length`; a
                text with the padding token in it, which a model would not attend to.
        """
        texts = _list_texts(texts, "texts")
        if pairs is not None:
            pairs = _list_texts(pairs, "pairs")
            if len(pairs) != len(texts):
                raise ValueError(f"pairs must be as many as texts, {len(texts)}, got {len(pairs)}")
        _check_padding(padding, max_length, pad_to_multiple_of)

        encodings = self._encode(texts, pairs, add_special_tokens, max_length, truncation)
        self._refuse_padding_tokens(encodings, texts, pairs)

        lengths = [len(encoding) for encoding in encodings]
        length = max(lengths, default=0)
        if padding == "max_length" and max_length is not None:
            length = max_length
        length += -length % (pad_to_multiple_of or 1)
        ids = [encoding.ids for encoding in encodings]
        segments = [encoding.segment_ids for encoding in encodings]
        token_ids = pad_sequences(ids, length, self.pad_id)
        segment_ids = pad_sequences(segments, length, 0)
        return EncodedBatch(encodings, token_ids, segment_ids)

    def _refuse_padding_tokens(
        self, encodings: list[Encoding], texts: list[str], pairs: list[str] | None
    ) -> None:
        """Raise a ValueError for a text that holds the padding token.

        transformers attends to it; kbert's graph would not.
        """
        token = self.tokens[self.pad_id]
        for index, encoding in enumerate(encodings):
            if self.pad_id not in encoding.ids:
                continue

            text = texts[index]
            if pairs is not None and token not in text:
                text = pairs[index]
            raise ValueError(
                f"a text must not hold {token!r}, the padding token, because attention leaves "
                f"it out: take it out of {js.short_repr(text)}"
            )

    def _encode(self, texts: list[str], pairs: list[str] | None, *options) -> list[Encoding]:
        """Encode by the Rust tokenizer, long runs shortened."""
        short, cuts = self._shorten(texts)
        cuts_by_text: list[Sequence[Cuts]]
        if pairs is None:
            short_pairs = None
            cuts_by_text = [(text_cuts,) for text_cuts in cuts]
        else:
            short_pairs, pair_cuts = self._shorten(pairs)
            cuts_by_text = list(zip(cuts, pair_cuts, strict=True))

        encoded = self._pieces.encode(short, short_pairs, *options)
        return [
            Encoding(encoding, self._segments, text_cuts)
            for encoding, text_cuts in zip(encoded, cuts_by_text, strict=True)
        ]

    @functools.cached_property
    def _may_shorten(self) -> bool:
        """Whether the middle of a long run may be left out of a text."""
        return may_shorten([entry["content"] for entry in self.vocabulary.added])

    def _shorten(self, texts: list[str]) -> tuple[list[str], list[Cuts]]:
        vocabulary = self.vocabulary
        if not isinstance(vocabulary, Vocabulary) or not self._may_shorten:
            return texts, [[] for _ in texts]

        short_texts, cuts = [], []
        for text in texts:
            short_text, text_cuts = shorten(text, vocabulary.max_word_chars)
            short_texts.append(short_text)
            cuts.append(text_cuts)
        return short_texts, cuts

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """Decode ids (S,) to text: join the pieces, no space before punctuation.

        As in transformers 5, contractions keep their spaces ("don ' t"), unless
        clean_up_tokenization_spaces of tokenizer_config.json is true ("don't"); byte-level BPE has
        its own spaces. Case, accents and repeated spaces that encoding removed are not restored.

        Raises:
            ValueError: the ids are not whole numbers of one sequence, or outside the vocabulary.
        """
        try:
            ids = [operator.index(number) for number in ids]
        except TypeError:
            raise ValueError("ids must be whole numbers, one sequence (S,)") from None
        for index, number in enumerate(ids):
            self._check_id(number, f"ids[{index}]")
        text = self._pieces.decode(ids, skip_special_tokens)
        return _clean_up(text) if self.vocabulary.clean_up else text

    def id_of(self, token: str) -> int:
        """Return the id of a token; raise a ValueError if the vocabulary lacks it."""
        if token not in self._ids:
            raise ValueError(f"token must be one of the vocabulary, got {token!r}")
        return self._ids[token]

    def token_of(self, number: int) -> str:
        """Return the token of an id; raise a ValueError if it is outside the vocabulary."""
        self._check_id(number, "the id")
        return self.tokens[number]

    def save(
        self,
        folder: str | os.PathLike,
        *,
        max_length: int | None = None,
        tokenizer_class: str | None = None,
        overwrite: bool = False,
    ) -> None:
        """Save `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`: all or none.

        There is no `vocab.txt` if the tokenizer is not WordPiece.

        Args:
            folder: the folder; it is created if necessary.
            max_length: the model's positions, transformers' `model_max_length`.
            tokenizer_class: transformers' class for WordPiece; None: BertTokenizer.
            overwrite: whether to replace files of these names.

        Raises:
            FileExistsError: without `overwrite`, a file of one of these names.
            OSError: a file cannot be written; the old ones stay.
        """
        values = self.vocabulary.tokenizer_config(max_length)
        files = {}
        if isinstance(self.vocabulary, Vocabulary):
            if tokenizer_class and values["tokenizer_class"] == "BertTokenizer":
                values["tokenizer_class"] = tokenizer_class
            files["vocab.txt"] = "".join(f"{token}\n" for token in self.tokens)
        files["tokenizer.json"] = self._pieces.to_json()
        files["tokenizer_config.json"] = json.dumps(values, indent=2) + "\n"

        if not overwrite:
            for name in files:
                refuse_existing(Path(folder, name))
        with atomic_folder(folder) as part:
            for name, text in files.items():
                (part / name).write_bytes(text.encode())

    def __reduce__(self):
        return Tokenizer, (self.vocabulary,)

    def __repr__(self) -> str:
        casing = "uncased" if self.lowercase else "cased"
        kind = f", {self.vocabulary.kind}" if isinstance(self.vocabulary, Subwords) else ""
        return f"Tokenizer({self.vocab_size} tokens, {casing}{kind})"

    def _check_id(self, number: int, name: str) -> None:
        if not 0 <= number < self.vocab_size:
            raise ValueError(
                f"{name} must be within the vocabulary, 0 … {self.vocab_size - 1}, got {number}"
            )


def _clean_up(text: str) -> str:
    """Remove spaces as transformers' clean_up_tokenization does, with the same replacements."""
    for mark in (".", "?", "!", ","):
        text = text.replace(f" {mark}", mark)
    text = text.replace(" ' ", "'")
    for ending in ("n't", "'m", "'s", "'ve", "'re"):
        text = text.replace(f" {ending}", ending)
    return text


def _check_padding(padding: str, max_length: int | None, pad_to_multiple_of: int | None) -> None:
    check_choice(padding, PADDINGS, "padding")
    if padding == "max_length" and max_length is None:
        raise ValueError("padding='max_length' needs max_length, got None")
    if pad_to_multiple_of is None:
        return

    require_positive("pad_to_multiple_of", pad_to_multiple_of)
    if max_length is not None and max_length % pad_to_multiple_of:  # S would be longer
        raise ValueError(
            f"max_length must be a multiple of pad_to_multiple_of={pad_to_multiple_of}, "
            f"got {max_length}"
        )


def _list_texts(texts: Iterable[str], name: str) -> list[str]:
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"{name} must be a list of str, got one {type(texts).__name__}")
    texts = list(texts)
    for index, text in enumerate(texts):
        check_text(text, f"{name}[{index}]")
    return texts


def check_text(text, name: str) -> None:
    """Raise a ValueError unless `text` is a str in valid UTF-8; `name` is the argument's name."""
    if not isinstance(text, str):
        raise ValueError(f"{name} must be a str, got {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} must be Unicode text, got a lone surrogate at character {error.start}"
        ) from None


def require_wordpiece(tokenizer: Tokenizer, what: str) -> Vocabulary:
    """Return the vocabulary of a WordPiece tokenizer; raise a ValueError for another."""
    if isinstance(tokenizer.vocabulary, Vocabulary):
        return tokenizer.vocabulary
    raise ValueError(
        f"{what} must have a WordPiece tokenizer, got one of {tokenizer.vocabulary.kind}"
    )
