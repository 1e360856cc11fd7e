"""Fine-tuning on each backend: it learns, and the saved model gives the figures that are said."""

import dataclasses

import numpy as np
import pytest
from helpers.backends import full_on
from helpers.labelled_texts import read_texts, write_texts
from helpers.peer_tasks import VOCABULARY

import kbert


@full_on("tensorflow")
def test_finetuning_learns_and_saved_model_scores_equal(small, tmp_path):
    import keras

    write_texts(tmp_path / "train.tsv", 65, 1)
    write_texts(tmp_path / "dev.tsv", 13, 2)
    sizes = {"num_hidden_layers": 1, "vocab_size": len(VOCABULARY), "initializer_range": 0.2}
    config = dataclasses.replace(small, **sizes)  # weights of this size learn in few updates
    keras.utils.set_random_seed(5)
    tokenizer = kbert.Tokenizer.from_vocab(VOCABULARY, lowercase=True)
    source = kbert.Bert(config, "encoder", kbert.build_encoder(config, seq_len=None), tokenizer)
    tuned = kbert.finetune(
        source,
        "classify",
        train=tmp_path / "train.tsv",
        dev=tmp_path / "dev.tsv",
        output=tmp_path / "run",
        epochs=7,
        batch_size=13,
        learning_rate=1e-2,
        peak_flops=1e9,
        progress=False,
    )
    losses = [line["Classifier_loss"] for line in tuned.history.updates]
    assert len(losses) == 35
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    assert tuned.metrics["accuracy"] > 0.9
    saved = kbert.load(tmp_path / "run" / "model.keras")
    assert kbert.evaluate(saved, "classify", tmp_path / "dev.tsv") == pytest.approx(tuned.metrics)
    texts, labels = read_texts(tmp_path / "dev.tsv")
    said = [found[0].label for found in kbert.classify(saved, texts)]
    assert np.mean(np.equal(said, labels)) == pytest.approx(tuned.metrics["accuracy"])
