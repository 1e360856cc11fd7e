"""Attribution: how much each token contributes to the model's output."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from kbert.checkpoints.bert import Bert, label_names
from kbert.data.padding import pad_sequences
from kbert.data.tokenization.tokenizer import Tokenizer, check_text
from kbert.graph.config import require_positive
from kbert.heads import HEADS
from kbert.io import printable
from kbert.io.wording import check_choice
from kbert.model.gradients import value_and_grad
from kbert.model.probes import cut_embeddings
from kbert.tasks.attribution import BASELINES, VALUES, targets
from kbert.tasks.attribution.attribution import Attribution
from kbert.tasks.attribution.integrated_gradients import integrate
from kbert.tasks.common.checks import (
    MLM_LAYERS,
    longest,
    require_tokenizer,
    require_trained,
    require_two_segments,
)
from kbert.tasks.common.running import cast, check_ids, pad_length, warn_of_truncated

# A function holds layers of its model, never the model itself: it goes with it.
_functions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


@printable.escape_errors()
def attribute(
    bert: Bert,
    text: str,
    pair: str | None = None,
    *,
    target: str | int | None = None,
    similar_to: str | None = None,
    mask: int = 1,
    value: str = "probability",
    baseline: str = "pad",
    steps: int | None = None,
) -> Attribution:
    """Compute how much each token of a text or pair contributes to an output: integrated gradients.

    The method is that of Sundararajan, Taly and Yan 2017 (arXiv 1703.01365), eq. 1 to 3, at the
    output of the embeddings. In the baseline [CLS] and [SEP] stay and every other token is [PAD],
    which is attended to. A token's score is the sum over its embedding. The model's head decides
    what is attributed:

    - "classifier": the probability of a label.
    - "pretraining": the probability of a token at a [MASK] of the text, which stays in the
      baseline.
    - any head, with `similar_to`: the cosine of the embeddings of two texts, pooled by the
      checkpoint's settings, else by the mean.

    Args:
        bert: from `kbert.load`.
        text: the text.
        pair: the second text.
        target: the label, by name or number, or the token; None: the most likely.
        similar_to: the other text of the cosine; it is not attributed.
        mask: the number of the [MASK] in the text, from 1.
        value: "probability", or "logit", the output before softmax or sigmoid. A regression's
            output is used unchanged.
        baseline: the replacement of the other tokens: "pad", or "mask" for [MASK].
        steps: number of points of the integral, each a forward and a backward pass; None: 50,
            doubled up to 1,600 until the sum of the scores is within 1 % of the exact value.

    Returns:
        An `Attribution`, computed in float32. A text that is too long is truncated, with a warning.

    Raises:
        ValueError: a model with another head and no `similar_to`; a label or token that the model
            does not have; a text without [MASK] where one is needed; something that is not text.
    """
    tokenizer = require_tokenizer(bert, "attribute")
    _check(bert, text, pair, similar_to, target, value, baseline, steps)
    limit = longest(bert)
    pairs = None if pair is None else [pair]
    (encoding,) = tokenizer.encode_batch([text], pairs, max_length=limit)
    warn_of_truncated("attribute", encoding.truncated, 1, limit)

    position = None
    if similar_to is None and HEADS[bert.head].predicts_tokens:
        position = targets.find_mask(tokenizer, encoding, mask)
    fill = tokenizer.pad_id if baseline == "pad" else tokenizer.mask_id
    baseline_ids = _make_baseline(tokenizer, encoding.ids, position, fill)

    states, attended = _embed(bert, [encoding.ids, baseline_ids], encoding.segment_ids)
    function, outputs = _get_target(bert, similar_to is not None, value)
    name, arguments = _choose(bert, outputs, states, attended, target, similar_to, position)
    text_states = states[0]
    baseline_states = states[1]
    arguments = [attended, *arguments]
    integral = integrate(function, text_states, baseline_states, arguments, steps)
    scores = integral.attributions[: len(encoding)].sum(axis=1)
    return Attribution(
        encoding.tokens,
        scores.astype("float32"),
        name,
        value=integral.value,
        baseline_value=integral.baseline_value,
        error=integral.error,
        steps=integral.steps,
        texts=(text,) if pair is None else (text, pair),
        offsets=tuple(encoding.offsets),
        segments=tuple(encoding.text_numbers),
        word_ids=tuple(encoding.word_ids),
        truncated=encoding.truncated,
        baseline=tokenizer.token_of(fill),
        similar_to=similar_to,
    )


def _make_baseline(
    tokenizer: Tokenizer, ids: list[int], position: int | None, fill: int
) -> list[int]:
    """Replace all tokens but [CLS], [SEP] and the [MASK] at a position."""
    fixed = {tokenizer.cls_id, tokenizer.sep_id}
    baseline_ids = []
    for n, token in enumerate(ids):
        stays = token in fixed or n == position
        baseline_ids.append(token if stays else fill)
    return baseline_ids


def _check(bert: Bert, text, pair, similar_to, target, value, baseline, steps) -> None:
    check_text(text, "text")
    if pair is not None:
        check_text(pair, "pair")
    if similar_to is not None:
        check_text(similar_to, "similar_to")
    check_choice(value, VALUES, "value")
    check_choice(baseline, BASELINES, "baseline")
    if steps is not None:
        require_positive("steps", steps)

    if pair is not None:
        require_two_segments(bert, "attribute")
    if similar_to is not None and pair is not None:
        raise ValueError("similar_to goes with one text, got pair as well")
    if similar_to is not None and target is not None:
        raise ValueError("similar_to goes with one text, got target as well")
    if similar_to is None:
        _check_head(bert)


def _check_head(bert: Bert) -> None:
    """Raise a ValueError for a model whose head has neither labels nor tokens to explain."""
    if HEADS[bert.head].predicts_tokens:
        require_trained(bert, "attribute", MLM_LAYERS)
    elif not HEADS[bert.head].classifies_texts:
        heads = [
            head.name for head in HEADS.values() if head.classifies_texts or head.predicts_tokens
        ]
        raise ValueError(
            f"attribute needs a model with the head {' or '.join(heads)}, got {bert.head!r}: give "
            "similar_to (--similar-to), a second text, for the cosine of the two"
        )


def _embed(bert: Bert, sequences: list[list[int]], segments: list[int]) -> tuple:
    """Return the embeddings' outputs, float32 (K, S, H), and the attention mask, bool (S,)."""
    check_ids(bert, sequences)
    length = pad_length(bert, len(segments))
    ids = pad_sequences(sequences, length, bert.config.pad_token_id)
    segment_ids = pad_sequences([segments] * len(sequences), length, 0)
    model = cut_embeddings(cast(bert, "float32"))
    inputs = [ids, segment_ids]
    if len(model.inputs) == 1:  # a family without segments
        inputs = [ids]
    states = model(inputs, training=False)
    mask = np.arange(length) < len(segments)
    return ops.convert_to_numpy(states), mask


