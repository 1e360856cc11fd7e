"""Commands that use a checkpoint print and write what their functions return."""

import dataclasses
import functools
import io
import json
import re
from pathlib import Path

import keras  # noqa: F401  started here, so that no command says that it is starting Keras
import numpy as np
import pytest
from helpers.command_line import kbert as run
from helpers.errors import check_named
from helpers.marks import full
from helpers.small_berts import TEXTS, change_weights
from numpy.testing import assert_allclose

import kbert
from kbert.checkpoints import bert as checkpoints
from kbert.tasks.answering.inference import answer
from kbert.tasks.attention.inference import attention
from kbert.tasks.classification.inference import classify, next_sentence
from kbert.tasks.embedding.inference import embed, similarity
from kbert.tasks.fill_mask.inference import fill_mask
from kbert.tasks.finetuning.evaluate import evaluate
from kbert.tasks.tagging.inference import tag

BFLOAT16 = {"precision": "bfloat16"}
COMMANDS = {
    "fill-mask": ("pretraining", ["[MASK] sun"], fill_mask),
    "next-sentence": ("pretraining", ["cat", "dog"], next_sentence),
    "classify": ("classifier", ["cat"], classify),
    "tag": ("tokens", ["red cat"], tag),
    "answer": ("qa", ["who?", "the cat sat"], answer),
    "similarity": ("encoder", ["cat", "dog"], lambda b, *t, **o: similarity(b, list(t), **o)),
    "evaluate": ("classifier", ["--task", "classify", "--data", "data.tsv"], None),
    "embed": ("encoder", ["lines.txt", "-o", "out.npy"], None),
    "attention": ("encoder", ["cat sees", "-o", "out.svg"], None),
}


@pytest.fixture(scope="module")
def load(saved):
    """Gives the `Bert` that was saved in a folder: its model is traced once for all tests."""
    folder, berts = saved
    read = checkpoints.load

    @functools.cache
    def load(path, **options):
        if Path(path).parent == folder and not options:
            return berts[Path(path).name]
        return read(path, **options)

    return load


@pytest.fixture
def ok(capsys, saved, load, monkeypatch, tmp_path):
    """Runs a command on a head's folder; gives what it printed."""
    monkeypatch.setattr(checkpoints, "load", load)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.tsv").write_text("cat\t1\nsun dog\t4\n")
    (tmp_path / "lines.txt").write_bytes("\n".join(TEXTS).encode() + b"\r\n")

    def call(name, head, *arguments, warns_of=()):
        done = run(capsys, name, saved[0] / head, *arguments)
        assert (done.status, done.err.count("\n")) == (0, 1 if warns_of else 0), done
        check_named(done.err, *warns_of)
        lines = [line for line in done.out.splitlines() if not line.startswith("wrote ")]
        assert max(map(len, lines), default=0) <= 80 or "json" in arguments
        return done.out

    return call


def floats(value) -> list[float]:
    """The numbers with a point in JSON or in a result, in their order."""
    if isinstance(value, float | np.floating):
        return [float(value)]
    if isinstance(value, dict):
        value = value.values()
    elif hasattr(value, "__dict__"):
        value = vars(value).values()
    elif isinstance(value, str) or not hasattr(value, "__iter__"):
        return []
    return [number for one in value for number in floats(one)]


@pytest.mark.full
@pytest.mark.parametrize("options", [{}, full(BFLOAT16)])
@pytest.mark.parametrize("name", [name for name, row in COMMANDS.items() if row[-1]])
def test_numbers_of_commands_are_those_of_functions(ok, saved, name, options):
    head, arguments, function = COMMANDS[name]
    flags = [word for key, value in options.items() for word in (f"--{key}", value)]
    shown = json.loads(ok(name, head, *arguments, *flags, "--format", "json"))
    found = floats(function(saved[1][head], *arguments, **options))
    assert found and floats(shown) == pytest.approx(found, abs=1e-6)
    if options:
        assert found != floats(function(saved[1][head], *arguments))


@pytest.mark.full
def test_precision_of_written_files_equals_that_of_functions(ok, saved, tmp_path):
    def call(name, *form):
        head, arguments, _ = COMMANDS[name]
        return ok(name, head, *arguments, "--precision", "bfloat16", *form)

    bert = saved[1]["encoder"]
    assert "13 × 24 float32" in call("embed")
    assert_allclose(np.load("out.npy"), embed(bert, TEXTS, **BFLOAT16), atol=1e-6)
    call("attention")
    attention(bert, "cat sees", **BFLOAT16).plot(tmp_path / "same.svg")
    assert (tmp_path / "out.svg").read_bytes() == (tmp_path / "same.svg").read_bytes()
    rows = [("cat", "1"), ("sun dog", "4")]
    figures = evaluate(saved[1]["classifier"], "classify", rows, **BFLOAT16)
    shown = json.loads(call("evaluate", "--format", "json"))
    assert shown["loss"] == pytest.approx(figures["loss"], abs=1e-6)


