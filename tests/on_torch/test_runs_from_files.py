"""Runs that a file describes: the same as from options and from arguments in Python."""

import json
import shutil

import keras
import pytest
import yaml
from helpers.command_line import kbert as run
from helpers.labelled_texts import QUIET
from helpers.run_shards import CONFIG, make_shards

import kbert

pytestmark = pytest.mark.full

VALUES = {"source": "source", "task": "classify", "train": "train.tsv", "dev": "dev.tsv"}
VALUES |= {"output": "run", "epochs": 1, "batch_size": 13, "learning_rate": 5e-3, "seed": 4}
VALUES |= {"clip_norm": None, "keep_best": False, "peak_flops": 1e9, "progress": False}
OPTIONS = "--task classify --train train.tsv --dev dev.tsv --epochs 1 --batch-size 13 --seed 4"
OPTIONS += " --learning-rate 5e-3 --no-keep-best --peak-flops 1e9"


@pytest.fixture
def folder(labelled, tmp_path, monkeypatch):
    """A folder of data and a model, which is not the working folder."""
    shutil.copytree(labelled, tmp_path / "data")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "data"


def read_run(path) -> tuple:
    """What a run was asked for, and the weights that it ended with."""
    run = json.loads((path / "settings.json").read_text())
    weights = (path / "model" / "model.safetensors").read_bytes()
    return run["settings"], run["fingerprint"], weights


def train(capsys, *arguments, command="finetune"):
    done = run(capsys, command, *arguments)
    assert done.status == 0, done.err
    return done


def test_file_is_the_run_of_python_and_of_its_own_settings(capsys, folder, monkeypatch):
    text = yaml.safe_dump(VALUES)
    (folder / "run.yaml").write_text(text)
    done = train(capsys, "--settings", folder / "run.yaml")
    assert f"wrote {folder / 'run' / 'model'}" in done.out
    expected = read_run(folder / "run")
    assert (expected[0]["clip_norm"], expected[0]["keep_best"]) == (None, False)

    monkeypatch.chdir(folder)
    kbert.finetune(**yaml.safe_load(text) | {"output": "python"})
    assert read_run(folder / "python") == expected
    train(capsys, "--settings", "run/settings.json", "-o", "again", "--peak-flops", "1e9")
    assert read_run(folder / "again") == expected

    done = run(capsys, "finetune", "--settings", "run.yaml")
    assert done.status == 2 and "output in run.yaml" in done.err


def test_own_settings_have_what_the_user_gave(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)
    given = {"lengths": [13, 17], "max_length": 17, "positive_label": "bad"}
    kbert.finetune(**VALUES | given | {"output": "python"})
    line = ["--settings", "python/settings.json", "--peak-flops", "1e9"]
    train(capsys, *line, "-o", "again")
    assert read_run(folder / "again") == read_run(folder / "python")
    for name in ("python", "again"):
        derived = json.loads((folder / name / "settings.json").read_text())["derived"]
        assert derived == ["labels"]
    assert read_run(folder / "again")[0]["lengths"] == [13, 17]

    kbert.finetune(**VALUES | {"output": "without"})
    values = yaml.safe_load(
        train(capsys, "--settings", "without/settings.json", "--print-settings").out
    )
    assert [values[name] for name in given] == [None] * 3


def focal(labels, logits):
    """A loss per example."""
    return keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True) ** 2


def test_run_with_a_function_cannot_be_done_from_its_file(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)
    kbert.finetune(**VALUES | {"output": "own", "loss": focal})
    for options in (["-o", "again"], ["--print-settings"]):
        done = run(capsys, "finetune", "--settings", "own/settings.json", *options)
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
        assert "own/settings.json" in done.err and "loss=focal" in done.err, done.err
    assert not (folder / "again").exists()


def test_printed_options_are_the_run_of_the_options(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)
    line = ["source", *OPTIONS.split()]
    train(capsys, *line, "-o", "run")
    printed = train(capsys, *line, "-o", "again", "--print-settings").out
    (folder.parent / "elsewhere" / "printed.yaml").write_text(printed)
    monkeypatch.chdir(folder.parent / "elsewhere")
    train(capsys, "--settings", "printed.yaml")
    assert read_run(folder / "again") == read_run(folder / "run")


def test_optimizer_is_the_json_of_one_of_keras(capsys, folder):
    lion = keras.saving.serialize_keras_object(keras.optimizers.Lion(beta_1=0.8))
    values = VALUES | {"optimizer": {"class_name": "Lion", "config": {"beta_1": 0.8}}}
    (folder / "run.yaml").write_text(yaml.safe_dump(values))
    train(capsys, "--settings", folder / "run.yaml")
    arguments = {name: folder / VALUES[name] for name in ("source", "train", "dev")}
    others = {name: value for name, value in VALUES.items() if name not in (*arguments, "output")}
    kbert.finetune(
        **arguments, **others, output=folder / "python", optimizer=keras.optimizers.Lion(beta_1=0.8)
    )
    file, python = read_run(folder / "run"), read_run(folder / "python")
    assert file[2] == python[2] and file[0]["optimizer"]["config"]["beta_1"] == 0.8
    assert python[0]["optimizer"]["class_name"] == lion["class_name"]

    train(capsys, "--settings", folder / "python" / "settings.json", "-o", folder / "third")
    assert read_run(folder / "third") == python


def test_optimizer_that_keras_does_not_know_is_one_line(capsys, folder):
    (folder / "run.yaml").write_text(yaml.safe_dump(VALUES | {"optimizer": {"class_name": "No"}}))
    done = run(capsys, "finetune", "--settings", folder / "run.yaml")
    assert done.status == 2 and done.err.startswith(f"kbert: {folder / 'run.yaml'}: optimizer")
    assert not (folder / "run").exists()


def test_pretraining_from_a_file_has_its_configuration(capsys, folder, monkeypatch):
    make_shards(folder)
    values = {"shards": "shards", "config": CONFIG, "output": "run", "steps": 3, "batch_size": 6}
    values |= {"seq_len": 17, "dev_ratio": 0.0, "peak_flops": 1e9, "progress": False}
    text = yaml.safe_dump(values)
    (folder / "run.yaml").write_text(text)
    train(capsys, "--settings", folder / "run.yaml", command="pretrain")
    expected = read_run(folder / "run")
    assert expected[0]["config"]["hidden_size"] == CONFIG["hidden_size"]

    monkeypatch.chdir(folder)
    kbert.pretrain(**yaml.safe_load(text) | {"output": "python"})
    assert read_run(folder / "python") == expected
    line = ("--settings", "run/settings.json", "-o", "again")
    train(capsys, *line, "--peak-flops", "1e9", command="pretrain")
    assert read_run(folder / "again") == expected
    train(capsys, *line[:3], "longer", "--steps", "14", *line[4:], command="pretrain")
    longer = read_run(folder / "longer")[0]
    assert (longer["steps"], longer["warmup_steps"], longer["dev_ratio"]) == (14, 1, 0.0)
    settings = json.loads((folder / "run" / "settings.json").read_text())
    assert set(settings["derived"]) == {"warmup_steps", "evaluate_every", "save_every", "log_every"}


def test_resume_of_a_run_from_a_file_needs_no_file(capsys, folder):
    (folder / "run.yaml").write_text(yaml.safe_dump(VALUES))
    train(capsys, "--settings", folder / "run.yaml")
    (folder / "run.yaml").unlink()
    assert "finished already" in train(capsys, "--resume", folder / "run").out
    assert kbert.resume(folder / "run", **QUIET).metrics
