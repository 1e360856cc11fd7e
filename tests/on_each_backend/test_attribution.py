"""Integrated gradients: captum's numbers on transformers' models, and what they must sum to."""

import numpy as np
import pytest
from helpers.backends import full_on
from helpers.marks import full
from helpers.peer_attribution import CASES, MASKED, OTHER, PAIR, STEPS, TEXT
from helpers.peer_outputs import run_peer
from helpers.small_berts import small_berts
from numpy.testing import assert_allclose

import kbert


@pytest.fixture(scope="module")
def folders(small, tmp_path_factory):
    out = tmp_path_factory.mktemp("attribution")
    run_peer("peer_attribution:attribute", out, small.to_dict())
    return out


def found_for(case: str, folders):
    if case.startswith("label"):
        bert = kbert.load(folders / "BertForSequenceClassification")
        if case == "label":
            return kbert.attribute(bert, TEXT, PAIR, target="white", steps=STEPS)
        return kbert.attribute(
            bert, TEXT, PAIR, target=2, value="logit", baseline="mask", steps=STEPS
        )
    if case == "token-logit":
        bert = kbert.load(folders / "BertForMaskedLM")
        return kbert.attribute(bert, MASKED, target="cat", mask=2, value="logit", steps=STEPS)
    return kbert.attribute(kbert.load(folders / "BertModel"), TEXT, similar_to=OTHER, steps=STEPS)


@full_on("jax")
@pytest.mark.parametrize(
    "case",
    [case if case == "label" else full(case) for case in CASES],
)
@pytest.mark.full
def test_integrated_gradients_equal_captum(folders, case):
    wanted = dict(np.load(folders / "captum.npz"))
    found = found_for(case, folders)
    value, baseline_value = wanted[f"{case}-ends"]
    scores = wanted[case][0].sum(-1)
    assert np.abs(scores).max() > 0.01
    assert_allclose(found.scores, scores, atol=1e-4)
    assert_allclose([found.value, found.baseline_value], [value, baseline_value], atol=1e-5)


@pytest.fixture(scope="module")
def berts(small):
    return small_berts(small)


@pytest.mark.full
def test_integrated_gradients_sum_to_the_difference(berts):
    """Completeness: their proposition 1. With two points the sum is off, and by what it says."""
    found = kbert.attribute(berts["classifier"], "the red cat sees dogs", "big moon!")
    label, *_ = kbert.classify(berts["classifier"], "the red cat sees dogs", "big moon!")
    assert (found.target, round(found.value, 5)) == (label.label, round(label.probability, 5))
    difference = found.value - found.baseline_value
    assert abs(found.scores.sum() - difference) <= 0.01 * abs(difference) + 1.01e-4
    assert found.scores[0] == 0 and found.scores[found.tokens.index("[SEP]")] == 0
    rough = kbert.attribute(berts["classifier"], "the red cat sees dogs", "big moon!", steps=1)
    assert_allclose(rough.scores.sum() - difference, rough.error, atol=1e-5)
    assert abs(rough.error) > abs(found.error)
