"""What the files of a tokenizer say: the tokens by id, the casing, the special tokens' names.

Read are `vocab.txt` (Google's releases: one token a line, its number is the id), `tokenizer.json`
(the Rust `tokenizers`) and, beside either, `tokenizer_config.json` and `special_tokens_map.json`
(transformers).
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kbert.config import require_positive

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

# transformers' tokenizers that read vocab.txt by BERT's rules; others (MeCab's) cut words first.
_BY_BERTS_RULES = ("Bert", "DistilBert", "Electra", "MobileBert", "ConvBert", "SqueezeBert")

ADDED_TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


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
        if unknown := set(self.special_tokens) - set(SPECIAL_TOKENS):
            roles = ", ".join(SPECIAL_TOKENS)
            raise ValueError(f"special_tokens must be of {roles}, got {', '.join(sorted(unknown))}")
        _check_tokens(self.tokens, self.source)
        ids = {token: place for place, token in enumerate(self.tokens)}
        require_positive(f"{self.source}: max_word_chars", self.max_word_chars)
        for entry in self.added:
            if not _is_added_token(entry):
                raise ValueError(f"{self.source}: an added token needs content and id, got {entry}")
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


def read_vocabulary(path: str | os.PathLike, **rules) -> Vocabulary:
    """Reads a folder or a file: `tokenizer.json` before `vocab.txt`, as transformers does.

    Args:
        path: a folder with one of the two, or one of the two under any name (JSON by `.json`).
        rules: `lowercase` and other arguments of `Vocabulary` that go before what the files say;
            None: as the files say.

    Raises:
        FileNotFoundError: neither of the two files is there.
        ValueError: no file says the casing; a `tokenizer.json` that is not BERT's WordPiece;
            a file that is not UTF-8, not JSON, or empty; what `Vocabulary` refuses.
    """
    path = Path(path)
    if path.is_dir():
        files = [path / "tokenizer.json", path / "vocab.txt"]
        path = next((file for file in files if file.is_file()), None)
        if path is None:
            raise FileNotFoundError(f"{files[0].parent} has no tokenizer.json and no vocab.txt")
    elif not path.exists():
        raise FileNotFoundError(
            f"{path}: no such folder or file; a vocabulary is a folder with tokenizer.json or "
            "vocab.txt, or one of the two (kbert vocab trains one)"
        )
    try:
        is_json = path.suffix == ".json"
        found = _read_tokenizer_json(path) if is_json else {"tokens": read_tokens(path)}
        says = _settings_beside(path)
    except (AttributeError, KeyError, TypeError) as error:  # JSON of another structure
        raise ValueError(f"{path}, or a JSON file beside it, is damaged: {error!r}") from None
    rules = {key: rule for key, rule in rules.items() if rule is not None}
    sources = (found, says, rules)
    names = {role: name for s in sources for role, name in s.get("special_tokens", {}).items()}
    found |= says | rules | {"special_tokens": names}
    if found.get("lowercase") is None:
        raise ValueError(
            f"{path}: no file says whether the vocabulary is lowercased, no do_lower_case in a "
            "tokenizer_config.json: say lowercase=True (uncased) or lowercase=False (cased)"
        )
    return Vocabulary(**found, source=str(path))


def read_tokens(path: str | os.PathLike) -> tuple[str, ...]:
    """The tokens of a `vocab.txt`, in the order of their ids.

    Lines end in LF or CRLF; blank lines at the end are no tokens. As Google's `load_vocab`, white
    space around a token is dropped. Only a line feed ends a line: U+2028 and U+0085 do not.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is empty or not UTF-8.
    """
    lines = [line.removesuffix("\r") for line in _text(Path(path)).split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise ValueError(f"{path} must hold one token a line, got an empty file")
    return tuple(line.strip() or line for line in lines)


def _check_tokens(tokens: Iterable[str], source: str) -> None:
    if not tokens:
        raise ValueError(f"{source} must hold tokens, got none")
    seen, twice = {}, []
    for place, token in enumerate(tokens):
        if not isinstance(token, str) or "\n" in token or "\r" in token:
            raise ValueError(f"{source}: token {place} must be one line of text, got {token!r}")
        if seen.setdefault(token, place) != place:
            twice.append(f"{token!r} (ids {seen[token]} and {place})")
    if twice:
        more = f" and {len(twice) - 5} more" if len(twice) > 5 else ""
        twice = ", ".join(twice[:5]) + more
        raise ValueError(f"{source} must hold each token once, got twice: {twice}")


def _is_added_token(entry) -> bool:
    if not isinstance(entry, dict):
        return False
    return isinstance(entry.get("content"), str) and isinstance(entry.get("id"), int)


def _special(token: str, place: int) -> dict:
    return (
        {"id": place, "content": token}
        | dict.fromkeys(ADDED_TOKEN_FLAGS, False)
        | {"special": True}
    )


def _settings_beside(path: Path) -> dict:
    """What the two files of transformers beside the vocabulary say, under `Vocabulary`'s names."""
    values = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if path.with_name(name).is_file():
            values |= _json(path.with_name(name))
    says = {}
    for key in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
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
        says["added"] = tuple({"id": int(place)} | entry for place, entry in entries)
    return says


