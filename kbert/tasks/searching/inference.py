"""Semantic search: find texts for a query by embeddings, or rank them by a cross-encoder.

embeddings = kbert.embed(bert, texts)                    # once
kbert.search(bert, "who wrote it?", texts, embeddings=embeddings)
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Unpack, overload

import keras
import numpy as np

from kbert.checkpoints.bert import Bert, label_names
from kbert.checkpoints.sentence_settings import (
    DOCUMENT,
    QUERY,
    CrossEncoderSettings,
    keras_activation,
    settings_of,
)
from kbert.graph import aliases
from kbert.graph.config import require_positive
from kbert.heads import HEADS
from kbert.io import printable
from kbert.tasks.classification.inference import classify, regress
from kbert.tasks.common.checks import listed, require_tokenizer
from kbert.tasks.common.running import BATCH_SIZE, InferenceOptions
from kbert.tasks.embedding.inference import check_finite, compare, embed
from kbert.tasks.searching import TOP

_logger = logging.getLogger("kbert")
SCORES_AT_ONCE = 1 << 22  # scores that are computed at a time


@dataclass(frozen=True)
class Hit:
    """A search result: a text with its score.

    Attributes:
        text: the text.
        score: the similarity of its embedding and the query's, by the checkpoint's similarity
            function; of `rank` with a classifier, the probability of a label, or the activated
            output.
        place: the text's index in the list of texts, from 0.
    """

    text: str
    score: float
    place: int


class SearchOptions(InferenceOptions, total=False):
    """Keyword arguments of `search`."""

    top_k: int
    embeddings: np.ndarray | None
    query_prompt_name: str | None
    text_prompt_name: str | None


@overload
def search(  # type: ignore[overload-overlap]  # a str is an Iterable[str]
    bert: Bert, query: str, texts: Iterable[str], **options: Unpack[SearchOptions]
) -> list[Hit]: ...
@overload
def search(
    bert: Bert, query: Iterable[str], texts: Iterable[str], **options: Unpack[SearchOptions]
) -> list[list[Hit]]: ...
@printable.escape_errors()
@aliases.answer_old_names
def search(
    bert: Bert,
    query: str | Iterable[str],
    texts: Iterable[str],
    *,
    top_k: int = TOP,
    embeddings: np.ndarray | None = None,
    query_prompt_name: str | None = None,
    text_prompt_name: str | None = None,
    batch_size: int = BATCH_SIZE,
    precision: str | None = None,
    progress: bool = True,
) -> list[Hit] | list[list[Hit]]:
    """Find the texts that are most similar to a query. Every text is compared.

    Embeddings are compared by the checkpoint's similarity function, else by their cosine.

    Args:
        bert: from `kbert.load`, with any head; `kbert.embed` computes the embeddings.
        query: a str, or a list of them.
        texts: the texts to search.
        top_k: number of results; all texts if there are fewer.
        embeddings: of the texts, float (N, D), from `kbert.embed` with this model. Compute them
            once for many searches, with `prompt_name="document"` if the checkpoint has such a
            prompt. Truncated embeddings, (N, d), are compared with the first d numbers of the
            query's (`finetune(…, dimensions=)`). None: computed in this call.
        query_prompt_name: the checkpoint's prompt for queries; None: "query", if there is one, as
            in sentence-transformers' `encode_query`.
        text_prompt_name: the checkpoint's prompt for texts; None: "document", if there is one, as
            in `encode_document`.
        batch_size, precision, progress: as for `kbert.embed`.

    Returns:
        For one str, the best `Hit`s, the highest score first; ties in the order of the texts. For a
        list, a list of those.

    Raises:
        ValueError: something that is not text; `embeddings` with another number of rows than
            texts, longer than the query's, or not finite (the message names the rows).
    """
    queries, is_single = listed(query, "query")
    texts = _list_texts(texts)
    require_positive("top_k", top_k)
    options = InferenceOptions(batch_size=batch_size, precision=precision, progress=progress)
    # equal texts are compared once: sums in another order could differ in the last bit
    different, text_ids = _number_texts(texts)
    if embeddings is not None:
        embeddings = _check_embeddings(embeddings, len(texts))
        _, first_indices = np.unique(text_ids, return_index=True)
        embeddings = embeddings[first_indices]

    prompt = _choose_prompt(bert, query_prompt_name, QUERY)
    query_embeddings = embed(bert, queries, prompt=prompt, **options)
    check_finite(query_embeddings, "the vectors of queries")
    if embeddings is None:
        prompt = _choose_prompt(bert, text_prompt_name, DOCUMENT)
        embeddings = embed(bert, different, prompt=prompt, **options)
        check_finite(embeddings, "the vectors of different texts")
    width = embeddings.shape[1]
    if width > query_embeddings.shape[1]:
        raise ValueError(
            f"embeddings must have {query_embeddings.shape[1]} numbers or fewer per text for this "
            f"model, got {width}"
        )

    results: list[list[Hit]] = []
    if not texts:
        results = [[] for _ in queries]
        return results[0] if is_single else results

    size = max(SCORES_AT_ONCE // len(texts), 1)
    function = settings_of(bert, "search").similarity
    for start in range(0, len(queries), size):
        chunk = query_embeddings[start : start + size, :width]
        scores = compare(function, chunk, embeddings)[:, text_ids]
        results += [_find_hits(texts, row, top_k) for row in scores]
    return results[0] if is_single else results


@printable.escape_errors()
def rank(
    bert: Bert,
    query: str,
    texts: Iterable[str],
    *,
    label: str | None = None,
    query_prompt_name: str | None = None,
    text_prompt_name: str | None = None,
    batch_size: int = BATCH_SIZE,
    precision: str | None = None,
    progress: bool = True,
) -> list[Hit]:
    """Rank all texts by how well they fit a query.

    A model with a classifier reads the query and each text together, as a pair (a cross-encoder:
    slower and better; Nogueira and Cho 2019, arXiv 1901.04085). Any other model compares their
    embeddings.

    Args:
        bert: from `kbert.load`.
        query: the query.
        texts: some dozens or hundreds of texts, such as the results of `search`.
        label: the label of a classifier whose probability is the score, or the output of a
            regression; None: the second of two labels. A model with one output needs no label: its
            score is the output after the checkpoint's activation, else after the sigmoid, as in
            sentence-transformers' `CrossEncoder`; for a regression by `kbert.finetune` it is the
            number.
        query_prompt_name, text_prompt_name: for a model that compares embeddings, as for `search`.
        batch_size, precision, progress: as for `kbert.embed`.

    Returns:
        Every text as a `Hit`, the highest score first; ties in the order of the texts.

    Raises:
        ValueError: something that is not text; a label that the model does not have, or no
            label for a model with more than two; an activation that kbert does not know.
    """
    require_tokenizer(bert, "rank")
    if not isinstance(query, str):
        raise ValueError(f"query must be a str, got {type(query).__name__}")
    texts = _list_texts(texts)
    options = InferenceOptions(batch_size=batch_size, precision=precision, progress=progress)

    if HEADS[bert.head].classifies_texts:
        if query_prompt_name is not None or text_prompt_name is not None:
            raise ValueError(
                "a prompt's name goes with a model that compares embeddings, got a classifier"
            )
        scores = _score_pairs(bert, query, texts, label, options)
        return _find_hits(texts, scores, len(texts))

    if label is not None:
        raise ValueError(
            f"label must be left out with the head {bert.head!r}, which has none, got {label!r}"
        )
    return search(
        bert,
        query,
        texts,
        top_k=max(len(texts), 1),
        query_prompt_name=query_prompt_name,
        text_prompt_name=text_prompt_name,
        **options,
    )


def _score_pairs(
    bert: Bert, query: str, texts: list[str], label, options: InferenceOptions
) -> np.ndarray:
    """Return a classifier's scores of the query with each text, float (N,)."""
    names = label_names(bert, bert.spec.num_labels)
    if len(names) == 1 and label is None:
        return _score_by_one_output(bert, query, texts, options)
    if label is None and len(names) == 2:
        label = names[1]
    if label not in names:
        known = ", ".join(names[:12])
        raise ValueError(
            f"label must be one of {known} (the one that says that a text fits), got {label!r}"
        )

    queries = [query] * len(texts)
    if bert.problem_type == "regression":
        numbers = regress(bert, queries, texts, **options)
        column = names.index(label)
        return numbers[:, column]
    scores = []
    for labels in classify(bert, queries, texts, **options):
        probabilities = {result.label: result.probability for result in labels}
        scores.append(probabilities[label])
    return np.array(scores)


