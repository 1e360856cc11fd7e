"""The Rust tokenizer behind `kbert.data.tokenization.tokenizer`: built, guarded between threads."""

import re
import threading

import tokenizers

from kbert.data.tokenization.vocabulary import ADDED_TOKEN_FLAGS, Vocabulary
from kbert.graph.config import require_positive

_BLANK = re.compile(r"[ \n]")
_SHORT = 4096  # characters of a text that is tokenized whole
TRUNCATIONS = ("longest_first", "only_first", "only_second")


class WordPiece:
    """A vocabulary's Rust tokenizer, whose truncation no other thread changes meanwhile."""

    def __init__(self, vocabulary: Vocabulary):
        self._rust = _build(vocabulary)
        # The Rust object keeps the truncation as a state: one thread sets it and cuts at a time.
        self._lock = threading.Lock()
        added = [entry["content"] for entry in vocabulary.added]
        self._blanks_in_tokens = any(_BLANK.search(token) for token in added)

    def encode(
        self,
        texts: list[str],
        pairs: list[str] | None,
        add_special_tokens: bool,
        max_length: int | None,
        truncation: str,
    ) -> list[tokenizers.Encoding]:
        """The encodings of texts, or of pairs, on every core; errors as `Tokenizer.encode`."""
        self._check(max_length, truncation, pairs is not None, add_special_tokens)
        if pairs is None and max_length is not None:
            texts = [self._beginning(text, max_length) for text in texts]
        inputs: list = texts if pairs is None else list(zip(texts, pairs, strict=True))
        with self._lock:
            if max_length is None:
                self._rust.no_truncation()
            else:
                # Differs from Google: of two that are as long, an odd token more goes to the
                # second text, as transformers does; Google's _truncate_seq_pair cuts that one.
                self._rust.enable_truncation(max_length, strategy=truncation)
            try:
                if len(inputs) == 1:  # no threads for one text
                    pair = None if pairs is None else pairs[0]
                    return [
                        self._rust.encode(texts[0], pair, add_special_tokens=add_special_tokens)
                    ]
                return self._rust.encode_batch(inputs, add_special_tokens=add_special_tokens)
            except Exception:  # the Rust package's errors have no class of their own
                if max_length is None or truncation == "longest_first":
                    raise
                raise ValueError(
                    f"truncation={truncation!r} cannot reach max_length={max_length}: what is not "
                    "cut is too long; take 'longest_first'"
                ) from None

    def _beginning(self, text: str, max_length: int) -> str:
        """As much of a long text as makes more than `max_length` tokens, for cutting it there.

        What follows a blank changes no token before it, and a line of 16 MB would take 4 GB.
        """
        end = max(_SHORT, 16 * max_length)
        while end < len(text) and not self._blanks_in_tokens:
            blank = _BLANK.search(text, end)
            if blank is None:
                return text
            beginning = text[: blank.start()]
            # More than one token beyond: "[CLS]" and the like take no more room than these two.
            if len(self._rust_encoded(beginning)) > max_length:
                return beginning
            end = 8 * blank.start()
        return text

    def _rust_encoded(self, text: str) -> tokenizers.Encoding:
        with self._lock:
            self._rust.no_truncation()
            return self._rust.encode(text, add_special_tokens=False)

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        """The text of ids that the vocabulary has."""
        return self._rust.decode(ids, skip_special_tokens=skip_special_tokens)

    def to_json(self) -> str:
        """The text of `tokenizer.json`, without truncation and padding."""
        with self._lock:
            self._rust.no_truncation()
            return self._rust.to_str(pretty=True)

    def _check(self, max_length, truncation, is_pair, add_special_tokens) -> None:
        if truncation not in TRUNCATIONS:
            raise ValueError(
                f"truncation must be one of {', '.join(TRUNCATIONS)}, got {truncation!r}"
            )
        if truncation == "only_second" and not is_pair:
            raise ValueError("truncation='only_second' needs a pair, got one text")
        if max_length is None:
            return
        max_length = require_positive("max_length", max_length)
        frame = self._rust.num_special_tokens_to_add(is_pair) if add_special_tokens else 0
        if max_length < frame:  # transformers cuts nothing then, and says nothing
            tokens = "[CLS] and two [SEP]" if is_pair else "[CLS] and [SEP]"
            raise ValueError(
                f"max_length must be at least {frame}, to hold {tokens}, got {max_length}"
            )


def _build(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """The Rust tokenizer, as transformers builds BertTokenizer's."""
    special = vocabulary.special_tokens
    word_piece = tokenizers.models.WordPiece(
        {token: place for place, token in enumerate(vocabulary.tokens)},
        unk_token=special["unk"],
        max_input_chars_per_word=vocabulary.max_word_chars,
    )
    rust = tokenizers.Tokenizer(word_piece)
    rust.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=vocabulary.tokenize_chinese_chars,
        strip_accents=vocabulary.strip_accents,
        lowercase=vocabulary.lowercase,
    )
    rust.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    rust.decoder = tokenizers.decoders.WordPiece(prefix="##", cleanup=True)
    for entry in vocabulary.added:
        flags = {flag: entry[flag] for flag in ADDED_TOKEN_FLAGS if flag in entry}
        rust.add_tokens([tokenizers.AddedToken(entry["content"], **flags)])
    cls, sep = special["cls"], special["sep"]
    rust.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(token, rust.token_to_id(token)) for token in (cls, sep)],
    )
    return rust
