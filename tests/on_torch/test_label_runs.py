"""Labels of a run: their order, what it says of them, the label of F1, and what evaluate keeps."""

import dataclasses
import json

import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import check_logged, check_named, raises
from helpers.labelled_texts import QUIET, SETTINGS, read_texts, tune
from helpers.small_berts import change_weights, small_bert

import kbert
from kbert.data.labelled.columns import ColumnOptions
from kbert.tasks.finetuning.task import records_of, task_of

NAMES = ("sad", "glad", "mad")  # in no alphabetical order, as many checkpoints have them
STILL = {"epochs": 1, "batch_size": 12, "learning_rate": 1e-12, "seed": 4} | QUIET
TEXTS = ["a cat", "red dog", "big red tree", "the sun . the moon"] * 3
ROWS = {
    "classify": [(text, NAMES[n % 3]) for n, text in enumerate(TEXTS)],
    "multilabel": [
        (text, list(dict.fromkeys([NAMES[n % 3], "mad"]))[: 1 + n % 2])
        for n, text in enumerate(TEXTS)
    ],
    "tag": [
        (text.split(), [NAMES[(n + m) % 3] for m, _ in enumerate(text.split())])
        for n, text in enumerate(TEXTS)
    ],
}
HEADS = {"classify": "classifier", "multilabel": "classifier", "tag": "tokens"}


@pytest.fixture(scope="module")
def sources(small):
    """A model of each task's head, with three labels."""
    config = small.replace(num_hidden_layers=1)

    def make(head: str):
        model = kbert.build_bert(config, head=head, seq_len=None, num_labels=3)
        bert = small_bert(config, head)
        return dataclasses.replace(bert, model=change_weights(model), labels=NAMES)

    return {task: make(head) for task, head in HEADS.items()}


@pytest.mark.parametrize("task", ROWS)
def test_trained_head_is_reused_whatever_the_order_of_its_labels(sources, task, messages):
    """The loss of a run that changes nothing is that of its source."""
    rows = ROWS[task]
    done = kbert.finetune(sources[task], task, train=rows, dev=rows, **STILL)
    assert done.bert.labels == NAMES
    assert not [line for line in messages if "head" in line]
    expected = kbert.evaluate(sources[task], task, rows)
    assert done.metrics == pytest.approx(expected, rel=1e-4)


@pytest.mark.full
def test_loss_of_a_reused_head_is_that_of_transformers_by_label2id(sources, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    rows = ROWS["classify"]
    done = kbert.finetune(sources["classify"], "classify", train=rows, dev=rows, **STILL)
    kbert.save(sources["classify"], tmp_path / "source")
    peer = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "source")
    losses = []
    for text, label in rows:
        ids = torch.tensor([done.bert.tokenizer.encode(text).ids])
        target = torch.tensor([peer.config.label2id[label]])
        with torch.no_grad():
            losses.append(peer.eval()(input_ids=ids, labels=target).loss.item())
    assert done.metrics["loss"] == pytest.approx(np.mean(losses), rel=1e-4)


@pytest.mark.full
def test_fewer_labels_keep_the_head_and_others_get_a_new_one(sources, messages):
    source = sources["classify"]
    few = [row for row in ROWS["classify"] if row[1] != "sad"]
    done = kbert.finetune(source, "classify", train=few, dev=few, class_weights="balanced", **STILL)
    assert done.bert.labels == NAMES
    check_logged(messages, "sad")
    assert done.metrics["loss"] == pytest.approx(
        kbert.evaluate(source, "classify", few)["loss"], rel=1e-4
    )
    more = [*ROWS["classify"], ("a mat", "bad")] * 2
    new = kbert.finetune(source, "classify", train=more, **STILL)
    assert new.bert.labels == ("bad", "glad", "mad", "sad")
    check_logged(messages, "head", "bad, glad, mad, sad")


def test_numbered_labels_among_more_numbers_are_not_the_same(sources):
    """0 and 1 of some data are not two of the three labels of a head without names."""
    unnamed = dataclasses.replace(sources["classify"], labels=None)
    rows = [(text, n % 2) for n, text in enumerate(TEXTS)]
    assert kbert.finetune(unnamed, "classify", train=rows, **STILL).bert.labels == ("0", "1")


