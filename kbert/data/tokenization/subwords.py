"""Byte-level BPE (RoBERTa's) and Unigram (XLM-R's), as a `tokenizer.json` has them.

The Rust `tokenizers` package reads the file; here it is checked, and told what transformers adds:
the special tokens, and `<s> A </s>` and `<s> A </s></s> B </s>` where no template is in it.
`vocab.json` with `merges.txt`, which RoBERTa was released as, become the same.
"""

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import tokenizers

from kbert.data.tokenization.rust_tokenizer import RustTokenizer
from kbert.data.tokenization.vocabulary import (
    ADDED_TOKEN,
    check_special_tokens,
    check_truncation,
    no_token,
    rust_added_token,
    truncation_config,
)
from kbert.io import bounds
from kbert.io import json_schema as js

# keys of tokenizer_config.json that these classes read, and PreTrainedTokenizerFast does not
CLASS_SETTINGS = ("add_prefix_space", "trim_offsets", "clean_up_tokenization_spaces")
# transformers' classes that take a file's tokens alone; every other takes the file as it is
_MADE_ANEW = {
    "BPE": ("RobertaTokenizer",),
    "Unigram": ("XLMRobertaTokenizer", "CamembertTokenizer"),
}
KINDS = tuple(_MADE_ANEW)
SPECIAL_TOKENS = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
_MODEL = js.fields({"model": js.fields(optional={"type": js.TEXT})})


@dataclass(frozen=True, kw_only=True)
class Subwords:
    """A subword vocabulary (byte-level BPE or Unigram), and its rules.

    Args:
        text: the text of a tokenizer.json.
        special_tokens: the tokens of the roles pad, unk, cls, sep and mask, if they are not
            `<pad>`, `<unk>`, `<s>`, `</s>` and `<mask>`.
        tokenizer_class: transformers' class, which decides what of `text` counts; None: all of it.
        settings: values of `CLASS_SETTINGS` in tokenizer_config.json.
        added, max_length, truncation_side, source: as in `Vocabulary`; `added` in addition to the
            text's.

    Attributes:
        kind: one of `KINDS`.
        lowercase: whether texts are lowercased.

    Raises:
        ValueError: a tokenizer of another kind, a missing special token, an added token with the id
            of another, or a template that does not put cls and sep around a text.
    """

    text: str
    special_tokens: dict[str, str] = field(default_factory=dict)
    tokenizer_class: str | None = None
    settings: dict[str, bool] = field(default_factory=dict)
    added: tuple[dict, ...] = ()
    max_length: int | None = None
    truncation_side: str = "right"
    source: str = "the vocabulary"
    kind: str = field(init=False)
    lowercase: bool = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "special_tokens", SPECIAL_TOKENS | self.special_tokens)
        check_truncation(self.max_length, self.truncation_side, self.source)
        values = js.parse(self.text, _MODEL, self.source)
        kind = values["model"].get("type")
        if kind not in KINDS:
            raise ValueError(f"{self.source}: the model must be {' or '.join(KINDS)}, got {kind}")
        object.__setattr__(self, "kind", kind)
        has_lowercase = '"Lowercase"' in json.dumps(values.get("normalizer"))
        object.__setattr__(self, "lowercase", has_lowercase and not self._is_made_anew)

        for entry in self.added:
            self._check_added(entry)
        check_special_tokens(self.special_tokens, self.all_tokens, self.source)
        ends = self.special_tokens["cls"], self.special_tokens["sep"]
        frame = self.rust.encode("").tokens
        if tuple(frame) != ends:
            raise ValueError(
                f"{self.source}: the template must put {' and '.join(ends)} around a text, got "
                f"{' '.join(frame) or 'none'}"
            )

    def _check_added(self, entry: dict) -> None:
        """Raise a ValueError for an added token with the id of another."""
        js.check(entry, ADDED_TOKEN, self.source, "an added token")
        token_id = self.rust.token_to_id(entry["content"])
        if entry.get("id", token_id) != token_id:
            raise ValueError(
                f"{self.source}: the added token {entry['content']!r} must have the id "
                f"{token_id}, got {entry['id']}"
            )

    @property
    def clean_up(self) -> bool:
        """Whether decoding joins contractions: transformers never does it for byte-level BPE."""
        return self.kind != "BPE" and self.settings.get("clean_up_tokenization_spaces", False)

    @property
    def _is_made_anew(self) -> bool:
        """Whether transformers' class takes the tokens of the file alone, and makes the rest."""
        class_name = (self.tokenizer_class or "").removesuffix("Fast")
        return class_name in _MADE_ANEW.get(self.kind, ())

    @cached_property
    def rust(self) -> tokenizers.Tokenizer:
        """The Rust tokenizer, without truncation and padding."""
        try:
            rust = tokenizers.Tokenizer.from_str(self.text)
        except Exception as error:  # the Rust package's errors have no class of their own
            why = " ".join(str(error).split())
            raise ValueError(f"{self.source} must be a whole tokenizer.json, got: {why}") from None
        rust.no_truncation()
        rust.no_padding()
        if self._is_made_anew:
            self._make_anew(rust)

        present = self._add_tokens(rust)
        is_known_class = self.tokenizer_class is None or self._is_made_anew
        has_frame = "cls" in present and "sep" in present
        if rust.post_processor is None and is_known_class and has_frame:
            rust.post_processor = _roberta_template(
                rust,
                self.special_tokens,
                self.settings.get("add_prefix_space", False),
                self.settings.get("trim_offsets", True),
            )
        return rust

    def _add_tokens(self, rust: tokenizers.Tokenizer) -> dict[str, str]:
        """Add the tokens of `added` and the special ones; return those by role that have an id."""
        added_tokens = rust.get_added_tokens_decoder().values()
        known = {token.content for token in added_tokens}
        for entry in self.added:
            if entry["content"] not in known:
                rust.add_tokens([rust_added_token(entry)])
                known.add(entry["content"])

        present = {}
        for role, token in self.special_tokens.items():
            if rust.token_to_id(token) is not None:
                present[role] = token
        for role, token in present.items():
            if token not in known:
                added = tokenizers.AddedToken(token, lstrip=role == "mask", special=True)
                rust.add_special_tokens([added])
        return present

    def _make_anew(self, rust: tokenizers.Tokenizer) -> None:
        """Replace all but the tokens, as RobertaTokenizer and XLMRobertaTokenizer do."""
        normalizers = _list_normalizers(rust.normalizer)
        rust.normalizer = None
        rust.post_processor = None
        if self.kind == "BPE":
            spaced = self.settings.get("add_prefix_space", False)
            rust.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=spaced)
            return

        for normalizer in normalizers:
            if isinstance(normalizer, tokenizers.normalizers.Precompiled):
                rust.normalizer = normalizer
                break
        scheme = "always" if self.settings.get("add_prefix_space", True) else "never"
        rust.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
            [
                tokenizers.pre_tokenizers.WhitespaceSplit(),
                tokenizers.pre_tokenizers.Metaspace(prepend_scheme=scheme),
            ]
        )

    @cached_property
    def all_tokens(self) -> tuple[str, ...]:
        """The tokens by id; one that was added again, as `<mask>` may be, stands at both."""
        ids = self.rust.get_vocab().values()
        count = max(ids, default=-1) + 1
        if count > bounds.LINES:
            raise ValueError(
                f"{self.source}: ids must be below {bounds.LINES:,}, got {count - 1:,}"
            )

        tokens = []
        for token_id in range(count):
            token = self.rust.id_to_token(token_id)
            tokens.append(token or no_token(token_id))
        return tuple(tokens)

    def engine(self) -> RustTokenizer:
        """Rust tokenizer that encodes."""
        added_tokens = self.rust.get_added_tokens_decoder()
        added = [token.content for token in added_tokens.values()]
        longest = max(len(token) for token in self.all_tokens)
        return RustTokenizer(self.rust, added, self.truncation_side, longest=longest)

    def tokenizer_config(self, max_length: int | None = None) -> dict:
        """Return the values of transformers' `tokenizer_config.json`."""
        config: dict = {"tokenizer_class": self.tokenizer_class or "PreTrainedTokenizerFast"}
        config |= self.settings
        for role, token in self.special_tokens.items():
            config[f"{role}_token"] = token
        config["bos_token"] = config["cls_token"]
        config["eos_token"] = config["sep_token"]
        return config | truncation_config(self, max_length)


