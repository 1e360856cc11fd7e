"""Fine-tuning a classifier end to end: it learns, resumes bit for bit, keeps the best weights."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.interrupted_run import Beginning, Copies, assert_states_equal
from helpers.labelled_texts import read_texts, write_texts
from helpers.small_berts import small_berts

import kbert
from kbert.cli.finetuning_commands import finetune as finetune_command
from kbert.data.labelled.length_buckets import BucketedBatches, Examples
from kbert.graph.names import CLASSIFIER, POOLER
from kbert.graph.spec import GraphSpec
from kbert.tasks.finetuning.evaluate import evaluate
from kbert.tasks.finetuning.finetune import finetune
from kbert.tasks.finetuning.recipe import mean_flops
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.resume import resume

QUIET = {"progress": False, "peak_flops": 1e9}
SETTINGS = {"epochs": 10, "batch_size": 13, "learning_rate": 5e-3, "seed": 4, "save_every": 5}
SETTINGS |= QUIET | {"keep_checkpoints": True}
STEPS = 60  # 10 epochs of 66 examples: 5 batches of 13 and one of 1


@pytest.fixture(scope="module")
def berts(small):
    return small_berts(dataclasses.replace(small, num_hidden_layers=1))  # traced in less time


@pytest.fixture(scope="module")
def folder(tmp_path_factory, berts):
    """train.tsv, dev.tsv and a checkpoint."""
    folder = tmp_path_factory.mktemp("finetuning")
    write_texts(folder / "train.tsv", 66, 1)
    write_texts(folder / "dev.tsv", 23, 2)
    kbert.save(berts["encoder"], folder / "source")
    return folder


@pytest.fixture(scope="module")
def sources(folder):
    return {"train": folder / "train.tsv", "dev": folder / "dev.tsv"}


@pytest.fixture(scope="module")
def whole(folder, sources):
    """A run that nothing stops; `crashed` is its folder in the middle."""
    copies = Copies(folder / "whole", folder / "crashed", 23, state=20)
    options = {"output": folder / "whole", "callbacks": [copies]}
    return finetune(folder / "source", "classify", **options, **sources, **SETTINGS)


@pytest.fixture(scope="module")
def crashed(whole, folder):
    return folder / "crashed"


def test_finetuning_learns(whole, sources):
    losses = [line["Classifier_loss"] for line in whole.history.updates]
    assert len(losses) == STEPS
    assert np.mean(losses[-6:]) < 0.5 * np.mean(losses[:6])
    assert whole.bert.labels == ("bad", "good")
    assert whole.metrics["accuracy"] > 0.9
    texts, labels = read_texts(sources["dev"])
    said = [found[0].label for found in kbert.classify(whole.bert, texts)]
    assert np.mean(np.equal(said, labels)) == pytest.approx(whole.metrics["accuracy"])


def test_metrics_match_the_classify_probabilities(whole, sources):
    """The same by kbert.classify's probabilities, which go through other batches."""
    figures = evaluate(whole.bert, "classify", sources["dev"])
    assert figures == pytest.approx(whole.metrics, rel=1e-4)
    texts, labels = read_texts(sources["dev"])
    probabilities = [
        next(one.probability for one in found if one.label == label)
        for found, label in zip(kbert.classify(whole.bert, texts), labels, strict=True)
    ]
    assert figures["loss"] == pytest.approx(-np.mean(np.log(probabilities)), rel=1e-3)


def test_run_folder_holds_the_trained_model(whole, folder, sources):
    result = json.loads((folder / "whole" / "result.json").read_text())
    assert result["metrics"] == pytest.approx(whole.metrics)
    for name in ("model", "model.keras"):
        assert kbert.load(folder / "whole" / name).labels == ("bad", "good")
        figures = evaluate(folder / "whole" / name, "classify", sources["dev"])
        assert figures == pytest.approx(whole.metrics, rel=1e-4)
    again = resume(folder / "whole", **QUIET)  # finished: opened
    assert again.metrics == pytest.approx(whole.metrics)


def test_resume_after_crash_is_bit_equal(whole, crashed, folder, tmp_path):
    """Dropout on; what kills do is in test_run_kills.py."""
    output = shutil.copytree(crashed, tmp_path / "run")
    tuned = resume(output, **QUIET)
    assert_states_equal(folder / "whole", output, STEPS)
    pairs = zip(whole.bert.model.get_weights(), tuned.bert.model.get_weights(), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)
    assert tuned.metrics == whole.metrics and tuned.intervals == whole.intervals != {}
    assert tuned.bert.card == whole.bert.card
    losses, others = ([line["loss"] for line in one.history.updates] for one in (whole, tuned))
    assert losses == others