def _read_tokenizer_json(path: Path) -> dict:
    values = _json(path)
    model = values.get("model")
    if not isinstance(model, dict):
        keys = ", ".join(values) or "no keys"
        raise ValueError(f"{path} must be a file of the Rust tokenizers, with a model, got {keys}")
    kind = model.get("type", "WordPiece" if "max_input_chars_per_word" in model else None)
    if kind != "WordPiece" or model.get("continuing_subword_prefix", "##") != "##":
        kind = f"{kind}, prefix {model.get('continuing_subword_prefix')!r}"
        raise ValueError(f"{path}: the model must be WordPiece with prefix '##', got {kind}")
    for part, expected in (("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer")):
        kind = (values.get(part) or {}).get("type")
        if kind != expected:
            raise ValueError(f"{path}: the {part} must be {expected}, got {kind}")
    _check_template(values.get("post_processor"), path)
    tokens = _by_id(model.get("vocab"), path)
    normalizer = values["normalizer"]
    return {
        "tokens": tokens,
        "lowercase": normalizer.get("lowercase"),
        "strip_accents": normalizer.get("strip_accents"),
        "tokenize_chinese_chars": normalizer.get("handle_chinese_chars", True),
        "added": tuple(values.get("added_tokens") or ()),
        "max_word_chars": model.get("max_input_chars_per_word", MAX_WORD_CHARS),
        "special_tokens": {"unk": model.get("unk_token", SPECIAL_TOKENS["unk"])},
    }


def _by_id(ids: dict[str, int], path: Path) -> tuple[str, ...]:
    if not isinstance(ids, dict) or not all(isinstance(place, int) for place in ids.values()):
        raise ValueError(f"{path}: the model's vocab must be ids by token")
    by_id = sorted(ids.items(), key=lambda item: item[1])
    for expected, (token, place) in enumerate(by_id):
        if place != expected:
            raise ValueError(f"{path}: ids must be 0, 1, 2, …, got {place} for {token!r}")
    return tuple(token for token, _ in by_id)


def _check_template(template: dict | None, path: Path) -> None:
    """Refuses what does not make [CLS] A [SEP] of one text, [CLS] A [SEP] B [SEP] of two."""
    if (template or {}).get("type") != "TemplateProcessing":
        if template and template.get("type") != "BertProcessing":
            kind = template.get("type")
            raise ValueError(f"{path}: the post_processor must be a template, got {kind}")
        return
    for name, expected in (("single", "S0 A0 S0"), ("pair", "S0 A0 S0 B1 S1")):
        parts = [next(iter(part.items())) for part in template[name]]
        got = " ".join(
            ("S" if kind == "SpecialToken" else part["id"]) + str(part["type_id"])
            for kind, part in parts
        )
        if got != expected:
            raise ValueError(f"{path}: the template of a {name} must be BERT's, got {got}")


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = error.start
        raise ValueError(f"{path} must be UTF-8 text, got other bytes at {place}") from None


def _json(path: Path) -> dict:
    try:
        values = json.loads(_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} must be JSON, got: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must be a JSON object, got {type(values).__name__}")
    return values
