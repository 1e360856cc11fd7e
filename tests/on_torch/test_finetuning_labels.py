"""Fine-tuning for numbers and for several labels, beside transformers; weights of classes."""

import dataclasses
import json

import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import check_logged, check_named, raises
from helpers.small_berts import small_bert

import kbert
from kbert.data.labelled.length_buckets import IGNORED, BucketedBatches, Examples
from kbert.data.labelled.packed_batches import PackedBatches
from kbert.graph.names import CLASSIFIER
from kbert.tasks.classification.training import MULTI_LABEL, REGRESSION
from kbert.tasks.classification.training import TASK as CLASSIFY
from kbert.tasks.finetuning.batches import balance_classes

pytestmark = pytest.mark.full

torch = pytest.importorskip("torch")
WORDS = ["sun", "moon", "red", "big", "tree", "."]
SETTINGS = {"epochs": 25, "batch_size": 13, "learning_rate": 1e-2, "seed": 4}
SETTINGS |= {"evaluate_every": 50, "progress": False, "peak_flops": 1e9}


def texts_with_cats_and_dogs(count: int, seed: int) -> list[tuple[str, int, int]]:
    """Texts, and how many cats and dogs there are in each."""
    random, found = np.random.default_rng(seed), []
    for _ in range(count):
        cats, dogs = random.integers(0, 2, 2)
        words = [*random.choice(WORDS, random.integers(2, 9)), *["cat"] * cats, *["dog"] * dogs]
        found.append((" ".join(random.permutation(words)), int(cats), int(dogs)))
    return found


def label_of(task: str, cats: int, dogs: int) -> str:
    if task == "regress":
        return str(cats - 0.5 * dogs)
    return ",".join(["cat"] * cats + ["dog"] * dogs)


@pytest.fixture(scope="module")
def source(small):
    config = dataclasses.replace(small, num_hidden_layers=1, initializer_range=0.2)
    return small_bert(config, "encoder")


@pytest.fixture(scope="module", params=["regress", "multilabel"])
def tuned(request, source, tmp_path_factory):
    """(task, folder with its run and data, what came of it)."""
    folder, task = tmp_path_factory.mktemp("tuned"), request.param
    for name, count, seed in (("train", 66, 1), ("dev", 23, 2)):
        rows = texts_with_cats_and_dogs(count, seed)
        lines = [f"{text}\t{label_of(task, *animals)}" for text, *animals in rows]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    data = {"train": folder / "train.tsv", "dev": folder / "dev.tsv"}
    done = kbert.finetune(source, task, output=folder / "run", **data, **SETTINGS)
    return task, folder, done


def test_regression_and_multilabel_learn(tuned):
    task, _, done = tuned
    losses = [line["Classifier_loss"] for line in done.history.updates]
    assert np.mean(losses[-6:]) < 0.5 * np.mean(losses[:6])
    if task == "regress":
        assert done.metrics["pearson"] > 0.9 and done.metrics["spearman"] > 0.8
        assert done.metrics["mse"] == pytest.approx(done.metrics["loss"], rel=1e-4)
        assert "Classifier_absolute_error" in done.history.updates[-1]
    else:
        assert done.bert.labels == ("cat", "dog")
        assert done.metrics["f1"] > 0.9 and done.metrics["map"] > 0.9


