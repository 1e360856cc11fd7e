"""Commands that use a checkpoint print and write what their functions return."""

import dataclasses
import functools
import io
import json

import keras  # noqa: F401  started here, so that no command says that it is starting Keras
import numpy as np
import pytest
from helpers.command_line import kbert as run
from helpers.small_berts import TEXTS
from numpy.testing import assert_allclose

import kbert
from kbert.checkpoints import bert as checkpoints
from kbert.tasks.answering.inference import answer
from kbert.tasks.attention.inference import attention
from kbert.tasks.classification.inference import classify, next_sentence
from kbert.tasks.embedding.inference import embed, similarity
from kbert.tasks.fill_mask.inference import fill_mask
from kbert.tasks.tagging.inference import tag


@pytest.fixture(scope="module")
def load():
    """Loads a folder, and traces its model, once for all commands."""
    return functools.cache(checkpoints.load)


@pytest.fixture
def ok(capsys, saved, load, monkeypatch):
    """Runs a command on a head's folder; gives what it printed."""
    monkeypatch.setattr(checkpoints, "load", load)

    def call(name, head, *arguments, says=""):
        done = run(capsys, name, saved[0] / head, *arguments)
        assert (done.status, done.err) == (0, says), done
        lines = [line for line in done.out.splitlines() if not line.startswith("wrote ")]
        assert max(map(len, lines), default=0) <= 80 or "json" in arguments
        return done.out

    return call


def test_task_commands_equal_their_functions(ok, saved):
    _, berts = saved
    text = "cat [MASK] sun [MASK]"
    masks = fill_mask(berts["pretraining"], text, top_k=3)
    lines = ok("fill-mask", "pretraining", text, "--top-k", 3).splitlines()
    assert lines[0] == "[MASK] 1" and lines[4] == "[MASK] 2"
    assert lines[5] == f"{masks[1][0].probability:.4f}  {masks[1][0].token}"
    shown = json.loads(ok("fill-mask", "pretraining", text, "--top-k", 3, "--format", "json"))
    assert [[one["token"] for one in best] for best in shown] == [
        [one.token for one in best] for best in masks
    ]
    out = ok("next-sentence", "pretraining", "cat", "dog")
    assert out.startswith(f"{next_sentence(berts['pretraining'], 'cat', 'dog'):.4f}  is next\n")
    best = classify(berts["classifier"], "cat")[0]
    out = ok("classify", "classifier", "cat")
    assert out.splitlines()[0] == f"{best.probability:.4f}  {best.label}"
    assert ok("classify", "classifier", "cat", "dog" + " " * 99 + "cat").count("\n") == 2
    words = tag(berts["tokens"], "red cats!")
    shown = json.loads(ok("tag", "tokens", "red cats!", "--format", "json"))
    assert [word["word"] for word in shown[0]["words"]] == ["red", "cats", "!"]
    assert words[1].label in ok("tag", "tokens", "red cats!").splitlines()[1]
    found = answer(berts["qa"], "who?", "the cat sat")
    assert ok("answer", "qa", "who?", "the cat sat").startswith(f"{found.text}\n{found.score:.4f}")


@pytest.mark.full
def test_similarity_prints_a_matrix_or_a_list(ok, saved):
    wanted = similarity(saved[1]["encoder"], TEXTS)
    out = ok("similarity", "encoder", *TEXTS[:3])
    row = out.splitlines()[-2].split()
    assert_allclose([float(value) for value in row[1:]], wanted[1, :3], atol=1e-3)
    shown = json.loads(ok("similarity", "encoder", *TEXTS, "--format", "json"))
    assert_allclose(shown["similarity"], wanted, atol=1e-5)
    pairs = ok("similarity", "encoder", *TEXTS).split("\n\n")[1].splitlines()
    assert len(pairs) == 13 * 12 // 2
    values = [float(pair.split()[0]) for pair in pairs]
    assert values == sorted(values, reverse=True)


@pytest.fixture(scope="module")
def incomplete(saved):
    """The folder of checkpoints, with more: half a pretraining head, and no vocabulary."""
    out, berts = saved
    both = {"next": "BertForNextSentencePrediction", "masked": "BertForMaskedLM"}
    for folder, architecture in both.items():
        kbert.save(berts["pretraining"], out / folder, architecture=architecture)
    kbert.save(dataclasses.replace(berts["encoder"], tokenizer=None), out / "wordless")
    return out


@pytest.mark.parametrize(
    ("name", "head", "arguments", "way_on"),
    [
        ("fill-mask", "encoder", ["[MASK]"], "kbert pretrain --init"),
        ("fill-mask", "next", ["[MASK]"], "kbert pretrain --init"),
        ("next-sentence", "masked", ["cat", "dog"], "kbert pretrain --init"),
        ("classify", "encoder", ["cat"], "kbert finetune --task classify"),
        ("tag", "classifier", ["cat"], "kbert finetune --task tag"),
        ("answer", "tokens", ["who?", "cat"], "kbert finetune --task qa"),
        ("similarity", "qa", ["cat", "dog", "--pooling", "pooler"], "choose another pooling"),
        ("similarity", "masked", ["cat", "dog", "--pooling", "pooler"], "choose another pooling"),
        ("similarity", "wordless", ["cat", "dog"], "put its vocab.txt into its folder"),
    ],
)
def test_refusal_names_a_command_that_helps(capsys, incomplete, name, head, arguments, way_on):
    """And no Python that leads to the same refusal again."""
    done = run(capsys, name, incomplete / head, *arguments)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert way_on in done.err
    assert "kbert.load(" not in done.err


