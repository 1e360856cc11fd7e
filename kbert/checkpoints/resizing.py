"""Resizing of the vocabulary and of the number of positions, in every table that depends on them.

The token embedding and the bias of MLM-Sim both have one row per token, so they change together.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.bert import Bert, require_bert
from kbert.graph import names
from kbert.graph.config import BertConfig, require_positive
from kbert.io import printable
from kbert.io.wording import check_choice
from kbert.model import deferred

FILLINGS = ("normal", "mean", "repeat")  # the last of positions alone


@printable.escape_errors()
def resize_vocab(
    bert: Bert, size: int | None = None, *, tokens: Iterable[str] = (), new_rows: str = "normal"
) -> Bert:
    """Return a copy with more or fewer tokens. Tokens that stay keep their ids and weights.

    Args:
        bert: the model; it is not changed.
        size: the new number of tokens; a smaller number removes the last tokens. None: the present
            number plus `tokens`.
        tokens: tokens to add at the end of the tokenizer's vocabulary.
        new_rows: how new embedding rows are initialized: "normal" (a truncated normal distribution
            with the configuration's initializer_range) or "mean" (the mean of the existing rows).
            Their MLM bias is 0 for "normal", the mean of the biases for "mean".

    Returns:
        A new `Bert`.

    Raises:
        ValueError: the size is too small for the tokenizer's tokens, or a token exists already.
    """
    require_bert(bert, "resize_vocab")
    tokens = tuple(tokens)
    old = bert.config.vocab_size
    tokenizer = bert.tokenizer
    if tokens and tokenizer is None:
        raise ValueError("tokens cannot be added: the model has no tokenizer: give size alone")
    if tokens and tokenizer is not None:
        there = [token for token in tokens if token in tokenizer.tokens]
        if there:
            raise ValueError(f"tokens must be new ones, got {there[0]!r}, which is there")
        every = [*tokenizer.tokens, *tokens]
        tokenizer = _replace_tokens(tokenizer, every, "resize_vocab with tokens")

    if size is None:
        size = max(old, tokenizer.vocab_size) if tokenizer else old
    size = require_positive("size", size)
    if tokenizer is not None and tokenizer.vocab_size > size:
        raise ValueError(
            f"size must hold the tokenizer's {tokenizer.vocab_size} tokens, got {size}: "
            "keep_tokens chooses fewer"
        )
    check_choice(new_rows, FILLINGS[:2], "new_rows")

    config = bert.config.replace(vocab_size=size)

    def resize(array):
        return _resize(array, size, new_rows, config)

    return _rebuild(bert, config, tokenizer, resize)


@printable.escape_errors()
def keep_tokens(bert: Bert, tokens: Sequence[int] | Sequence[str]) -> Bert:
    """Return a copy whose vocabulary has only some of the tokens.

    Args:
        bert: the model; it is not changed.
        tokens: the ids, or the tokens, to keep. Their positions in this list are their new ids. If
            the model has a tokenizer, the list must include [PAD], [UNK], [CLS], [SEP] and [MASK].

    Returns:
        A new `Bert`, whose `pad_token_id` is the padding token's new id.

    Raises:
        ValueError: an id or token that does not exist or is listed twice, or a missing special
            token.
    """
    require_bert(bert, "keep_tokens")
    ids = _ids(bert, tokens)
    pad = bert.config.pad_token_id
    if pad not in ids:
        raise ValueError(f"tokens must have the padding token (id {pad}), got none")
    pad_id = ids.index(pad)
    config = bert.config.replace(vocab_size=len(ids), pad_token_id=pad_id)

    tokenizer = bert.tokenizer
    if tokenizer is not None:
        nameless = [number for number in ids if number >= tokenizer.vocab_size]
        if nameless:
            raise ValueError(
                f"tokens must have a name in the tokenizer, got {nameless[0]}, which has none"
            )
        chosen = [tokenizer.tokens[i] for i in ids]
        tokenizer = _replace_tokens(tokenizer, chosen, "keep_tokens")
    return _rebuild(bert, config, tokenizer, lambda array: array[ids])


@printable.escape_errors()
def resize_positions(bert: Bert, positions: int, *, new_rows: str = "repeat") -> Bert:
    """Return a copy for longer texts, or only for shorter ones.

    Args:
        bert: the model; it is not changed.
        positions: the new number of positions.
        new_rows: how new rows of the position table are initialized: "repeat" (the table is
            repeated, as Longformer does: Beltagy et al. 2020, section 5), "normal" (a truncated
            normal distribution) or "mean" (the mean of the existing rows). Train the model before
            you use it on longer texts.

    Returns:
        A new `Bert`.
    """
    require_bert(bert, "resize_positions")
    positions = require_positive("positions", positions)
    check_choice(new_rows, FILLINGS, "new_rows")
    size = positions + bert.config.first_position
    config = bert.config.replace(max_position_embeddings=size)

    sentence = bert.sentence
    if sentence is not None and (sentence.max_length or 0) > positions:
        sentence = dataclasses.replace(sentence, max_length=positions)
    tokenizer = bert.tokenizer
    if tokenizer is not None and (tokenizer.max_length or 0) >= bert.config.positions:
        vocabulary = dataclasses.replace(tokenizer.vocabulary, max_length=None)
        tokenizer = type(tokenizer)(vocabulary)

    resized = _rebuild(
        bert,
        config,
        tokenizer,
        lambda array: _resize(array, size, new_rows, config),
        tables=(names.POSITION_EMBEDDING,),
    )
    return dataclasses.replace(resized, sentence=sentence)


def _rebuild(
    bert: Bert,
    config: BertConfig,
    tokenizer,
    change: Callable[[np.ndarray], np.ndarray],
    tables: tuple[str, ...] = (names.TOKEN_EMBEDDING, names.MLM_SIMILARITY),
) -> Bert:
    """Rebuild the model with another configuration; `change` converts the tables' arrays."""
    from kbert.model import builder

    length = bert.spec.seq_len
    if length is not None:
        length = min(length, config.positions)
    spec = dataclasses.replace(bert.spec, config=config, seq_len=length, dtype=None)
    with deferred.defer_values():
        model = builder.build(spec)

    values: dict[str, Callable[[], np.ndarray]] = {}
    for weight in bert.model.weights:
        is_changed = weight.path.split("/")[0] in tables
        read_change = change if is_changed else np.asarray
        values[weight.path] = partial(_read, weight, read_change)
    deferred.fill(model, values)

    report = bert.report
    if report is not None:  # it still lists the newly initialized layers
        untrained = untrained_weights.find_untrained(bert)
        first = {**report.first_values, **untrained_weights.digests(model, untrained)}
        report = dataclasses.replace(report, first_values=first)
    return dataclasses.replace(
        bert,
        config=config,
        model=model,
        tokenizer=tokenizer,
        report=report,
        card=None,  # its metrics are the larger model's
    )


def _read(weight, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    import keras

    return change(np.array(keras.ops.convert_to_numpy(weight)))


def _resize(array: np.ndarray, size: int, filling: str, config: BertConfig) -> np.ndarray:
    more = size - len(array)
    if more <= 0:
        return array[:size].copy()
    if filling == "repeat":
        shape = (size, *array.shape[1:])
        return np.resize(array, shape)
    if filling == "mean":
        mean = array.mean(0, keepdims=True)
        new = np.repeat(mean, more, axis=0)
    elif array.ndim == 1:
        new = np.zeros(more, array.dtype)
    else:
        import keras

        initializer = keras.initializers.TruncatedNormal(stddev=config.initializer_range)
        tensor = initializer((more, *array.shape[1:]))
        new = keras.ops.convert_to_numpy(tensor)
    return np.concatenate([array, new.astype(array.dtype)])


def _ids(bert: Bert, tokens: Sequence[int] | Sequence[str]) -> list[int]:
    listed: list = list(tokens)
    if any(isinstance(token, str) for token in listed):
        if bert.tokenizer is None:
            raise ValueError("tokens must be ids, as the model has no tokenizer, got names")
        listed = [bert.tokenizer.id_of(token) for token in listed]

    ids = [int(token) for token in listed]
    size = bert.config.vocab_size
    for index, number in enumerate(ids):
        if not 0 <= number < size:
            raise ValueError(f"tokens[{index}] must be an id of 0 … {size - 1}, got {number}")
    if len(set(ids)) < len(ids):
        twice = next(number for number in ids if ids.count(number) > 1)
        raise ValueError(f"tokens must have each id once, got {twice} again")
    return ids


def _replace_tokens(tokenizer, tokens: list[str], function: str):
    from kbert.data.tokenization.tokenizer import Tokenizer, require_wordpiece

    vocabulary = require_wordpiece(tokenizer, function)
    ids = {token: index for index, token in enumerate(tokens)}
    added = []
    for entry in vocabulary.added:
        token = entry["content"]
        if token in ids:
            added.append(entry | {"id": ids[token]})
    vocabulary = dataclasses.replace(vocabulary, tokens=tuple(tokens), added=tuple(added))
    return Tokenizer(vocabulary)