@pytest.mark.full
def test_transformers_finds_the_same_loss(tuned):
    """Its own loss, which config.json's problem_type decides on."""
    transformers = pytest.importorskip("transformers")
    task, folder, done = tuned
    peer = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "run" / "model")
    peer.eval()
    assert peer.config.problem_type == done.bert.problem_type
    losses, found = [], []
    for text, cats, dogs in texts_with_cats_and_dogs(23, 2):
        ids = torch.tensor([done.bert.tokenizer.encode(text).ids])
        gold = [cats - 0.5 * dogs] if task == "regress" else [[float(cats), float(dogs)]]
        with torch.no_grad():
            out = peer(input_ids=ids, labels=torch.tensor(gold))
        losses.append(out.loss.item())
        found.append(out.logits[0].numpy())
    assert done.metrics["loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    texts = [text for text, *_ in texts_with_cats_and_dogs(23, 2)]
    if task == "regress":
        said = kbert.regress(done.bert, texts)
        np.testing.assert_allclose(said, np.ravel(found), rtol=1e-4, atol=1e-5)
        assert kbert.regress(done.bert, texts[0]) == pytest.approx(float(said[0]), rel=1e-5)
    else:
        for labels, logits in zip(kbert.classify(done.bert, texts), found, strict=True):
            each = {label.label: label.probability for label in labels}
            expected = 1 / (1 + np.exp(-logits.astype(float)))
            assert [each["cat"], each["dog"]] == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.mark.parametrize("form", ["model", "model.keras"])
def test_saved_model_keeps_its_problem_type(tuned, form):
    task, folder, done = tuned
    again = kbert.load(folder / "run" / form)
    assert (again.problem_type, again.labels) == (done.bert.problem_type, done.bert.labels)
    assert kbert.evaluate(again, task, folder / "dev.tsv") == pytest.approx(done.metrics, rel=1e-5)


def test_regress_command_prints_the_number(tuned, capsys):
    task, folder, done = tuned
    said = kbert_command(capsys, "regress", folder / "run" / "model", "a cat .")
    if task == "regress":
        assert float(said.out) == pytest.approx(kbert.regress(done.bert, "a cat ."), abs=1e-4)
    else:
        assert (said.status, said.err.count("\n")) == (2, 1)
        assert "one output" in said.err and "2" in said.err


def test_rows_in_memory_are_as_those_of_the_file(tmp_path):
    lines = ["a cat\tcat", "nothing\t", "both\tcat, dog"]
    (tmp_path / "a.tsv").write_text("\n".join(lines) + "\n")
    rows = [("a cat", ["cat"]), ("nothing", []), ("both", ["cat", "dog"])]
    objects = [{"text": text, "labels": labels} for text, labels in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, objects)) + "\n")
    task = MULTI_LABEL
    read = [record.label for record in task.read(tmp_path / "a.tsv")]
    assert read == [("cat",), (), ("cat", "dog")]
    assert [record.label for record in task.read(tmp_path / "a.jsonl")] == read
    assert [record.label for record in task.read(rows, "train")] == read
    assert [record.label for record in task.read(objects, "train")] == read
    numbered = REGRESSION.read([("a", 2), ("b", 2.5), ("c", "-1e-1")], "train")
    assert [record.label for record in numbered] == [2.0, 2.5, -0.1]


@pytest.mark.parametrize(
    ("task", "line", "said"),
    [
        ("regress", "a text\tfour", ("line 2", "'four'")),
        ("regress", "a text\tnan", ("line 2", "'nan'")),
        ("multilabel", "a text\tcat,,dog", ("line 2",)),
    ],
)
def test_a_wrong_row_is_named(tmp_path, task, line, said):
    (tmp_path / "a.tsv").write_text(f"first\t1\n{line}\n")
    found = {"regress": REGRESSION, "multilabel": MULTI_LABEL}[task]
    with raises(ValueError, *said):
        found.read(tmp_path / "a.tsv")


@pytest.mark.full
def test_columns_are_settings_of_a_run_and_options(source, tmp_path, capsys):
    rows = [("dull", "bad"), ("fine", "good"), ("a fine film", "good"), ("a dull film", "bad")]
    (tmp_path / "a.csv").write_text("".join(f"{b},{a}\n" for a, b in [("body", "mood"), *rows]))
    named = {"text_column": "body", "label_column": "mood"}
    data = tmp_path / "a.csv"
    done = kbert.finetune(
        source,
        "classify",
        train=data,
        dev=data,
        output=tmp_path / "run",
        **(SETTINGS | {"epochs": 1} | named),
    )
    assert done.bert.labels == ("bad", "good") and len(done.history.updates) == 1
    kept = json.loads((tmp_path / "run" / "settings.json").read_text())["settings"]
    assert {name: kept[name] for name in named} == named and kept["no_header"] is False
    said = kbert_command(
        capsys,
        *("finetune", str(tmp_path / "run"), "--task", "classify", "--train", str(data)),
        *("-o", str(tmp_path / "other"), "--text-column", "mood", "--label-column", "no"),
    )
    assert (said.status, said.err.count("\n")) == (2, 1) and not (tmp_path / "other").exists()
    check_named(said.err, "a.csv, line 1", "'no'", "mood, body")