def join_merges(path: Path, special: dict[str, str], settings: dict) -> str:
    """Return a tokenizer.json's text of a vocab.json and its merges.txt, as transformers makes it.

    `settings` are those of tokenizer_config.json. Raise a FileNotFoundError if there is no
    merges.txt, a ValueError if the two files do not fit together.
    """
    merges = path.with_name("merges.txt")
    if not merges.is_file():
        raise FileNotFoundError(f"{path.parent} has {path.name}, but no merges.txt")
    bounds.check_size(merges, bounds.TEXT)
    ids_by_token = js.mapping_of(js.whole(), "ids by token")
    js.read(path, ids_by_token)
    try:
        model = tokenizers.models.BPE.from_file(str(path), str(merges))
    except Exception as error:
        why = " ".join(str(error).split())
        raise ValueError(f"{path} must go with its merges.txt, got: {why}") from None

    spaced = bool(settings.get("add_prefix_space"))
    trimmed = settings.get("trim_offsets") is not False
    rust = tokenizers.Tokenizer(model)
    rust.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    rust.decoder = tokenizers.decoders.ByteLevel()
    ids = [rust.token_to_id(special[role]) for role in ("cls", "sep")]
    if None not in ids:
        rust.post_processor = _roberta_template(rust, special, spaced, trimmed)
    return rust.to_str()


def _list_normalizers(normalizer) -> list:
    """Return the normalizers in a sequence, or the one that there is."""
    if normalizer is None:
        return []
    if isinstance(normalizer, tokenizers.normalizers.Sequence):
        return [normalizer[index] for index in range(len(normalizer))]
    return [normalizer]


def _roberta_template(rust, special: dict[str, str], spaced: bool = False, trimmed: bool = True):
    cls, sep = special["cls"], special["sep"]
    return tokenizers.processors.RobertaProcessing(
        (sep, rust.token_to_id(sep)),
        (cls, rust.token_to_id(cls)),
        trim_offsets=trimmed,
        add_prefix_space=spaced,
    )
