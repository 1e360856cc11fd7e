"""The forward pass of one sequence in NumPy that keeps every tensor by its name.

A model of Keras computes attention as one operation, fused on some backends, and no head or
residual of it can be switched off. So the formulas stand here once more, in float32, as the page's
scripts have them (`page/live/forward.js`); tests compare them with Keras and transformers. Nothing
here starts Keras.

Names are those of the layers, and parts of them behind a slash. Dimensions at line end: S tokens,
H hidden size, A heads, D = H/A, F feed-forward size, T vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kbert.graph import names
from kbert.graph.config import ACTIVATIONS, BertConfig
from kbert.graph.spec import GraphSpec
from kbert.show.explorer.live.activations import activate, softmax

Arrays = Mapping[str, np.ndarray]  # weights by "layer/variable"; matrices are (outputs, inputs)


@dataclass(frozen=True)
class Changes:
    """Parts of the forward pass that are switched off; blocks and heads count from 1.

    Attributes:
        heads: (block, head) of heads that add nothing to their block's attention.
        attention: blocks whose attention adds nothing to the residual.
        residuals: names of Add layers that take the sublayer's output alone.
        positions: whether no position is added to the embeddings.
        temperature: the number that scores are divided by before the softmax.
    """

    heads: frozenset[tuple[int, int]] = frozenset()
    attention: frozenset[int] = frozenset()
    residuals: frozenset[str] = frozenset()
    positions: bool = False
    temperature: float = 1.0


NO_CHANGES = Changes()


def compute_tensors(
    spec: GraphSpec, arrays: Arrays, ids, segment_ids, changes: Changes = NO_CHANGES
) -> dict[str, np.ndarray]:
    """Return every tensor of one sequence, from the embeddings to the head's hidden layers."""
    config = spec.config
    ids = np.asarray(ids)
    segment_ids = np.asarray(segment_ids)
    tensors = _embed(config, arrays, ids, segment_ids, changes)
    x = tensors[names.EMBEDDING_NORM]

    for block in range(1, config.num_hidden_layers + 1):
        tensors |= _attend(config, arrays, x, block, changes)
        attention_norm = names.encoder(block, names.ATTENTION, "Norm")
        x = tensors[attention_norm]

        tensors |= _feed_forward(config, arrays, x, block, changes)
        output = names.encoder_output(block)
        x = tensors[output]
    return tensors | _apply_head(spec, arrays, x)


def _embed(
    config: BertConfig, arrays: Arrays, ids: np.ndarray, segment_ids: np.ndarray, changes: Changes
) -> dict[str, np.ndarray]:
    token_table = arrays[f"{names.TOKEN_EMBEDDING}/embeddings"]
    x = token_table[ids]  # (S, H)
    tensors = {names.TOKEN_EMBEDDING: x}
    if config.family.segments:
        segment_table = arrays[f"{names.SEGMENT_EMBEDDING}/embeddings"]
        segments = segment_table[segment_ids]
        x = x + segments
        tensors[names.SEGMENT_EMBEDDING] = segments
        tensors[names.TOKEN_PLUS_SEGMENT] = x

    position_table = arrays[f"{names.POSITION_EMBEDDING}/embeddings"]
    first = config.first_position
    positions = position_table[first : first + len(ids)]
    if changes.positions:
        positions = np.zeros_like(positions)
    x = x + positions
    tensors[f"{names.POSITION_EMBEDDING}/position"] = positions
    tensors[names.POSITION_EMBEDDING] = x
    tensors[names.EMBEDDING_NORM] = normalize(config, arrays, names.EMBEDDING_NORM, x)
    return tensors


def _attend(
    config: BertConfig, arrays: Arrays, x: np.ndarray, block: int, changes: Changes
) -> dict[str, np.ndarray]:
    name = names.encoder(block, names.ATTENTION)
    shape = len(x), config.num_attention_heads, config.head_size
    inside = {}
    for part in ("query", "key", "value"):
        projected = project(arrays, f"{name}/{part}", x)
        inside[part] = projected.reshape(shape)  # (S, A, D)
    query, key, value = inside.values()
    inside |= compute_attention(query, key, value, changes.temperature)
    context = inside["context"]
    clear_heads(context, block, changes)

    joined = context.reshape(len(x), -1)
    y = project(arrays, f"{name}/attention_output", joined)
    if block in changes.attention:
        y = np.zeros_like(y)
    tensors = {f"{name}/{part}": tensor for part, tensor in inside.items()}
    return tensors | _add_and_normalize(config, arrays, x, y, name, changes)


def clear_heads(context: np.ndarray, block: int, changes: Changes) -> None:
    """Set to 0 what the heads of a block that are off have collected: context (S, A, D)."""
    for block_of_head, head in changes.heads:
        if block_of_head == block:
            context[:, head - 1] = 0


