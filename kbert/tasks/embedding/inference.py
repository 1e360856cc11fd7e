"""Embeddings of texts, and their similarity."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.checkpoints.sentence_settings import (
    DEFAULT,
    POOLINGS,
    check_pooling,
    settings_of,
)
from kbert.data.padding import windows
from kbert.graph.aliases import answer_old_names
from kbert.graph.config import require_positive
from kbert.io import printable
from kbert.io.wording import check_choice
from kbert.model.probes import build_pooled
from kbert.tasks.common.checks import (
    check_max_length,
    listed,
    longest,
    require_pooler,
    require_tokenizer,
)
from kbert.tasks.common.running import (
    BATCH_SIZE,
    Window,
    get_function,
    run_sequences,
    run_windows,
)
from kbert.tasks.embedding import LONG_TEXTS
from kbert.tasks.embedding.texts import choose_prompt, count_prompt_tokens, prepare_texts

_LAYERS = 4  # that "last" concatenates by default


@printable.escape_errors()
@answer_old_names
def embed(
    bert: Bert,
    texts: str | Iterable[str],
    *,
    pooling: str | Sequence[str] | None = None,
    normalize: bool | None = None,
    prompt_name: str | None = None,
    prompt: str | None = None,
    num_layers: int | None = None,
    batch_size: int = BATCH_SIZE,
    long: str = "truncate",
    max_length: int | None = None,
    precision: str | None = None,
    progress: bool = True,
) -> np.ndarray:
    """Embed texts: one embedding per text, equal to that of sentence-transformers' `encode`.

    Args:
        bert: from `kbert.load`, with any head.
        texts: a str, or a list of them.
        pooling: how token embeddings become one embedding; a list of methods concatenates their
            results. None: the checkpoint's method with its dense layers and dimensions (any other
            choice leaves these out); else "mean".
            "mean", "max": over all tokens, [CLS] and [SEP] included, as in sentence-transformers.
            "cls": the first token's. "lasttoken": the last token's.
            "weightedmean": the mean weighted by position.
            "mean_sqrt_len_tokens": the sum divided by the square root of the number of tokens.
            "pooler": the pooled output.
            "last": the mean over the tokens of the last `num_layers` hidden states, concatenated,
            the last layer last.
        normalize: whether to scale embeddings to length 1. None: the checkpoint's setting, else no.
        prompt_name: the name of a prompt of the checkpoint, put before each text. None: the
            checkpoint's default prompt, if any.
        prompt: your own prompt; "" for none.
        num_layers: number of hidden states for "last", 1 … L; None: 4.
        batch_size: sequences per batch.
        long: how to embed a text of more than `max_length` tokens. "truncate": truncate it; a
            warning has the number of such texts. "window": average over windows of `max_length`
            tokens, [CLS] and [SEP] included. Each window shares a quarter of its tokens with the
            previous one; the last one ends with the text, has the same length and shares more, so
            that all windows count alike. The embeddings of the windows are averaged, then
            normalized.
        max_length: maximum tokens of a sequence, [CLS] and [SEP] included. None: the checkpoint's
            setting, as in sentence-transformers, else the model's positions.
        precision: the dtype of the computation: "float32" or "bfloat16" ("mixed_bfloat16",
            training's name, is the same). None: the model's own. The weights are cast in the first
            call, and again after they change; the copy stays with the model. LayerNorm, softmax and
            the mean are always in float32. Embeddings in bfloat16 have a cosine of 0.999 or more
            with those in float32. On TensorFlow on a CPU with bfloat16 multiplication, "float32" is
            faster than None, and equal within 1e-5.
        progress: whether to show a progress bar on stderr after two seconds.

    Returns:
        float32 (N, D) in the order of the texts, (0, D) for an empty list; (D,) for one str. D is
        H; for "last" it is num_layers · H.

    Raises:
        ValueError: something that is not text; an unknown pooling, precision or `long`; a
            model without tokenizer; "pooler" for a model without pooler or with a newly initialized
            one.
    """
    tokenizer = require_tokenizer(bert, "embed")
    texts, is_single = listed(texts, "texts")
    settings = settings_of(bert, "embed") if pooling is None else bert.sentence or DEFAULT
    method = settings.pooling if pooling is None else check_pooling(pooling, POOLINGS)
    if method != settings.pooling:  # dense layers and dimensions belong to the checkpoint's pooling
        settings = dataclasses.replace(settings, dense=(), dimensions=None)
    check_choice(long, LONG_TEXTS, "long")
    num_layers = _check_num_layers(bert, num_layers, method)
    check_max_length(bert, max_length)
    limit = longest(bert, settings.max_length if max_length is None else max_length)
    if limit < 3:
        raise ValueError(f"max_length must be at least 3, [CLS], a token and [SEP], got {limit}")

    prompt = choose_prompt(settings, prompt_name, prompt)
    skip = count_prompt_tokens(tokenizer, settings, prompt)
    if skip and long == "window":
        raise ValueError("long='window' needs a model that pools its prompt's tokens too")
    if skip >= limit:
        raise ValueError(f"max_length must be more than the prompt's {skip} tokens, got {limit}")

    count = len(texts)
    texts_or_one = texts or [""]  # one row says how long rows are
    prepared = prepare_texts(tokenizer, settings, texts_or_one, prompt)
    function = _get_function(bert, method, settings.dense, precision, num_layers, skip)
    embeddings = _embed_texts(
        bert, function, prepared, limit, long == "window", batch_size, progress
    )
    if settings.normalize and normalize is not False:
        embeddings = _normalize(embeddings)
    embeddings = embeddings[:count, : settings.dimensions]
    if normalize:
        embeddings = _normalize(embeddings)
    return embeddings[0] if is_single else embeddings


def _check_num_layers(bert: Bert, num_layers: int | None, method) -> int:
    """Return the number of hidden states that a pooling method uses: 1 for all but "last"."""
    if num_layers is not None and method != "last":
        raise ValueError(
            f"num_layers goes with pooling='last', got pooling={method!r}: leave it out"
        )
    if method != "last":
        return 1

    num_layers = require_positive("num_layers", _LAYERS if num_layers is None else num_layers)
    if num_layers > bert.config.num_hidden_layers:
        raise ValueError(
            f"num_layers must be at most the model's {bert.config.num_hidden_layers}, got "
            f"{num_layers}"
        )
    return num_layers


def embed_ids(
    bert: Bert, ids: Sequence[Sequence[int]], *, batch_size: int, precision: str | None
) -> np.ndarray:
    """Embed token ids of texts of any length, with [CLS] and [SEP]: float32 (N, H).

    The checkpoint's pooling is used, else the mean; `prepare_texts` has added its prompt.
    """
    settings = settings_of(bert, "evaluate")
    function = _get_function(bert, settings.pooling, settings.dense, precision)
    sequences = []
    for sequence in ids:
        segment_ids = [0] * len(sequence)
        sequences.append((list(sequence), segment_ids))

    embeddings: list = [None] * len(ids)
    for index, (embedding,) in run_sequences(bert, function, sequences, batch_size):
        embeddings[index] = embedding
    return np.stack(embeddings)[:, : settings.dimensions]


@printable.escape_errors()
@answer_old_names
def similarity(
    bert: Bert,
    texts: Iterable[str],
    *,
    pooling: str | Sequence[str] | None = None,
    normalize: bool | None = None,
    prompt_name: str | None = None,
    prompt: str | None = None,
    num_layers: int | None = None,
    batch_size: int = BATCH_SIZE,
    long: str = "truncate",
    max_length: int | None = None,
    precision: str | None = None,
    progress: bool = True,
) -> np.ndarray:
    """Compute the similarity of every text with every other text.

    The checkpoint's similarity function is used, else the cosine.

    Args:
        bert: from `kbert.load`.
        texts: a list of str.
        pooling, normalize, prompt_name, prompt, num_layers: as for `embed`.
        batch_size, long, max_length, precision, progress: as for `embed`.

    Returns:
        float32 (N, N), symmetric. A cosine is within −1 … 1, with 1 on the diagonal; a distance,
        "euclidean" or "manhattan", is negative, as in sentence-transformers.
    """
    if isinstance(texts, str):
        raise ValueError("texts must be a list of str, got one str: there is nothing to compare")
    embeddings = embed(
        bert,
        texts,
        pooling=pooling,
        normalize=normalize,
        prompt_name=prompt_name,
        prompt=prompt,
        num_layers=num_layers,
        batch_size=batch_size,
        long=long,
        max_length=max_length,
        precision=precision,
        progress=progress,
    )
    check_finite(embeddings, "the vectors of texts")
    return compare((bert.sentence or DEFAULT).similarity, embeddings, embeddings)


def compare(similarity: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compare embeddings (N, D) with embeddings (M, D): float (N, M); higher means more similar.

    `similarity` is one of `SIMILARITIES`; distances are negative.
    """
    if not len(a):
        return np.zeros((0, len(b)), "float32")
    if similarity == "cosine":
        cosines = _normalize_safely(a) @ _normalize_safely(b).T
        return np.clip(cosines, -1, 1)
    if similarity == "dot":
        return a @ b.T

    distances = []
    for row in a:
        difference = b - row
        if similarity == "euclidean":
            distances.append(np.linalg.norm(difference, axis=1))
        else:
            distances.append(np.abs(difference).sum(axis=1))
    return -np.stack(distances)


def check_finite(embeddings: np.ndarray, name: str) -> None:
    """Raise a ValueError that names the rows with NaN or infinity."""
    inner_axes = tuple(range(1, embeddings.ndim))
    is_finite = np.isfinite(embeddings).all(axis=inner_axes)
    bad = np.flatnonzero(~is_finite)
    if not bad.size:
        return

    indices = ", ".join(str(index) for index in bad[:10])
    if bad.size > 10:
        indices += ", …"
    raise ValueError(
        f"{name} must be finite, got NaN or infinity in {bad.size} of {len(embeddings)} rows, "
        f"counted from 0: {indices}"
    )


def _normalize_safely(embeddings: np.ndarray) -> np.ndarray:
    """Scale embeddings to length 1, by the largest number first: squares overflow; zeros stay."""
    largest = np.abs(embeddings).max(axis=1, keepdims=True)
    scaled = embeddings / np.maximum(largest, 1e-30)
    return _normalize(scaled)


def _normalize(embeddings: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings / np.maximum(norms, 1e-12)


def _get_function(
    bert: Bert, pooling, dense, precision: str | None, num_layers: int = 1, skip: int = 0
) -> Callable:
    if pooling == "pooler" or "pooler" in tuple(pooling):
        require_pooler(bert, "pooling='pooler'")

    def build(model):
        return build_pooled(model, pooling, num_layers, dense, skip)

    return get_function(bert, ("embed", pooling, num_layers, dense, skip), build, precision)


def _embed_texts(
    bert: Bert, function, texts, limit: int, in_windows: bool, batch_size: int, progress: bool
) -> np.ndarray:
    """Return float32 (N, D): the mean over each text's windows; most texts have one."""
    tokenizer = require_tokenizer(bert, "embed")

    def encode(part: slice) -> list[list]:
        if in_windows:
            encodings = tokenizer.encode_batch(texts[part], add_special_tokens=False)
            return [_split_windows(tokenizer, encoding.ids, limit) for encoding in encodings]
        encodings = tokenizer.encode_batch(texts[part], max_length=limit)
        return [[encoding] for encoding in encodings]

    embeddings = np.zeros((len(texts), 0), "float32")
    for index, _, outputs in run_windows(
        bert, "embed", function, [texts], encode, batch_size, progress
    ):
        weighted = [window / len(outputs) for (window,) in outputs]
        embedding = sum(weighted[1:], start=weighted[0])
        if not embeddings.size:
            embeddings = np.zeros((len(texts), len(embedding)), "float32")
        embeddings[index] = embedding
    return embeddings


def _split_windows(tokenizer, ids: list[int], limit: int) -> list[Window]:
    width = limit - 2  # without [CLS] and [SEP]
    split = []
    for start, end in windows(len(ids), width, width // 4):
        tokens = [tokenizer.cls_id, *ids[start:end], tokenizer.sep_id]
        split.append(Window(tokens, [0] * len(tokens)))
    return split
