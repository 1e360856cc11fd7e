"""Targets of an attribution: the probability of a label or of a token at [MASK], or a cosine.

Each is a function of hidden state 0, (K, S, H), a mask (K, S) and arguments, that returns (K,). The
cosine is that of the embeddings of the text and of another text.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from kbert.checkpoints.bert import Bert, label_names
from kbert.checkpoints.checkpoint import choose_activation
from kbert.checkpoints.sentence_settings import SentenceSettings, settings_of
from kbert.data.tokenization.encodings import Encoding
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.graph import names
from kbert.io.wording import hint
from kbert.model.probes import build_pooled, cut_after_embeddings
from kbert.tasks.common.checks import MLM_LAYERS, require_head, require_pooler, require_tokenizer

COSINE = "cosine"
_NUMBER = ((), "int32")  # shape and dtype


@dataclass(frozen=True, eq=False)
class Target:
    """A function of a model's embeddings that can be attributed.

    Attributes:
        answers: takes states, a mask and, if the target has one, its position in the text; returns
            (K, labels or tokens), of which the most likely is chosen, or the embedding, (K, H).
        choose: takes the answers, and a number or another embedding; returns (K,).
        variables: the variables that it reads.
        arguments: shapes and dtypes of the position and of what is chosen.
    """

    answers: Callable
    choose: Callable
    variables: list
    arguments: list[tuple[tuple, str]]

    def compute(self, states, mask, *arguments):
        """Compute what is attributed, (K,); the last of `arguments` is what is chosen."""
        *position, chosen = arguments
        return self.choose(self.answers(states, mask, *position), chosen)


def build_labels(model: keras.Model, activation: str) -> Target:
    """Build the target of a classifier's labels; "softmax", "sigmoid" or "linear"."""
    rest = cut_after_embeddings(model, model.get_layer(names.CLASSIFIER).output)

    def answers(states, mask):
        return _activate(_run(rest, states, mask), activation)

    return Target(answers, _take, rest.variables, [_NUMBER])


def build_masked(model: keras.Model, activation: str) -> Target:
    """Build the target of the tokens at a position; the head is computed only there."""
    blocks = sum(layer.name.endswith(f"-{names.ATTENTION}") for layer in model.layers)
    rest = cut_after_embeddings(model, model.get_layer(names.encoder_output(blocks)).output)
    dense, norm, similarity = [model.get_layer(name) for name in MLM_LAYERS]
    token_table = model.get_layer(names.TOKEN_EMBEDDING)

    def answers(states, mask, position):
        outputs = _run(rest, states, mask)
        x = ops.take(outputs, position, axis=1)  # (K, H)
        x = ops.expand_dims(x, 1)
        x = norm(dense(x))
        table = ops.convert_to_tensor(token_table.embeddings)
        logits = similarity([x, table])
        return _activate(logits[:, 0], activation)

    variables = {}  # by id: layers share some
    for layer in (rest, dense, norm, similarity, token_table):
        for variable in layer.variables:
            variables[id(variable)] = variable
    shared = list(variables.values())
    return Target(answers, _take, shared, [_NUMBER, _NUMBER])


def build_cosine(model: keras.Model, settings: SentenceSettings) -> Target:
    """Build the target of the cosine of a text's embedding with another embedding."""
    pooled = build_pooled(model, settings.pooling, dense=settings.dense).outputs[0]
    rest = cut_after_embeddings(model, pooled[:, : settings.dimensions])
    width = rest.output.shape[-1]
    answers = functools.partial(_run, rest)
    embedding = ((width,), "float32")
    return Target(answers, _cosine, rest.variables, [embedding])


def _take(answers, number):
    return ops.take(answers, number, axis=-1)


def _cosine(a, b):
    product = ops.sum(a * b, axis=-1)
    norms = ops.norm(a, axis=-1) * ops.norm(b)
    return product / norms


def _run(rest: keras.Model, states, mask):
    # `call`: the model itself would warn that the mask ends with it, as it should
    return rest.call(states, training=False, mask=mask)


def _activate(logits, activation: str):
    if activation == "linear":
        return logits
    if activation == "sigmoid":
        return ops.sigmoid(logits)
    return ops.softmax(logits, axis=-1)


def find_activation(bert: Bert, value: str) -> str:
    """Return the activation of `kbert.classify`; "linear" for a logit."""
    require_head(bert, "attribute", "classifier", [names.POOLER, names.CLASSIFIER])
    if value == "logit":
        return "linear"
    return choose_activation(bert.problem_type, bert.spec.num_labels)


def choose_settings(bert: Bert) -> SentenceSettings:
    """Return the checkpoint's settings of embeddings, else the mean."""
    settings = settings_of(bert, "similar_to")
    lowercases = settings.lowercase and not require_tokenizer(bert, "attribute").lowercase
    if settings.default_prompt or lowercases:
        raise ValueError(
            "similar_to needs a model that tokenizes texts as they are, got one with a "
            "default prompt or with do_lower_case of sentence-transformers"
        )
    if "pooler" in settings.poolings:
        require_pooler(bert, "similar_to")
    return settings


def find_label(bert: Bert, target: str | int | None, answers: np.ndarray) -> int:
    """Return the output of a label, by its name or number; None: the most likely of (labels,)."""
    labels = label_names(bert, len(answers))
    if target is None:
        return int(answers.argmax())
    if isinstance(target, int) and not isinstance(target, bool) and 0 <= target < len(labels):
        return target
    if target not in labels:
        near = hint(target, labels, "the labels are")
        raise ValueError(f"target must be a label of the model, got {target!r}: {near}")
    return labels.index(str(target))


def find_token(tokenizer: Tokenizer, target: str | None, answers: np.ndarray) -> int:
    """Return the id of a token; None: the most likely of (T,)."""
    if target is None:
        return int(answers[: tokenizer.vocab_size].argmax())
    if not isinstance(target, str):
        raise ValueError(f"target must be a token of the vocabulary, got {target!r}")
    if target in tokenizer.tokens:
        return tokenizer.id_of(target)

    pieces = tokenizer.encode(target, add_special_tokens=False)
    if len(pieces) != 1 or pieces.ids[0] == tokenizer.unk_id:
        cut = f", which is {' '.join(pieces.tokens)}" if len(pieces) else ""
        raise ValueError(f"target must be one token of the vocabulary, got {target!r}{cut}")
    return pieces.ids[0]


def find_mask(tokenizer: Tokenizer, encoding: Encoding, mask: int) -> int:
    """Return the position of a text's [MASK] number `mask`, from 1."""
    token = tokenizer.token_of(tokenizer.mask_id)
    positions = []
    for position, number in enumerate(encoding.ids):
        if number == tokenizer.mask_id:
            positions.append(position)
    if not positions:
        raise ValueError(
            f"text must have a {token} for a model with the head 'pretraining', got none in its "
            f"{len(encoding)} tokens. To explain a similarity, give similar_to"
        )

    is_number = isinstance(mask, int) and not isinstance(mask, bool)
    if not is_number or not 1 <= mask <= len(positions):
        raise ValueError(
            f"mask must be one of the text's {token}, 1 … {len(positions)}, got {mask!r}"
        )
    return positions[mask - 1]
