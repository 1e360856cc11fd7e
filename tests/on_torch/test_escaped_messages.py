"""What a folder says cannot control a terminal through Python's exceptions and warnings."""

import json
import logging
import shutil
import traceback

import pytest
from helpers.damaged_checkpoints import change_json
from helpers.labelled_texts import write_texts
from helpers.small_berts import small_bert

import kbert

pytestmark = pytest.mark.full

NASTY = "no\x1b]0;pwn\x07\x1b[2J\x9b2J\u202ething"


@pytest.fixture(scope="module")
def bert(small):
    return small_bert(small.replace(num_hidden_layers=1), "classifier")


@pytest.fixture(scope="module")
def run(bert, tmp_path_factory):
    """A run that is not finished, as a kill leaves it before its first state."""
    folder = tmp_path_factory.mktemp("runs")
    kbert.save(bert, folder / "bert")
    write_texts(folder / "train.tsv", 13, 1)
    data = {"train": folder / "train.tsv", "dev": folder / "train.tsv", "output": folder / "run"}
    kbert.finetune(folder / "bert", "classify", epochs=1, **data, peak_flops=1e9, progress=False)
    shutil.rmtree(folder / "run" / "checkpoints", ignore_errors=True)
    for name in ("result.json", "model.keras"):
        (folder / "run" / name).unlink(missing_ok=True)
    return folder / "run"


def is_safe(error: BaseException) -> bool:
    text = "".join(traceback.format_exception(error)) + str(error)
    return "\\u001b" in text and not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)


@pytest.mark.parametrize("key", ["train", "dev", "source"])
def test_paths_in_a_runs_settings_are_escaped(run, tmp_path, key):
    folder = shutil.copytree(run, tmp_path / "run")
    settings = json.loads((folder / "settings.json").read_text())
    assert key in settings["places"]
    settings["places"][key] = f"{tmp_path}/{NASTY}"
    (folder / "settings.json").write_text(json.dumps(settings))
    with pytest.raises((ValueError, OSError)) as raised:
        kbert.resume(folder, progress=False)
    assert is_safe(raised.value)


@pytest.mark.parametrize("key", ["settings", "fingerprint", "task", "places"])
def test_other_values_of_a_runs_settings_are_escaped(run, tmp_path, key):
    folder = shutil.copytree(run, tmp_path / "run")
    settings = json.loads((folder / "settings.json").read_text())
    settings[key] = NASTY if key == "task" else settings[key] | {NASTY: NASTY}
    if key == "fingerprint":
        settings[key]["train"] = {NASTY: NASTY}
    (folder / "settings.json").write_text(json.dumps(settings))
    for call in (kbert.resume, lambda path: kbert.evaluate(path, "classify")):
        try:
            call(folder)
        except Exception as error:
            assert "\x1b" not in "".join(traceback.format_exception(error))


def test_labels_are_escaped(bert, tmp_path):
    kbert.save(bert, tmp_path / "bert")
    names = {str(n): f"{n}{NASTY}" for n in range(5)}
    change_json(tmp_path / "bert/config.json", id2label=names)
    opened = kbert.load(tmp_path / "bert")
    (tmp_path / "dev.tsv").write_text("a cat\tx\na dog\ty\n")
    calls = [
        lambda: kbert.rank(opened, "a cat", ["a dog"], label="unknown"),
        lambda: kbert.attribute(opened, "a cat", target="unknown"),
        lambda: kbert.evaluate(opened, "classify", data=tmp_path / "dev.tsv"),
        lambda: kbert.regress(opened, "a cat"),
    ]
    for call in calls:
        with pytest.raises(ValueError) as raised:
            call()
        assert "\x1b" not in "".join(traceback.format_exception(raised.value))


def test_warnings_are_escaped(capsys, messages):
    """As in a program without handlers for the log: Python prints warnings as they are."""
    logging.getLogger("kbert").warning("%s lacks %d of %s", NASTY, 3, NASTY)
    (warning,) = messages
    assert "lacks 3 of" in warning and "\x1b" not in warning
