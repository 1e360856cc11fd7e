"""GLUE from small made-up files of its layout: reading, the protocol, the table, the page."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from helpers.errors import check_logged, raises
from helpers.interrupted_run import Crash
from helpers.small_berts import small_bert

import kbert
from kbert.tasks.finetuning import finetune as finetuning
from kbert.tasks.finetuning.results import Finetuned
from kbert.tasks.glue import glue as runs
from kbert.tasks.glue.results import PUBLISHED
from kbert.tasks.glue.tasks import TASKS, find_tasks
from kbert.types import GlueResult, Metric, Run, Setting, TaskResult

pytestmark = pytest.mark.full

WORDS = ["cat", "dog", "sun", "moon", "red", "big", "tree"]
# The headers of GLUE's download; CoLA has none. Cells are {}: a text, a second text, a label.
LAYOUTS = {
    "CoLA": (None, "gj04\t{2}\t\t{0}"),
    "SST-2": ("sentence\tlabel", "{0} \t{2}"),
    "MRPC": ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", '{2}\t70\t71\t"{0}\t{1}"'),
    "STS-B": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "7\tmain-news\tMSRvid\t2012test\t0001\tnone\tnone\t{0}\t{1}\t{2}",
    ),
    "QQP": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "1\t2\t3\t{0}\t{1}\t{2}"),
    "MNLI": (
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
        "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
        "0\t31193\t31193n\tgovernment\t( a )\t( b )\t(ROOT)\t(ROOT)\t{0}\t{1}\tneutral\t{2}",
    ),
    "QNLI": ("index\tquestion\tsentence\tlabel", "0\t{0}\t{1}\t{2}"),
    "RTE": ("index\tsentence1\tsentence2\tlabel", "0\t{0}\t{1}\t{2}"),
    "WNLI": ("index\tsentence1\tsentence2\tlabel", "0\t{0}\t{1}\t{2}"),
}


def write_task(folder, name: str, count: int, seed: int = 1) -> None:
    """train.tsv and the dev files of a task."""
    task, (header, line) = TASKS[name], LAYOUTS[name]
    (folder / name).mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(["train.tsv", *task.dev]):
        random, lines = np.random.default_rng(seed + number), [header] if header else []
        for place in range(count):
            texts = [" ".join(random.choice(WORDS, random.integers(1, 6))) for _ in range(2)]
            labels = task.labels if task.kind == "classify" else [f"{random.uniform(0, 5):.3f}"]
            lines.append(line.format(*texts, labels[place % len(labels)]))
        (folder / name / file).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    for name in TASKS:
        write_task(folder, name, 11)
    return folder


@pytest.fixture
def pretended(monkeypatch):
    """Runs that train nothing: accuracy is 0.5 + rate · 1000 + seed / 100; returns their list."""
    begun = []

    def finetune(source, *, output, learning_rate, seed, **options):
        begun.append({"name": output.name, "seed": seed, **options})
        (output / "model").mkdir(parents=True)
        value = 0.5 + 1000 * learning_rate + seed / 100
        names = ("accuracy", "matthews", "pearson", "spearman")
        return Finetuned(source, None, dict.fromkeys(names, value) | {"f1": value / 2}, output)

    def evaluate(source, task, records, *, max_length):
        begun[-1] |= {"second": records, "second_length": max_length}
        return {"accuracy": 0.25}

    monkeypatch.setattr(runs, "finetune", finetune)
    monkeypatch.setattr(runs, "evaluate", evaluate)
    return begun


@pytest.fixture(scope="module")
def bert(small):
    return small_bert(dataclasses.replace(small, num_hidden_layers=1), "encoder")


ONE_RUN = {"batch_sizes": [4], "learning_rates": [1e-4], "epochs": [1], "seeds": 1}


@pytest.mark.parametrize("name", TASKS)
def test_each_tasks_files_are_read(data, name, bert, tmp_path, pretended):
    """As the trainer gets them: texts without the blanks and the columns around them."""
    kbert.glue(bert, data, output=tmp_path, tasks=name, **ONE_RUN)
    (run,) = pretended
    assert run["task"] == ("regress" if name == "STS-B" else "classify")
    for records in (run["train"], run["dev"]):
        assert len(records) == 11
        assert all(set(record.text.strip('"').split()) <= {*WORDS} for record in records)
        assert all((record.pair is None) == (name in ("CoLA", "SST-2")) for record in records)
        kind = float if name == "STS-B" else str
        assert all(isinstance(record.label, kind) for record in records)
        assert name == "STS-B" or {record.label for record in records} == set(TASKS[name].labels)
    assert any('"' in record.text for record in run["train"]) == (name == "MRPC")
    first = 1 if name == "CoLA" else 2
    assert run["train"][0].location == f"{data / name / 'train.tsv'}, line {first}"


def test_sst_2_without_a_header(shared, bert, tmp_path, pretended):
    """6,920 and 872 sentences, as the shared material's table says."""
    kbert.glue(bert, shared / "data", output=tmp_path, tasks="sst2", **ONE_RUN)
    (run,) = pretended
    assert (len(run["train"]), len(run["dev"])) == (6920, 872)
    assert {record.label for record in run["train"]} == {"0", "1"}


