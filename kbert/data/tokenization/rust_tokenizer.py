"""The Rust tokenizer behind `kbert.data.tokenization.tokenizer`, guarded between threads."""

import contextlib
import re
import sys
import threading
from collections.abc import Iterable, Iterator

import tokenizers

from kbert.graph.config import require_positive

# As in a set of `re`: what ends a word of WordPiece, and begins another or none.
WORD_BOUNDARIES = r" \t\n\r\u3000!-/:-@\[-`{-~、。！，：；？"
IDEOGRAPHS = r"\u4e00-\u9fff"
_SHORT = 4096  # characters of a text that is tokenized whole
_CHUNK = 1 << 18  # characters that are tokenized at a time to count tokens
TRUNCATIONS = ("longest_first", "only_first", "only_second")


@contextlib.contextmanager
def _name_panics() -> Iterator[None]:
    """Raise a ValueError for a panic of the Rust package, which is no Exception."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(
            f"the tokenizer's file must have rules that end soon, got: {error}"
        ) from None


def _exclude_characters_of(added: Iterable[str]) -> str:
    """Return a part of a pattern: no character of an added token follows."""
    inside = set("".join(added))
    if any(character.isspace() for character in inside):
        inside |= set(" \t\n\r\u3000")  # each blank may be normalized to that one
    if not inside:
        return ""
    characters = sorted(inside)
    escaped = "".join(re.escape(character) for character in characters)
    return f"(?![{escaped}])"


class RustTokenizer:
    """A thread-safe Rust tokenizer: no other thread changes its truncation during a call.

    Args:
        rust: the tokenizer.
        added: tokens that are found in a text before it is normalized.
        truncation_side: the end at which a long text is truncated: "right" or "left".
        boundaries: characters before which a text may be cut, if they are in no added token, as in
            a set of `re`; None: blanks after other characters, since a run of them may be a piece.
        longest: characters of the longest token; None: a text is cut at boundaries alone.
    """

    def __init__(
        self,
        rust: tokenizers.Tokenizer,
        added: Iterable[str],
        truncation_side: str = "right",
        boundaries: str | None = None,
        longest: int | None = None,
    ):
        self._rust = rust
        self._side = truncation_side
        # The Rust object keeps the truncation as a state: one thread sets it and cuts at a time.
        self._lock = threading.Lock()

        outside_tokens = _exclude_characters_of(added)
        if boundaries is None:
            self._boundary = re.compile(rf"(?<=\S){outside_tokens}[ \n]")
        else:
            self._boundary = re.compile(f"{outside_tokens}[{boundaries}]")
        self._longest = sys.maxsize if longest is None else longest

    @_name_panics()
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
        if max_length is not None and self._side == "right":
            texts, pairs = self._shorten_all(texts, pairs, max_length)

        with self._lock:
            self._set_truncation(max_length, truncation)
            try:
                return self._encode_locked(texts, pairs, add_special_tokens)
            except Exception:  # the Rust package's errors have no class of their own
                if max_length is None or truncation == "longest_first":
                    raise
                raise ValueError(
                    f"truncation={truncation!r} cannot reach max_length={max_length}: what is not "
                    "cut is too long. Take 'longest_first'"
                ) from None

    def _set_truncation(self, max_length: int | None, truncation: str) -> None:
        if max_length is None:
            self._rust.no_truncation()
            return
        # Differs from Google: of two that are as long, an odd token more goes to the
        # second text, as transformers does; Google's _truncate_seq_pair cuts that one.
        self._rust.enable_truncation(max_length, strategy=truncation, direction=self._side)

    def _encode_locked(
        self, texts: list[str], pairs: list[str] | None, add_special_tokens: bool
    ) -> list[tokenizers.Encoding]:
        """Return the encodings, while the caller holds the lock."""
        if len(texts) == 1:  # no threads for one text
            pair = None if pairs is None else pairs[0]
            encoding = self._rust.encode(texts[0], pair, add_special_tokens=add_special_tokens)
            return [encoding]

        inputs: list = texts
        if pairs is not None:
            inputs = list(zip(texts, pairs, strict=True))
        return self._rust.encode_batch(inputs, add_special_tokens=add_special_tokens)

    def _shorten_all(
        self, texts: list[str], pairs: list[str] | None, max_length: int
    ) -> tuple[list[str], list[str] | None]:
        """Return the starts of texts and their pairs that give the same tokens when truncated."""
        if pairs is None:
            return [self._beginning(text, max_length) for text in texts], None

        short_texts, short_pairs = [], []
        for text, pair in zip(texts, pairs, strict=True):
            short_text, short_pair = self._shorten(text, pair, max_length)
            short_texts.append(short_text)
            short_pairs.append(short_pair)
        return short_texts, short_pairs

    def _shorten(self, text: str, pair: str, max_length: int) -> tuple[str, str]:
        """Return the starts of a text and its pair that give the same tokens when truncated.

        Rust keeps what it cuts off two texts in each combination: time and memory are quadratic.
        Which of the two has more tokens decides which keeps an odd one: it has more here too.
        """
        if len(text) + len(pair) <= 4 * max_length:
            return text, pair

        if len(text) <= _SHORT:
            count = self._count(text)
            beginning = self._beginning(pair, max(max_length, count))
            pair_count = self._count(beginning)
        elif len(pair) <= _SHORT:
            pair_count = self._count(pair)
            beginning = self._beginning(text, max(max_length, pair_count))
            count = self._count(beginning)
        else:
            count = self._count_in_chunks(text)
            pair_count = self._count_in_chunks(pair)

        if count < pair_count:
            text = self._trim(text, max_length)
            count = self._count(text)
            pair = self._trim(pair, max(max_length, count))
        elif count > pair_count:
            pair = self._trim(pair, max_length)
            pair_count = self._count(pair)
            text = self._trim(text, max(max_length, pair_count))
        return text, pair

    def _trim(self, text: str, tokens: int) -> str:
        """Return the start of a text with a few more tokens, up to a boundary; or all of it."""
        beginning = self._beginning(text, tokens)
        encoding = self._encode_whole(beginning)
        if len(encoding) <= tokens:
            return beginning
        _, end = encoding.offsets[tokens]
        boundary = self._boundary.search(beginning, end)
        return beginning[: boundary.start()] if boundary else beginning

    def _count_in_chunks(self, text: str) -> int:
        """Count a long text's tokens; memory is that of a chunk."""
        count = start = 0
        while start < len(text):
            boundary = self._boundary.search(text, start + _CHUNK)
            end = boundary.start() if boundary else len(text)
            count += self._count(text[start:end])
            start = end
        return count

    def _beginning(self, text: str, max_length: int) -> str:
        """Return the start of a long text with more than `max_length` tokens, to truncate it there.

        Text after a boundary changes no token before it, and a line of 16 MB would take 4 GB.
        """
        end = max(_SHORT, 16 * max_length)
        while end < len(text):
            boundary = self._boundary.search(text, end, 2 * end)
            if boundary:
                beginning = text[: boundary.start()]
                # More than one token beyond: "[CLS]" and the like take no more room than these two.
                if self._count(beginning) > max_length:
                    return beginning
            elif self._longest * end < len(text) and self._is_stable(text, end, max_length):
                return text[:end]
            end *= 8
        return text

    def _is_stable(self, text: str, end: int, max_length: int) -> bool:
        """Return whether the first tokens are the same, wherever the last ones before `end` end.

        One of these places is the end of a token in the whole text, since no token is longer than
        `longest`; and what stands before the end of a token is tokenized as it is alone.
        """
        count = max_length + 1
        first = None
        for cut in range(end - self._longest, end + 1):
            encoding = self._encode_whole(text[:cut])
            if len(encoding.ids) < count:
                return False
            tokens = encoding.ids[:count], encoding.offsets[:count]
            if first not in (None, tokens):
                return False
            first = tokens
        return True

    def _count(self, text: str) -> int:
        return len(self._encode_whole(text))

    def _encode_whole(self, text: str) -> tokenizers.Encoding:
        with self._lock:
            self._rust.no_truncation()
            return self._rust.encode(text, add_special_tokens=False)

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
                empty_pair = "" if is_pair else None
                first, *ends = self._rust.encode("", empty_pair).tokens
            many = {1: "", 2: "two ", 3: "three "}.get(len(ends), "")
            raise ValueError(
                f"max_length must be at least {frame}, to hold {first} and {many}{ends[-1]}, got "
                f"{max_length}"
            )