def test_bad_options_are_one_line(source, tmp_path):
    rows = [("a", 1), ("b", 2)]
    with raises(ValueError, "train[0]", '"label"', "[1]"):
        kbert.finetune(source, "regress", train=[("a", [1]), ("b", 2)])
    with raises(ValueError, "label_smoothing"):
        kbert.finetune(source, "regress", train=rows, label_smoothing=0.1)
    with raises(ValueError, "class_weights", "'most'"):
        kbert.finetune(source, "classify", train=rows, class_weights="most")
    with raises(ValueError, "labels"):
        kbert.finetune(source, "multilabel", train=[("a", []), ("b", [])])


def test_constant_predictions_have_no_correlation(messages):
    examples = Examples([[1]] * 3, [[0]] * 3, {CLASSIFIER: [1.0, 2.0, 3.5]})
    outputs = {CLASSIFIER: [np.float32([0.5])] * 3}
    found = REGRESSION.scores([], examples, outputs, ("score",)).metrics()
    assert (found["pearson"], found["spearman"]) == (0.0, 0.0)
    check_logged(messages, "all 3", "0.5")


def test_balanced_classes_weigh_as_torchs_cross_entropy_does():
    """With scikit-learn's weights, n / (classes · count), in the mean that torch takes."""
    labels = [0] * 7 + [1] * 3 + [2]
    rows = [[5] * (2 + place % 4) for place in range(11)]
    examples = Examples(rows, [[0] * len(row) for row in rows], {CLASSIFIER: labels})
    balanced = balance_classes(examples, 3)
    expected = np.array([11 / (3 * count) for count in (7, 3, 1)])
    np.testing.assert_allclose(balanced.class_weights[CLASSIFIER], expected)
    assert balanced.digest() != examples.digest()
    batch = BucketedBatches(balanced, batch_size=13).batch(0)
    logits = np.random.default_rng(3).standard_normal((13, 3)).astype("float32")
    kept = batch.weights[CLASSIFIER] > 0
    given = torch.tensor(logits[kept]), torch.tensor(batch.labels[CLASSIFIER][kept]).long()
    each = torch.nn.functional.cross_entropy(*given, reduction="none").numpy()
    peer = torch.nn.functional.cross_entropy(*given, weight=torch.tensor(expected).float())
    assert (each * batch.weights[CLASSIFIER][kept]).sum() == pytest.approx(peer.item(), rel=1e-5)


def test_labels_of_tokens_are_balanced_too():
    rows = [[5] * 4, [5] * 3]
    labels = [[IGNORED, 0, 0, IGNORED], [IGNORED, 1, IGNORED]]
    examples = Examples(rows, [[0] * len(row) for row in rows], {"Tokens": labels})
    batch = BucketedBatches(balance_classes(examples, 2), batch_size=2).batch(0)
    weights, counted = batch.weights["Tokens"], batch.weights["Tokens"] > 0
    assert counted.sum() == 3 and weights.sum() == pytest.approx(1)
    rare = batch.labels["Tokens"] == 1
    assert weights[counted & rare].sum() == pytest.approx(0.5)


def test_packed_texts_keep_their_several_labels():
    each = [np.float32([1, 0, 1]), np.float32([0, 0, 1]), np.float32([0, 1, 0])]
    rows = [[5] * length for length in (3, 4, 2)]
    examples = Examples(rows, [[0] * len(row) for row in rows], {CLASSIFIER: each})
    batch = PackedBatches(examples, batch_size=3, row_length=16).batch(0)
    assert batch.labels[CLASSIFIER].shape == (3, 3)
    assert sorted(map(tuple, batch.labels[CLASSIFIER])) == sorted(map(tuple, each))
    np.testing.assert_allclose(batch.weights[CLASSIFIER], 1 / 9, rtol=1e-6)


def test_regression_target_of_minus_100_counts():
    """In labels of classes that is one that is ignored."""
    examples = Examples([[5, 6]] * 2, [[0, 0]] * 2, {CLASSIFIER: [-100.0, 3.0]})
    batch = BucketedBatches(examples, batch_size=2).batch(0)
    assert sorted(batch.labels[CLASSIFIER]) == [-100.0, 3.0]
    np.testing.assert_allclose(batch.weights[CLASSIFIER], 0.5)
    assert (
        examples.digest()
        != dataclasses.replace(examples, labels={CLASSIFIER: [-100.0, 3.25]}).digest()
    )


def test_comma_in_a_single_label_is_kept(tmp_path):
    (tmp_path / "a.tsv").write_text("a text\tcat, dog\n")
    assert CLASSIFY.read(tmp_path / "a.tsv")[0].label == "cat, dog"