def spoil(data, folder, name: str, change=("", ""), end: str = "") -> None:
    """Copy a task's files, with a change in the dev file and something at its end."""
    shutil.copytree(data / name, folder / name)
    path = folder / name / "dev.tsv"
    text = path.read_text(encoding="utf-8").replace(*change) if change[0] else path.read_text()
    path.write_text(text + end, encoding="utf-8")


@pytest.mark.parametrize(
    "name, change, said",
    [
        ("RTE", ("sentence1", "first"), ["line 1", "'sentence1'", "first"]),
        ("RTE", ("\tnot_entailment", "\tmaybe"), ["line 3", "entailment, not_ent", "'maybe'"]),
        ("STS-B", ("none\tnone", "none"), ["line 2", "10 columns", "STS-B", "0 of 11"]),
        ("STS-B", ("none\t", "none\t\t"), ["line 2", "10 columns", "STS-B", "0 of 11"]),
        ("CoLA", ("gj04\t0", "gj04\tgood"), ["line 1", "label", "0, 1", "'good'"]),
        ("CoLA", ("gj04\t", "gj04\tx\t"), ["line 1", "4 columns", "CoLA", "0 of 11"]),
        ("QQP", ("2\t3", "2"), ["line 2", "6 columns", "QQP", "0 of 11"]),
    ],
)
def test_bad_glue_file_is_named_with_its_line(data, bert, tmp_path, pretended, name, change, said):
    """Before anything is trained, whatever the task."""
    spoil(data, tmp_path, name, change)
    shutil.copytree(data / "SST-2", tmp_path / "SST-2")
    with raises(ValueError, tmp_path / name / "dev.tsv", *said):
        kbert.glue(bert, tmp_path, output=tmp_path / "run", tasks=["SST-2", name], **ONE_RUN)
    assert not pretended and not (tmp_path / "run").exists()


def test_file_without_examples_is_named(data, bert, tmp_path, pretended):
    spoil(data, tmp_path, "RTE")
    for text in ("", "index\tsentence1\tsentence2\tlabel\n"):
        (tmp_path / "RTE" / "dev.tsv").write_text(text)
        with raises(ValueError, tmp_path / "RTE" / "dev.tsv"):
            kbert.glue(bert, tmp_path, output=tmp_path / "run", tasks="rte", **ONE_RUN)


