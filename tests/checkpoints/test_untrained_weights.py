"""Newly initialized weights keep their mark in every file until they are trained."""

import json
import random

import keras
import numpy as np
import pytest
from helpers.errors import collected_logs, logged, raises
from helpers.labelled_texts import write_texts
from helpers.marks import full
from helpers.run_shards import CONFIG, SETTINGS, make_shards

import kbert
from kbert.checkpoints.untrained_weights import KEY

QUIET = {"progress": False, "peak_flops": 1e9}
UNTRAINED = ("classify", "Classifier")


@pytest.fixture(scope="module")
def fresh(berts, tmp_path_factory):
    """A classifier whose head no file has."""
    folder = tmp_path_factory.mktemp("fresh") / "encoder"
    kbert.save(berts["encoder"], folder)
    return kbert.load(folder, head="classifier", num_labels=3)


def trained_a_little(bert):
    """The same model after one step of the user's own `fit`."""
    batch = bert.tokenizer.encode_batch(["cat dog", "red sun", "moon ."])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    bert.model.compile(keras.optimizers.SGD(0.5), loss, run_eagerly=True)
    bert.model.fit([batch.token_ids, batch.segment_ids], np.arange(3), verbose=0)
    return bert


@pytest.mark.parametrize("name", ["bert.keras", "folder"])
def test_a_saved_model_is_as_untrained_as_before(fresh, tmp_path, name):
    with logged(name, "Classifier"):
        kbert.save(fresh, tmp_path / name)
    again = kbert.load(tmp_path / name)
    assert again.report.initialized_layers == ("Classifier",)
    with raises(ValueError, *UNTRAINED):
        kbert.classify(again, "cat dog")
    kbert.save(trained_a_little(again), tmp_path / f"trained_{name}")
    with collected_logs() as messages:
        after = kbert.load(tmp_path / f"trained_{name}")
        assert kbert.classify(after, "cat dog") and not messages
    other = kbert.load(tmp_path / name, head="encoder")  # the mark is of a layer that it lacks
    assert other.report.initialized == ()


@pytest.mark.full
def test_transformers_keeps_the_mark_until_it_trains_the_weights(fresh, tmp_path):
    transformers = pytest.importorskip("transformers", reason="which reads and writes the folder")
    torch = pytest.importorskip("torch", reason="which transformers computes with")
    kbert.save(fresh, tmp_path / "ours")
    assert set(json.loads((tmp_path / "ours" / "config.json").read_text())[KEY]) == {"Classifier"}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            tmp_path / "ours", dtype=dtype
        )
        folder = tmp_path / str(dtype)
        model.save_pretrained(folder)
        fresh.tokenizer.save(folder)
        with raises(ValueError, *UNTRAINED):
            kbert.classify(kbert.load(folder), "cat dog")
        with torch.no_grad():
            model.classifier.weight[1, 2] += 0.25
        model.save_pretrained(folder)
        assert kbert.classify(kbert.load(folder), "cat dog")


@pytest.mark.parametrize(
    ("name", "options"), [("saved", {"format": "saved_model"}), full("bert.tflite", {})]
)
@pytest.mark.full
def test_an_export_names_the_outputs_that_are_untrained(berts, tmp_path, name, options):
    untrained = "NSP-Dense, NSP"
    with collected_logs() as messages:
        kbert.save(berts["pretraining"], tmp_path / "mlm", architecture="BertForMaskedLM")
    assert untrained not in " ".join(messages)  # the folder has neither pooler nor NSP
    bert = kbert.load(tmp_path / "mlm")
    with logged(name, untrained, "NSP:"):
        kbert.save(bert, tmp_path / name, **options)
    with logged("google", untrained):
        kbert.save(bert, tmp_path / "google", format="google")
    with collected_logs() as messages:
        kbert.save(bert, tmp_path / "again")
    assert untrained not in " ".join(messages)


@pytest.mark.parametrize(
    ("freeze", "untrained"), [("pooler", ("NSP-Dense",)), full("embeddings", ())]
)
@pytest.mark.full
def test_what_a_run_did_not_train_stays_marked(berts, tmp_path, freeze, untrained):
    """A new pooler that is frozen; trained, it has no mark."""
    write_texts(tmp_path / "train.tsv", 6, 1)
    settings = {"train": tmp_path / "train.tsv", "epochs": 1, "batch_size": 6} | QUIET
    folder = tmp_path / freeze
    kbert.finetune(berts["qa"], "classify", output=folder, freeze=freeze, **settings)
    assert kbert.load(folder).report.initialized_layers == untrained


@pytest.mark.full
def test_next_sentences_that_pretraining_left_out_stay_marked(tmp_path):
    random.seed(3)
    shards, config = make_shards(tmp_path), kbert.BertConfig(**CONFIG)
    settings = SETTINGS | QUIET | {"steps": 1, "mlm_only": True}
    kbert.pretrain(shards, config, output=tmp_path / "run", **settings)
    with raises(ValueError, "next_sentence", "NSP-Dense", "NSP"):
        kbert.next_sentence(kbert.load(tmp_path / "run"), "the cat", "sat")