def test_embed_writes_the_vectors_of_lines(ok, saved, tmp_path, monkeypatch):
    lines, out = tmp_path / "lines.txt", tmp_path / "vectors.npy"
    lines.write_bytes("\n".join(TEXTS).encode() + b"\r\n")
    says = ok("embed", "encoder", lines, "-o", out, "--pooling", "last", "--layers", 2)
    assert says == f"wrote {out}: 13 × 48 float32\n"
    wanted = embed(saved[1]["encoder"], TEXTS, pooling="last", layers=2)
    assert_allclose(np.load(out), wanted, atol=1e-6)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"cat\n\ndog")))
    ok("embed", "encoder", "-", "-o", out, "--normalize")
    wanted = embed(saved[1]["encoder"], ["cat", "", "dog"], normalize=True)
    assert_allclose(np.load(out), wanted, atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.txt", "vectors.npy"]


@pytest.mark.full
def test_embed_cuts_long_lines_or_reads_windows(ok, saved, tmp_path):
    lines, out = tmp_path / "lines.txt", tmp_path / "vectors.npy"
    lines.write_text("cat " * 30 + "\ndog\n")
    way_out = "long='window' (--long window) reads them whole"
    cut = f"kbert: embed: 1 of 2 texts cut to 17 tokens. {way_out}\n"
    ok("embed", "encoder", lines, "-o", out, says=cut)
    ok("embed", "encoder", lines, "-o", out, "--long", "window")
    wanted = embed(saved[1]["encoder"], "cat " * 30, long="window")
    assert_allclose(np.load(out)[0], wanted, atol=1e-6)


def test_attention_writes_the_functions_picture(ok, saved, tmp_path):
    out, same = tmp_path / "map.svg", tmp_path / "same.svg"
    assert ok("attention", "encoder", "cat sees", "dog", "-o", out, "--layer", 1).startswith(
        f"wrote {out} ("[:20]
    )
    attention(saved[1]["encoder"], "cat sees", "dog", layer=1).plot(same)
    assert out.read_bytes() == same.read_bytes()


@pytest.mark.parametrize("ending", ["html", "npz"])
def test_attention_writes_a_page_and_numbers(ok, saved, tmp_path, ending):
    out, same = tmp_path / f"map.{ending}", tmp_path / f"same.{ending}"
    options = ("--layer", 2, "--special", "hidden")
    says = ok("attention", "encoder", "cat sees", "dog", "-o", out, *options)
    assert says == f"wrote {out} ({out.stat().st_size:,} bytes)\n"
    found = attention(saved[1]["encoder"], "cat sees", "dog", layer=2)
    found.save(same, special="hidden")
    if ending == "npz":
        np.testing.assert_allclose(np.load(out)["queries"], found.queries, atol=1e-5)
    else:
        assert '"special": false' in out.read_text(encoding="utf-8")
        assert out.stat().st_size == same.stat().st_size


@pytest.mark.full
def test_attention_page_says_that_its_text_was_cut(ok, saved, tmp_path):
    cut = "kbert: attention: 1 of 1 texts cut to 17 tokens\n"
    ok("attention", "encoder", "cat " * 30, "-o", tmp_path / "map.html", says=cut)
    assert "it was cut to 17 tokens" in (tmp_path / "map.html").read_text(encoding="utf-8")


MISTAKES = [  # command, head, arguments; what the line must say
    ("fill-mask", "pretraining", ["cat"], ["[MASK]", "'cat'"]),
    ("fill-mask", "encoder", ["[MASK]"], ["'pretraining'", "'encoder'"]),
    ("classify", "encoder", ["cat"], ["'classifier'", "'encoder'"]),
    ("classify", "classifier", [], ["--lines", "neither"]),
    ("classify", "classifier", ["cat", "--lines", "-"], ["--lines", "both"]),
    ("tag", "qa", ["cat"], ["'tokens'", "'qa'"]),
    ("answer", "encoder", ["who?", "cat"], ["'qa'", "'encoder'"]),
    ("similarity", "encoder", ["cat"], ["at least two"]),
    ("embed", "encoder", ["latin.txt", "-o", "o.npy"], ["latin.txt, line 2", "UTF-8", "0xe9"]),
    ("embed", "encoder", ["empty.txt", "-o", "o.npy"], ["empty.txt", "it is empty"]),
    ("embed", "encoder", ["none.txt", "-o", "o.npy"], ["none.txt", "No such file"]),
    ("embed", "encoder", ["empty.txt"], ["--output"]),
    ("embed", "encoder", ["empty.txt", "-o", "o.txt"], [".npy", "o.txt"]),
    ("embed", "encoder", ["empty.txt", "-o", "nowhere/o.npy"], ["no such folder"]),
    ("attention", "encoder", ["cat", "-o", "map.gif"], [".png", "map.gif"]),
    ("attention", "encoder", ["cat", "-o", "map.png", "--layer", "3"], ["1 … 2", "got 3"]),
    ("attention", "encoder", ["cat", "-o", "map.html", "--head", "5"], ["1 … 4", "got 5"]),
    ("embed", "nowhere", ["latin1.txt", "-o", "o.npy"], ["latin1.txt"]),
    ("next-sentence", "nowhere", ["a", "b"], ["nowhere"]),
]


@pytest.mark.parametrize(("name", "head", "arguments", "says"), MISTAKES)
def test_mistake_gives_one_line(capsys, saved, tmp_path, monkeypatch, name, head, arguments, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.txt").write_bytes("cat\ncafé\n".encode("latin-1"))
    (tmp_path / "empty.txt").write_bytes(b"")
    before = sorted(tmp_path.iterdir())
    done = run(capsys, name, saved[0] / head, *arguments)
    assert (done.status, done.out) == (2, ""), done
    assert done.err.startswith("kbert: ") and done.err.count("\n") == 1, done.err
    for part in says:
        assert part in done.err
    assert sorted(tmp_path.iterdir()) == before