def test_teacher_may_have_the_labels_in_another_order(labelled, sources):
    """Its outputs go by name: the same teacher with its columns swapped teaches the same."""
    student = labelled / "source"
    teacher = sources["classify"]
    order = [2, 0, 1]
    model = kbert.build_bert(teacher.config, head="classifier", seq_len=None, num_labels=3)
    for weight, value in zip(model.weights, teacher.model.get_weights(), strict=True):
        weight.assign(value[..., order] if value.shape[-1] == 3 else value)
    swapped = dataclasses.replace(
        teacher, model=model, labels=tuple(NAMES[number] for number in order)
    )
    losses = []
    for bert in (teacher, swapped):
        options = {"train": ROWS["classify"], "teacher": bert, "alpha": 0.7, **SETTINGS, **QUIET}
        done = kbert.finetune(student, "classify", **options)
        assert done.bert.labels == tuple(sorted(NAMES))
        losses.append([line["loss"] for line in done.history.updates])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


LEARNED = {  # by task: rows, facts of the run's settings.json, and what the log says
    "classify": (
        [*[("it rained", "legit")] * 9, *[("a goal", "fraud")] * 3],
        {"examples": 12, "labels": {"fraud": 3, "legit": 9}, "pairs": False},
        ["2 labels: fraud (3), legit (9)", "accuracy", "'legit'"],
    ),
    "multilabel": (
        [("it rained", ["wet", "cold"]), ("a goal", []), ("snow", ["cold"])] * 2,
        {"examples": 6, "labels": {"cold": 4, "wet": 2}, "without_a_label": 2},
        ["2 labels: cold (4), wet (2)"],
    ),
    "regress": (
        [("it rained", "a storm", 0.5), ("a goal", "a cup", 3), ("snow", "ice", -1)],
        {"examples": 3, "pairs": True, "numbers": {"lowest": -1, "highest": 3, "mean": 2.5 / 3}},
        ["-1", "3", "spearman"],
    ),
    "tag": (
        [(["ada", "saw", "rome"], ["B-PER", "O", "B-LOC"])] * 2,
        {"words": 6, "labels": {"B-LOC": 2, "B-PER": 2, "O": 2}, "entity_types": ["LOC", "PER"]},
        ["B-LOC (2)", "LOC, PER", "f1"],
    ),
    "choice": (
        [{"prompt": "a", "choices": ["cat", "dog"], "label": n % 2} for n in range(3)],
        {"examples": 3, "choices": {"2": 3}, "right_choice": {"0": 2, "1": 1}},
        ["accuracy"],
    ),
    "embed": (
        [("a cat", "the cat"), ("a dog", "the dog"), ("the sun", "a moon")],
        {"examples": 3, "kind": "pairs"},
        ["pairs", "recall@1"],
    ),
    "qa": (
        [
            {"id": "1", "question": "who", "context": "the big cat", "answers": answers}
            for answers in (
                {"text": ["cat"], "answer_start": [8]},
                {"text": [], "answer_start": []},
            )
        ],
        {"examples": 2, "without_an_answer": 1},
        ["without an answer: 1", "f1"],
    ),
}


@pytest.mark.parametrize("task", LEARNED)
def test_run_says_and_records_what_it_learns(labelled, tmp_path, messages, task):
    rows, facts, said = LEARNED[task]
    options = {"epochs": 1, "batch_size": 4, "max_length": 16, **QUIET}
    source = labelled / "source"
    kbert.finetune(source, task, train=rows, dev=rows, output=tmp_path / "run", **options)
    data = json.loads((tmp_path / "run" / "settings.json").read_text())["data"]
    for name in ("train", "dev"):
        assert {key: data[name][key] for key in facts} == facts
    check_named("\n".join(messages), *said, data["score"])


@pytest.mark.full
def test_columns_that_are_read_are_named(labelled, tmp_path, messages):
    lines = "stars,note,body\n" + "low,x,a dog\nhigh,y,a cat\n" * 3
    (tmp_path / "a.csv").write_text(lines)
    columns = {"text_column": "body", "label_column": "stars"}
    tune(labelled, tmp_path / "run", train=tmp_path / "a.csv", dev=None, epochs=1, **columns)
    data = json.loads((tmp_path / "run" / "settings.json").read_text())["data"]
    assert data["train"]["columns"] == {"texts": ["body"], "label": "stars"}
    check_logged(messages, "body (text)", "stars (label)")


@pytest.mark.full
def test_many_labels_are_shortened_in_the_log_and_whole_in_the_file(labelled, tmp_path, messages):
    rows = [(f"a cat {n}", f"label {n % 40:02}") for n in range(120)] + [("a dog", "label 39")]
    tune(labelled, tmp_path / "run", train=rows, dev=None, epochs=1)
    data = json.loads((tmp_path / "run" / "settings.json").read_text())["data"]
    assert len(data["train"]["labels"]) == 40 and data["train"]["labels"]["label 39"] == 4
    (line,) = [line for line in messages if "40 labels" in line]
    assert "label 39 (4), " in line and len(line) < 400


