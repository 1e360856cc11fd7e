"""A vocabulary: the tokens by id, the casing, the special tokens' names; and `vocab.txt`."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from kbert.graph.config import require_positive
from kbert.io import bounds
from kbert.io import json_schema as js
from kbert.io.wording import first_few

# google-research/bert, tokenization.py and create_pretraining_data.py
SPECIAL_TOKENS = {
    "pad": "[PAD]",
    "unk": "[UNK]",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "mask": "[MASK]",
}

# Differs from Google: its current code says 200, its first release and every peer 100.
MAX_WORD_CHARS = 100

ADDED_TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")

FLAGS = dict.fromkeys(ADDED_TOKEN_FLAGS, js.FLAG)
ADDED_TOKEN = js.fields({"content": js.TEXT, "id": js.whole()}, FLAGS)


class Rules(TypedDict, total=False):
    """The arguments of `Vocabulary` beside the tokens and the casing."""

    strip_accents: bool | None
    tokenize_chinese_chars: bool
    special_tokens: dict[str, str]
    added: tuple[dict, ...]
    max_word_chars: int
    source: str


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The tokens, and how a text is cleaned before it is cut into them.

    Args:
        tokens: WordPiece's tokens; a token's place is its id.
        lowercase: whether the texts are lowercased (an "uncased" vocabulary).
        strip_accents: whether accents are taken off; None: where `lowercase` is.
        tokenize_chinese_chars: whether each CJK ideograph is a word.
        special_tokens: the tokens of the roles pad, unk, cls, sep and mask, where they are not
            called [PAD], [UNK], [CLS], [SEP] and [MASK].
        added: tokens found in a text before it is cleaned, as `tokenizer.json` lists them: id,
            content and flags. The special tokens are among them, listed or not; ids beyond
            `tokens` go on from them.
        max_word_chars: a longer word is the unknown token.
        source: what errors call the vocabulary.

    Raises:
        ValueError: no tokens, one twice (all are named), one that is not a str of one line, a
            special token that is missing, an added token whose id is another's.
    """

    tokens: tuple[str, ...]
    lowercase: bool
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    special_tokens: dict[str, str] = field(default_factory=dict)
    added: tuple[dict, ...] = ()
    max_word_chars: int = MAX_WORD_CHARS
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
        _check_tokens(self.tokens, self.source)
        ids = {token: place for place, token in enumerate(self.tokens)}
        require_positive(f"{self.source}: max_word_chars", self.max_word_chars)
        for entry in self.added:
            js.check(entry, ADDED_TOKEN, self.source, "an added token")
        added = sorted(self.added, key=lambda entry: entry["id"])
        for entry in added:
            expected = ids.setdefault(entry["content"], len(ids))
            if entry["id"] != expected:
                raise ValueError(
                    f"{self.source}: the added token {entry['content']!r} must have the id "
                    f"{expected}, got {entry['id']}"
                )
        special = SPECIAL_TOKENS | self.special_tokens
        if missing := [token for token in special.values() if token not in ids]:
            raise ValueError(
                f"{self.source} must hold the special tokens, {' '.join(missing)} missing: name "
                'those that are called otherwise, special_tokens={"pad": …}'
            )
        listed = {entry["content"] for entry in added}
        added += [_special(token, ids[token]) for token in special.values() if token not in listed]
        object.__setattr__(self, "added", tuple(added))
        object.__setattr__(self, "special_tokens", special)

    @property
    def all_tokens(self) -> tuple[str, ...]:
        """The tokens by id, those beyond WordPiece's included."""
        beyond = (entry["content"] for entry in self.added if entry["id"] >= len(self.tokens))
        return (*self.tokens, *beyond)

    def tokenizer_config(self, max_length: int | None = None) -> dict:
        """The values of transformers' `tokenizer_config.json`."""
        config = {"tokenizer_class": "BertTokenizer", "do_lower_case": self.lowercase}
        config |= {f"{role}_token": token for role, token in self.special_tokens.items()}
        if max_length is not None:
            config["model_max_length"] = max_length
        return config | {
            "strip_accents": self.strip_accents,
            "tokenize_chinese_chars": self.tokenize_chinese_chars,
        }


def read_tokens(path: str | os.PathLike) -> tuple[str, ...]:
    """The tokens of a `vocab.txt`, in the order of their ids.

    Lines end in LF or CRLF; blank lines at the end are no tokens. As Google's `load_vocab`, white
    space around a token is dropped. Only a line feed ends a line: U+2028 and U+0085 do not.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is empty, not UTF-8, or beyond `kbert.io.bounds`.
    """
    text = _text(Path(path))
    if text.count("\n") > bounds.LINES:
        raise ValueError(f"{path} must have at most {bounds.LINES:,} lines, got more")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise ValueError(f"{path} must hold one token a line, got an empty file")
    return tuple(line.strip() or line for line in lines)


def _check_tokens(tokens: Iterable[str], source: str) -> None:
    if not tokens:
        raise ValueError(f"{source} must hold tokens, got none")
    seen: dict[str, int] = {}
    twice: list[str] = []
    for place, token in enumerate(tokens):
        if not isinstance(token, str) or "\n" in token or "\r" in token:
            raise ValueError(f"{source}: token {place} must be one line of text, got {token!r}")
        if seen.setdefault(token, place) != place:
            twice.append(f"{token!r} (ids {seen[token]} and {place})")
    if twice:
        raise ValueError(f"{source} must hold each token once, got twice: {first_few(twice)}")


def _special(token: str, place: int) -> dict:
    return (
        {"id": place, "content": token}
        | dict.fromkeys(ADDED_TOKEN_FLAGS, False)
        | {"special": True}
    )


def _text(path: Path) -> str:
    bounds.check_size(path, bounds.TEXT)
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = error.start
        raise ValueError(f"{path} must be UTF-8 text, got other bytes at {place}") from None
