"""Attribution: how much each token contributes to the model's output."""

import weakref
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from kbert.checkpoints import transfer
from kbert.checkpoints.bert import Bert, label_names
from kbert.data.padding import LENGTHS
from kbert.data.tokenization.tokenizer import check_text
from kbert.graph.config import require_positive
from kbert.io.wording import unknown_choice
from kbert.model.deferred import cast_model
from kbert.model.gradients import with_gradient
from kbert.model.probes import cut_embeddings
from kbert.tasks.attribution import BASELINES, VALUES, targets
from kbert.tasks.attribution.attribution import Attribution
from kbert.tasks.attribution.integrated_gradients import integrate
from kbert.tasks.checks import (
    MLM_LAYERS,
    longest,
    require_head,
    require_tokenizer,
    require_two_segments,
)
from kbert.tasks.running import warn_of_cut

_HEADS = ("classifier", "pretraining")
# A function holds layers of its model, never the model itself: it goes with it.
_prepared: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


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
    warn_of_cut("attribute", encoding.truncated, 1, limit)
    kept = {tokenizer.cls_id, tokenizer.sep_id}
    place = None
    if similar_to is None and bert.head == "pretraining":
        place = targets.mask_place(tokenizer, encoding, mask)
    other = tokenizer.pad_id if baseline == "pad" else tokenizer.mask_id
    base_ids = [
        number if number in kept or at == place else other for at, number in enumerate(encoding.ids)
    ]
    states, real = _states(bert, [encoding.ids, base_ids], encoding.segment_ids)
    call, outputs = _functions(bert, similar_to is not None, value)
    name, arguments = _target(bert, outputs, states, real, target, similar_to, place)
    found = integrate(call, states[0], states[1], [real, *arguments], steps)
    scores = found.attributions[: len(encoding)].sum(axis=1)
    return Attribution(
        encoding.tokens,
        scores.astype("float32"),
        target=name,
        value=found.value,
        baseline_value=found.baseline_value,
        error=found.error,
        steps=found.steps,
        texts=(text,) if pair is None else (text, pair),
        offsets=tuple(encoding.offsets),
        segments=tuple(encoding.text_numbers),
        word_ids=tuple(encoding.word_ids),
        truncated=encoding.truncated,
        baseline=tokenizer.token_of(other),
        similar_to=similar_to,
    )


def _check(bert: Bert, text, pair, similar_to, target, value, baseline, steps) -> None:
    for argument, name in ((text, "text"), (pair, "pair"), (similar_to, "similar_to")):
        if name == "text" or argument is not None:
            check_text(argument, name)
    for argument, choices, name in ((value, VALUES, "value"), (baseline, BASELINES, "baseline")):
        if argument not in choices:
            raise ValueError(unknown_choice(name, choices, argument))
    if steps is not None:
        require_positive("steps", steps)
    if pair is not None:
        require_two_segments(bert, "attribute")
    if similar_to is not None:
        if pair is not None or target is not None:
            given = "pair" if pair is not None else "target"
            raise ValueError(f"similar_to goes with one text, got {given} as well")
    elif bert.head == "pretraining":
        require_head(bert, "attribute", "pretraining", MLM_LAYERS)
    elif bert.head not in _HEADS:
        raise ValueError(
            f"attribute needs a model with the head {' or '.join(_HEADS)}, got {bert.head!r}: give "
            "similar_to (--similar-to), a second text, for the cosine of the two"
        )


def _states(bert: Bert, rows: list[list[int]], segments: list[int]) -> tuple:
    """Return the embeddings' outputs, float32 (rows, S, H), and the attention mask, bool (S,)."""
    length, pad = _length(bert, len(segments)), bert.config.pad_token_id
    ids = np.full((len(rows), length), pad, "int32")
    segment_ids = np.zeros_like(ids)
    ids[:, : len(segments)], segment_ids[:, : len(segments)] = rows, segments
    if ids.max() >= bert.config.vocab_size:
        raise ValueError(
            f"the tokenizer's ids must be within the embedding, 0 … {bert.config.vocab_size - 1}, "
            f"got {ids.max()}: it is not this model's"
        )
    before = cut_embeddings(_model(bert))
    found = before([ids, segment_ids][: len(before.inputs)], training=False)
    return ops.convert_to_numpy(found), np.arange(length) < len(segments)


def _length(bert: Bert, tokens: int) -> int:
    """Return the number of tokens with padding: few lengths on JAX, which compiles for each."""
    if bert.spec.seq_len is not None:
        return bert.spec.seq_len
    if keras.backend.backend() != "jax":
        return tokens
    most = bert.config.positions
    return min(next((length for length in LENGTHS if length >= tokens), tokens), most)


def _model(bert: Bert) -> keras.Model:
    """Return the model; a float32 copy if it computes in another dtype."""
    if {layer.compute_dtype for layer in bert.model.layers if layer.weights} == {"float32"}:
        return bert.model
    transfer.check_whole(bert.model, bert.spec)
    return cast_model(bert.model, bert.spec, "float32")


def _functions(bert: Bert, likeness: bool, value: str) -> tuple[Callable, targets.Outputs]:
    """Return the compiled function with its gradient, and its outputs; one per model."""
    model = _model(bert)
    width = bert.config.hidden_size
    shapes = [((None, None, width), "float32"), ((None, None), "bool")]
    if likeness:
        key: tuple = ("cosine", targets.vector_settings(bert))
        shapes.append(((width,), "float32"))
    elif bert.head == "classifier":
        key = ("labels", targets.scale_of_labels(bert, value))
        shapes.append(((), "int32"))
    else:
        key = ("tokens", "logit" if value == "logit" else "softmax")
        shapes += [((), "int32")] * 2
    made = _prepared.setdefault(model, {})
    if key not in made:
        builders: dict[str, Callable] = {
            "cosine": targets.of_vectors,
            "labels": targets.of_labels,
            "tokens": targets.of_masked_tokens,
        }
        outputs = builders[key[0]](model, key[1])
        made[key] = with_gradient(outputs.function, outputs.variables, shapes), outputs
    return made[key]


def _target(bert: Bert, outputs: targets.Outputs, states, real, target, similar_to, place) -> tuple:
    """Return the target's name, and the function's further arguments as NumPy arrays."""
    tokenizer = require_tokenizer(bert, "attribute")
    if similar_to is not None:
        (encoding,) = tokenizer.encode_batch([similar_to], max_length=longest(bert))
        states, real = _states(bert, [encoding.ids], encoding.segment_ids)
        (vector,) = _answers(outputs, states, real)
        return targets.COSINE, [vector]
    at = [] if place is None else [np.array(place, "int32")]
    (answers,) = _answers(outputs, states[:1], real, *at)
    if place is None:
        number = targets.label_number(bert, target, answers)
        name = label_names(bert, len(answers))[number]
    else:
        number = targets.token_number(tokenizer, target, answers)
        name = tokenizer.token_of(number)
    return name, [*at, np.array(number, "int32")]


def _answers(outputs: targets.Outputs, states, real, *others) -> np.ndarray:
    found = outputs.answers(*map(ops.convert_to_tensor, (states, real[None], *others)))
    return ops.convert_to_numpy(ops.stop_gradient(found))
