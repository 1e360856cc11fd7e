"""The Rust tokenizer behind `kbert.data.tokenization.tokenizer`, guarded between threads."""

import re
import threading
from collections.abc import Iterable

import tokenizers

from kbert.graph.config import require_positive

_BLANK = re.compile(r"[ \n]")
# A run of blanks may be one piece: a text is cut before one that no other stands in front of.
_FIRST_BLANK = re.compile(r"(?<=\S)[ \n]")
_SHORT = 4096  # characters of a text that is tokenized whole
TRUNCATIONS = ("longest_first", "only_first", "only_second")


class RustTokenizer:
    """A thread-safe Rust tokenizer: no other thread changes its truncation during a call.

    Args:
        rust: the tokenizer.
        added: tokens that are found in a text before it is normalized.
        truncation_side: the end at which a long text is truncated: "right" or "left".
        splits_at_blanks: whether each blank ends a piece, as in WordPiece.
    """

    def __init__(
        self,
        rust: tokenizers.Tokenizer,
        added: Iterable[str],
        truncation_side: str = "right",
        splits_at_blanks: bool = True,
    ):
        self._rust = rust
        self._side = truncation_side
        # The Rust object keeps the truncation as a state: one thread sets it and cuts at a time.
        self._lock = threading.Lock()
        self._blank = _BLANK if splits_at_blanks else _FIRST_BLANK
        self._blanks_in_tokens = any(_BLANK.search(token) for token in added)

    def encode(
        self,
        texts: list[str],
        pairs: list[str] | None,
        add_special_tokens: bool,
        max_length: int | None,
        truncation: str,
    ) -> list[tokenizers.Encoding]:
        """Return the encodings of texts, or of pairs, on every core.

        Errors as `Tokenizer.encode`.
        """
        self._check(max_length, truncation, pairs is not None, add_special_tokens)
        if pairs is None and max_length is not None and self._side == "right":
            texts = [self._beginning(text, max_length) for text in texts]
        inputs: list = texts if pairs is None else list(zip(texts, pairs, strict=True))
        with self._lock:
            if max_length is None:
                self._rust.no_truncation()
            else:
                # Differs from Google: of two that are as long, an odd token more goes to the
                # second text, as transformers does; Google's _truncate_seq_pair cuts that one.
                self._rust.enable_truncation(max_length, strategy=truncation, direction=self._side)
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
                    "cut is too long. Take 'longest_first'"
                ) from None

    def _beginning(self, text: str, max_length: int) -> str:
        """Return the start of a long text with more than `max_length` tokens, to truncate it there.

        Text after a blank changes no token before it, and a line of 16 MB would take 4 GB.
        """
        end = max(_SHORT, 16 * max_length)
        while end < len(text) and not self._blanks_in_tokens:
            blank = self._blank.search(text, end)
            if blank is None:
                return text
            beginning = text[: blank.start()]
            # More than one token beyond: "[CLS]" and the like take no more room than these two.
            with self._lock:
                self._rust.no_truncation()
                tokens = len(self._rust.encode(beginning, add_special_tokens=False))
            if tokens > max_length:
                return beginning
            end = 8 * blank.start()
        return text

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        """Return the text of ids that the vocabulary has."""
        return self._rust.decode(ids, skip_special_tokens=skip_special_tokens)

    def to_json(self) -> str:
        """Return the text of `tokenizer.json`, without truncation and padding."""
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
            with self._lock:
                self._rust.no_truncation()
                first, *others = self._rust.encode("", "" if is_pair else None).tokens
            many = {1: "", 2: "two ", 3: "three "}.get(len(others), "")
            raise ValueError(
                f"max_length must be at least {frame}, to hold {first} and {many}{others[-1]}, got "
                f"{max_length}"
            )
