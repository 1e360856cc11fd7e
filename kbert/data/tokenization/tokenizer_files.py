"""Reading of a tokenizer's files, under the names of `Vocabulary`.

The files are `vocab.txt` (Google's releases: one token per line, its number is the id),
`tokenizer.json` (the Rust `tokenizers`), RoBERTa's `vocab.json` with `merges.txt` and, with any of
these, `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json` (transformers).
`kbert.io.setting_keys` lists what is done with each of their keys.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kbert.data.tokenization.subwords import CLASS_SETTINGS, KINDS, Subwords, join_merges
from kbert.data.tokenization.subwords import SPECIAL_TOKENS as SUBWORD_TOKENS
from kbert.data.tokenization.tokenizer_classes import (
    SEGMENTS,
    check_vocabulary_class,
    find_class,
    follow_class,
)
from kbert.data.tokenization.vocabulary import (
    FLAGS,
    MAX_WORD_CHARS,
    SPECIAL_TOKENS,
    TRUNCATION_SIDES,
    Vocabulary,
    no_token,
    read_tokens,
    special_token,
)
from kbert.io import bounds, setting_keys
from kbert.io import json_schema as js
from kbert.io.interrupted_saves import open_whole

# Of a tokenizer.json: first what of them it is, then what a BERT's must be.
_COMPONENTS = ("model", "normalizer", "pre_tokenizer", "post_processor")
_OF_A_KIND = js.or_null(js.fields(optional={"type": js.or_null(js.TEXT)}))
_SIDE = js.or_null(js.one_of("Right", "Left"))
_TRUNCATION = js.or_null(js.fields(optional={"direction": _SIDE}))
_TOKENIZER = js.fields(
    optional=dict.fromkeys(_COMPONENTS, _OF_A_KIND) | {"truncation": _TRUNCATION}
)
_LISTED = js.fields({"content": js.TEXT, "id": js.whole()}, FLAGS)
_WORDPIECE = js.fields(
    {"vocab": js.mapping_of(js.whole(), "ids by token")},
    {"unk_token": js.TEXT, "max_input_chars_per_word": js.whole(1)},
)
_NORMALIZER = js.fields(
    optional={
        "clean_text": js.one_of(True),
        "handle_chinese_chars": js.FLAG,
        "lowercase": js.or_null(js.FLAG),
        "strip_accents": js.or_null(js.FLAG),
    }
)
_BERT_TOKENIZER = js.fields(
    {"model": _WORDPIECE, "normalizer": _NORMALIZER},
    {"added_tokens": js.or_null(js.list_of(_LISTED))},
)
_PIECE = js.fields({"id": js.TEXT, "type_id": js.whole()})
_SPECIAL_PIECE = js.fields({"SpecialToken": _PIECE}, closed=True)
_TEXT_PIECE = js.fields({"Sequence": _PIECE}, closed=True)
_PIECES = js.list_of(js.either(_SPECIAL_PIECE, _TEXT_PIECE))
_TEMPLATE = js.fields({"single": _PIECES, "pair": _PIECES})
_NAMED = js.fields({"content": js.TEXT}, FLAGS)
_NAME = js.or_null(js.either(js.TEXT, _NAMED))
_NAMES = js.either(js.list_of(_NAME), js.mapping_of(_NAME))
_EXTRA = ("additional_special_tokens", "extra_special_tokens")
_CLEANING = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
_NO_LIMIT = 1e9  # tokens; transformers writes 1e30 where a tokenizer has no limit
_LENGTH = js.or_null(js.either(js.whole(1), js.number(_NO_LIMIT, 1e31)))
# of special_tokens_map.json and tokenizer_config.json
_SETTINGS = js.fields(
    optional={f"{role}_token": _NAME for role in SPECIAL_TOKENS}
    | dict.fromkeys(_EXTRA, js.or_null(_NAMES))
    | dict.fromkeys(_CLEANING, js.or_null(js.FLAG))
    | {
        "tokenizer_class": js.or_null(js.TEXT),
        "add_prefix_space": js.or_null(js.FLAG),
        "trim_offsets": js.or_null(js.FLAG),
        "model_max_length": _LENGTH,
        "max_len": _LENGTH,
        "truncation_side": js.or_null(js.one_of(*TRUNCATION_SIDES)),
        "model_input_names": js.or_null(js.list_of(js.TEXT)),
        "clean_up_tokenization_spaces": js.or_null(js.FLAG),
        "added_tokens_decoder": js.or_null(
            js.mapping_of(_NAMED, "tokens by id", keys="[0-9]{1,9}")
        ),
    }
)
_ADDED = js.mapping_of(js.whole(), "ids by token")  # of added_tokens.json


class UnknownCasing(ValueError):
    """No file says whether a vocabulary is lowercased, and the caller does not say it."""


def read_vocabulary(path: str | os.PathLike, **rules) -> Vocabulary | Subwords:
    """Read a folder or a file: `tokenizer.json` before `vocab.txt`, as transformers does.

    The path is a folder with one of the two or `vocab.json`, or one of these files under any name
    (JSON by `.json`). `rules`, `lowercase` and other arguments of `Vocabulary`, go before what the
    files say unless they are None. Raises what `Tokenizer.load` does, and `UnknownCasing`.
    """
    bounds.refuse_url(path)
    with open_whole(path) as whole:
        return _read_file(_find_file(whole), rules)


def _read_file(path: Path, rules: dict) -> Vocabulary | Subwords:
    """Read one file and those beside it.

    `rules` go before the settings beside the file, and these before what the file itself says.
    """
    is_vocab_json = path.name == "vocab.json"
    is_tokenizer_json = path.suffix == ".json" and not is_vocab_json
    tokenizer_json: dict = {}
    if is_tokenizer_json:
        tokenizer_json = js.read(path, _TOKENIZER)
        setting_keys.check_settings("tokenizer.json", tokenizer_json, str(path))
    config = _read_beside(path, "tokenizer_config.json", _SETTINGS)
    settings = _read_settings(path, tokenizer_json, config)
    rules = {key: rule for key, rule in rules.items() if rule is not None}

    model = tokenizer_json.get("model") or {}
    if is_vocab_json or model.get("type") in KINDS:
        return _subwords(path, settings, config, rules)

    # This also removes from `settings` what does not count for the tokenizer's class.
    arguments = _wordpiece_arguments(path, tokenizer_json, settings, config)
    # The two tokens that the file's template puts around a text; None: it has none.
    frame = arguments.pop("frame", None)
    clean_up = bool(config.get("clean_up_tokenization_spaces"))
    arguments = {"clean_up": clean_up} | _merge_arguments(arguments, settings, rules)
    if arguments.get("lowercase") is None:
        raise UnknownCasing(
            f"{path}: its files do not say whether the vocabulary is uncased (do_lower_case in "
            "tokenizer_config.json): give lowercase=True (uncased) or lowercase=False (cased), on "
            "the command line --uncased or --cased"
        )

    vocabulary = Vocabulary(**arguments, source=str(path))
    special = vocabulary.special_tokens["cls"], vocabulary.special_tokens["sep"]
    if frame not in (None, special):
        got = " and ".join(js.short_repr(token) for token in frame)
        raise ValueError(
            f"{path}: the template must put {' and '.join(special)} around a text, got {got}"
        )
    return vocabulary


def _wordpiece_arguments(path: Path, values: dict, settings: dict, config: dict) -> dict:
    """Return what a tokenizer.json or a vocab.txt says, as far as it counts for its class.

    What does not count is removed from `settings`, those of `config`.
    """
    named, class_name = find_class(path, config)
    if path.suffix == ".json":
        arguments = _wordpiece_of(values, path)
        follow_class(class_name, arguments, settings, config, path)
        return arguments

    check_vocabulary_class(named, path)
    return {"tokens": read_tokens(path)}


def _merge_arguments(arguments: dict, settings: dict, rules: dict) -> dict:
    """Return the arguments of `Vocabulary`: later ones go before, special tokens by their role."""
    names: dict[str, str] = {}
    for source in (arguments, settings, rules):
        names |= source.get("special_tokens", {})

    added = list(arguments.get("added", ()))
    known = set()
    for entry in added:
        known.add((entry["content"], entry["id"]))
        known.add((entry["content"], None))  # without an id it is the same
    for entry in settings["added"]:
        if (entry["content"], entry.get("id")) not in known:
            added.append(entry)

    merged = arguments | settings
    merged |= {"added": tuple(added)}
    merged |= rules
    return merged | {"special_tokens": names}


def _find_file(path: Path) -> Path:
    """Return the file at a path, or the one of a folder that is read."""
    if path.is_dir():
        for name in ("tokenizer.json", "vocab.txt", "vocab.json"):
            if (path / name).is_file():
                return path / name
        raise FileNotFoundError(f"{path} has no tokenizer.json and no vocab.txt")
    if not path.exists():
        raise FileNotFoundError(
            f"{path}: no such folder or file. A vocabulary is a folder with tokenizer.json or "
            "vocab.txt, or one of these files (kbert vocab trains one)"
        )
    return path


def _subwords(path: Path, settings: dict, config: dict, rules: dict) -> Subwords:
    """Read byte-level BPE or Unigram, which have none of WordPiece's rules."""
    names = settings["special_tokens"] | rules.pop("special_tokens", {})
    _, class_name = find_class(path, config)
    bounds.check_size(path, bounds.TEXT)
    if path.name == "vocab.json":
        text = join_merges(path, SUBWORD_TOKENS | names, config)
    else:
        text = path.read_text(encoding="utf-8-sig")
    class_settings = {}
    for key in CLASS_SETTINGS:
        if config.get(key) is not None:
            class_settings[key] = config[key]

    subwords = Subwords(
        text=text,
        special_tokens=names,
        tokenizer_class=class_name,
        settings=class_settings,
        added=settings["added"],
        max_length=settings["max_length"],
        truncation_side=settings["truncation_side"],
        source=str(path),
    )
    lowercase = rules.pop("lowercase", subwords.lowercase)
    if lowercase != subwords.lowercase or rules:
        raise ValueError(
            f"{path}: a {subwords.kind} tokenizer has no lowercase and no other rules of "
            "WordPiece: leave them out"
        )
    return subwords