def count_f1(gold: list[str], predicted: list[str], positive: str) -> float:
    """F1 of a label as it is defined: 2·TP / (2·TP + FP + FN)."""
    hits = sum(a == b == positive for a, b in zip(gold, predicted, strict=True))
    return 2 * hits / (gold.count(positive) + predicted.count(positive))


@pytest.fixture(scope="module")
def chosen(labelled, tmp_path_factory):
    """A run whose F1 is that of the first label, and its dev data."""
    folder = tmp_path_factory.mktemp("chosen") / "run"
    return tune(labelled, folder, positive_label="bad", epochs=1), labelled / "dev.tsv"


def test_positive_label_is_chosen_recorded_and_used_by_evaluate(chosen, capsys):
    done, data = chosen
    texts, gold = read_texts(data)
    predicted = [best.label for best, *_ in kbert.classify(done.bert, texts, progress=False)]
    of_bad, of_good = (count_f1(gold, predicted, label) for label in ("bad", "good"))
    assert of_bad != of_good
    assert done.metrics["f1"] == pytest.approx(of_bad)
    settings = json.loads((done.folder / "settings.json").read_text())["settings"]
    assert settings["positive_label"] == "bad"
    assert kbert.evaluate(done.folder, "classify", data)["f1"] == pytest.approx(of_bad)
    other = kbert.evaluate(done.folder, "classify", data, positive_label="good")
    assert other["f1"] == pytest.approx(of_good)
    line = ("evaluate", done.folder, "--data", data, "--format", "json")
    assert json.loads(kbert_command(capsys, *line).out)["f1"] == pytest.approx(of_bad)
    line = (*line, "--positive-label", "good")
    assert json.loads(kbert_command(capsys, *line).out)["f1"] == pytest.approx(of_good)


def test_positive_label_that_there_is_not_is_refused(labelled, chosen, tmp_path):
    with raises(ValueError, "positive_label", "bad, good", "'fine'"):
        tune(labelled, tmp_path / "run", positive_label="fine")
    assert not (tmp_path / "run").exists()
    with raises(ValueError, "positive_label", "classify", "regress"):
        kbert.finetune(labelled / "source", "regress", train=[("a", 1)], positive_label="1")
    with raises(ValueError, "positive_label", "bad, good", "'fine'"):
        kbert.evaluate(chosen[0].bert, "classify", chosen[1], positive_label="fine")


@pytest.mark.parametrize("task", ["classify", "tag", "multilabel"])
def test_one_class_alone_is_reported_once(labelled, messages, task):
    """A model that is not trained: its head has zeros and one bias."""
    rows = ROWS[task]
    done = kbert.finetune(labelled / "source", task, train=rows, **STILL)
    weights = done.bert.model.layers[-1].weights
    for weight in weights:
        weight.assign(np.zeros(weight.shape))
    weights[-1].assign(np.array([-1.0, 2.0, -1.0]))
    messages.clear()
    kbert.evaluate(done.bert, task, rows)
    reports = [line for line in messages if repr(sorted(NAMES)[1]) in line]
    assert [line for line in reports if line.startswith("data: all ")] == reports[-1:]
    messages.clear()
    kbert.finetune(done.bert, task, train=rows, dev=rows, **STILL | {"epochs": 3})
    assert sum(line.startswith("dev: all ") for line in messages) == 1


def test_evaluate_of_a_run_has_the_runs_columns_and_length(labelled, tmp_path, capsys):
    """Else the texts would be cut elsewhere, and the columns be others."""
    rows = [
        f"{'sun moon ' * 9}{text},{label},{text}"
        for text, label in zip(*read_texts(labelled / "dev.tsv"), strict=True)
    ]
    data = tmp_path / "a.csv"
    data.write_text("\n".join(["text,mood,body", *rows]) + "\n")
    own = {"text_column": "text", "label_column": "mood", "max_length": 9}
    done = tune(labelled, tmp_path / "run", train=data, dev=data, epochs=1, **own)
    for source in (done.folder, done.folder / "model", str(done.folder / "model.keras")):
        found = kbert.evaluate(source, "classify", data)
        assert found == pytest.approx(done.metrics, rel=1e-5)
    printed = kbert_command(capsys, "evaluate", done.folder, "--data", data, "--format", "json")
    assert json.loads(printed.out) == pytest.approx(done.metrics, rel=1e-5)
    whole = kbert.evaluate(done.folder, "classify", data, max_length=17)
    assert whole["loss"] != pytest.approx(done.metrics["loss"], rel=1e-5)
    body = kbert.evaluate(done.folder, "classify", data, text_column="body")
    assert body == pytest.approx(
        kbert.evaluate(done.bert, "classify", data, **own | {"text_column": "body"})
    )
    pairs = [(text, label) for text, label in zip(*read_texts(labelled / "dev.tsv"), strict=True)]
    assert kbert.evaluate(done.folder, "classify", pairs) == pytest.approx(body)


