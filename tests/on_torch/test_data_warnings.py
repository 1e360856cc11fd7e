"""Legal data that are hardly meant are reported once, in one line with its number."""

import numpy as np
import pytest
from helpers.errors import check_logged, check_named, raises
from helpers.interrupted_run import Beginning
from helpers.peer_tasks import VOCABULARY
from helpers.small_berts import small_bert

import kbert
from kbert.data.corpus.corpus_warnings import warn_of_corpus
from kbert.graph.names import NSP

pytestmark = pytest.mark.full

ROWS = [("a cat", 0), ("a dog", 1)]
SETTINGS = {"epochs": 1, "batch_size": 8, "progress": False, "peak_flops": 1e9}


def prepared(folder, documents: list[str]):
    (folder / "text.txt").write_text("\n\n".join(documents) + "\n")
    tokenizer = kbert.Tokenizer.from_vocab(VOCABULARY, lowercase=True)
    return kbert.prepare(folder / "text.txt", tokenizer, folder / "shards")


def test_documents_of_one_sentence_are_counted(tmp_path, messages):
    letters = "abcdefghijklmnopqrstuvwxyz"
    documents = [f"the {letters[n]} cat {letters[-n]}" for n in range(23)]
    shards = prepared(tmp_path, [*documents, "a dog\nand a tree"])
    (warning,) = messages
    check_named(warning, "23 of 24 documents")
    batches = kbert.PretrainingBatches(str(tmp_path / "shards"), batch_size=8, seq_len=24)
    assert batches.fingerprint["shards"] == shards.fingerprint  # a path is opened
    labels = np.concatenate([batches.batch(step).labels[NSP] for step in range(3)])
    assert labels.mean() > 0.8  # what the warning is of
    warn_of_corpus(shards, pairs=False)
    assert len(messages) == 1


def test_repeated_documents_are_counted(tmp_path, messages):
    pairs = [f"the cat {word}\na {word} dog" for word in ("runs", "sees", "sat", "is")]
    prepared(tmp_path, [*pairs * 3, "a tree\na sun"])
    (warning,) = messages
    check_named(warning, "8 of 13 documents")
    warn_of_corpus(kbert.open_shards(tmp_path / "shards"))
    assert messages == [warning, warning]


def test_duplicate_leaked_and_cut_examples_are_reported(small, messages):
    """Duplicates, dev data of the training data, texts that are all cut: a line each."""
    bert = small_bert(small.replace(num_hidden_layers=1), "encoder")
    train = [(f"the {word} runs", n % 2) for n, word in enumerate(VOCABULARY[60:67])] * 3
    dev = train[:2] + [(f"a {word} sat", 1) for word in VOCABULARY[60:70]]
    data = {"train": train, "dev": dev, "max_length": 4, "callbacks": [Beginning()]}
    with raises(RuntimeError, "begun"):
        kbert.finetune(bert, "classify", **data, **SETTINGS)
    check_logged(messages, "train", "14 of 21")
    check_logged(messages, "dev", "2 of 12")
    check_logged(messages, "train", "all 21", "4 tokens", "max_length=")
    check_logged(messages, "dev", "all 12", "4 tokens", "max_length=")


def test_max_length_above_positions_is_refused(small):
    bert = small_bert(small.replace(num_hidden_layers=1), "classifier")
    for call in (
        lambda: kbert.finetune(bert, "classify", train=ROWS, max_length=1000, **SETTINGS),
        lambda: kbert.evaluate(bert, "classify", ROWS, max_length=1000),
        lambda: kbert.embed(bert, "a cat", max_length=1000),
    ):
        with raises(ValueError, "max_length", small.max_position_embeddings):
            call()


@pytest.mark.full
def test_max_length_defaults_to_the_positions(small, messages):
    """To 128, or as many as the model has."""
    bert = small_bert(small.replace(num_hidden_layers=1), "classifier")
    tuned = kbert.finetune(bert, "classify", train=ROWS, **SETTINGS)
    assert tuned.bert.labels == ("0", "1")
    assert not [line for line in messages if " cut to " in line]
    check_named(messages[-1], "0, 1")
    assert (tuned.metrics, tuned.folder, len(tuned.history.updates)) == ({}, None, 1)