def _wordpiece_of(values: dict, path: Path) -> dict:
    """Return a tokenizer.json's WordPiece, under the names of `Vocabulary`."""
    model = values.get("model")
    if model is None:
        keys = ", ".join(list(values)[:20]) or "no keys"
        raise ValueError(f"{path} must be a file of the Rust tokenizers, with a model, got {keys}")
    _check_components(values, path)
    js.check(values, _BERT_TOKENIZER, str(path))

    normalizer = values["normalizer"]
    return {
        "tokens": _tokens_by_id(model["vocab"], path),
        "lowercase": normalizer.get("lowercase"),
        "strip_accents": normalizer.get("strip_accents"),
        "tokenize_chinese_chars": normalizer.get("handle_chinese_chars", True),
        "added": tuple(values.get("added_tokens") or ()),
        "max_word_chars": model.get("max_input_chars_per_word", MAX_WORD_CHARS),
        "special_tokens": {"unk": model.get("unk_token", SPECIAL_TOKENS["unk"])},
        "frame": _frame(values.get("post_processor"), path),
    }


def _check_components(values: dict, path: Path) -> None:
    """Raise a ValueError for a tokenizer.json of other components than BERT's WordPiece."""
    model = values["model"]
    default = "WordPiece" if "max_input_chars_per_word" in model else None
    kind = model.get("type", default)
    if kind != "WordPiece" or model.get("continuing_subword_prefix", "##") != "##":
        prefix = js.short_repr(model.get("continuing_subword_prefix"))
        raise ValueError(
            f"{path}: the model must be WordPiece with prefix '##', got {kind}, prefix {prefix}"
        )

    expected_types = {"normalizer": "BertNormalizer", "pre_tokenizer": "BertPreTokenizer"}
    for part, expected in expected_types.items():
        kind = (values.get(part) or {}).get("type")
        if kind != expected:
            raise ValueError(f"{path}: the {part} must be {expected}, got {kind}")


