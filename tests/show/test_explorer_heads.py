"""The stage finds the kinds of attention heads that `kbert.attention` finds."""

import json

import numpy as np
import pytest

from kbert.show.explorer.writing import FOLDER
from kbert.tasks.attention.head_statistics import TARGETS, head_statistics

py_mini_racer = pytest.importorskip("py_mini_racer", reason="pip install -e '.[test]'")

TOKENS, SPECIAL = 7, (0, 3, 6)


def attention_maps(random) -> np.ndarray:
    """One head without a target, one for each target, and one of exactly half."""
    rows = np.arange(TOKENS)
    maps = random.dirichlet(np.ones(TOKENS), (7, TOKENS))
    columns = [(rows + 1) % TOKENS, rows - 1, rows, np.full(TOKENS, 6), np.full(TOKENS, 0)]
    for head, column in enumerate(columns, 1):
        maps[head] *= 0.3
        maps[head][rows, column] += 0.7
    maps[6] = 0.5 * np.eye(TOKENS) + 0.5 / TOKENS
    return maps


def test_heads_have_the_shares_and_targets_of_kbert():
    maps = attention_maps(np.random.default_rng(3)).astype("float32")
    expected = head_statistics(maps[None], [1], range(1, 8), SPECIAL)
    context = py_mini_racer.MiniRacer()
    for name in ("sentence/columns.js", "stage/numbers.js", "stage/head_kinds.js"):
        context.eval((FOLDER / name).read_text(encoding="utf-8"))
    tokens = [{"special": n in SPECIAL} for n in range(TOKENS)]
    probs = f"{{shape: {list(maps.shape)}, data: Float32Array.from({maps.ravel().tolist()})}}"
    call = f"headKinds({probs}, {json.dumps(tokens)})"
    found = json.loads(context.eval(f"JSON.stringify({call})"))
    for kind, head in zip(found, expected, strict=True):
        assert list(kind["shares"]) == list(TARGETS)
        np.testing.assert_allclose(list(kind["shares"].values()), list(head.shares.values()), 1e-6)
        likeliest = max(head.looks_at, key=head.shares.get, default=None)
        assert kind["target"] == likeliest
    assert context.eval(f"tellingHead({call})") in (1, 2, 3)