def test_qqps_few_broken_lines_are_left_out(data, bert, tmp_path, pretended, messages):
    """A line with other columns, and one without a second question; in another task it is one."""
    spoil(data, tmp_path, "QQP", end="1\t2\t3\tcat\n1\t2\t3\tcat\t\t0\n")
    kbert.glue(bert, tmp_path, output=tmp_path / "run", tasks="qqp", **ONE_RUN)
    assert len(pretended[0]["dev"]) == 11
    check_logged(messages, "line 13", "6 columns")
    spoil(data, tmp_path / "more", "QQP", end="1\t2\t3\tcat\n" * 4)
    with raises(ValueError, "line 13", "6 columns", "11 of 15"):
        kbert.glue(bert, tmp_path / "more", output=tmp_path / "run", tasks="qqp", **ONE_RUN)
    spoil(data, tmp_path, "RTE", end="1\tcat\n")
    with raises(ValueError, "line 13", "4 columns"):
        kbert.glue(bert, tmp_path, output=tmp_path / "run", tasks="rte", **ONE_RUN)


def test_first_dev_file_of_mnli_ranks_the_runs(data, bert, tmp_path, pretended):
    """The second one is measured with the same length, and is as good for each rate."""
    options = ONE_RUN | {"learning_rates": [1e-4, 3e-4, 2e-4]}
    result = kbert.glue(bert, data, output=tmp_path / "run", tasks="mnli", **options)
    assert result.tasks[0].best == Setting(4, 3e-4, 1)
    assert [str(metric) for metric in result.metrics] == ["80.0", "25.0"]
    kbert.glue(bert, data, output=tmp_path / "short", tasks="mnli", max_length=9, **ONE_RUN)
    positions = bert.config.max_position_embeddings
    assert [run["second_length"] for run in pretended] == [*[min(128, positions)] * 3, 9]
    texts = [(record.text, record.pair, record.label) for record in pretended[0]["second"]]
    lines = (data / "MNLI" / "dev_mismatched.tsv").read_text().splitlines()[1:]
    cells = [line.split("\t") for line in lines]
    assert texts == [(line[8], line[9], line[11]) for line in cells]


def test_glue_tasks_are_found_by_name():
    assert [task.name for task in find_tasks("mnli,sst2")] == ["SST-2", "MNLI"]
    assert len(find_tasks("all")) == 9
    sane = "cola mnli mrpc qnli qqp rte sst2 stsb"  # the list in cramming's GLUE_sane.yaml
    assert find_tasks("sane") == find_tasks(sane.split())
    for wrong in ("mnli,snli", "", []):
        with raises(ValueError, "tasks", "all, sane, CoLA, SST-2, MRPC"):
            find_tasks(wrong)


def test_glue_grid_runs_one_seed_and_the_best_all(bert, data, tmp_path, pretended):
    """18 points and 4 more seeds, as the paper's lists have them; done ones are not begun again."""
    found = kbert.glue(bert, data, output=tmp_path, tasks="mrpc", seeds=4)
    assert len(pretended) == 18 + 3
    assert {run["seed"] for run in pretended[:18]} == {0}
    assert {(run["keep_best"], run["positive_label"]) for run in pretended} == {(False, "1")}
    (task,) = found.tasks
    assert task.best == Setting(16, 5e-5, 2)  # the first of equals
    last = [(run["batch_size"], run["epochs"], run["seed"]) for run in pretended[18:]]
    assert last == [(16, 2, seed) for seed in (1, 2, 3)]
    f1, accuracy = found.metrics
    assert accuracy.values == pytest.approx((0.55, 0.56, 0.57, 0.58))
    assert f1.values == pytest.approx((0.275, 0.28, 0.285, 0.29))
    kept = [run.folder for run in task.runs if (run.folder / "model").exists()]
    assert kept == [tmp_path / "MRPC" / "batch16-rate5e-05-epochs2-seed3"]
    older = kept[0] / "figures.json"  # older releases kept settings that were given as they are
    saved = json.loads(older.read_text())
    saved["made_of"]["options"] = {"precision": "float32", "accumulation_steps": 1}
    older.write_text(json.dumps(saved))
    again = kbert.glue(bert, data, output=tmp_path, tasks="mrpc", seeds=5)
    assert len(pretended) == 22 and len(again.metrics[0].values) == 5
    with raises(ValueError, "options.max_length", "9"):
        kbert.glue(bert, data, output=tmp_path, tasks="mrpc", max_length=9)
    write_task(tmp_path / "other", "MRPC", 12)
    with raises(ValueError, "data", kept[0].parent):
        kbert.glue(bert, tmp_path / "other", output=tmp_path, tasks="mrpc")
    other = small_bert(bert.config, "classifier")
    with raises(ValueError, "source"):
        kbert.glue(other, data, output=tmp_path, tasks="mrpc")
    assert len(pretended) == 22


