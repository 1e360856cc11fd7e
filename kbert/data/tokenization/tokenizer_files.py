"""What the files of a tokenizer say, under the names of `Vocabulary`.

Read are `vocab.txt` (Google's releases: one token a line, its number is the id), `tokenizer.json`
(the Rust `tokenizers`), RoBERTa's `vocab.json` with `merges.txt` and, beside any,
`tokenizer_config.json` and `special_tokens_map.json` (transformers).
"""

import os
from pathlib import Path

from kbert.data.tokenization.subwords import KINDS, Subwords, read_subwords
from kbert.data.tokenization.vocabulary import (
    ADDED_TOKEN,
    FLAGS,
    MAX_WORD_CHARS,
    SPECIAL_TOKENS,
    Vocabulary,
    read_tokens,
)
from kbert.io import folders
from kbert.io import json_schema as js

# transformers' tokenizers that read vocab.txt by BERT's rules; others (MeCab's) cut words first.
_BY_BERTS_RULES = ("Bert", "DistilBert", "Electra", "MobileBert", "ConvBert", "SqueezeBert")

_NAME = js.or_null(js.either(js.TEXT, js.fields({"content": js.TEXT})))
_CLEANING = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
# of special_tokens_map.json and tokenizer_config.json
_SETTINGS = js.fields(
    optional={f"{role}_token": _NAME for role in SPECIAL_TOKENS}
    | dict.fromkeys(_CLEANING, js.or_null(js.FLAG))
    | {
        "tokenizer_class": js.or_null(js.TEXT),
        "added_tokens_decoder": js.or_null(
            js.mapping_of(js.fields({"content": js.TEXT}, FLAGS), "tokens by id", keys="[0-9]{1,9}")
        ),
    }
)
# Of a tokenizer.json: first what of them it is, then what a BERT's must be.
_PARTS = ("model", "normalizer", "pre_tokenizer", "post_processor")
_OF_A_KIND = js.or_null(js.fields(optional={"type": js.or_null(js.TEXT)}))
_TOKENIZER = js.fields(optional=dict.fromkeys(_PARTS, _OF_A_KIND))
_BERT_TOKENIZER = js.fields(
    {
        "model": js.fields(
            {"vocab": js.mapping_of(js.whole(), "ids by token")},
            {"unk_token": js.TEXT, "max_input_chars_per_word": js.whole(1)},
        ),
        "normalizer": js.fields(
            optional={
                "clean_text": js.one_of(True),
                "handle_chinese_chars": js.FLAG,
                "lowercase": js.or_null(js.FLAG),
                "strip_accents": js.or_null(js.FLAG),
            }
        ),
    },
    {"added_tokens": js.or_null(js.list_of(ADDED_TOKEN))},
)
_PLACE = js.fields({"id": js.TEXT, "type_id": js.whole()})
_PIECES = js.list_of(
    js.either(*(js.fields({kind: _PLACE}, closed=True) for kind in ("SpecialToken", "Sequence")))
)
_TEMPLATE = js.fields({"single": _PIECES, "pair": _PIECES})


def read_vocabulary(path: str | os.PathLike, **rules) -> Vocabulary | Subwords:
    """Reads a folder or a file: `tokenizer.json` before `vocab.txt`, as transformers does.

    Args:
        path: a folder with one of the two or `vocab.json`, or one of the two under any name (JSON
            by `.json`).
        rules: `lowercase` and other arguments of `Vocabulary` that go before what the files say;
            None: as the files say.

    Raises:
        FileNotFoundError: neither of the two files is there.
        ValueError: no file says the casing; a `tokenizer.json` that is not BERT's WordPiece, nor
            byte-level BPE or Unigram; a file that is not UTF-8, not JSON, or empty; what
            `Vocabulary` or `Subwords` refuses.
    """
    path = Path(path)
    if path.is_dir():
        folders.finish(path)
        files = [path / "tokenizer.json", path / "vocab.txt", path / "vocab.json"]
        there = [file for file in files if file.is_file()]
        if not there:
            raise FileNotFoundError(f"{path} has no tokenizer.json and no vocab.txt")
        path = there[0]
    elif not path.exists():
        raise FileNotFoundError(
            f"{path}: no such folder or file; a vocabulary is a folder with tokenizer.json or "
            "vocab.txt, or one of the two (kbert vocab trains one)"
        )
    is_json = path.suffix == ".json"
    if is_json and _has_subwords(path):
        return _subwords(path, rules)
    found: dict = _read_tokenizer_json(path) if is_json else {"tokens": read_tokens(path)}
    says = _settings_next_to(path)
    rules = {key: rule for key, rule in rules.items() if rule is not None}
    sources = (found, says, rules)
    names = {role: name for s in sources for role, name in s.get("special_tokens", {}).items()}
    found |= says | rules | {"special_tokens": names}
    if found.get("lowercase") is None:
        raise ValueError(
            f"{path}: no file says whether the vocabulary is lowercased, no do_lower_case in a "
            "tokenizer_config.json: say lowercase=True (uncased) or lowercase=False (cased)"
        )
    frame = found.pop("frame", None)
    vocabulary = Vocabulary(**found, source=str(path))
    special = vocabulary.special_tokens["cls"], vocabulary.special_tokens["sep"]
    if frame not in (None, special):
        raise ValueError(
            f"{path}: the template must put {' and '.join(special)} around a text, got "
            f"{' and '.join(map(js.shown, frame))}"
        )
    return vocabulary


