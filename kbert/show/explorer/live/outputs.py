"""What a checkpoint's head says of a sequence: candidates, labels, an answer, a sentence vector."""

import numpy as np

from kbert.checkpoints.bert import Bert, label_names
from kbert.checkpoints.checkpoint import choose_activation
from kbert.checkpoints.sentence_settings import DEFAULT, SentenceSettings
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
    pair: str | None,
) -> dict:
    """Return the outputs of the heads whose layers are trained, by their names in a trace."""
    untrained = set(find_untrained(bert))
    outputs: dict = {}
    if (vector := _compute_vector(bert, tensors, untrained)) is not None:
        outputs["vector"] = vector
    if names.MLM_NORM in tensors and not untrained & {names.MLM_DENSE, names.MLM_SIMILARITY}:
        outputs["mlm"] = predict_tokens(bert, arrays, encoding, tensors)
    if names.NSP in tensors and pair is not None and not untrained & {names.NSP, names.POOLER}:
        outputs["nsp"] = {"isNext": float(softmax(tensors[names.NSP])[0])}
    if bert.head == "classifier" and not untrained & {names.CLASSIFIER, names.POOLER}:
        outputs["classes"] = _rank_labels(bert, tensors[names.CLASSIFIER], bert.problem_type)
    if names.TOKEN_CLASSIFIER in tensors and names.TOKEN_CLASSIFIER not in untrained:
        outputs["tags"] = [_rank_labels(bert, row) for row in tensors[names.TOKEN_CLASSIFIER]]
    if names.SPAN in tensors and pair is not None and names.SPAN not in untrained:
        outputs["answer"] = _find_answer(encoding, tensors[names.SPAN], pair)
    return outputs


def _compute_vector(bert: Bert, tensors: dict, untrained: set[str]) -> np.ndarray | None:
    """Return the sentence vector by the checkpoint's pooling, else the mean; None: it has none."""
    settings = bert.sentence or DEFAULT
    pooler = tensors.get(names.POOLER)
    needs_pooler = "pooler" in settings.poolings
    if bert.sentence_problem or (needs_pooler and (pooler is None or names.POOLER in untrained)):
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


def predict_tokens(bert: Bert, arrays: Arrays, encoding: Encoding, tensors: dict) -> list[dict]:
    """Return the likeliest tokens at each position but [CLS] and [SEP], and after each block.

    Those after a block are the MLM head's on the hidden state of that block. They are given at
    [MASK] only, where a text has one.
    """
    tokenizer = bert.tokenizer
    assert tokenizer is not None
    fixed = {tokenizer.cls_id, tokenizer.sep_id}
    positions = [n for n, token in enumerate(encoding.ids) if token not in fixed]
    masks = [n for n in positions if encoding.ids[n] == tokenizer.mask_id]
    looked_into = masks or positions
    by_block = [
        _list_candidates(bert, arrays, apply_mlm(bert.spec, arrays, states[looked_into])[1])
        for states in (
            tensors[names.encoder_output(block)]
            for block in range(1, bert.config.num_hidden_layers + 1)
        )
    ]
    last = _list_candidates(bert, arrays, tensors[names.MLM_NORM][positions])
    predictions: list[dict] = []
    for position, candidates in zip(positions, last, strict=True):
        prediction = {"position": position, "candidates": candidates}
        if position in looked_into:
            index = looked_into.index(position)
            prediction["blocks"] = [candidates[index] for candidates in by_block]
        predictions.append(prediction)
    return predictions


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
    tokens = [
        n
        for n, word in enumerate(encoding.word_ids)
        if word is not None and encoding.text_numbers[n] == 1
    ]
    starts, ends = span[tokens].T  # logits
    sums = starts[:, None] + ends[None, :]
    allowed = np.triu(np.tril(np.ones_like(sums), LONGEST_ANSWER - 1)) > 0
    first, last = np.unravel_index(np.where(allowed, sums, -np.inf).argmax(), sums.shape)
    prob = softmax(starts)[first] * softmax(ends)[last]
    start, end = encoding.offsets[tokens[first]][0], encoding.offsets[tokens[last]][1]
    return {"text": context[start:end], "start": start, "end": end, "prob": float(prob)}


def softmax(logits: np.ndarray) -> np.ndarray:
    """Compute the softmax over the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Compute 1 / (1 + e^−x) without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * logits))