def _get_target(bert: Bert, with_cosine: bool, value: str) -> tuple[Callable, targets.Target]:
    """Return a target's compiled function with gradients, and the target; made once per model."""
    model = cast(bert, "float32")
    build: Callable
    options: Any  # of the builder
    if with_cosine:
        build = targets.build_cosine
        options = targets.choose_settings(bert)
    elif HEADS[bert.head].classifies_texts:
        build = targets.build_labels
        options = targets.find_activation(bert, value)
    else:
        build = targets.build_masked
        options = "linear" if value == "logit" else "softmax"

    functions = _functions.setdefault(model, {})
    key = build.__name__, options
    if key not in functions:
        target = build(model, options)
        states = ((None, None, bert.config.hidden_size), "float32")
        mask = ((None, None), "bool")
        shapes = [states, mask, *target.arguments]
        function = value_and_grad(target.compute, target.variables, shapes)
        functions[key] = function, target
    return functions[key]


def _choose(
    bert: Bert, outputs: targets.Target, states, attended, target, similar_to, position
) -> tuple:
    """Return the target's name, and the function's further arguments as NumPy arrays."""
    tokenizer = require_tokenizer(bert, "attribute")
    if similar_to is not None:
        (encoding,) = tokenizer.encode_batch([similar_to], max_length=longest(bert))
        states, attended = _embed(bert, [encoding.ids], encoding.segment_ids)
        return targets.COSINE, [_predict(outputs, states, attended)]

    if position is None:
        answers = _predict(outputs, states[:1], attended)
        number = targets.find_label(bert, target, answers)
        name = label_names(bert, len(answers))[number]
        return name, [np.array(number, "int32")]

    index = np.array(position, "int32")
    answers = _predict(outputs, states[:1], attended, index)
    number = targets.find_token(tokenizer, target, answers)
    name = tokenizer.token_of(number)
    return name, [index, np.array(number, "int32")]


def _predict(outputs: targets.Target, states, attended, *position) -> np.ndarray:
    """Return the answers for one text."""
    arrays = (states, attended[None], *position)
    arguments = [ops.convert_to_tensor(array) for array in arrays]
    answers = outputs.answers(*arguments)
    return ops.convert_to_numpy(ops.stop_gradient(answers))[0]