@pytest.mark.parametrize("name", COMMANDS)
def test_unknown_precision_gives_one_line(capsys, name):
    """Before the checkpoint is looked for."""
    done = run(capsys, name, "nowhere", *COMMANDS[name][1], "--precision", "float8")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    check_named(done.err, "'float8'", "'float32'", "'bfloat16'", "'mixed_bfloat16'")


@pytest.mark.full
def test_texts_of_task_commands(ok, saved):
    _, berts = saved
    text = "cat [MASK] sun [MASK]"
    masks = fill_mask(berts["pretraining"], text, top_k=3)
    lines = ok("fill-mask", "pretraining", text, "--top-k", 3).splitlines()
    assert lines[0] == "[MASK] 1" and lines[4] == "[MASK] 2"
    assert lines[5] == f"{masks[1][0].probability:.4f}  {masks[1][0].token}"
    shown = json.loads(ok("fill-mask", "pretraining", text, "--top-k", 3, "--format", "json"))
    names = [[one.token for one in best] for best in masks]
    assert [[one["token"] for one in best] for best in shown] == names
    out = ok("next-sentence", "pretraining", "cat", "dog")
    assert out.startswith(f"{next_sentence(berts['pretraining'], 'cat', 'dog'):.4f}  is next\n")
    best = classify(berts["classifier"], "cat")[0]
    out = ok("classify", "classifier", "cat")
    assert out.splitlines()[0] == f"{best.probability:.4f}  {best.label}"
    assert ok("classify", "classifier", "cat", "dog" + " " * 99 + "cat").count("\n") == 2
    best = classify(berts["classifier"], "cat", "dog")[0]
    out = ok("classify", "classifier", "--pairs", "cat", "dog")
    assert out.splitlines()[0] == f"{best.probability:.4f}  {best.label}"
    Path("pairs.tsv").write_text("cat\tdog\nsun\tcat\n")
    lines = ("classify", "classifier", "--pairs", "--lines", "pairs.tsv")
    assert ok(*lines).splitlines()[0] == f"{best.probability:.4f}  {best.label}  cat  dog"
    shown = json.loads(ok(*lines, "--format", "json"))
    assert [(row["text"], row["pair"]) for row in shown] == [("cat", "dog"), ("sun", "cat")]
    words = tag(berts["tokens"], "red cats!")
    shown = json.loads(ok("tag", "tokens", "red cats!", "--format", "json"))
    assert [word["word"] for word in shown[0]["words"]] == ["red", "cats", "!"]
    assert words[1].label in ok("tag", "tokens", "red cats!").splitlines()[1]
    found = answer(berts["qa"], "who?", "the cat sat")
    assert ok("answer", "qa", "who?", "the cat sat").startswith(f"{found.text}\n{found.score:.4f}")


@pytest.mark.full
def test_regress_reads_texts_and_pairs_as_classify_does(ok, saved, tmp_path, monkeypatch):
    encoder = saved[1]["encoder"]
    model = kbert.build_bert(encoder.config, head="classifier", seq_len=None, num_labels=1)
    bert = dataclasses.replace(encoder, head="classifier", model=change_weights(model))
    kbert.save(bert, tmp_path / "scores")
    scores = ("regress", tmp_path / "scores")
    wanted = kbert.regress(bert, ["cat", "sun"], ["dog", "cat"])
    assert ok(*scores, "cat") == f"{kbert.regress(bert, 'cat'):.4f}\n"
    assert ok(*scores, "--pairs", "cat", "dog") == f"{wanted[0]:.4f}\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"cat\tdog\nsun\tcat\n")))
    shown = json.loads(ok(*scores, "--pairs", "--lines", "-", "--format", "json"))
    assert [(row["text"], row["pair"]) for row in shown] == [("cat", "dog"), ("sun", "cat")]
    assert [row["number"] for row in shown] == pytest.approx(wanted, abs=1e-6)
    lines = ok(*scores, "cat", "sun", warns_of=["--pairs"]).splitlines()
    assert lines[1] == f"{kbert.regress(bert, 'sun'):.4f}  sun"


def test_evaluate_reads_standard_input(ok, monkeypatch):
    options = ("evaluate", "classifier", "--task", "classify", "--data")
    wanted = ok(*options, "data.tsv")
    content = Path("data.tsv").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert ok(*options, "-") == wanted