def test_resume_refuses_other_data_or_settings(crashed, folder, sources, tmp_path):
    with pytest.raises(ValueError, match=r"learning_rate.*start a new run"):
        resume(crashed, learning_rate=1.0, **QUIET)
    write_texts(tmp_path / "train.tsv", 66, 9)
    with pytest.raises(ValueError, match=r"data\.train\.examples"):
        resume(crashed, train=tmp_path / "train.tsv", **QUIET)
    with pytest.raises(
        FileExistsError, match=f"resume it with kbert finetune --resume {crashed}, or"
    ):
        finetune(folder / "source", "classify", output=crashed, **sources, **SETTINGS)


def test_bad_batch_size_leaves_no_run_folder(berts, sources, tmp_path):
    with pytest.raises(ValueError, match="batch_size must be a multiple of 3"):
        options = SETTINGS | {"accumulation_steps": 3, "output": tmp_path / "run"}
        finetune(berts["encoder"], "classify", **sources, **options)
    assert not (tmp_path / "run").exists()


def test_flops_count_the_lengths_of_batches(berts):
    """The matrix products by hand, 2 FLOPs a multiply-add, three times the forward pass."""
    ids = [[1] * size for size in (3, 3, 4, 7, 8)]
    examples = Examples(ids, ids, {CLASSIFIER: [0, 1, 0, 1, 0]})
    batches = BucketedBatches(examples, batch_size=2, lengths=(4, 8), pool=3)
    assert sorted(batches.lengths_in(0)) == [4, 8, 8]  # two, of 3 and 4 or 7, and 8 alone
    config = berts["encoder"].config
    spec = GraphSpec(config, "classifier", num_labels=3)
    hidden, wide = config.hidden_size, config.intermediate_size

    def forward(length):
        projections = 4 * length * hidden**2 + 2 * length * hidden * wide
        return 2 * (projections + 2 * length**2 * hidden + hidden**2 + hidden * 3)

    expected = 3 * 2 * (forward(4) + 2 * forward(8)) / 3
    assert mean_flops(spec, batches) == expected


def test_mfu_is_recorded(whole, folder):
    environment = json.loads((folder / "whole" / "environment.json").read_text())
    assert (environment["peak_flops"], environment["peak_flops_source"]) == (1e9, "given")
    line = whole.history.updates[-1]
    flops_per_token = line["mfu"] * 1e9 / line["tokens_per_second"]
    # each token goes through the matrices of keys and values, the first of a text through all
    of_each, of_first = 2 * 24**2, 4 * 24**2 + 2 * 24 * 40
    assert 6 * of_each < flops_per_token < 6 * of_first


@pytest.fixture
def begun(sources):
    """The weights that training begins with, by layer."""

    def begin(bert):
        seen = Beginning()
        with pytest.raises(RuntimeError, match="begun"):
            finetune(bert, "classify", train=sources["train"], callbacks=[seen], **QUIET)
        return seen.weights

    return begin


def test_head_with_same_labels_is_reused(berts, begun):
    model = kbert.build_classifier(berts["encoder"].config, num_labels=2, seq_len=None)
    same = dataclasses.replace(berts["classifier"], model=model, labels=("bad", "good"))
    other = dataclasses.replace(same, labels=("good", "bad"))
    first, second = begun(same), begun(other)
    for layer in model.layers:
        for mine, one, two in zip(
            layer.get_weights(), first[layer.name], second[layer.name], strict=True
        ):
            assert np.array_equal(mine, one)
            anew = layer.name == CLASSIFIER and mine.ndim == 2
            assert np.array_equal(mine, two) != anew


def test_newly_initialized_layers_are_reported(berts, begun, caplog):
    begun(berts["qa"])
    assert f"newly initialized (not in the checkpoint): {POOLER}" in caplog.text