def _tokens_by_id(ids: dict[str, int], path: Path) -> tuple[str, ...]:
    """Return the tokens in the order of their ids; an id without a token has a name of its own."""
    count = max(ids.values(), default=-1) + 1
    if count > bounds.LINES:
        raise ValueError(f"{path}: ids must be below {bounds.LINES:,}, got {count - 1:,}")

    by_id = {token_id: token for token, token_id in ids.items()}
    for token, token_id in ids.items():
        if by_id[token_id] != token:
            raise ValueError(
                f"{path}: each token must have its own id, got {token_id} for {token!r} and for "
                f"{by_id[token_id]!r}"
            )
    tokens = []
    for token_id in range(count):
        token = by_id.get(token_id, no_token(token_id))
        tokens.append(token)
    return tuple(tokens)


def _frame(template: dict | None, path: Path) -> tuple[str, str] | None:
    """Return [CLS] and [SEP], as a template puts them around texts; None: there is no template.

    Refuses what does not make [CLS] A [SEP] of one text, [CLS] A [SEP] B [SEP] of two.
    """
    if not template or template.get("type") == "BertProcessing":
        return None
    kind = template.get("type")
    if kind != "TemplateProcessing":
        raise ValueError(f"{path}: the post_processor must be a template, got {kind}")
    js.check(template, _TEMPLATE, str(path), "post_processor")

    expected_pieces = {"single": "S0 A0 S0", "pair": "S0 A0 S0 B1 S1"}
    for name, expected in expected_pieces.items():
        got = _describe_pieces(template[name])
        if got != expected:
            raise ValueError(f"{path}: the template of a {name} must be BERT's, got {got}")

    cls, *ends = _special_pieces(template["pair"])
    if [cls, ends[0]] != _special_pieces(template["single"]):
        raise ValueError(f"{path}: the templates must have the same special tokens, got others")
    if ends[0] != ends[1]:
        raise ValueError(f"{path}: the template must end both texts alike, got {ends}")
    return cls, ends[0]


