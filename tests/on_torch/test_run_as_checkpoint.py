"""The folder of a run opens like any checkpoint: it is its model."""

import shutil

import keras  # noqa: F401  started here, so that no command says that it is starting Keras
import pytest
from helpers.command_line import kbert as run
from helpers.errors import raises
from helpers.labelled_texts import tune
from numpy.testing import assert_allclose

import kbert

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def tuned(labelled, tmp_path_factory):
    return tune(labelled, tmp_path_factory.mktemp("runs") / "run", epochs=1).folder


@pytest.fixture
def copied(tuned, tmp_path):
    return shutil.copytree(tuned, tmp_path / "run")


def test_finished_run_opens_as_its_model(copied):
    wanted = kbert.classify(kbert.load(copied / "model.keras"), "a red cat")
    for gone in (None, copied / "model.keras"):
        if gone:
            gone.unlink()
        found = kbert.classify(kbert.load(copied), "a red cat")
        assert [one.label for one in found] == [one.label for one in wanted]
        assert_allclose([one.probability for one in found], [one.probability for one in wanted])
        assert {one.label for one in found} == {"good", "bad"}
        assert kbert.inspect(copied).source == str(copied)


@pytest.mark.full
def test_commands_take_a_finished_run(copied, labelled, capsys, tmp_path):
    data = labelled / "dev.tsv"
    few = ("--epochs", "1", "--quiet", "--peak-flops", "1e9")
    for line in (
        ["classify", copied, "a red cat"],
        ["inspect", copied],
        ["convert", copied, tmp_path / "other", "--to", "google"],
        ["similarity", copied, "cat", "dog"],
        ["evaluate", copied, "--data", data],
        ["finetune", copied, "--task", "classify", "--train", data, "-o", tmp_path / "more", *few],
    ):
        done = run(capsys, *line)
        assert done.status == 0, done
    assert (tmp_path / "more" / "result.json").is_file()


def test_run_on_pairs_shows_two_texts(labelled, tmp_path):
    rows = [("a red cat", "a cat", "same"), ("a red cat", "a dog", "other")]
    done = tune(labelled, tmp_path / "run", train=rows, dev=None, epochs=1)
    assert 'kbert.classify(bert, "a fine film", "a good film")' in done.bert.card


@pytest.mark.parametrize("task", ["finetune", "pretrain"])
def test_unfinished_run_says_how_to_resume(copied, capsys, task):
    (copied / "result.json").unlink()
    settings = copied / "settings.json"
    settings.write_text(settings.read_text().replace('"finetune"', f'"{task}"', 1))
    with raises(FileNotFoundError, f"kbert.resume({str(copied)!r})"):
        kbert.load(copied)
    advice = f"kbert {task} --resume {copied}"
    for name in ("classify", "inspect"):
        done = run(capsys, name, copied, *(["cat"] if name == "classify" else []))
        assert done.status == 2 and advice in done.err and done.err.count("\n") == 1


def test_run_without_model_is_one_line_error(copied):
    bert = kbert.load(copied)
    with raises(ValueError, "run"):
        kbert.save(bert, copied)
    (copied / "model.keras").unlink()
    shutil.rmtree(copied / "model")
    with raises(FileNotFoundError, "model.keras"):
        kbert.load(copied)


def test_foreign_settings_json_is_no_run(tmp_path):
    for content in ("{", "[]", '{"task": "finetune"}'):
        (tmp_path / "settings.json").write_text(content)
        with raises(FileNotFoundError, "no checkpoint"):
            kbert.load(tmp_path)