@pytest.mark.full
def test_finetuning_without_dev_data_and_folder(berts, sources):
    tuned = finetune(
        berts["encoder"], "classify", train=sources["train"], epochs=1, batch_size=66, **QUIET
    )
    assert (tuned.metrics, tuned.folder, len(tuned.history.updates)) == ({}, None, 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": "sort"}, "one of classify, regress, multilabel, tag, qa, choice, embed"),
        ({"epoch": 3}, "finetune has no option 'epoch': did you mean epochs?"),
        ({"epochs": 0}, "epochs must be"),
        ({"warmup_ratio": 2}, "warmup_ratio must be a share, 0 … 1, got 2"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0, got 0.0"),
        ({"precision": "half"}, "precision must be one of float32, mixed_bfloat16"),
        ({"lengths": (8, 4)}, "lengths must ascend"),
        ({"lengths": (4, 8)}, "an example must have at most 8 tokens, got 1"),
        ({"dev": [("a cat", "fine", None, "dev.tsv, line 7")]}, "dev.tsv, line 7"),
        ({"train": []}, "train for classify must have one record or more, got none"),
        ({"accumulation_steps": 3}, "batch_size must be a multiple of 3"),
    ],
)
def test_bad_finetune_arguments_are_one_line_errors(berts, sources, options, said):
    from kbert.tasks.classification.reading import Labelled

    if "dev" in options:
        options = options | {"dev": [Labelled(*record) for record in options["dev"]]}
    options = {"task": "classify", **sources, "batch_size": 13, **QUIET} | options
    with pytest.raises(ValueError) as error:
        finetune(berts["encoder"], options.pop("task"), **options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_label_outside_the_range_is_named(berts, tmp_path):
    (tmp_path / "dev.tsv").write_text("a cat\t4\na dog\t5\n")
    with pytest.raises(
        ValueError, match=r"dev.tsv, line 2: label must be one of .* 0, 1, 2, 3, 4, got '5'"
    ):
        evaluate(berts["classifier"], "classify", tmp_path / "dev.tsv")
    with pytest.raises(ValueError, match="classifier"):
        evaluate(berts["encoder"], "classify", tmp_path / "dev.tsv")


@pytest.mark.full
def test_finetune_and_evaluate_commands(folder, sources, tmp_path, capsys, whole):
    output = tmp_path / "run"
    data = ("--train", sources["train"], "--dev", sources["dev"], "-o", output)
    settings = ("--epochs", "1", "--batch-size", "33", "--quiet")
    status, out, err = kbert_command(
        capsys, "finetune", folder / "source", "--task", "classify", *data, *settings
    )
    assert (status, err) == (0, "")
    assert "accuracy 0." in out or "accuracy 1." in out
    assert f"wrote {output / 'model'}" in out and "not evaluated" not in out
    status, out, _ = kbert_command(capsys, "finetune", "--resume", output)
    assert (status, "accuracy" in out, "wrote" in out) == (0, True, False)
    assert f"{output} is finished already, after " in out and "nothing was trained. Its" in out
    status, out, err = kbert_command(capsys, "finetune", "--resume", output, "--epochs", 9)
    assert (status, out) == (2, "") and "epochs: the run has " in err
    asked = ("--task", "classify", "--data", sources["dev"])
    model = folder / "whole" / "model"
    status, out, _ = kbert_command(capsys, "evaluate", model, *asked, "--format", "json")
    assert (status, json.loads(out)) == (0, pytest.approx(whole.metrics, rel=1e-4))
    status, out, _ = kbert_command(capsys, "evaluate", model, *asked)
    assert f"accuracy  {whole.metrics['accuracy']:.4f}" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["SRC"], "--task is missing: kbert finetune SRC --task classify --train FILE -o RUN"),
        (["--resume", "RUN", "--task", "tag"], "--task cannot be given with --resume"),
        (["--resume", "RUN"], "RUN (--resume): no such folder. Give the folder of a run"),
        (["--resume", "."], ". (--resume) has no run: there is no settings.json in it"),
        (
            ["SRC", "--task", "classify", "--train", "no.tsv", "-o", "RUN"],
            "no.tsv (--train): No such file or directory. Expected: Labelled training data: "
            "a .tsv, .csv, .jsonl or .json file.",
        ),
        (
            ["SRC", "--task", "classify", "--train", ".", "-o", "RUN"],
            ". (--train): Is a directory. Expected: Labelled training data: "
            "a .tsv, .csv, .jsonl or .json file.",
        ),
    ],
)
def test_command_line_mistakes_are_one_line_errors(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    status, out, err = kbert_command(capsys, "finetune", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_every_finetuning_setting_is_an_option():
    options = {option.name: option.help for option in finetune_command.params[1:]}
    fields = {field.name: field.default for field in dataclasses.fields(FinetuningSettings)}
    others = {
        "task",
        "train",
        "dev",
        "output",
        "run",
        "devices",
        "peak_flops",
        "keep_checkpoints",
        "quiet",
    }
    others |= {"steps_per_execution", "teacher"}
    assert set(options) - others == set(fields) - {"lengths", "optimizer"}
    for name in set(fields) & set(options):
        default = fields[name]
        if isinstance(default, (int, float, str)) and not isinstance(default, bool):
            assert f"Default: {default}." in options[name]
