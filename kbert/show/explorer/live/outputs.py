"""What a checkpoint's head says of a sequence: candidates, labels, an answer, a sentence vector."""

import numpy as np

from kbert.checkpoints.checkpoint import choose_activation
from kbert.checkpoints.sentence_settings import SentenceSettings
from kbert.data.tokenization.encodings import Encoding
from kbert.graph import names
from kbert.show.explorer.live.activations import ACTIVATIONS, activate, softmax
from kbert.show.explorer.live.contents import (
    LiveModel,
    choose_settings,
    count_skipped,
    name_labels,
    require_tokenizer,
)
from kbert.show.explorer.live.forward import Arrays, apply_mlm, compute_mlm_logits

CANDIDATES = 10  # per position
LONGEST_ANSWER = 30  # tokens, as in google-research/bert's run_squad.py
_POSITIONS = 64  # projected onto the vocabulary at a time: 8 MB of logits for base


def compute_outputs(
    model: LiveModel,
    arrays: Arrays,
    encoding: Encoding,
    tensors: dict[str, np.ndarray],
    request: dict,
) -> dict:
    """Return the outputs of the heads that the checkpoint has, by their names in a trace."""
    outputs: dict = {}
    vector = _compute_vector(model, tensors)
    if vector is not None:
        outputs["vector"] = vector
    if f"{names.MLM_SIMILARITY}/bias" in arrays and names.MLM_NORM in tensors:
        outputs["mlm"] = predict_tokens(model, arrays, encoding, tensors, request["positions"])
    if names.NSP in tensors:
        probs = softmax(tensors[names.NSP])
        outputs["nsp"] = {"isNext": float(probs[0])}
    if names.CLASSIFIER in tensors and model.spec.has_labels:
        kind = choose_activation(model.problem_type, model.spec.num_labels)
        outputs["classes"] = _rank_labels(model, tensors[names.CLASSIFIER], kind)
    if names.TOKEN_CLASSIFIER in tensors:
        outputs["tags"] = [
            _rank_labels(model, row, "softmax") for row in tensors[names.TOKEN_CLASSIFIER]
        ]
    if names.SPAN in tensors and request["pair"]:
        outputs["answer"] = _find_answer(encoding, tensors[names.SPAN], request["pair"])
    return outputs


def _compute_vector(model: LiveModel, tensors: dict) -> np.ndarray | None:
    """Return the sentence vector; None: the checkpoint is not for one."""
    settings, pooler = choose_settings(model), tensors.get(names.POOLER)
    if settings is None or ("pooler" in settings.poolings and pooler is None):
        return None
    states = tensors[names.encoder_output(model.spec.config.num_hidden_layers)]
    return pool(settings, states, pooler, count_skipped(model, settings))


def pool(
    settings: SentenceSettings, states: np.ndarray, pooler: np.ndarray | None, skip: int = 0
) -> np.ndarray:
    """Return the vector that sentence-transformers computes of hidden states (S, H).

    `skip` tokens at the beginning, those of a prompt, are not pooled.
    """
    pooled = []
    for how in settings.poolings:
        if how != "pooler":
            pooled.append(_pool_tokens(states[skip:], how, skip))
        elif pooler is not None:
            pooled.append(pooler)
    vector = np.concatenate(pooled)

    for layer in settings.dense:
        vector = vector @ layer.kernel
        if layer.bias is not None:
            vector = vector + layer.bias
        vector = activate(vector, layer.activation)
    if settings.normalize:
        vector = vector / max(float(np.linalg.norm(vector)), 1e-12)
    return vector[: settings.dimensions].astype("float32")


def _pool_tokens(states: np.ndarray, how: str, skip: int) -> np.ndarray:
    """Return one vector of hidden states (S, H), as `kbert.model.probes.TokenPooling`."""
    if how in ("cls", "lasttoken"):
        return states[0 if how == "cls" else -1]
    if how == "max":
        return states.max(axis=0)
    if how == "weightedmean":
        first = skip + 1
        weights = np.arange(first, first + len(states), dtype="float32")
        return weights @ states / weights.sum()

    count = len(states)
    divisor = count if how == "mean" else count**0.5
    return states.sum(axis=0) / divisor