def make_result(folder, **values) -> GlueResult:
    """The result of runs whose metrics are all the given ones, by task, a value per seed."""
    point, tasks = Setting(16, 4e-5, 5), []
    for name, of_seeds in values.items():
        (task,) = find_tasks(name)
        names = [metric + suffix for suffix in task.suffixes for metric in task.metrics]
        made = [
            Run(point, seed, dict.fromkeys(names, value), folder / str(seed))
            for seed, value in enumerate(of_seeds)
        ]
        tasks.append(TaskResult(task.name, point, tuple(made)))
    return GlueResult(tuple(tasks), folder)


def test_glue_table_has_the_published_results(tmp_path):
    """Mean and deviation by hand; BERT-base's row of the paper's table 1, whose mean is 79.6."""
    metric = Metric("RTE", "accuracy", (0.66, 0.68, 0.61))
    assert str(metric) == "65.0 ± 3.6"  # √((1² + 3² + 4²) / 2) = 3.61
    assert str(Metric("RTE", "accuracy", (0.66,))) == "66.0"
    header, row = str(make_result(tmp_path, rte=metric.values)).splitlines()
    assert header.split()[:5] == ["task", "metric", "dev", "base", "large"]
    assert row.split()[:7] == ["RTE", "accuracy", "65.0", "±", "3.6", "66.4", "70.1"]


@pytest.mark.parametrize(
    "model, average", [("base", 79.6), ("large", 82.1), ("base-dev", 80.9), ("crammed", 78.6)]
)
def test_published_averages_are_of_the_published_metrics(model, average):
    """BERT's paper and cramming's print them beside the nine metrics."""
    column = PUBLISHED["task", "metric"].index(model)
    values = []
    for (task, _), cells in PUBLISHED.items():
        if task in ("average", "task", "") or not cells[column]:
            continue
        values.append(float(cells[column]))
    assert len(values) == 9 and np.mean(values) == pytest.approx(average, abs=0.1)
    assert PUBLISHED["average", "of 9"][column] == str(average)
    assert PUBLISHED["", "source"][column].startswith(("dev data; ", "test data; "))


def test_average_is_of_the_first_metric_of_each_task_but_wnli(tmp_path, bert, data, pretended):
    """By hand: f1 of MRPC is half of its accuracy, and MNLI counts twice."""
    options = ONE_RUN | {"seeds": 3}
    result = kbert.glue(bert, data, output=tmp_path, tasks="mnli,mrpc,wnli", **options)
    by_hand = [(value / 2 + value + 0.25) / 3 for value in (0.6, 0.61, 0.62)]
    assert result.average == ("average", "of 3", pytest.approx(by_hand))
    last = str(result).splitlines()[-1].split()
    assert last == ["average", "of", "3", "38.8", "±", "0.5"]  # 38.83, 0.5
    sane = kbert.glue(bert, data, output=tmp_path / "sane", tasks="sane", **ONE_RUN)
    assert sane.average.metric == "of 9" and sane.folder.name == "sane"
    # MRPC and QQP are 0.3, MNLI-mm is 0.25, the other six are 0.6: 4.45 / 9
    last = str(sane).splitlines()[-1].split()
    assert last == ["average", "of", "9", "49.4", "79.6", "82.1", "80.9", "78.6"]
    alone = kbert.glue(bert, data, output=tmp_path, tasks="mrpc", **options)
    assert "average" not in str(alone)


