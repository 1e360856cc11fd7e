"""The options `--uncased` and `--cased` say the casing where a checkpoint's files do not."""

import json

import pytest
from helpers.command_line import kbert as run
from helpers.labelled_texts import write_texts
from helpers.run_shards import CONFIG, make_shards

import kbert

TEXTS = ["a CAT", "a cat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All of pytorch-transformers' time: no tokenizer_config.json."""
    place = tmp_path_factory.mktemp("casing")
    shards = make_shards(place)
    tokenizer = kbert.open_shards(shards).tokenizer
    config = kbert.BertConfig(**CONFIG)
    bert = kbert.Bert(config, "pretraining", kbert.build_bert(config), tokenizer)
    kbert.save(bert, place / "bert")
    for name in ("tokenizer_config.json", "tokenizer.json"):
        (place / "bert" / name).unlink(missing_ok=True)
    return place


@pytest.mark.full
def test_inspect_needs_no_casing(folder, capsys):
    done = run(capsys, "inspect", folder / "bert")
    assert done.status == 0 and "19 tokens, casing unknown" in done.out
    assert kbert.inspect(folder / "bert").lowercase is None


@pytest.mark.full
def test_every_command_takes_the_casing(folder, tmp_path, capsys):
    done = run(capsys, "similarity", folder / "bert", *TEXTS)
    assert done.status == 2 and done.err.count("\n") == 1
    assert "on the command line --uncased or --cased" in done.err
    alike = {}
    for casing in ("--uncased", "--cased"):
        done = run(capsys, "similarity", folder / "bert", *TEXTS, "--pooling", "mean", casing)
        assert done.status == 0, done.err
        alike[casing] = "1.0000  1.0000" in done.out
    assert alike == {"--uncased": True, "--cased": False}
    run(capsys, "convert", folder / "bert", tmp_path / "out", "--cased")
    settings = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert settings["do_lower_case"] is False


@pytest.mark.full
def test_a_run_keeps_the_casing(folder, tmp_path, capsys):
    data = tmp_path / "train.tsv"
    write_texts(data, 6, 1)
    options = ("--task", "classify", "--train", data, "--epochs", "1", "--peak-flops", "1e9")
    output = tmp_path / "run"
    done = run(capsys, "finetune", folder / "bert", *options, "-o", output, "--uncased")
    assert done.status == 0, done.err
    assert kbert.load(output).tokenizer.lowercase is True
    assert json.loads((output / "settings.json").read_text())["settings"]["lowercase"] is True
    (output / "model" / "tokenizer_config.json").unlink()
    (output / "model" / "tokenizer.json").unlink()
    done = run(
        *(capsys, "evaluate", output / "model", "--task", "classify", "--data", data, "--uncased")
    )
    assert done.status == 0 and "accuracy" in done.out, done.err


@pytest.mark.full
def test_pretraining_reads_init_with_the_casing_of_the_shards(folder, tmp_path):
    settings = {"steps": 1, "batch_size": 2, "seq_len": 17, "progress": False, "peak_flops": 1e9}
    run = tmp_path / "run"
    kbert.pretrain(folder / "shards", init=folder / "bert", output=run, **settings)
    assert kbert.load(run).tokenizer.lowercase is True