@pytest.mark.full
def test_run_without_a_header_reads_a_file_with_one_by_its_names(labelled, tmp_path):
    own = {"no_header": True, "text_column": "1", "label_column": "2"}
    done = tune(labelled, tmp_path / "run", epochs=1, **own)
    expected = pytest.approx(done.metrics, rel=1e-5)
    assert kbert.evaluate(done.folder, "classify", labelled / "dev.tsv") == expected
    data = tmp_path / "b.tsv"
    data.write_text("body\tmood\n" + (labelled / "dev.tsv").read_text())
    named = {"text_column": "body", "label_column": "mood"}
    assert kbert.evaluate(done.folder, "classify", data, **named) == expected

    rows = [
        {"text": text, "label": label}
        for text, label in zip(*read_texts(labelled / "dev.tsv"), strict=True)
    ]
    lines = tmp_path / "c.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert kbert.evaluate(done.folder, "classify", lines) == expected


@pytest.mark.parametrize("no_header", [False, True])
def test_numbers_of_columns_are_advised_only_without_no_header(tmp_path, no_header):
    data = tmp_path / "a.jsonl"
    data.write_text('{"text": "a cat", "label": "good"}\n')
    options = ColumnOptions("1", label="2", no_header=no_header)
    with raises(ValueError, "'1'") as refused:
        records_of(task_of("classify"), data, columns=options)
    assert ("no_header=True" in str(refused.value)) != no_header


@pytest.mark.full
def test_run_on_pairs_says_so_where_it_gets_single_texts(labelled, tmp_path, messages, capsys):
    rows = [("a red cat", "a cat", "same"), ("a red cat", "a dog", "other")]
    done = tune(labelled, tmp_path / "run", train=rows, dev=None, epochs=1)
    kbert.evaluate(done.folder, "classify", [("a red cat", "same"), ("a dog", "other")])
    check_logged(messages, done.folder, "pairs of texts")
    messages.clear()
    kbert.evaluate(done.folder, "classify", rows)
    assert "pairs of texts" not in "".join(messages)
    single = kbert_command(capsys, "classify", done.folder, "a red cat", "a cat")
    assert single.status == 0 and "--pairs" in single.err
    assert (
        "was trained"
        not in kbert_command(capsys, "classify", done.folder, "--pairs", "a red cat", "a cat").err
    )


@pytest.mark.full
def test_evaluate_of_embeddings_has_the_runs_dimensions(labelled, tmp_path):
    rows = [(f"a cat {word}", f"the cat {word}") for word in ("sun", "moon", "red", "big", "mat")]
    options = {"dimensions": (8, 4), "epochs": 1, "batch_size": 5, **QUIET}
    output = tmp_path / "run"
    source = labelled / "source"
    done = kbert.finetune(source, "embed", train=rows, dev=rows, output=output, **options)
    assert {"recall@1_8", "recall@1_4"} <= {*done.metrics}
    assert kbert.evaluate(output, "embed", rows) == pytest.approx(done.metrics)


def test_weights_and_smoothing_together_are_torchs(labelled, monkeypatch):
    """The first loss of a run without dropout, beside torch.nn.functional's cross_entropy."""
    torch = pytest.importorskip("torch")
    rows = [("a cat", "good")] * 7 + [("a red dog", "bad")] * 2 + [("the sun", "ugly")]
    bert = kbert.load(labelled / "source")
    config = bert.config.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = change_weights(kbert.build_bert(config, head="classifier", seq_len=None, num_labels=3))
    labels = ("bad", "good", "ugly")
    bert = kbert.Bert(config, "classifier", model, bert.tokenizer, labels=labels)
    options = {"class_weights": "balanced", "label_smoothing": 0.2, **STILL}
    done = kbert.finetune(bert, "classify", train=rows, **options)
    function = model  # every text alone, without padding
    logits, targets = [], []
    for text, label in rows:
        ids = bert.tokenizer.encode(text).ids
        inputs = [np.array([ids]), np.zeros((1, len(ids)), "int32")]
        logits.append(np.ravel(function(inputs).detach().numpy()))
        targets.append(labels.index(label))
    counts = np.bincount(targets)
    expected = torch.nn.functional.cross_entropy(
        torch.tensor(np.array(logits)),
        torch.tensor(targets),
        weight=torch.tensor(len(rows) / (3 * counts), dtype=torch.float32),
        label_smoothing=0.2,
    )
    assert done.history.updates[0]["loss"] == pytest.approx(expected.item(), rel=1e-4)