def _has_subwords(path: Path) -> bool:
    if path.name == "vocab.json":
        return True
    return (js.read(path, _TOKENIZER).get("model") or {}).get("type") in KINDS


def _subwords(path: Path, rules: dict) -> Subwords:
    """Byte-level BPE or Unigram, which have none of WordPiece's rules."""
    given = {key: rule for key, rule in rules.items() if rule is not None}
    names = _settings_next_to(path)["special_tokens"] | given.pop("special_tokens", {})
    found = read_subwords(path, names)
    if given.pop("lowercase", found.lowercase) != found.lowercase or given:
        raise ValueError(
            f"{path}: lowercase and other rules of WordPiece must be left out of a tokenizer of "
            f"{found.kind}, whose file says them"
        )
    return found


def _settings_next_to(path: Path) -> dict:
    """What the two files of transformers beside the vocabulary say, under `Vocabulary`'s names."""
    values: dict = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if path.with_name(name).is_file():
            values |= js.read(path.with_name(name), _SETTINGS)
    says = {}
    for key in _CLEANING:
        if values.get(key) is not None or (key == "strip_accents" and key in values):
            says["lowercase" if key == "do_lower_case" else key] = values[key]
    names = {role: values.get(f"{role}_token") for role in SPECIAL_TOKENS}
    names = {r: name["content"] if isinstance(name, dict) else name for r, name in names.items()}
    says["special_tokens"] = {role: name for role, name in names.items() if name is not None}
    if path.suffix != ".json":  # a tokenizer.json says the rest itself
        class_name = values.get("tokenizer_class") or "BertTokenizer"
        if class_name.removesuffix("Fast").removesuffix("Tokenizer") not in _BY_BERTS_RULES:
            raise ValueError(f"{path}: its tokenizer must be BertTokenizer, got {class_name}")
        entries = (values.get("added_tokens_decoder") or {}).items()
        says["added"] = tuple(entry | {"id": int(place)} for place, entry in entries)
    return says


def _read_tokenizer_json(path: Path) -> dict:
    values = js.read(path, _TOKENIZER)
    model = values.get("model")
    if model is None:
        keys = ", ".join(list(values)[:20]) or "no keys"
        raise ValueError(f"{path} must be a file of the Rust tokenizers, with a model, got {keys}")
    kind = model.get("type", "WordPiece" if "max_input_chars_per_word" in model else None)
    if kind != "WordPiece" or model.get("continuing_subword_prefix", "##") != "##":
        kind = f"{kind}, prefix {js.shown(model.get('continuing_subword_prefix'))}"
        raise ValueError(f"{path}: the model must be WordPiece with prefix '##', got {kind}")
    for part, expected in (("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer")):
        kind = (values.get(part) or {}).get("type")
        if kind != expected:
            raise ValueError(f"{path}: the {part} must be {expected}, got {kind}")
    js.check(values, _BERT_TOKENIZER, str(path))
    tokens = _by_id(model["vocab"], path)
    normalizer = values["normalizer"]
    return {
        "tokens": tokens,
        "lowercase": normalizer.get("lowercase"),
        "strip_accents": normalizer.get("strip_accents"),
        "tokenize_chinese_chars": normalizer.get("handle_chinese_chars", True),
        "added": tuple(values.get("added_tokens") or ()),
        "max_word_chars": model.get("max_input_chars_per_word", MAX_WORD_CHARS),
        "special_tokens": {"unk": model.get("unk_token", SPECIAL_TOKENS["unk"])},
        "frame": _frame(values.get("post_processor"), path),
    }


def _by_id(ids: dict[str, int], path: Path) -> tuple[str, ...]:
    by_id = sorted(ids.items(), key=lambda item: item[1])
    for expected, (token, place) in enumerate(by_id):
        if place != expected:
            raise ValueError(f"{path}: ids must be 0, 1, 2, …, got {place} for {token!r}")
    return tuple(token for token, _ in by_id)


def _frame(template: dict | None, path: Path) -> tuple[str, str] | None:
    """[CLS] and [SEP], as a template puts them around texts; None: there is no template.

    Refuses what does not make [CLS] A [SEP] of one text, [CLS] A [SEP] B [SEP] of two.
    """
    if not template or template.get("type") == "BertProcessing":
        return None
    if (kind := template.get("type")) != "TemplateProcessing":
        raise ValueError(f"{path}: the post_processor must be a template, got {kind}")
    js.check(template, _TEMPLATE, str(path), "post_processor")
    for name, expected in (("single", "S0 A0 S0"), ("pair", "S0 A0 S0 B1 S1")):
        parts = [next(iter(part.items())) for part in template[name]]
        got = " ".join(
            ("S" if kind == "SpecialToken" else part["id"]) + str(part["type_id"])
            for kind, part in parts
        )
        if got != expected:
            raise ValueError(f"{path}: the template of a {name} must be BERT's, got {got}")
    special = [p["SpecialToken"]["id"] for p in template["pair"] if "SpecialToken" in p]
    if special[:2] != [p["SpecialToken"]["id"] for p in template["single"] if "SpecialToken" in p]:
        raise ValueError(f"{path}: the templates must have the same special tokens, got others")
    if special[1] != special[2]:
        raise ValueError(f"{path}: the template must end both texts alike, got {special[1:]}")
    return special[0], special[1]