def _describe_pieces(pieces: list[dict]) -> str:
    """Return a template as text, such as "S0 A0 S0": S is a special token, a digit the segment."""
    described = []
    for piece in pieces:
        [(kind, values)] = piece.items()
        symbol = "S" if kind == "SpecialToken" else values["id"]
        described.append(f"{symbol}{values['type_id']}")
    return " ".join(described)


def _special_pieces(pieces: list[dict]) -> list[str]:
    """Return the special tokens of a template, in order."""
    return [piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece]


def _read_settings(path: Path, values: dict, config: dict) -> dict:
    """Read transformers' files beside a vocabulary, under the names of `Vocabulary`.

    `values` are those of a tokenizer.json, `config` those of tokenizer_config.json. As in
    transformers, special_tokens_map.json and added_tokens.json count only where
    tokenizer_config.json has no added_tokens_decoder; the names of special_tokens_map.json then go
    before those of tokenizer_config.json.
    """
    source = str(path.with_name("tokenizer_config.json"))
    setting_keys.check_settings("tokenizer_config.json", config, source)
    by_id = config.get("added_tokens_decoder")
    older = _read_beside(path, "special_tokens_map.json", _SETTINGS) if by_id is None else {}
    names, extra = _special_tokens(config, older)
    if by_id is None:
        added = _read_added(path, extra)
    else:
        added = []
        for token_id, entry in by_id.items():
            added.append(entry | {"id": int(token_id)})
    for token, entry in extra.items():
        if token not in names.values():
            added.append(entry)

    truncation = values.get("truncation") or {}
    direction = truncation.get("direction") or "Right"
    length = config.get("model_max_length") or config.get("max_len") or _NO_LIMIT
    inputs = config.get("model_input_names") or [SEGMENTS]
    settings = {
        "special_tokens": names,
        "added": tuple(added),
        "max_length": length if length < _NO_LIMIT else None,
        "truncation_side": config.get("truncation_side") or direction.lower(),
        "segments": SEGMENTS in inputs,
    }

    if config.get("do_lower_case") is not None:
        settings["lowercase"] = config["do_lower_case"]
    if "strip_accents" in config:  # null says something: as `lowercase`
        settings["strip_accents"] = config["strip_accents"]
    if config.get("tokenize_chinese_chars") is not None:
        settings["tokenize_chinese_chars"] = config["tokenize_chinese_chars"]
    return settings


def _read_added(path: Path, extra: dict[str, dict]) -> list[dict]:
    """Read added_tokens.json, which has no flags; return entries with those of transformers.

    `extra` are the special tokens, which are found in a text before it is normalized.
    """
    ids = _read_beside(path, "added_tokens.json", _ADDED)
    added = []
    for token, token_id in ids.items():
        is_special = token in extra
        flags = {"id": token_id, "special": is_special, "normalized": not is_special}
        added.append(special_token(token) | flags)
    return added


def _special_tokens(config: dict, older: dict) -> tuple[dict[str, str], dict[str, dict]]:
    """Return the special tokens' names by role, and the entries of all by their text.

    `older` is the content of special_tokens_map.json, whose names go before those of `config`.
    """
    names: dict[str, str] = {}
    entries: dict[str, dict] = {}
    for key, value in _iterate_special(config, older):
        entry = value if isinstance(value, dict) else {"content": value}
        token = entry.get("content")
        if not isinstance(token, str):
            continue

        flags = {flag: entry[flag] for flag in FLAGS if flag in entry}
        entries[token] = special_token(token) | flags | {"special": True}
        role = key.removesuffix("_token")
        if role in SPECIAL_TOKENS:
            names[role] = token
    return names, entries


def _iterate_special(config: dict, older: dict) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of the special tokens; the key of one in a list is ""."""
    for key, value in (config | older).items():
        if key.endswith("_token"):
            yield key, value

    for values in (config, older):
        more = values.get("extra_special_tokens") or values.get("additional_special_tokens") or ()
        if isinstance(more, dict):
            yield from more.items()
        else:
            for token in more:
                yield "", token


def _read_beside(path: Path, name: str, kind: js.Kind) -> dict:
    file = path.with_name(name)
    return js.read(file, kind) if file.is_file() else {}
