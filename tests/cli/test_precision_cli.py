"""`--precision` of a command gives what its function gives; an unknown name is one line."""

import json

import keras  # noqa: F401  started here, so that no command says that it is starting Keras
import numpy as np
import pytest
from helpers.command_line import kbert as run
from helpers.small_berts import TEXTS
from numpy.testing import assert_allclose

from kbert.tasks.answering.inference import answer
from kbert.tasks.attention.inference import attention
from kbert.tasks.classification.inference import classify, next_sentence
from kbert.tasks.embedding.inference import embed, similarity
from kbert.tasks.fill_mask.inference import fill_mask
from kbert.tasks.finetuning.evaluate import evaluate
from kbert.tasks.tagging.inference import tag

BFLOAT16 = {"precision": "bfloat16"}
COMMANDS = {
    "fill-mask": ("pretraining", ["[MASK] sun"]),
    "next-sentence": ("pretraining", ["cat", "dog"]),
    "classify": ("classifier", ["cat"]),
    "tag": ("tokens", ["red cat"]),
    "answer": ("qa", ["who?", "the cat sat"]),
    "similarity": ("encoder", ["cat", "dog"]),
    "evaluate": ("classifier", ["--task", "classify", "--data", "data.tsv"]),
    "embed": ("encoder", ["lines.txt", "-o", "out.npy"]),
    "attention": ("encoder", ["cat sees", "-o", "out.svg"]),
}


@pytest.fixture
def shown(capsys, saved, tmp_path, monkeypatch):
    """Runs a command in bfloat16; gives what it printed, read as JSON where it is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.tsv").write_text("cat\t1\nsun dog\t4\n")
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS))

    def call(name):
        head, arguments = COMMANDS[name]
        form = [] if name in ("embed", "attention") else ["--format", "json"]
        options = ["--precision", "bfloat16", *form]
        done = run(capsys, name, saved[0] / head, *arguments, *options)
        assert (done.status, done.err) == (0, ""), done
        return json.loads(done.out) if form else done.out

    return call


@pytest.mark.full
def test_precision_of_commands_equals_that_of_functions(shown, saved):
    berts = saved[1]
    filled = fill_mask(berts["pretraining"], "[MASK] sun", **BFLOAT16)
    assert [one["token"] for one in shown("fill-mask")[0]] == [one.token for one in filled[0]]
    followed = next_sentence(berts["pretraining"], "cat", "dog", **BFLOAT16)
    assert shown("next-sentence")["is_next"] == pytest.approx(followed, abs=1e-6)
    assert followed != next_sentence(berts["pretraining"], "cat", "dog")
    best = classify(berts["classifier"], "cat", **BFLOAT16)[0].probability
    found = shown("classify")[0]["labels"][0]["probability"]
    assert found == pytest.approx(best, abs=1e-6)
    words = tag(berts["tokens"], "red cat", **BFLOAT16)
    found = [word["probability"] for word in shown("tag")[0]["words"]]
    assert_allclose(found, [word.probability for word in words], atol=1e-6)
    score = answer(berts["qa"], "who?", "the cat sat", **BFLOAT16).score
    assert shown("answer")["score"] == pytest.approx(score, abs=1e-6)
    matrix = similarity(berts["encoder"], ["cat", "dog"], **BFLOAT16)
    assert_allclose(shown("similarity")["similarity"], matrix, atol=1e-6)


@pytest.mark.full
def test_precision_of_written_files_equals_that_of_functions(shown, saved, tmp_path):
    bert = saved[1]["encoder"]
    assert "13 × 24 float32" in shown("embed")
    assert_allclose(np.load("out.npy"), embed(bert, TEXTS, **BFLOAT16), atol=1e-6)
    shown("attention")
    attention(bert, "cat sees", **BFLOAT16).plot(tmp_path / "same.svg")
    assert (tmp_path / "out.svg").read_bytes() == (tmp_path / "same.svg").read_bytes()
    rows = [("cat", "1"), ("sun dog", "4")]
    figures = evaluate(saved[1]["classifier"], "classify", rows, **BFLOAT16)
    assert shown("evaluate")["loss"] == pytest.approx(figures["loss"], abs=1e-6)


@pytest.mark.parametrize("name", COMMANDS)
def test_unknown_precision_gives_one_line(capsys, name):
    """Before the checkpoint is looked for."""
    done = run(capsys, name, "nowhere", *COMMANDS[name][1], "--precision", "float8")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "'float8' is not one of 'float32', 'bfloat16', 'mixed_bfloat16'" in done.err
