"""What a user's functions and Keras metrics get of each task, and where they have no meaning."""

import keras
import numpy as np
import pytest
from helpers.errors import raises
from helpers.labelled_texts import QUIET
from keras import ops

import kbert

pytestmark = pytest.mark.full

SHORT = {"epochs": 1, "batch_size": 4, "max_length": 16, **QUIET}
NAMES = ("sad", "glad", "mad")
TEXTS = ["a cat", "red dog", "big red tree", "the sun . the moon"] * 3
CONTEXT = "big cat sun dog"
ROWS = {
    "classify": [(text, NAMES[n % 3]) for n, text in enumerate(TEXTS)],
    "multilabel": [(text, ["mad", NAMES[n % 2]][: n % 3]) for n, text in enumerate(TEXTS)],
    "regress": [(text, 2 * (n % 4) - 3) for n, text in enumerate(TEXTS)],
    "choice": [
        {"prompt": text, "choices": ["cat", "dog", "sun"][: 2 + n % 2], "label": n % 2}
        for n, text in enumerate(TEXTS)
    ],
    "tag": [
        (text.split(), [NAMES[len(word) % 3 - (word == "red")] for word in text.split()])
        for text in TEXTS
    ],
    "qa": [
        {"id": str(n), "question": "who", "context": CONTEXT, "answers": answers}
        for n, answers in enumerate(
            [
                {"text": ["cat"], "answer_start": [4]},
                {"text": [], "answer_start": []},
                {"text": ["sun dog", "dog"], "answer_start": [8, 12]},
            ]
            * 4
        )
    ],
    "embed": [("a cat", f"the {text}", n % 4 / 3) for n, text in enumerate(TEXTS)],
}


def cross_entropy(labels, logits):
    log_probs = ops.log_softmax(logits, axis=-1)
    return -ops.take_along_axis(log_probs, ops.expand_dims(labels, -1), axis=-1)[..., 0]


def binary_cross_entropy(labels, logits):
    return ops.relu(logits) - logits * labels + ops.log1p(ops.exp(-ops.abs(logits)))


def squared_error(labels, logits):
    return ops.square(labels - logits)


LOSSES = dict.fromkeys(("classify", "choice", "tag", "qa"), cross_entropy)
LOSSES |= {"multilabel": binary_cross_entropy, "regress": squared_error}


TIMES = {"seconds", "tokens_per_second", "mfu"}
WEIGHTED = {"class_weights": {"sad": 3.0, "mad": 0.5}}
WAYS = [
    *((task, {}) for task in LOSSES),
    ("classify", {"packing": True, **WEIGHTED}),
    *(
        pytest.param(task, options, marks=pytest.mark.full)
        for task, options in (
            ("tag", {"packing": True, **WEIGHTED}),
            ("classify", {"accumulation_steps": 5, "class_weights": "balanced"}),
            ("multilabel", {"accumulation_steps": 5}),
        )
    ),
]


@pytest.mark.parametrize(("task", "options"), WAYS)
def test_a_tasks_own_loss_as_a_function_trains_the_same(labelled, task, options):
    """Losses of steps and of dev data; one batch is not full, and lengths differ."""
    options = {"train": ROWS[task], "dev": ROWS[task], **SHORT, "batch_size": 5} | options
    source = labelled / "source"
    own = kbert.finetune(source, task, **options).history.updates
    users = kbert.finetune(source, task, loss=LOSSES[task], **options).history.updates
    assert len(own) == len(users) == 3
    for expected, found in zip(own, users, strict=True):
        assert found.keys() == expected.keys()
        for name in expected.keys() - TIMES:
            assert found[name] == pytest.approx(expected[name], rel=2e-4, abs=1e-6), name


SEEN = {}


def keep(labels, predictions):
    """A metric that keeps what it gets the last time before the intervals."""
    SEEN.setdefault("calls", []).append((labels, predictions))
    return 1.0


@pytest.fixture
def seen():
    SEEN.clear()
    return SEEN


