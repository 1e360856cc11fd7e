"""A WordPiece vocabulary: tokens by id, rules, its Rust tokenizer; and `vocab.txt`."""

import logging
import operator
import os
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import tokenizers

from kbert.data.tokenization.rust_tokenizer import IDEOGRAPHS, WORD_BOUNDARIES, RustTokenizer
from kbert.graph.config import require_positive
from kbert.io import bounds
from kbert.io import json_schema as js
from kbert.io.wording import first_few

# google-research/bert, tokenization.py and create_pretraining_data.py
SPECIAL_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}

# Differs from Google: its current code says 200, its first release and every peer 100.
MAX_WORD_CHARS = 100

ADDED_TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")

FLAGS = dict.fromkeys(ADDED_TOKEN_FLAGS, js.FLAG)
ADDED_TOKEN = js.fields({"content": js.TEXT}, {"id": js.whole()} | FLAGS)
TRUNCATION_SIDES = ("right", "left")

_logger = logging.getLogger("kbert")


class Rules(TypedDict, total=False):
    """Arguments of `Vocabulary` other than the tokens and the casing."""

    strip_accents: bool | None
    tokenize_chinese_chars: bool
    special_tokens: dict[str, str]
    added: tuple[dict, ...]
    max_word_chars: int
    max_length: int | None
    truncation_side: str
    segments: bool
    clean_up: bool
    source: str


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """A WordPiece vocabulary, and the rules that normalize a text before it is split into tokens.

    Args:
        tokens: WordPiece's tokens; a token's index is its id.
        lowercase: whether texts are lowercased (an "uncased" vocabulary).
        strip_accents: whether accents are stripped; None: same as `lowercase`.
        tokenize_chinese_chars: whether each CJK ideograph is a word.
        special_tokens: the tokens of the roles pad, unk, cls, sep and mask, if they are not [PAD],
            [UNK], [CLS], [SEP] and [MASK].
        added: tokens found in a text before it is normalized, as `tokenizer.json` lists them: id,
            content and flags. The special tokens are always among them. Ids beyond `tokens`
            continue from them. A token without an id has that of the same token in `tokens`, or the
            next free one.
        max_word_chars: maximum characters of a word; a longer word is the unknown token.
        max_length: number of tokens that texts are truncated to, if the model has more positions.
        truncation_side: the end at which a long text is truncated, "right" or "left".
        segments: whether a second text has the segment 1; otherwise all tokens have 0.
        clean_up: whether decoding joins contractions ("don't"), as transformers'
            clean_up_tokenization_spaces; spaces before punctuation are always removed.
        source: its name in errors.

    Raises:
        ValueError: no tokens, a token that is not a str of one line, a missing special token, or an
            added token with the id of another.
    """

    tokens: tuple[str, ...]
    lowercase: bool
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    special_tokens: dict[str, str] = field(default_factory=dict)
    added: tuple[dict, ...] = ()
    max_word_chars: int = MAX_WORD_CHARS
    max_length: int | None = None
    truncation_side: str = "right"
    segments: bool = True
    clean_up: bool = False
    source: str = "the vocabulary"

    def __post_init__(self):
        self._check_flags()
        self._check_roles()
        self._check_tokens()
        tokens = _drop_duplicates(self.tokens, self.source)
        object.__setattr__(self, "tokens", tokens)
        check_truncation(self.max_length, self.truncation_side, self.source)
        require_positive(f"{self.source}: max_word_chars", self.max_word_chars)
        for entry in self.added:
            js.check(entry, ADDED_TOKEN, self.source, "an added token")

        ids = {token: token_id for token_id, token in enumerate(self.tokens)}
        added = _number_added(self.added, ids, self.source)
        special = SPECIAL_TOKENS | self.special_tokens
        check_special_tokens(special, ids, self.source)
        listed = {entry["content"] for entry in added}
        for token in special.values():
            if token not in listed:
                added.append(special_token(token) | {"id": ids[token]})

        object.__setattr__(self, "added", tuple(added))
        object.__setattr__(self, "special_tokens", special)

    def _check_flags(self) -> None:
        for name in ("lowercase", "strip_accents", "tokenize_chinese_chars"):
            value = getattr(self, name)
            is_unset = name == "strip_accents" and value is None
            if not isinstance(value, bool) and not is_unset:
                raise ValueError(f"{self.source}: {name} must be True or False, got {value!r}")

    def _check_roles(self) -> None:
        texts = js.mapping_of(js.TEXT)
        js.check(self.special_tokens, texts, self.source, "special_tokens")
        unknown = set(self.special_tokens) - set(SPECIAL_TOKENS)
        if unknown:
            roles = ", ".join(SPECIAL_TOKENS)
            raise ValueError(f"special_tokens must be of {roles}, got {', '.join(sorted(unknown))}")

    def _check_tokens(self) -> None:
        if not self.tokens:
            raise ValueError(f"{self.source} must hold tokens, got none")
        for token_id, token in enumerate(self.tokens):
            is_line = isinstance(token, str) and "\n" not in token and "\r" not in token
            if not is_line:
                raise ValueError(
                    f"{self.source}: token {token_id} must be one line of text, got {token!r}"
                )

    @property
    def all_tokens(self) -> tuple[str, ...]:
        """Tokens by id, including those beyond WordPiece's."""
        count = len(self.tokens)
        beyond = []
        for entry in self.added:
            if entry["id"] >= count:
                beyond.append(entry["content"])
        return (*self.tokens, *beyond)

    def engine(self) -> RustTokenizer:
        """Return the Rust tokenizer that encodes, as transformers builds BertTokenizer's."""
        cls, sep = self.special_tokens["cls"], self.special_tokens["sep"]
        word_piece = tokenizers.models.WordPiece(
            {token: token_id for token_id, token in enumerate(self.tokens)},
            unk_token=self.special_tokens["unk"],
            max_input_chars_per_word=self.max_word_chars,
        )

        rust = tokenizers.Tokenizer(word_piece)
        rust.normalizer = bert_normalizer(
            self.lowercase, self.strip_accents, self.tokenize_chinese_chars
        )
        rust.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        rust.decoder = tokenizers.decoders.WordPiece(prefix="##", cleanup=True)
        for entry in self.added:
            rust.add_tokens([rust_added_token(entry)])
        rust.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{cls}:0 $A:0 {sep}:0",
            pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
            special_tokens=[(token, rust.token_to_id(token)) for token in (cls, sep)],
        )

        added = [entry["content"] for entry in self.added]
        boundaries = WORD_BOUNDARIES
        if self.tokenize_chinese_chars:
            boundaries += IDEOGRAPHS
        return RustTokenizer(rust, added, self.truncation_side, boundaries)

    def tokenizer_config(self, max_length: int | None = None) -> dict:
        """Return the values of transformers' `tokenizer_config.json`."""
        config: dict = {"tokenizer_class": "BertTokenizer", "do_lower_case": self.lowercase}
        if self.max_word_chars != MAX_WORD_CHARS:  # which BertTokenizer does not read
            config["tokenizer_class"] = "PreTrainedTokenizerFast"
            config["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
        for role, token in self.special_tokens.items():
            config[f"{role}_token"] = token
        config |= truncation_config(self, max_length)
        if not self.segments:
            config["model_input_names"] = ["input_ids", "attention_mask"]

        config["strip_accents"] = self.strip_accents
        config["tokenize_chinese_chars"] = self.tokenize_chinese_chars
        config["clean_up_tokenization_spaces"] = self.clean_up
        return config


def bert_normalizer(
    lowercase: bool, strip_accents: bool | None, tokenize_chinese_chars: bool
) -> tokenizers.normalizers.Normalizer:
    """Return the normalizer of texts before they are split; arguments as in `Vocabulary`."""
    return tokenizers.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=tokenize_chinese_chars,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )


def read_tokens(path: str | os.PathLike) -> tuple[str, ...]:
    """Return the tokens of a `vocab.txt`, in the order of their ids.

    Lines end in LF or CRLF; blank lines at the end are no tokens. As Google's `load_vocab`, white
    space around a token is dropped. Only a line feed ends a line: U+2028 and U+0085 do not. A file
    that is empty, not UTF-8, or beyond `kbert.io.bounds` raises a ValueError.
    """
    bounds.check_size(path, bounds.TEXT)
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        offset = error.start
        raise ValueError(f"{path} must be UTF-8 text, got other bytes at {offset}") from None
    if text.count("\n") > bounds.LINES:
        raise ValueError(f"{path} must have at most {bounds.LINES:,} lines, got more")

    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise ValueError(f"{path} must hold one token per line, got an empty file")
    return tuple(line.strip() or line for line in lines)


def _number_added(entries: Iterable[dict], ids: dict[str, int], source: str) -> list[dict]:
    """Return the added tokens, each with its id; `ids` gets those that it lacks."""
    with_id = [entry for entry in entries if "id" in entry]
    numbered = sorted(with_id, key=operator.itemgetter("id"))
    for entry in numbered:
        expected = ids.setdefault(entry["content"], len(ids))
        if entry["id"] != expected:
            raise ValueError(
                f"{source}: the added token {entry['content']!r} must have the id "
                f"{expected}, got {entry['id']}"
            )

    listed = {entry["content"] for entry in numbered}
    for entry in entries:
        token = entry["content"]
        if token not in listed:
            listed.add(token)
            token_id = ids.setdefault(token, len(ids))
            numbered.append(entry | {"id": token_id})
    return numbered


