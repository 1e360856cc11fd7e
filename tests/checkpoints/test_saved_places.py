"""A SavedModel of texts gives the words of `kbert.tag` and the answers of `kbert.answer`."""

import dataclasses
import random
import subprocess
import sys

import numpy as np
import pytest
from helpers import texts
from helpers.small_berts import TEXTS, small_berts
from numpy.testing import assert_allclose

import kbert

pytestmark = pytest.mark.full
pytest.importorskip("tensorflow_text", reason="pip install --no-deps tensorflow-text")

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
LINES = TEXTS + texts.ALL
WORDS = ["cat", "dog", "sun É", "\x01", "zzz", "[MASK]", ".", "中国", "a\u0301\u0323"]
SERVE = """
import sys
import numpy as np, tensorflow as tf, tensorflow_text
data = np.load(sys.argv[1], allow_pickle=True)
for head in ("tokens", "qa"):
    served = tf.saved_model.load(head).signatures["serving_default"]
    names = served.structured_input_signature[1]
    found = served(**{name: tf.constant(list(data[name])) for name in names})
    np.savez(head + ".npz", **{name: tensor.numpy() for name, tensor in found.items()})
assert not [name for name in sys.modules if name.split(".")[0] in ("kbert", "keras_hub")]
"""


@pytest.fixture(scope="module")
def berts(small):
    made = small_berts(small)
    return made | {"tokens": dataclasses.replace(made["tokens"], labels=LABELS)}


@pytest.fixture(scope="module")
def folder(berts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    for head in ("tokens", "qa"):
        kbert.save(berts[head], folder / head, format="saved_model", text=True)
    return folder


@pytest.fixture(scope="module")
def asked() -> tuple[list[str], list[str]]:
    """Questions, and contexts of one to many windows of the small model's 17 positions."""
    seeded = random.Random(4)

    def text(least: int, most: int) -> str:
        return " ".join(seeded.choices(WORDS, k=seeded.randint(least, most)))

    return [text(0, 5) for _ in range(23)], [text(1, 90) + " cat" for _ in range(23)]


@pytest.fixture(scope="module")
def answer(folder):
    import tensorflow as tf

    loaded = tf.saved_model.load(str(folder / "qa"))

    def call(name: str = "serving_default", **given) -> dict:
        given = {key: tf.constant(value) for key, value in given.items()}
        return {key: v.numpy() for key, v in loaded.signatures[name](**given).items()}

    return call


def check_words(found, wanted) -> None:
    assert {len(row) for row in found["words"]} == {max(map(len, wanted))}
    for place, row in enumerate(wanted):
        part, rest = slice(len(row)), slice(len(row), None)
        columns = [found[name][place][part] for name in ("words", "labels", "starts", "ends")]
        expected = [(one.word.encode(), one.label.encode(), one.start, one.end) for one in row]
        assert list(zip(*columns, strict=True)) == expected
        expected = [one.probability for one in row]
        assert_allclose(found["probabilities"][place][part], expected, atol=1e-5)
        fillers = {"words": b"", "labels": b"", "probabilities": 0, "starts": -1, "ends": -1}
        assert all((found[name][place][rest] == filler).all() for name, filler in fillers.items())


def check_answers(found, wanted) -> None:
    places = zip(found["answer"], found["start"], found["end"], strict=True)
    got = [(text.decode(), start, end) for text, start, end in places]
    assert got == [(one.text, one.start, one.end) for one in wanted]
    assert_allclose(found["score"], [one.score for one in wanted], atol=1e-5)
    assert_allclose(found["odds"], [one.odds for one in wanted], atol=1e-4)


def test_served_words_and_answers_are_kberts(berts, folder, asked):
    """Accents, ideographs, control characters, [MASK]s; texts that are cut, many windows."""
    from kbert.checkpoints.exports.text_spans import WINDOWS

    least = sum(len(context.split()) // 17 for context in asked[1])
    assert least > WINDOWS
    given = {"texts": LINES, "questions": asked[0], "contexts": asked[1]}
    arrays = {name: np.array([t.encode() for t in lines], object) for name, lines in given.items()}
    np.savez(folder / "in.npz", **arrays)
    subprocess.run([sys.executable, "-c", SERVE, "in.npz"], check=True, cwd=folder)
    for head, check, wanted in (
        ("tokens", check_words, kbert.tag(berts["tokens"], LINES)),
        ("qa", check_answers, kbert.answer(berts["qa"], *asked)),
    ):
        with np.load(folder / f"{head}.npz", allow_pickle=True) as found:
            check(dict(found), wanted)


@pytest.mark.parametrize(
    "share",
    [
        0.47,
        pytest.param(0.0, marks=pytest.mark.nightly),
        pytest.param(1.0, marks=pytest.mark.nightly),
    ],
)
def test_answers_above_the_threshold_are_none_as_by_answer(berts, asked, answer, share):
    questions, contexts = asked
    odds = answer(questions=questions, contexts=contexts)["odds"]
    threshold = float(np.quantile(odds, share)) + 1e-3
    given = {"questions": questions, "contexts": contexts}
    found = answer("no_answer", **given, no_answer_threshold=[threshold] * len(questions))
    assert (found["answer"] == b"").sum() == (odds > threshold).sum()
    check_answers(found, kbert.answer(berts["qa"], *asked, no_answer_threshold=threshold))


@pytest.mark.parametrize(
    ("question", "context", "said"),
    [
        ("cat", " \x00\u0301", "contexts must have a token each, got one without"),
        ("cat " * 14, "dog", "questions must leave room for a token of the context"),
    ],
)
def test_served_model_refuses_what_answer_refuses(answer, question, context, said):
    import tensorflow as tf

    given = {"questions": ["sun", question], "contexts": ["a dog", context]}
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        answer(**given)


def test_untrained_head_cannot_be_served(berts, tmp_path):
    kbert.save(berts["encoder"], tmp_path / "in")
    for head in ("tokens", "qa"):
        bert = kbert.load(tmp_path / "in", head=head)
        with pytest.raises(
            ValueError, match=r"needs the weights of .*but they are not in the checkpoint"
        ):
            kbert.save(bert, tmp_path / "out", format="saved_model", text=True)