def predict_tokens(
    model: LiveModel, arrays: Arrays, encoding: Encoding, tensors: dict, positions: list[int]
) -> list[dict]:
    """Return the likeliest tokens at each [MASK], and at the positions that are asked for.

    Those after a block are the MLM head's on the hidden state of that block.
    """
    mask_id = require_tokenizer(model).mask_id
    wanted = []
    for position, token in enumerate(encoding.ids):
        if token == mask_id or position in positions:
            wanted.append(position)

    by_block = []
    for block in range(1, model.spec.config.num_hidden_layers + 1):
        states = tensors[names.encoder_output(block)]
        _, normed = apply_mlm(model.spec, arrays, states[wanted])
        by_block.append(_list_candidates(model, arrays, normed))

    predictions = []
    for place, position in enumerate(wanted):
        blocks = [candidates[place] for candidates in by_block]
        last = blocks[-1]
        predictions.append({"position": position, "candidates": last, "blocks": blocks})
    return predictions


def _list_candidates(model: LiveModel, arrays: Arrays, normed: np.ndarray) -> list[list[dict]]:
    """Return the likeliest tokens of each position, of the MLM head's last hidden layer (S, H)."""
    tokenizer = require_tokenizer(model)
    candidates = []
    for start in range(0, len(normed), _POSITIONS):
        chunk = normed[start : start + _POSITIONS]
        probs = softmax(compute_mlm_logits(arrays, chunk))
        probs = probs[:, : tokenizer.vocab_size]  # outputs beyond the vocabulary have no token

        order = np.argsort(-probs, axis=1, kind="stable")
        best = order[:, :CANDIDATES].tolist()
        for row, ids in zip(probs, best, strict=True):
            entries = []
            for token_id in ids:
                token = tokenizer.token_of(token_id)
                entries.append({"token": token, "prob": float(row[token_id])})
            candidates.append(entries)
    return candidates


def _rank_labels(model: LiveModel, logits: np.ndarray, kind: str) -> list[dict]:
    """Return every label with its probability (a regression's number), the highest first."""
    values = softmax(logits) if kind == "softmax" else ACTIVATIONS[kind](logits)
    labels = name_labels(model)
    order = np.argsort(-values, kind="stable")
    ranked = [{"label": labels[number], "prob": float(values[number])} for number in order]
    return ranked


def _find_answer(encoding: Encoding, span: np.ndarray, context: str) -> dict:
    """Return the best span of the second text, with its characters."""
    tokens = []
    sources = zip(encoding.word_ids, encoding.text_numbers, strict=True)
    for token, (word, number) in enumerate(sources):
        if word is not None and number == 1:
            tokens.append(token)
    if not tokens:
        return {"text": "", "start": 0, "end": 0, "prob": 0.0}

    starts, ends = span[tokens].T  # logits
    sums = starts[:, None] + ends[None, :]
    not_too_long = np.tril(np.ones_like(sums), LONGEST_ANSWER - 1)
    is_span = np.triu(not_too_long) > 0
    best = np.where(is_span, sums, -np.inf).argmax()
    first, last = np.unravel_index(best, sums.shape)

    prob = softmax(starts)[first] * softmax(ends)[last]
    start, _ = encoding.offsets[tokens[first]]
    _, end = encoding.offsets[tokens[last]]
    units = count_units(context)
    return {
        "text": context[start:end],
        "start": units[start],
        "end": units[end],
        "prob": float(prob),
    }


def count_units(text: str) -> list[int]:
    """Return JavaScript's index of each character and of the end: UTF-16 units before it."""
    counts = [0]
    for character in text:
        units = 2 if ord(character) > 0xFFFF else 1
        counts.append(counts[-1] + units)
    return counts
