"""This is the checkpoint that the tests damage."""

import shutil

import pytest
from helpers.damaged_checkpoints import VOCABULARY

import kbert


@pytest.fixture(scope="module")
def good(small, tmp_path_factory):
    """A whole checkpoint, with both heads and a vocabulary."""
    folder = tmp_path_factory.mktemp("good") / "bert"
    tokenizer = kbert.Tokenizer.from_vocab(VOCABULARY, lowercase=True)
    model = kbert.build_bert(small, seq_len=None)
    kbert.save(kbert.Bert(small, "pretraining", model, tokenizer), folder)
    return folder


@pytest.fixture
def folder(good, tmp_path):
    """A copy to be damaged."""
    return shutil.copytree(good, tmp_path / "bert")
