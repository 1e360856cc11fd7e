"""Fine-tuning with LoRA and frozen layers: runs, their folders, bad adapters."""

import json
import shutil

import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import check_named, raises
from helpers.interrupted_run import Copies, assert_states_equal
from helpers.labelled_texts import QUIET, tune, write_source
from helpers.small_berts import small_bert
from safetensors.numpy import load_file, save_file

import kbert
from kbert.training.run.state_files import read_state

pytestmark = pytest.mark.full

SETTINGS = {"epochs": 4, "learning_rate": 3e-2, "save_every": 3, "keep_checkpoints": True}
SETTINGS |= {"lora_rank": 5, "lora_targets": "value,query,output", "accumulation_steps": 1}
STEPS = 12  # 4 epochs of 39 examples


@pytest.fixture(scope="module")
def encoder(folder):
    return kbert.load(folder / "source")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small):
    return write_source(tmp_path_factory.mktemp("adapters"), small, dev=13, blocks=2)


@pytest.fixture(scope="module")
def whole(folder):
    copies = Copies(folder / "whole", folder / "crashed", 8, state=6)
    return tune(folder, folder / "whole", callbacks=[copies], **SETTINGS)


def test_lora_training_changes_adapters_and_head_only(whole, folder, encoder):
    losses = [line["Classifier_loss"] for line in whole.history.updates]
    assert len(losses) == STEPS and np.mean(losses[-3:]) < 0.95 * np.mean(losses[:3])
    assert whole.metrics["loss"] < np.log(2)  # a coin's, of texts that it was not taught
    arrays, _ = read_state(folder / f"whole/checkpoints/step-{STEPS:08d}.safetensors")
    moments = [name for name in arrays if name.startswith("optimizer/second/")]
    assert len(moments) == 2 * 3 * 2 + 2  # A and B of 3 matrices of 2 blocks, and the head
    config, names = encoder.config, SETTINGS["lora_targets"]
    memory = kbert.account(config, head="classifier", lora_rank=5, lora_targets=names).memory
    held = [(name, one.nbytes) for name, one in arrays.items() if one.ndim and "seed" not in name]
    assert memory.adam == sum(size for name, size in held if name.startswith("optimizer/"))
    assert memory.weights == sum(size for name, size in held if not name.startswith("optimizer/"))
    given = {layer.name: layer.get_weights() for layer in encoder.model.layers}
    changed = {
        layer.name
        for layer in whole.bert.model.layers
        for place, weight in enumerate(layer.get_weights())
        if layer.name not in given or not np.array_equal(weight, given[layer.name][place])
    }
    parts = ("MultiHeadSelfAttention", "FeedForward")
    assert changed == {f"Encoder-{n}-{part}" for n in (1, 2) for part in parts} | {"Classifier"}
    report = (folder / "whole/report.html").read_text()
    params = 5 * 2 * (2 * 48 + 64)
    assert f"{params + 50:,} of " in report and f"{params:,} of them in adapters" in report


@pytest.mark.full
def test_resume_with_lora_is_bit_equal(whole, folder):
    tuned = kbert.resume(folder / "crashed", **QUIET)
    assert_states_equal(folder / "whole", folder / "crashed", STEPS)
    for file in ("model/model.safetensors", "adapter/adapter_model.safetensors"):
        assert (folder / "whole" / file).read_bytes() == (folder / "crashed" / file).read_bytes()
    assert tuned.metrics == whole.metrics


def test_resume_of_finished_run_returns_its_adapter(whole, folder):
    again = kbert.resume(folder / "whole", **QUIET)
    assert repr(again.bert.adapter) == repr(whole.bert.adapter)
    assert repr(whole.bert.adapter).startswith("LoraAdapter(rank 5, query, value, output, 6 matri")


def test_saved_adapter_loads_with_equal_weights_and_metrics(whole, folder, tmp_path, messages):
    kbert.save(whole.bert, tmp_path / "adapter", format="peft")
    messages.clear()
    bert = kbert.load(folder / "source", adapter=tmp_path / "adapter")
    assert (bert.head, bert.labels) == ("classifier", ("bad", "good"))
    assert not messages  # the head that the source lacks is the adapter's
    np.testing.assert_equal(bert.model.get_weights(), whole.bert.model.get_weights())
    assert kbert.evaluate(bert, "classify", folder / "dev.tsv") == pytest.approx(whole.metrics)


@pytest.mark.full
def test_frozen_blocks_get_no_adapter(folder):
    options = {"freeze": "1", "epochs": 1, "head_learning_rate": 0.1, "layer_decay": 0.9}
    tuned = tune(folder, **SETTINGS | options | {"accumulation_steps": 13})
    assert {block for block, _ in tuned.bert.adapter.pairs} == {2}
    assert np.isfinite(tuned.metrics["loss"])