def test_f1_is_of_the_label_1_whatever_the_order_of_a_checkpoints_labels(small, tmp_path):
    """All are predicted as 1, for 8 of 11: F1 is 16 / 19 of 1, 0 of 0."""
    texts = ["cat", "red dog"]
    lines = [LAYOUTS["MRPC"][0]]
    lines += [LAYOUTS["MRPC"][1].format(*texts, int(place > 2)) for place in range(11)]
    (tmp_path / "MRPC").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / "MRPC" / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = dataclasses.replace(small, num_hidden_layers=1)
    model = kbert.build_bert(config, head="classifier", seq_len=None, num_labels=2)
    bert = small_bert(config, "classifier")
    bert = dataclasses.replace(bert, model=model, labels=("1", "0"))
    model.weights[-1].assign([9.0, -9.0])
    options = {"batch_sizes": [4], "learning_rates": [1e-12], "epochs": [1], "seeds": 1}
    found = kbert.glue(bert, tmp_path, output=tmp_path / "run", tasks="mrpc", **options)
    f1, accuracy = found.metrics
    assert (f1.metric, *f1.values) == ("f1", pytest.approx(16 / 19))
    assert accuracy.values == pytest.approx((8 / 11,))


@pytest.mark.full
def test_interrupted_glue_run_resumes(bert, data, tmp_path, monkeypatch):
    """MNLI with its two dev sets, for real: to the figures of one that nothing stopped."""
    options = {"tasks": ["MNLI"], "batch_sizes": [4], "learning_rates": [1e-3], "epochs": [1]}
    options |= {"seeds": 1, "save_every": 1, "progress": False}
    whole = kbert.glue(bert, data, output=tmp_path / "whole", **options)

    def crashing(*arguments, **given):
        return finetuning.finetune(*arguments, callbacks=[Crash(2)], **given)

    with monkeypatch.context() as patch, raises(RuntimeError, "crash"):
        patch.setattr(runs, "finetune", crashing)
        kbert.glue(bert, data, output=tmp_path / "run", **options)
    run = tmp_path / "run" / "MNLI" / "batch4-rate0.001-epochs1-seed0"
    assert not (run / "figures.json").exists()
    again = kbert.glue(bert, data, output=tmp_path / "run", **options)
    assert again.metrics == whole.metrics
    assert [metric.task for metric in again.metrics] == ["MNLI-m", "MNLI-mm"]
    made = json.loads((run / "figures.json").read_text())["figures"]
    second = {"text_column": "sentence1", "text_pair_column": "sentence2"}
    second["data"] = data / "MNLI" / "dev_mismatched.tsv"
    measured = kbert.evaluate(run / "model.keras", "classify", label_column="gold_label", **second)
    assert made["accuracy-mm"] == pytest.approx(measured["accuracy"])
    page = (tmp_path / "run" / "report.html").read_text()
    for text in ("MNLI-mm", "84.6", "83.4", f"MNLI/{run.name}/report.html", "arXiv 1810.04805"):
        assert text in page
    assert "84.6" in str(again).splitlines()[1]


@pytest.mark.parametrize(
    "options, said",
    [
        ({"learning_rate": 1e-5}, ("glue", "'learning_rate'", "learning_rates")),
        ({"keep_best": True}, ("glue", "'keep_best'")),
        ({"epochs": []}, ("epochs",)),
        ({"seeds": 0}, ("seeds",)),
        ({"max_length": 0}, ("max_length", "1")),
    ],
)
def test_options_fixed_by_the_protocol_are_refused(bert, data, tmp_path, options, said):
    with raises(ValueError, *said):
        kbert.glue(bert, data, output=tmp_path, **options)
