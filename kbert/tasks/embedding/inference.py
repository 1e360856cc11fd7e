"""Texts to vectors, and how alike they are."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypedDict, Unpack

import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.checkpoints.sentence_settings import (
    DEFAULT,
    POOLINGS,
    check_pooling,
    settings_of,
)
from kbert.data.labelled.windows import windows
from kbert.graph import names
from kbert.graph.config import require_positive
from kbert.io.progress import progress_bar
from kbert.model.pooling import build_vectors
from kbert.tasks.checks import (
    check_max_length,
    listed,
    longest,
    require_tokenizer,
    require_trained,
)
from kbert.tasks.embedding import LONG_TEXTS
from kbert.tasks.embedding.similarities import check_finite, compare
from kbert.tasks.embedding.texts import choose_prompt, count_prompt_tokens, prepare_texts
from kbert.tasks.running import BATCH_SIZE, CHUNK, function_of, run_rows, warn_of_cut

_LAYERS = 4  # that "last" joins, unless told


class EmbedOptions(TypedDict, total=False):
    """The keyword arguments of `embed`."""

    pooling: str | Sequence[str] | None
    normalize: bool | None
    prompt_name: str | None
    prompt: str | None
    layers: int | None
    batch_size: int
    long: str
    max_length: int | None
    precision: str | None
    progress: bool


def embed(
    bert: Bert,
    texts: str | Iterable[str],
    *,
    pooling: str | Sequence[str] | None = None,
    normalize: bool | None = None,
    prompt_name: str | None = None,
    prompt: str | None = None,
    layers: int | None = None,
    batch_size: int = BATCH_SIZE,
    long: str = "truncate",
    max_length: int | None = None,
    precision: str | None = None,
    progress: bool = True,
) -> np.ndarray:
    """One vector for each text, as sentence-transformers' `encode` gives it.

    Args:
        bert: from `kbert.load`, with any head.
        texts: a str, or a list of them.
        pooling: from token vectors to one: "mean" or "max" over all tokens, [CLS] and [SEP]
            included, as in sentence-transformers; "cls", the first token's; "lasttoken", the last
            one's; "weightedmean", the mean weighted by the position; "mean_sqrt_len_tokens", the
            sum over the root of the number of tokens; "pooler", the pooled output; "last", the
            mean over the tokens of the last `layers` hidden states side by side, the last one
            last. A list of them concatenates their vectors. None: the checkpoint's own with its
            dense layers and dimensions, which another pooling leaves out; else "mean".
        normalize: whether vectors are brought to length 1. None: the checkpoint's own, else not.
        prompt_name: which of the checkpoint's prompts is put before each text. None: the
            checkpoint's default, where it has one.
        prompt: a prompt of your own, "" for none.
        layers: hidden states of "last", 1 … L; None: 4.
        batch_size: sequences computed at a time.
        long: what is done with a text of more than `max_length` tokens: "truncate" cuts it, and a
            warning counts those; "window" takes the mean over windows of the text's tokens, each
            between [CLS] and [SEP] and `max_length` long, a quarter of it shared with the window
            before. The last window ends with the text, as long as the others (so that all count
            alike), and shares more. The vectors of windows are averaged, then normalized.
        max_length: tokens of a sequence, [CLS] and [SEP] included. None: the checkpoint's own, as
            in sentence-transformers, else as many as the model has positions.
        precision: what it is computed in: "float32" or "bfloat16" ("mixed_bfloat16", as training
            says, is the same). The weights are cast at the first call, and again where they have
            changed; the copy stays with the model. LayerNorm, softmax and the mean are in float32
            nevertheless. Cosine of bfloat16's vectors to float32's: 0.999 or more. None: the
            model's own, with no copy; on TensorFlow on a CPU that multiplies bfloat16, "float32"
            is faster, and the same within 1e-5.
        progress: a bar on stderr, once it has taken two seconds.

    Returns:
        float32 (N, D) in the order of the texts; (D,) for one str. D is H, for "last" layers · H.

    Raises:
        ValueError: no text, something else than text, an unknown pooling, precision or way with
            long texts, no tokenizer, a pooler that the model lacks or that was left at its first
            weights.
    """
    tokenizer = require_tokenizer(bert, "embed")
    texts, one = listed(texts, "texts")
    own = settings_of(bert, "embed") if pooling is None else bert.sentence or DEFAULT
    chosen = own.pooling if pooling is None else check_pooling(pooling, POOLINGS)
    if chosen != own.pooling:  # what follows the checkpoint's own pooling
        own = dataclasses.replace(own, dense=(), dimensions=None)
    _check(bert, chosen, layers, long)
    check_max_length(bert, max_length)
    limit = longest(bert, own.max_length if max_length is None else max_length)
    if limit < 3:
        raise ValueError(f"max_length must be at least 3, [CLS], a token and [SEP], got {limit}")
    prompt = choose_prompt(own, prompt_name, prompt)
    texts = prepare_texts(tokenizer, own, texts, prompt)
    skip = count_prompt_tokens(tokenizer, own, prompt)
    _check_skip(skip, limit, long)
    depth = 1 if chosen != "last" else layers or _LAYERS
    function = _function(bert, chosen, own.dense, precision, depth, skip)
    vectors = _vectors(bert, function, texts, limit, long == "window", batch_size, progress)
    if own.normalize and normalize is not False:
        vectors = _normalize(vectors)
    vectors = vectors[:, : own.dimensions]
    if normalize:
        vectors = _normalize(vectors)
    return vectors[0] if one else vectors


def embed_ids(
    bert: Bert, ids: Sequence[Sequence[int]], *, batch_size: int, precision: str | None
) -> np.ndarray:
    """One vector for each text that is encoded already, pooled as the checkpoint says, else mean.

    The texts had their prompt, `prepare_texts`, before they were encoded.

    Args:
        bert: from `kbert.load`.
        ids: token ids of each, [CLS] and [SEP] among them.
        batch_size, precision: of `embed`.

    Returns:
        float32 (N, H), of whatever length they have.
    """
    own = settings_of(bert, "evaluate")
    _check(bert, own.pooling, None, "truncate")
    function = _function(bert, own.pooling, own.dense, precision)
    found: list = [None] * len(ids)
    rows = [(list(row), [0] * len(row)) for row in ids]
    for place, (vector,) in run_rows(bert, function, rows, batch_size):
        found[place] = vector
    return np.stack(found)[:, : own.dimensions]


def similarity(bert: Bert, texts: Iterable[str], **options: Unpack[EmbedOptions]) -> np.ndarray:
    """Similarity of every text with every other, by the checkpoint's function, else the cosine.

    Args:
        bert: from `kbert.load`.
        texts: a list of str.
        options: those of `embed`.

    Returns:
        float32 (N, N), symmetric. A cosine is within −1 … 1, 1 on the diagonal; a distance,
        "euclidean" or "manhattan", is negative, as in sentence-transformers.
    """
    if isinstance(texts, str):
        raise ValueError("texts must be a list of str, got one str: there is nothing to compare")
    vectors = embed(bert, texts, **options)
    check_finite(vectors, "the vectors of texts")
    return compare((bert.sentence or DEFAULT).similarity, vectors, vectors)


def _normalize(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _check_skip(skip: int, limit: int, long: str) -> None:
    if skip and long == "window":
        raise ValueError("long='window' needs a model that pools its prompt's tokens too")
    if skip >= limit:
        raise ValueError(f"max_length must be more than the prompt's {skip} tokens, got {limit}")


def _check(bert: Bert, pooling: str | tuple[str, ...], layers, long) -> None:
    if long not in LONG_TEXTS:
        raise ValueError(f"long must be one of {', '.join(LONG_TEXTS)}, got {long!r}")
    if layers is not None and pooling != "last":
        raise ValueError(f"layers goes with pooling='last', got pooling={pooling!r}: leave it out")
    layers = require_positive("layers", _LAYERS if layers is None else layers)
    if pooling == "last" and layers > bert.config.num_hidden_layers:
        raise ValueError(
            f"layers must be at most the model's {bert.config.num_hidden_layers}, got {layers}"
        )
    if pooling == "pooler" or "pooler" in tuple(pooling):
        if not bert.spec.has_pooler:
            raise ValueError(
                "pooling='pooler' needs a model with a pooler, got one with the head "
                f"{bert.head!r}: choose another pooling"
            )
        require_trained(bert, "pooling='pooler'", [names.POOLER], "encoder")


def _function(
    bert: Bert, pooling, dense, precision: str | None, depth: int = 1, skip: int = 0
) -> Callable:
    key = "embed", pooling, depth, dense, skip

    def build(model):
        return build_vectors(model, pooling, depth, dense, skip)

    return function_of(bert, key, build, precision)


def _vectors(bert, function, texts, limit, whole, batch_size, progress) -> np.ndarray:
    """float32 (N, D): the mean over each text's windows, of which most texts have one."""
    vectors, cut = np.zeros((len(texts), 0), "float32"), 0
    with progress_bar(len(texts), " texts", progress) as bar:
        for start in range(0, len(texts), CHUNK):
            owners, rows, more = _rows(bert.tokenizer, texts[start : start + CHUNK], limit, whole)
            cut += more
            parts, left = Counter(owners), Counter(owners)
            for place, (vector,) in run_rows(bert, function, rows, batch_size):
                owner = owners[place]
                if not vectors.size:
                    vectors = np.zeros((len(texts), len(vector)), "float32")
                vectors[start + owner] += vector / parts[owner]
                left[owner] -= 1
                bar.update(left[owner] == 0)
    warn_of_cut("embed", cut, len(texts), limit)
    return vectors


def _rows(tokenizer, texts: list[str], limit: int, whole: bool):
    """Sequences of at most `limit` tokens, whose text each is, and how many texts were cut."""
    if not whole:
        encodings = tokenizer.encode_batch(texts, max_length=limit).encodings
        rows = [(encoding.ids, encoding.segment_ids) for encoding in encodings]
        return list(range(len(rows))), rows, sum(encoding.truncated for encoding in encodings)
    found = list(_windows(tokenizer, texts, limit - 2))
    return [owner for owner, _ in found], [row for _, row in found], 0


def _windows(tokenizer, texts: list[str], width: int) -> Iterator:
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False).encodings
    for owner, encoding in enumerate(encodings):
        for start, end in windows(len(encoding), width, width // 4):
            ids = [tokenizer.cls_id, *encoding.ids[start:end], tokenizer.sep_id]
            yield owner, (ids, [0] * len(ids))