def _score_by_one_output(
    bert: Bert, query: str, texts: list[str], options: InferenceOptions
) -> np.ndarray:
    """Return the output for each pair after its activation, as `CrossEncoder.predict`."""
    settings = bert.cross_encoder or CrossEncoderSettings()
    name = "sigmoid"
    if settings.activation is not None:
        name = keras_activation(settings.activation, "the checkpoint's activation_fn")
    queries = [settings.prompt + query] * len(texts)
    logits = regress(bert, queries, texts, **options)
    check_finite(logits, "the scores of texts")

    activation = keras.activations.get(name)
    return keras.ops.convert_to_numpy(activation(keras.ops.convert_to_tensor(logits)))


def _number_texts(texts: list[str]) -> tuple[list[str], np.ndarray]:
    """Return the different texts in order, and for each text its number among them."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return list(numbers), np.array([numbers[text] for text in texts])


def _choose_prompt(bert: Bert, name: str | None, default: str) -> str:
    """Return the prompt of a name; None: the default's, or "" if there is none."""
    settings = settings_of(bert, "search")
    if name is not None:
        return settings.prompt(name)

    prompt = settings.prompt(default)
    unused = [other for other in ("passage", "corpus") if settings.prompts.get(other)]
    if default == DOCUMENT and not prompt and unused:
        _logger.warning(
            "the prompt %r is not used for texts, as in sentence-transformers. To use it, "
            "give text_prompt_name=%r (--text-prompt-name)",
            unused[0],
            unused[0],
        )
    return prompt


def _list_texts(texts: Iterable[str]) -> list[str]:
    texts, is_single = listed(texts, "texts")
    if is_single:
        raise ValueError("texts must be a list of str, got one str: there is nothing to choose")
    return texts


def _check_embeddings(embeddings, count: int) -> np.ndarray:
    embeddings = np.asarray(embeddings)
    is_table = embeddings.ndim == 2 and len(embeddings) == count
    if not is_table or embeddings.dtype.kind != "f":
        raise ValueError(
            f"embeddings must be floats, (texts, D) with {count:,} texts, got {embeddings.dtype} "
            f"{embeddings.shape}"
        )
    check_finite(embeddings, "embeddings")
    return embeddings.astype(np.promote_types(embeddings.dtype, np.float32))


def _find_hits(texts: list[str], scores: np.ndarray, top_k: int) -> list[Hit]:
    """Return the best texts; ties in the order of the texts."""
    indices = np.arange(len(scores))
    if top_k < len(scores):
        partitioned = np.partition(scores, -top_k)
        least = partitioned[-top_k]
        indices = indices[scores >= least]  # more than top_k where some are equal

    order = np.argsort(-scores[indices], kind="stable")
    best = indices[order][:top_k].tolist()
    hits = [Hit(texts[index], float(scores[index]), index) for index in best]
    return hits