def compute_attention(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, temperature: float = 1.0
) -> dict[str, np.ndarray]:
    """Return scores and probs (A, S, S) and context (S, A, D) of query, key and value (S, A, D)."""
    query = query.transpose(1, 0, 2)  # (A, S, D)
    key = key.transpose(1, 2, 0)  # (A, D, S)
    value = value.transpose(1, 0, 2)

    scale = np.float32(np.sqrt(query.shape[-1]))
    scores = query @ key / scale
    probs = softmax(scores / np.float32(temperature))
    by_head = probs @ value
    context = np.ascontiguousarray(by_head.transpose(1, 0, 2))
    return {"scores": scores, "probs": probs, "context": context}


def _feed_forward(
    config: BertConfig, arrays: Arrays, x: np.ndarray, block: int, changes: Changes
) -> dict[str, np.ndarray]:
    name = names.encoder(block, names.FEED_FORWARD)
    intermediate = project(arrays, f"{name}/intermediate", x)  # (S, F)
    activated = activate(intermediate, ACTIVATIONS[config.hidden_act])
    y = project(arrays, f"{name}/output", activated)
    inside = {f"{name}/intermediate": intermediate, f"{name}/activation": activated}
    return inside | _add_and_normalize(config, arrays, x, y, name, changes)


def _add_and_normalize(
    config: BertConfig, arrays: Arrays, x: np.ndarray, y: np.ndarray, name: str, changes: Changes
) -> dict[str, np.ndarray]:
    """Return a sublayer's output y, its sum with the residual x, and that normalized."""
    total = y if f"{name}-Add" in changes.residuals else x + y
    norm = normalize(config, arrays, f"{name}-Norm", total)
    return {name: y, f"{name}-Add": total, f"{name}-Norm": norm}


def project(arrays: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    """Return the output of a dense layer without its activation."""
    return x @ arrays[f"{name}/kernel"].T + arrays[f"{name}/bias"].ravel()


def normalize(config: BertConfig, arrays: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    """Return the output of a LayerNorm."""
    centred = x - x.mean(-1, keepdims=True)
    variance = np.square(centred).mean(-1, keepdims=True)
    scaled = centred / np.sqrt(variance + np.float32(config.layer_norm_eps))
    return scaled * arrays[f"{name}/gamma"] + arrays[f"{name}/beta"]


def _apply_head(spec: GraphSpec, arrays: Arrays, x: np.ndarray) -> dict[str, np.ndarray]:
    """Return the tensors of the head's layers, but the logits over the vocabulary."""
    tensors: dict[str, np.ndarray] = {}
    if spec.has_pooler and f"{names.POOLER}/kernel" in arrays:
        pooled = apply_pooler(spec, arrays, x)
        tensors[names.FIRST_TOKEN] = x[0]
        tensors[names.POOLER] = pooled
        for name in (names.NSP, names.CLASSIFIER):
            if f"{name}/kernel" in arrays:
                tensors[name] = project(arrays, name, pooled)

    if f"{names.MLM_DENSE}/kernel" in arrays:
        dense, norm = apply_mlm(spec, arrays, x)
        tensors[names.MLM_DENSE] = dense
        tensors[names.MLM_NORM] = norm

    for name in (names.TOKEN_CLASSIFIER, names.SPAN):
        if f"{name}/kernel" in arrays:
            tensors[name] = project(arrays, name, x)
    if names.SPAN in tensors:
        start, end = tensors[names.SPAN].T
        tensors[names.SPAN_START] = start
        tensors[names.SPAN_END] = end
    return tensors


def apply_pooler(spec: GraphSpec, arrays: Arrays, x: np.ndarray) -> np.ndarray:
    """Return the output (H,) of the pooler, or of a classifier's own layer on the first token."""
    is_classifiers = "first_token" in spec.variant.parts
    function = spec.config.family.pooled_activation if is_classifiers else "tanh"
    return activate(project(arrays, names.POOLER, x[0]), function)


def apply_mlm(spec: GraphSpec, arrays: Arrays, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the output of the MLM head's dense layer and of its norm: (S, H) each."""
    function = spec.config.family.mlm_activation or spec.config.hidden_act
    dense = activate(project(arrays, names.MLM_DENSE, x), ACTIVATIONS[function])
    return dense, normalize(spec.config, arrays, names.MLM_NORM, dense)


def compute_mlm_logits(arrays: Arrays, normed: np.ndarray) -> np.ndarray:
    """Return the logits over the vocabulary, (S, T), of the MLM head's last hidden layer."""
    table = arrays[f"{names.TOKEN_EMBEDDING}/embeddings"]
    return normed @ table.T + arrays[f"{names.MLM_SIMILARITY}/bias"]