def test_foreign_or_broken_adapters_are_one_line_errors(whole, folder, encoder, tmp_path, capsys):
    adapter = tmp_path / "adapter"
    shutil.copytree(folder / "whole/adapter", adapter)

    def refused(*things, base="source", **options):
        base = folder / base
        with raises((ValueError, OSError), *things) as error:
            kbert.load(base, adapter=adapter, **options)
        assert "\n" not in str(error.value)
        arguments = [str(base), str(tmp_path / "out"), "--adapter", str(adapter)]
        status, out, err = kbert_command(capsys, "convert", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert not (tmp_path / "out").exists()

    wide = small_bert(encoder.config.replace(hidden_size=28), "encoder")
    kbert.save(wide, folder / "wide")
    refused("wide", "query of block 1", "24 × 24", "28 × 28", base="wide")
    shallow = small_bert(encoder.config.replace(num_hidden_layers=1), "encoder")
    kbert.save(shallow, folder / "shallow")
    refused("block 2", base="shallow")
    other = kbert.load(folder / "source")
    kernel = other.model.get_layer("Encoder-2-FeedForward").output_dense.kernel
    kernel.assign(kernel.numpy() * 1.001)
    kbert.save(other, folder / "other")
    refused("other weights", base="other")

    config = json.loads((adapter / "adapter_config.json").read_text())

    def write(**changes):
        (adapter / "adapter_config.json").write_text(json.dumps(config | changes))

    write(peft_type="IA3")
    refused("peft_type", "LORA", "IA3")
    write(use_dora=True)
    refused("use_dora", "false")
    write(lora_alpha=None)
    refused("lora_alpha")
    write()
    file = adapter / "adapter_model.safetensors"
    arrays = load_file(file)
    name = next(name for name in arrays if "lora_A" in name)
    save_file({key: array for key, array in arrays.items() if key != name}, file)
    refused("lora_A", "encoder.layer.0", "got lora_B")
    foreign = "base_model.model.bert.embeddings.word_embeddings.lora_embedding_A"
    save_file(arrays | {foreign: np.zeros((3, 4), "float32")}, file)
    refused(foreign)
    file.unlink()
    refused("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")


def test_load_of_adapter_folder_says_how_to_open_it(whole, folder):
    with raises(ValueError, "PEFT", "kbert.load(BASE, adapter=…)"):
        kbert.load(folder / "whole/adapter")


def test_finetune_from_adapter_needs_its_settings_and_base(whole, folder, tmp_path, capsys):
    data = ("--task", "classify", "--train", folder / "train.tsv", "-o", tmp_path / "second")
    adapter = shutil.copytree(folder / "whole/adapter", tmp_path / "adapter")
    done = kbert_command(capsys, "finetune", adapter, *data, "--lora-rank", "3")
    says = "lora_rank=5, lora_targets='query,value,output', lora_alpha=5"
    assert done.status == 2 and says in done.err and not (tmp_path / "second").exists()
    file = adapter / "adapter_config.json"
    config = json.loads(file.read_text()) | {"base_model_name_or_path": "bases/of.zip"}
    file.write_text(json.dumps(config))
    done = kbert_command(capsys, "finetune", adapter, *data, "--lora-rank", "5")
    assert done.status == 2 and done.err.count("\n") == 1
    check_named(done.err, "'bases/of.zip'")


def test_peft_save_refuses_changed_base_weights(whole, folder, tmp_path):
    bert = kbert.load(folder / "source", adapter=folder / "whole/adapter")
    layer = bert.model.get_layer("Encoder-1-MultiHeadSelfAttention")
    layer.query_dense.kernel.assign(layer.query_dense.kernel.numpy() + 1)
    with raises(ValueError, "adapter"):
        kbert.save(bert, tmp_path / "adapter", format="peft")
    with raises(ValueError, "peft"):
        kbert.save(kbert.load(folder / "source"), tmp_path / "adapter", format="peft")
    assert not list(tmp_path.iterdir())


def test_convert_command_merges_adapter_into_weights(whole, folder, tmp_path, capsys):
    arguments = [str(folder / "source"), str(tmp_path / "merged")]
    adapter = ["--adapter", str(folder / "whole/adapter")]
    status, _, _ = kbert_command(capsys, "convert", *arguments, *adapter)
    assert status == 0
    merged = load_file(tmp_path / "merged/model.safetensors")
    expected = load_file(folder / "whole/model/model.safetensors")
    assert all(np.array_equal(merged[name], array) for name, array in expected.items())
