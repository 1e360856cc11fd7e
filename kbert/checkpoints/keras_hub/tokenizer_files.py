"""KerasHub's BertTokenizer and its preprocessors' settings, read and written.

    tokenizer.json          the arguments of BertTokenizer; preprocessor.json, task.json repeat them
    assets/tokenizer/       vocabulary.txt
    preprocessor.json       sequence_length, truncate; of a task, task.json repeats them too

The defaults are those of KerasHub's classes: no accents are stripped, CJK ideographs are words.
"""

import logging
from pathlib import Path
from typing import Any

from kbert.data.tokenization.vocabulary import (
    MAX_WORD_CHARS,
    SPECIAL_TOKENS,
    Vocabulary,
    bert_normalizer,
)
from kbert.io import json_schema as js

_logger = logging.getLogger("kbert")

VOCABULARY = "assets/tokenizer/vocabulary.txt"
# What kbert's tokenizer reads: KerasHub's argument, its default, and kbert's name.
_RULES = (
    ("lowercase", False, "lowercase"),
    ("strip_accents", False, "strip_accents"),
    ("split_on_cjk", True, "tokenize_chinese_chars"),
)
# BERT's tokenizer has these settings; KerasHub's can have others. A sequence_length here cuts a
# text before [CLS] and [SEP] are put around it.
_FIXED = {"split": True, "suffix_indicator": "##", "oov_token": "[UNK]", "sequence_length": None}
_RULE_NAMES = tuple(name for name, _, _ in _RULES)
_ARGUMENTS = js.fields(
    optional=dict.fromkeys((*_RULE_NAMES, "special_tokens_in_strings"), js.FLAG)
    | {"special_tokens": js.or_null(js.list_of(js.TEXT))}
)
PREPROCESSOR = js.fields(
    optional={"sequence_length": js.or_null(js.whole(1)), "truncate": js.or_null(js.TEXT)}
)


def read_rules(arguments: dict, source: str) -> dict[str, Any] | None:
    """Return the arguments of `kbert.Tokenizer.load`; None, logged, if kbert cannot tokenize so."""
    js.check(arguments, _ARGUMENTS, source, "config")
    changed = []
    for key, value in _FIXED.items():
        if arguments.get(key, value) != value:
            changed.append(f"{key}={arguments[key]!r}")
    if changed:
        _logger.warning("%s: left out, as BERT's tokenizer has not %s", source, ", ".join(changed))
        return None

    rules: dict[str, Any] = {name: arguments.get(key, value) for key, value, name in _RULES}
    if arguments.get("special_tokens_in_strings"):
        tokens = arguments.get("special_tokens") or ()
        rules["added"] = tuple(_make_entry(token) for token in tokens)
    return rules


def check_same(arguments: dict, other: Any, source: str) -> None:
    """Raise a ValueError if a preprocessor has another tokenizer than tokenizer.json describes."""
    repeated = other.get("config") if isinstance(other, dict) else None
    if not isinstance(repeated, dict):
        return
    for key in (*_RULE_NAMES, *_FIXED, "special_tokens"):
        if key in arguments and key in repeated and arguments[key] != repeated[key]:
            raise ValueError(
                f"{source}: {key} of the tokenizer must be that of tokenizer.json, "
                f"{js.short_repr(arguments[key])}, got {js.short_repr(repeated[key])}"
            )


def find_max_length(preprocessors: dict[str, dict], folder: Path) -> int | None:
    """Return the length to which the first preprocessor that says one truncates a text."""
    for name, arguments in preprocessors.items():
        truncate = arguments.get("truncate", "round_robin")
        if truncate != "round_robin":
            _logger.warning(
                "%s: truncate=%r is not read: kbert shortens the longer one of two texts",
                folder / name,
                truncate,
            )
    lengths = [arguments.get("sequence_length") for arguments in preprocessors.values()]
    return next((length for length in lengths if length), None)


def list_special_tokens(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Return the tokens that BertTokenizer must find whole, beyond BERT's own.

    The longest come first, because the first that matches counts in KerasHub. Raise a ValueError
    for tokens that it would find elsewhere than kbert does.
    """
    tokens = []
    refused = []
    for entry in vocabulary.added:
        token = entry["content"]
        if not _matches_alike(entry, vocabulary):
            refused.append(token)
        elif token not in SPECIAL_TOKENS.values():
            tokens.append(token)
    if refused:
        shown = ", ".join([repr(token) for token in refused])
        raise ValueError(
            f"{path}: format keras_hub must have added tokens that are found as they stand, got "
            f"{shown}, which KerasHub's BertTokenizer would not find (its "
            "tokens are not normalized, and have no accents or CJK ideographs that it changes): "
            "save it with format='transformers'"
        )
    return sorted(tokens, key=len, reverse=True)


def list_losses(vocabulary: Vocabulary) -> list[str]:
    """Return the settings of a vocabulary that KerasHub's files do not have."""
    checks = {
        f"max_word_chars={vocabulary.max_word_chars}": vocabulary.max_word_chars != MAX_WORD_CHARS,
        "truncation_side='left'": vocabulary.truncation_side == "left",
        "segments=False": not vocabulary.segments,
    }
    return [name for name, applies in checks.items() if applies]


def make_arguments(vocabulary: Vocabulary, path: Path) -> dict:
    """Return the arguments of a BertTokenizer that does what kbert does."""
    arguments = {
        "vocabulary": None,  # it is in assets/tokenizer
        "sequence_length": None,
        "lowercase": vocabulary.lowercase,
        "strip_accents": _strips_accents(vocabulary),
        "split": True,
        "suffix_indicator": "##",
        "oov_token": SPECIAL_TOKENS["unk"],
        "special_tokens": list_special_tokens(vocabulary, path) or None,
        "special_tokens_in_strings": True,
    }
    if not vocabulary.tokenize_chinese_chars:
        arguments["split_on_cjk"] = False
    return arguments


def _strips_accents(vocabulary: Vocabulary) -> bool:
    strips = vocabulary.strip_accents
    return vocabulary.lowercase if strips is None else strips


def _make_entry(token: str) -> dict:
    return {"content": token, "special": True, "normalized": False}


def _matches_alike(entry: dict, vocabulary: Vocabulary) -> bool:
    """Return whether KerasHub finds an added token in the same texts as kbert.

    It removes accents and sets CJK ideographs apart before it looks for tokens, then lowercases.
    """
    if entry.get("single_word"):
        return False
    strips = _strips_accents(vocabulary)
    if entry.get("normalized") and (vocabulary.lowercase or strips):
        return False
    prepared = bert_normalizer(False, strips, vocabulary.tokenize_chinese_chars)
    return prepared.normalize_str(entry["content"]) == entry["content"]
