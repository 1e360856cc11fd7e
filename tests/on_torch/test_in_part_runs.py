"""Sentence embeddings and pretraining train with LoRA or frozen layers."""

import dataclasses
import json

import numpy as np
import pytest
from helpers.errors import raises
from helpers.run_shards import CONFIG, VOCABULARY, make_shards
from helpers.run_shards import SETTINGS as SHARD_SETTINGS
from helpers.small_berts import small_bert

import kbert

pytestmark = pytest.mark.full

QUIET = {"progress": False, "peak_flops": 1e9}
WORDS = ("cat", "dog", "sun", "moon", "tree", "mat")
PAIRS = [
    (f"{a} {word}", f"{b} {word}") for a, b in (("the", "a"), ("red", "big")) for word in WORDS
]
SETTINGS = {"epochs": 3, "batch_size": 4, "accumulation_steps": 2, "learning_rate": 3e-2} | QUIET


@pytest.fixture(scope="module")
def source(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("source") / "source"
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    two_blocks = dataclasses.replace(small, num_hidden_layers=2, **no_dropout)
    kbert.save(small_bert(two_blocks, "encoder"), folder)
    return folder


def changed(before, after) -> set[str]:
    """The layers whose weights differ."""
    found = set()
    for layer in after.layers:
        pairs = zip(layer.get_weights(), before.get_layer(layer.name).get_weights(), strict=True)
        if any(np.any(one != other) for one, other in pairs):
            found.add(layer.name)
    return found


@pytest.mark.full
def test_sentence_embeddings_train_with_lora(source, tmp_path):
    options = SETTINGS | {"lora_rank": 3, "lora_targets": "key,output"}
    done = kbert.finetune(source, "embed", train=PAIRS, output=tmp_path / "run", **options)
    losses = [line["Vectors_loss"] for line in done.history.updates]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    base = kbert.load(source)
    parts = {f"Encoder-{n}-{part}" for n in (1, 2) for part in ("MultiHeadSelfAttention",)}
    parts |= {f"Encoder-{n}-FeedForward" for n in (1, 2)}
    assert changed(base.model, done.bert.model) == parts
    texts = ["the cat", "a dog"]
    again = kbert.load(source, adapter=tmp_path / "run" / "adapter")
    vectors = [kbert.embed(again, texts, pooling="mean"), kbert.embed(done.bert, texts)]
    np.testing.assert_allclose(*vectors, atol=1e-6)
    opened = kbert.resume(tmp_path / "run", source=source, train=PAIRS, **QUIET)
    assert sorted(opened.bert.adapter.pairs) == [(n, m) for n in (1, 2) for m in ("key", "output")]


@pytest.mark.full
def test_sentence_embeddings_train_with_frozen_layers(source):
    options = SETTINGS | {"freeze": "embeddings,1", "layer_decay": 0.9}
    done = kbert.finetune(source, "embed", train=PAIRS, **options)
    layers = changed(kbert.load(source).model, done.bert.model)
    assert layers and all(name.startswith("Encoder-2-") for name in layers)
    for freeze in ("embeddings,1-2", "embeddings,encoder,pooler"):
        with raises(ValueError, "freeze"):
            kbert.finetune(source, "embed", train=PAIRS, **SETTINGS | {"freeze": freeze})
    with raises(ValueError, "head_learning_rate"):
        kbert.finetune(source, "embed", train=PAIRS, **SETTINGS, head_learning_rate=1e-3)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A folder with shards and a checkpoint, and its `Bert`."""
    folder = tmp_path_factory.mktemp("pretrained")
    make_shards(folder)
    config = kbert.BertConfig(**CONFIG).replace(vocab_size=len(VOCABULARY))
    tokenizer = kbert.Tokenizer.from_vocab(VOCABULARY, lowercase=True)
    first = kbert.Bert(config, "pretraining", kbert.build_bert(config), tokenizer)
    kbert.save(first, folder / "first")
    return folder, first


@pytest.mark.full
@pytest.mark.parametrize("part", [{"lora_rank": 2, "lora_alpha": 6.0}, {"freeze": "embeddings,1"}])
def test_continued_pretraining_in_part(pretrained, tmp_path, part):
    folder, first = pretrained
    options = SHARD_SETTINGS | {"steps": 3, "progress": False, "learning_rate": 1e-2} | part
    options |= {"output": tmp_path / "run"}
    name, value = next(iter(part.items()))
    with raises(ValueError, name, "init", repr(value)):
        kbert.pretrain(folder / "shards", "tiny", **options)
    done = kbert.pretrain(folder / "shards", init=folder / "first", **options)
    layers = changed(first.model, done.bert.model)
    heads = {"NSP", "MLM-Dense", "MLM-Norm", "MLM-Sim"}
    if name == "freeze":
        assert layers == heads | {"NSP-Dense"}
        return
    attention = {name for name in layers if name.endswith("MultiHeadSelfAttention")}
    assert layers - attention == heads and len(attention) == first.config.num_hidden_layers
    again = kbert.load(folder / "first", adapter=tmp_path / "run" / "adapter")
    assert again.head == "pretraining" and changed(done.bert.model, again.model) == set()


@pytest.mark.full
def test_packed_training_with_lora_dropout(source, tmp_path):
    texts = [text for pair in PAIRS for text in pair]
    rows = [(text, "near" if text.split()[1] in WORDS[:3] else "far") for text in texts]
    options = {"epochs": 20, "batch_size": 12, "learning_rate": 2e-2, "packing": True} | QUIET
    options |= {"lora_rank": 3, "lora_alpha": 6.0, "lora_dropout": 0.3, "output": tmp_path / "run"}
    done = kbert.finetune(source, "classify", train=rows, **options)
    losses = [line["Classifier_loss"] for line in done.history.updates]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    config = json.loads((tmp_path / "run" / "adapter" / "adapter_config.json").read_text())
    assert (config["lora_dropout"], config["r"], config["lora_alpha"]) == (0.3, 3, 6)
    again = kbert.load(source, adapter=tmp_path / "run" / "adapter")
    assert again.adapter.dropout == 0.3 and changed(done.bert.model, again.model) == set()
    with raises(ValueError, "lora_dropout", "lora_rank"):
        kbert.finetune(source, "classify", train=rows, lora_dropout=0.1, **QUIET)
