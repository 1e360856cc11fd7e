"""One W_Q is as many matrices as there are heads."""

from kbert.model.layers.encoder import MultiHeadAttention
from kbert.show.one_projection import compare_heads
from kbert.show.texts import heads_text


def test_both_computations_agree_and_every_slice_is_shown(small):
    report = compare_heads(small)
    assert set(report.differences) == {"W_Q", "W_K", "W_V", "layer"}
    assert max(report.differences.values()) < 1e-5
    assert report.slices == ((1, 0, 5), (2, 6, 11), (3, 12, 17), (4, 18, 23))
    text = heads_text(report)
    assert "One W_Q of 24 × 24 is 4 matrices of 24 × 6" in text
    assert "24·24 = 4·(24·6) = 576" in text


def test_a_head_that_computes_something_else_shows(small, monkeypatch):
    attend = MultiHeadAttention.call
    monkeypatch.setattr(MultiHeadAttention, "call", lambda layer, x: attend(layer, x[:, ::-1]))
    assert compare_heads(small).differences["layer"] > 1e-3
