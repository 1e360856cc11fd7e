"""A WordPiece vocabulary: tokens by id, rules, its Rust tokenizer; and `vocab.txt`."""

import logging
import os
from collections.abc import Container
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
        for name in ("lowercase", "strip_accents", "tokenize_chinese_chars"):
            value = getattr(self, name)
            if not isinstance(value, bool) and (name != "strip_accents" or value is not None):
                raise ValueError(f"{self.source}: {name} must be True or False, got {value!r}")
        js.check(self.special_tokens, js.mapping_of(js.TEXT), self.source, "special_tokens")
        if unknown := set(self.special_tokens) - set(SPECIAL_TOKENS):
            roles = ", ".join(SPECIAL_TOKENS)
            raise ValueError(f"special_tokens must be of {roles}, got {', '.join(sorted(unknown))}")
        if not self.tokens:
            raise ValueError(f"{self.source} must hold tokens, got none")
        for token_id, token in enumerate(self.tokens):
            if not isinstance(token, str) or "\n" in token or "\r" in token:
                raise ValueError(
                    f"{self.source}: token {token_id} must be one line of text, got {token!r}"
                )
        object.__setattr__(self, "tokens", _drop_duplicates(self.tokens, self.source))
        check_truncation(self.max_length, self.truncation_side, self.source)
        ids = {token: token_id for token_id, token in enumerate(self.tokens)}
        require_positive(f"{self.source}: max_word_chars", self.max_word_chars)
        for entry in self.added:
            js.check(entry, ADDED_TOKEN, self.source, "an added token")
        added = sorted((e for e in self.added if "id" in e), key=lambda entry: entry["id"])
        for entry in added:
            expected = ids.setdefault(entry["content"], len(ids))
            if entry["id"] != expected:
                raise ValueError(
                    f"{self.source}: the added token {entry['content']!r} must have the id "
                    f"{expected}, got {entry['id']}"
                )
        listed = {entry["content"] for entry in added}
        for entry in self.added:
            if entry["content"] not in listed:
                listed.add(entry["content"])
                added.append(entry | {"id": ids.setdefault(entry["content"], len(ids))})
        special = SPECIAL_TOKENS | self.special_tokens
        check_special_tokens(special, ids, self.source)
        added += [
            special_token(token) | {"id": ids[token]}
            for token in special.values()
            if token not in listed
        ]
        object.__setattr__(self, "added", tuple(added))
        object.__setattr__(self, "special_tokens", special)

    @property
    def all_tokens(self) -> tuple[str, ...]:
        """Tokens by id, including those beyond WordPiece's."""
        beyond = (entry["content"] for entry in self.added if entry["id"] >= len(self.tokens))
        return (*self.tokens, *beyond)

    def engine(self) -> RustTokenizer:
        """Return the Rust tokenizer that encodes, as transformers builds BertTokenizer's."""
        special = self.special_tokens
        word_piece = tokenizers.models.WordPiece(
            {token: token_id for token_id, token in enumerate(self.tokens)},
            unk_token=special["unk"],
            max_input_chars_per_word=self.max_word_chars,
        )
        rust = tokenizers.Tokenizer(word_piece)
        rust.normalizer = bert_normalizer(
            self.lowercase, self.strip_accents, self.tokenize_chinese_chars
        )
        rust.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        rust.decoder = tokenizers.decoders.WordPiece(prefix="##", cleanup=True)
        for entry in self.added:
            flags = {flag: entry[flag] for flag in ADDED_TOKEN_FLAGS if flag in entry}
            rust.add_tokens([tokenizers.AddedToken(entry["content"], **flags)])
        cls, sep = special["cls"], special["sep"]
        rust.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{cls}:0 $A:0 {sep}:0",
            pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
            special_tokens=[(token, rust.token_to_id(token)) for token in (cls, sep)],
        )
        added = [entry["content"] for entry in self.added]
        boundaries = WORD_BOUNDARIES + (IDEOGRAPHS if self.tokenize_chinese_chars else "")
        return RustTokenizer(rust, added, self.truncation_side, boundaries)

    def tokenizer_config(self, max_length: int | None = None) -> dict:
        """Return the values of transformers' `tokenizer_config.json`."""
        config: dict = {"tokenizer_class": "BertTokenizer", "do_lower_case": self.lowercase}
        if self.max_word_chars != MAX_WORD_CHARS:  # which BertTokenizer does not read
            inputs = ["input_ids", "token_type_ids", "attention_mask"]
            config |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": inputs}
        config |= {f"{role}_token": token for role, token in self.special_tokens.items()}
        config |= truncation_config(self, max_length)
        if not self.segments:
            config["model_input_names"] = ["input_ids", "attention_mask"]
        return config | {
            "strip_accents": self.strip_accents,
            "tokenize_chinese_chars": self.tokenize_chinese_chars,
            "clean_up_tokenization_spaces": self.clean_up,
        }


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


def _drop_duplicates(tokens: tuple[str, ...], source: str) -> tuple[str, ...]:
    """Give a token that stands twice its last id, as transformers does."""
    last = {token: token_id for token_id, token in enumerate(tokens)}
    if len(last) == len(tokens):
        return tokens
    again = [f"{token!r} (id {n})" for n, token in enumerate(tokens) if last[token] != n]
    _logger.warning(
        "%s has tokens twice. The last id counts, so these ids have no token: %s",
        *(source, first_few(again)),
    )
    return tuple(
        t if last[t] == token_id else no_token(token_id) for token_id, t in enumerate(tokens)
    )


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
    lengths = [n for n in (vocabulary.max_length, max_length) if n is not None]
    config: dict = {"model_max_length": min(lengths)} if lengths else {}
    left = vocabulary.truncation_side != "right"
    return config | ({"truncation_side": vocabulary.truncation_side} if left else {})


def check_special_tokens(special: dict[str, str], tokens: Container, source: str) -> None:
    """Raise a ValueError if a special token is not among the tokens."""
    if missing := [token for token in special.values() if token not in tokens]:
        raise ValueError(
            f"{source} must hold the special tokens, {' '.join(missing)} missing: name those that "
            'are called otherwise, special_tokens={"pad": …}'
        )


def special_token(token: str) -> dict:
    """Make the entry of a special token, found in a text as it stands."""
    return {"content": token} | dict.fromkeys(ADDED_TOKEN_FLAGS, False) | {"special": True}