@pytest.mark.parametrize("task", ROWS)
def test_functions_get_the_labels_and_predictions_of_all_examples(labelled, task, seen):
    """`evaluate` calls a function once."""
    rows = ROWS[task]
    done = kbert.finetune(labelled / "source", task, train=rows, **SHORT)
    metrics = kbert.evaluate(done.bert, task, rows, metrics=[keep])
    ((labels, predictions),) = seen["calls"]
    assert metrics["keep"] == 1.0
    if task == "classify":
        assert [done.bert.labels[n] for n in labels] == [label for _, label in rows]
        assert (labels.dtype.kind, predictions.shape) == ("i", (12, 3))
        assert metrics["accuracy"] == pytest.approx(np.mean(predictions.argmax(1) == labels))
    elif task == "multilabel":
        found = [{done.bert.labels[n] for n in np.flatnonzero(row)} for row in labels]
        assert found == [set(own) for _, own in rows]
        assert metrics["accuracy"] == np.mean(((predictions > 0) == (labels > 0.5)).all(1))
    elif task == "regress":
        assert labels == pytest.approx([number for _, number in rows])
        assert metrics["mse"] == pytest.approx(np.mean((labels - predictions) ** 2))
    elif task == "choice":
        assert labels.tolist() == [row["label"] for row in rows]
        assert np.isneginf(predictions[0, 2]) and np.isfinite(predictions[1]).all()
        assert metrics["accuracy"] == np.mean(predictions.argmax(1) == labels)
    elif task == "tag":
        assert labels == [own for _, own in rows]
        words = kbert.tag(done.bert, [words for words, _ in rows], progress=False)
        assert predictions == [[word.label for word in sentence] for sentence in words]
    elif task == "qa":
        assert labels == [row["answers"]["text"] for row in rows]
        assert all(text in CONTEXT for text in predictions)
        exact = np.mean([p in (own or [""]) for own, p in zip(labels, predictions, strict=True)])
        assert metrics["exact_match"] == pytest.approx(exact)
    else:
        assert labels == pytest.approx([score for *_, score in rows])
        first, second = kbert.embed(done.bert, list(rows[1][:2]), progress=False)
        expected = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
        assert predictions[1] == pytest.approx(expected, abs=1e-5)


KERAS = {
    "classify": (keras.metrics.SparseCategoricalAccuracy(name="own"), "accuracy"),
    "multilabel": (keras.metrics.BinaryCrossentropy(from_logits=True, name="own"), "loss"),
    "regress": (keras.metrics.MeanSquaredError(name="own"), "mse"),
    "choice": (keras.metrics.SparseCategoricalAccuracy(name="own"), "accuracy"),
    "tag": (keras.metrics.SparseCategoricalAccuracy(name="own"), "accuracy"),
}


@pytest.mark.parametrize("task", KERAS)
def test_keras_metrics_equal_the_tasks_own(labelled, task):
    metric, own = KERAS[task]
    rows = ROWS[task]
    options = {"train": rows, "dev": rows, "metrics": [metric], **SHORT}
    metrics = kbert.finetune(labelled / "source", task, **options).metrics
    assert metrics["own"] == pytest.approx(metrics[own], rel=1e-5)


def test_keras_metrics_that_need_one_hot_labels_get_them(labelled):
    rows = ROWS["classify"]
    metric = keras.metrics.F1Score(average="macro", name="own")
    options = {"train": rows, "dev": rows, "metrics": [metric], "score": "own", **SHORT}
    metrics = kbert.finetune(labelled / "source", "classify", **options).metrics
    assert metrics["own"] == pytest.approx(metrics["f1"], abs=0.35)  # the mean of all labels


@pytest.mark.parametrize(
    ("task", "rows", "options"),
    [
        ("qa", ROWS["qa"], {"metrics": [keras.metrics.SparseCategoricalAccuracy()]}),
        ("embed", [row[:2] for row in ROWS["embed"]], {"metrics": [keep]}),
        ("embed", ROWS["embed"], {"loss": squared_error}),
        ("embed", ROWS["embed"], {"loss": "cross_entropy"}),
        ("tag", ROWS["tag"], {"loss": "cosent"}),
    ],
)
def test_what_has_no_meaning_is_refused(labelled, tmp_path, task, rows, options):
    data = {"train": rows, "dev": rows, "output": tmp_path / "run"}
    with raises(ValueError, next(iter(options))):
        kbert.finetune(labelled / "source", task, **data, **options, **SHORT)
    assert not (tmp_path / "run").exists()


@pytest.mark.full
@pytest.mark.parametrize("loss", ["huber", "absolute_error"])
def test_regression_learns_by_other_losses_and_from_a_teacher(labelled, loss):
    rows = ROWS["regress"]
    options = {
        "train": rows,
        "dev": rows,
        "loss": loss,
        **SHORT,
        "epochs": 30,
        "learning_rate": 1e-2,
    }
    first = kbert.finetune(labelled / "source", "regress", **options)
    losses = [line["val_loss"] for line in first.history.evaluations]
    assert losses[-1] < 0.7 * losses[0]
    student = kbert.finetune(labelled / "source", "regress", teacher=first.bert, **options)
    assert student.metrics["loss"] < 0.7 * losses[0]


def test_a_teacher_teaches_beside_the_users_loss(labelled):
    """The labels' part is the user's loss, the teacher's part stays the task's."""
    rows, source = ROWS["classify"], labelled / "source"
    teacher = kbert.finetune(source, "classify", train=rows, **SHORT).bert
    options = {"train": rows, "teacher": teacher, "alpha": 0.3, **SHORT}
    own, users = (
        kbert.finetune(source, "classify", **options, **loss).history.updates
        for loss in ({}, {"loss": cross_entropy})
    )
    for expected, found in zip(own, users, strict=True):
        for name in expected.keys() - TIMES:
            assert found[name] == pytest.approx(expected[name], rel=2e-4, abs=1e-6), name
