"""What a checkpoint's head says of a sequence: candidates, labels, an answer, a sentence vector."""

import numpy as np

from kbert.checkpoints.bert import Bert, label_names
from kbert.checkpoints.checkpoint import choose_activation
from kbert.checkpoints.sentence_settings import SentenceSettings
from kbert.checkpoints.untrained_weights import find_untrained
from kbert.data.tokenization.encodings import Encoding
from kbert.graph import names
from kbert.show.explorer.live.forward import (
    Arrays,
    apply_mlm,
    compute_mlm_logits,
    find_activation,
)

CANDIDATES = 10  # per position
LONGEST_ANSWER = 30  # tokens, as in google-research/bert's run_squad.py
_POSITIONS = 64  # projected onto the vocabulary at a time: 8 MB of logits for base


def compute_outputs(
    bert: Bert,
    arrays: Arrays,
    encoding: Encoding,
    tensors: dict[str, np.ndarray],
    request: dict,
) -> dict:
    """Return the outputs of the heads whose layers are trained, by their names in a trace."""
    untrained = set(find_untrained(bert))
    outputs: dict = {}
    if (vector := _compute_vector(bert, tensors, untrained)) is not None:
        outputs["vector"] = vector
    if names.MLM_NORM in tensors and not untrained & {names.MLM_DENSE, names.MLM_SIMILARITY}:
        outputs["mlm"] = predict_tokens(bert, arrays, encoding, tensors, request["positions"])
    if names.NSP in tensors and not untrained & {names.NSP, names.POOLER}:
        outputs["nsp"] = {"isNext": float(softmax(tensors[names.NSP])[0])}
    if bert.head == "classifier" and not untrained & {names.CLASSIFIER, names.POOLER}:
        outputs["classes"] = _rank_labels(bert, tensors[names.CLASSIFIER], bert.problem_type)
    if names.TOKEN_CLASSIFIER in tensors and names.TOKEN_CLASSIFIER not in untrained:
        outputs["tags"] = [_rank_labels(bert, row) for row in tensors[names.TOKEN_CLASSIFIER]]
    if names.SPAN in tensors and request["pair"] and names.SPAN not in untrained:
        outputs["answer"] = _find_answer(encoding, tensors[names.SPAN], request["pair"])
    return outputs


def choose_settings(bert: Bert) -> SentenceSettings | None:
    """Return how a sentence vector is pooled: by the mean for an encoder that does not say it."""
    if bert.sentence_problem is not None:
        return None
    return bert.sentence or (SentenceSettings("mean", True) if bert.head == "encoder" else None)


def _compute_vector(bert: Bert, tensors: dict, untrained: set[str]) -> np.ndarray | None:
    """Return the sentence vector; None: the checkpoint is not for one."""
    settings, pooler = choose_settings(bert), tensors.get(names.POOLER)
    if settings is None:
        return None
    if "pooler" in settings.poolings and (pooler is None or names.POOLER in untrained):
        return None
    states = tensors[names.encoder_output(bert.config.num_hidden_layers)]
    return pool(settings, states, pooler)


def pool(settings: SentenceSettings, states: np.ndarray, pooler: np.ndarray | None) -> np.ndarray:
    """Return the vector that sentence-transformers computes of hidden states (S, H)."""
    import keras

    from kbert.model.probes import TokenPooling

    parts = [
        pooler
        if method == "pooler"
        else keras.ops.convert_to_numpy(TokenPooling(method)(states[None]))[0]
        for method in settings.poolings
    ]
    vector = np.concatenate(parts)
    for layer in settings.dense:
        vector = vector @ layer.kernel + (0 if layer.bias is None else layer.bias)
        vector = find_activation(layer.activation)(vector.astype("float32"))
    if settings.normalize:
        vector = vector / max(float(np.linalg.norm(vector)), 1e-12)
    return vector[: settings.dimensions].astype("float32")


def predict_tokens(
    bert: Bert, arrays: Arrays, encoding: Encoding, tensors: dict, positions: list[int]
) -> list[dict]:
    """Return the likeliest tokens at each [MASK], and at the positions that are asked for.

    Those after a block are the MLM head's on the hidden state of that block.
    """
    tokenizer = bert.tokenizer
    assert tokenizer is not None
    asked = [
        n for n, token in enumerate(encoding.ids) if token == tokenizer.mask_id or n in positions
    ]
    blocks = range(1, bert.config.num_hidden_layers + 1)
    by_block = [
        _list_candidates(bert, arrays, apply_mlm(bert.spec, arrays, states[asked])[1])
        for states in (tensors[names.encoder_output(block)] for block in blocks)
    ]
    return [
        {"position": n, "candidates": candidates[-1], "blocks": list(candidates)}
        for n, candidates in zip(asked, zip(*by_block, strict=True), strict=True)
    ]


def _list_candidates(bert: Bert, arrays: Arrays, normed: np.ndarray) -> list[list[dict]]:
    """Return the likeliest tokens of each position, of the MLM head's last hidden layer (S, H)."""
    tokenizer = bert.tokenizer
    assert tokenizer is not None
    candidates = []
    for start in range(0, len(normed), _POSITIONS):
        probs = softmax(compute_mlm_logits(arrays, normed[start : start + _POSITIONS]))
        probs = probs[:, : tokenizer.vocab_size]  # outputs beyond the vocabulary have no token
        best = np.argsort(-probs, axis=1, kind="stable")[:, :CANDIDATES]
        candidates += [
            [{"token": tokenizer.token_of(int(n)), "prob": float(row[n])} for n in tokens]
            for row, tokens in zip(probs, best, strict=True)
        ]
    return candidates


def _rank_labels(bert: Bert, logits: np.ndarray, problem_type: str | None = None) -> list[dict]:
    """Return every label with its probability (a regression's number), the highest first."""
    activation = choose_activation(problem_type, len(logits))
    if bert.head == "tokens":
        activation = "softmax"
    values = {"linear": lambda x: x, "sigmoid": sigmoid, "softmax": softmax}[activation](logits)
    labels = label_names(bert, len(logits))
    order = np.argsort(-values, kind="stable")
    return [{"label": labels[n], "prob": float(values[n])} for n in order]


def _find_answer(encoding: Encoding, span: np.ndarray, context: str) -> dict:
    """Return the best span of the second text, with its characters."""
    words = zip(encoding.word_ids, encoding.text_numbers, strict=True)
    tokens = [n for n, (word, number) in enumerate(words) if word is not None and number == 1]
    if not tokens:
        return {"text": "", "start": 0, "end": 0, "prob": 0.0}
    starts, ends = span[tokens].T  # logits
    sums = starts[:, None] + ends[None, :]
    allowed = np.triu(np.tril(np.ones_like(sums), LONGEST_ANSWER - 1)) > 0
    first, last = np.unravel_index(np.where(allowed, sums, -np.inf).argmax(), sums.shape)
    prob = softmax(starts)[first] * softmax(ends)[last]
    start, end = encoding.offsets[tokens[first]][0], encoding.offsets[tokens[last]][1]
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
        counts.append(counts[-1] + (2 if ord(character) > 0xFFFF else 1))
    return counts


def softmax(logits: np.ndarray) -> np.ndarray:
    """Compute the softmax over the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Compute 1 / (1 + e^−x) without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * logits))