def _drop_duplicates(tokens: tuple[str, ...], source: str) -> tuple[str, ...]:
    """Give a token that stands twice its last id, as transformers does."""
    last = {token: token_id for token_id, token in enumerate(tokens)}
    if len(last) == len(tokens):
        return tokens

    unique = list(tokens)
    without_token = []
    for token_id, token in enumerate(tokens):
        if last[token] != token_id:
            unique[token_id] = no_token(token_id)
            without_token.append(f"{token!r} (id {token_id})")
    _logger.warning(
        "%s has tokens twice. The last id counts, so these ids have no token: %s",
        source,
        first_few(without_token),
    )
    return tuple(unique)


def no_token(token_id: int) -> str:
    """Name an id that no token has; punctuation within it keeps it from matching any text."""
    return f"[no_token_{token_id}]"


def check_truncation(max_length: int | None, side: str, source: str) -> None:
    """Raise a ValueError for a length that is none, or an unknown side."""
    if max_length is not None:
        require_positive(f"{source}: max_length", max_length)
    if side not in TRUNCATION_SIDES:
        sides = " or ".join(TRUNCATION_SIDES)
        raise ValueError(f"{source}: truncation_side must be {sides}, got {js.short_repr(side)}")


def truncation_config(vocabulary, max_length: int | None) -> dict:
    """Give a vocabulary's values for `tokenizer_config.json` about too long texts."""
    config: dict = {}
    lengths = [n for n in (vocabulary.max_length, max_length) if n is not None]
    if lengths:
        config["model_max_length"] = min(lengths)
    if vocabulary.truncation_side != "right":
        config["truncation_side"] = vocabulary.truncation_side
    return config


def check_special_tokens(special: dict[str, str], tokens: Container, source: str) -> None:
    """Raise a ValueError if a special token is not among the tokens."""
    missing = [token for token in special.values() if token not in tokens]
    if missing:
        raise ValueError(
            f"{source} must hold the special tokens, {' '.join(missing)} missing: name those that "
            'are called otherwise, special_tokens={"pad": …}'
        )


def special_token(token: str) -> dict:
    """Make the entry of a special token, found in a text as it stands."""
    flags = dict.fromkeys(ADDED_TOKEN_FLAGS, False)
    return {"content": token} | flags | {"special": True}


def rust_added_token(entry: dict) -> tokenizers.AddedToken:
    """Make the Rust package's added token of an entry."""
    flags = {flag: entry[flag] for flag in ADDED_TOKEN_FLAGS if flag in entry}
    return tokenizers.AddedToken(entry["content"], **flags)