@pytest.mark.full
def test_similarity_prints_a_matrix_or_a_list(ok, saved):
    wanted = similarity(saved[1]["encoder"], TEXTS)
    row = ok("similarity", "encoder", *TEXTS[:3]).splitlines()[-2].split()
    assert_allclose([float(value) for value in row[1:]], wanted[1, :3], atol=1e-3)
    pairs = ok("similarity", "encoder", *TEXTS).split("\n\n")[1].splitlines()
    values = [float(pair.split()[0]) for pair in pairs]
    assert len(pairs) == 13 * 12 // 2 and values == sorted(values, reverse=True)


@pytest.mark.full
def test_embed_writes_the_vectors_of_lines(ok, saved, tmp_path, monkeypatch):
    out = tmp_path / "vectors.npy"
    says = ok("embed", "encoder", "lines.txt", "-o", out, "--pooling", "last", "--num-layers", 2)
    assert says == f"wrote {out}: 13 × 48 float32\n"
    wanted = embed(saved[1]["encoder"], TEXTS, pooling="last", num_layers=2)
    assert_allclose(np.load(out), wanted, atol=1e-6)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"cat\n\ndog")))
    ok("embed", "encoder", "-", "-o", out, "--overwrite", "--normalize")
    wanted = embed(saved[1]["encoder"], ["cat", "", "dog"], normalize=True)
    assert_allclose(np.load(out), wanted, atol=1e-6)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["data.tsv", "lines.txt", "vectors.npy"]


def test_embed_prints_the_vectors_of_arguments(saved, capsys):
    command = ["embed", saved[0] / "encoder", "cat", "the dog"]
    wanted = embed(saved[1]["encoder"], ["cat", "the dog"])
    lines = run(capsys, *command).out.splitlines()
    assert_allclose([[float(number) for number in line.split(" ")] for line in lines], wanted, 1e-4)
    rows = json.loads(run(capsys, *command, "--format", "json").out)
    assert [row["text"] for row in rows] == ["cat", "the dog"]
    assert_allclose([row["embedding"] for row in rows], wanted, 1e-5)


@pytest.mark.full
def test_embed_cuts_long_lines_or_reads_windows(ok, saved, tmp_path):
    lines, out = tmp_path / "long.txt", tmp_path / "vectors.npy"
    lines.write_text("cat " * 30 + "\ndog\n")
    ok("embed", "encoder", lines, "-o", out, warns_of=["1 of 2", "17 tokens", "--long window"])
    ok("embed", "encoder", lines, "-o", out, "--overwrite", "--long", "window")
    wanted = embed(saved[1]["encoder"], "cat " * 30, long="window")
    assert_allclose(np.load(out)[0], wanted, atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("ending", ["npz", full("svg")])
def test_attention_writes_what_its_function_writes(ok, saved, tmp_path, ending):
    out, same = tmp_path / f"map.{ending}", tmp_path / f"same.{ending}"
    options = ["--special", "hidden"] if ending != "svg" else []
    says = ok("attention", "encoder", "cat sees", "dog", "-o", out, "--layer", 2, *options)
    assert says == f"wrote {out} ({out.stat().st_size:,} bytes)\n"
    found = attention(saved[1]["encoder"], "cat sees", "dog", layer=2)
    if ending == "svg":
        found.plot(same)
        assert out.read_bytes() == same.read_bytes()
        return
    found.save(same, special="hidden")
    np.testing.assert_allclose(np.load(out)["queries"], found.queries, atol=1e-5)


def data_of(path) -> dict:
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r"^const DATA = (.*);$", text, re.MULTILINE)[1])


def test_attention_page_is_the_explorers_at_a_head(ok, saved, tmp_path):
    out = tmp_path / "map.html"
    options = ["--layer", 2, "--sentence", "dog\tit was big"]
    says = ok("attention", "encoder", "cat sees", "-o", out, *options)
    assert says == f"wrote {out} ({out.stat().st_size:,} bytes)\n"
    data = data_of(out)
    assert data["start"] == attention(saved[1]["encoder"], "cat sees", layer=2).address()
    requests = [one["request"] for one in data["live"]["recordings"]]
    assert [(one["text"], one["pair"]) for one in requests] == [
        ("cat sees", None),
        ("dog", "it was big"),
    ]
    assert ["Encoder-1-MultiHeadSelfAttention/query", [4, 4, 6]] in (
        data["live"]["recordings"][0]["tensors"]
    )


@pytest.mark.full
def test_attention_page_says_that_its_text_was_cut(ok, saved, tmp_path):
    output = ["-o", tmp_path / "map.html"]
    ok("attention", "encoder", "cat " * 30, *output, warns_of=["1 of 1", "17 tokens"])
    assert data_of(tmp_path / "map.html")["live"]["recordings"][0]["truncated"]
