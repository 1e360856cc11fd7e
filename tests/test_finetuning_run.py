"""Fine-tuning a classifier from end to end: it learns, goes on bit for bit, keeps the best."""

import dataclasses
import json
import os

import keras
import numpy as np
import pytest
from small_berts import small_berts

import kbert
from kbert.cli_finetune import evaluate as evaluate_command
from kbert.cli_finetune import finetune as finetune_command
from kbert.console import run as run_command
from kbert.names import CLASSIFIER, POOLER
from kbert.training.evaluation import Evaluation, evaluate
from kbert.training.finetuning import finetune, resume
from kbert.training.state_files import read_state

SETTINGS = {"epochs": 10, "batch_size": 13, "learning_rate": 5e-3, "seed": 4}
QUIET = {"show": False}
STEPS = 60  # 10 epochs of 66 examples: 5 batches of 13 and one of 1


def write_texts(path, count: int, seed: int) -> None:
    """Whether a text has a cat or a dog in it: good or bad."""
    random, lines = np.random.default_rng(seed), []
    for place in range(count):
        words = list(
            random.choice(["sun", "moon", "red", "big", "tree", "."], random.integers(2, 9))
        )
        words.insert(random.integers(len(words)), ("cat", "dog")[place % 2])
        lines.append(" ".join(words) + "\t" + ("good", "bad")[place % 2])
    path.write_text("\n".join(lines) + "\n")


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
    """A run that nothing stops."""
    output = folder / "whole"
    return finetune(
        folder / "source", "classify", output=output, save_every=5, **sources, **SETTINGS, **QUIET
    )


def texts_and_labels(path):
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    return [text for text, _ in rows], [label for _, label in rows]


class Crash(keras.callbacks.Callback):
    """Ends a run after so many updates, as a kill would: nothing is saved."""

    def __init__(self, steps: int):
        super().__init__()
        self.left = steps

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if not self.left:
            raise RuntimeError("crash")


def test_it_learns(whole, sources):
    losses = [line["Classifier_loss"] for line in whole.history.updates]
    assert len(losses) == STEPS
    assert np.mean(losses[-6:]) < 0.5 * np.mean(losses[:6])
    assert whole.bert.labels == ("bad", "good")
    assert whole.metrics["accuracy"] > 0.9
    texts, labels = texts_and_labels(sources["dev"])
    said = [found[0].label for found in kbert.classify(whole.bert, texts)]
    assert np.mean(np.equal(said, labels)) == pytest.approx(whole.metrics["accuracy"])


def test_figures_are_those_of_the_outputs(whole, sources):
    """The same by kbert.classify's probabilities, which go through other batches."""
    figures = evaluate(whole.bert, "classify", sources["dev"])
    assert figures == pytest.approx(whole.metrics, rel=1e-4)
    texts, labels = texts_and_labels(sources["dev"])
    probabilities = [
        next(one.probability for one in found if one.label == label)
        for found, label in zip(kbert.classify(whole.bert, texts), labels, strict=True)
    ]
    assert figures["loss"] == pytest.approx(-np.mean(np.log(probabilities)), rel=1e-3)


def test_the_run_folder_has_the_model(whole, folder, sources):
    result = json.loads((folder / "whole" / "result.json").read_text())
    assert result["metrics"] == pytest.approx(whole.metrics)
    for name in ("model", "model.keras"):
        assert kbert.load(folder / "whole" / name).labels == ("bad", "good")
        figures = evaluate(folder / "whole" / name, "classify", sources["dev"])
        assert figures == pytest.approx(whole.metrics, rel=1e-4)
    again = resume(folder / "whole", **QUIET)  # finished: opened
    assert again.metrics == pytest.approx(whole.metrics)


def test_a_run_goes_on_bit_for_bit(whole, folder, sources):
    """Dropout on; twice ended between two states, in either epoch."""
    output = folder / "crashed"
    options = {**sources, **SETTINGS, **QUIET, "save_every": 5, "output": output}
    with pytest.raises(RuntimeError, match="crash"):
        finetune(folder / "source", "classify", callbacks=[Crash(3)], **options)
    with pytest.raises(RuntimeError, match="crash"):
        resume(output, callbacks=[Crash(20)], **QUIET)
    tuned = resume(output, **QUIET)
    last = f"checkpoints/step-{STEPS:08d}.safetensors"
    (arrays, _), (others, _) = (read_state(path / last) for path in (folder / "whole", output))
    assert set(arrays) == set(others)
    assert not [name for name in arrays if not np.array_equal(arrays[name], others[name])]
    pairs = zip(whole.bert.model.get_weights(), tuned.bert.model.get_weights(), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)
    assert tuned.metrics == whole.metrics
    assert [line["loss"] for line in tuned.history.updates] == [
        line["loss"] for line in whole.history.updates
    ]


def test_other_data_or_settings_do_not_go_on(folder, sources, tmp_path):
    output = tmp_path / "run"
    options = {**sources, **SETTINGS, **QUIET, "output": output}
    with pytest.raises(RuntimeError, match="crash"):
        finetune(folder / "source", "classify", callbacks=[Crash(2)], **options)
    with pytest.raises(ValueError, match=r"learning_rate.*begin a new run"):
        resume(output, learning_rate=1.0, **QUIET)
    write_texts(tmp_path / "train.tsv", 66, 9)
    with pytest.raises(ValueError, match=r"data\.train\.examples"):
        resume(output, train=tmp_path / "train.tsv", **QUIET)
    with pytest.raises(FileExistsError, match="holds a run"):
        finetune(folder / "source", "classify", **options)


def falling(self, predict, outputs):
    """An evaluation that finds every later state worse."""
    falling.calls += 1
    return {"loss": 1.0, "accuracy": 1 / falling.calls}


class Weights(keras.callbacks.Callback):
    """The kernel of the classifier at the end of each epoch."""

    def on_train_begin(self, logs=None):
        self.found = []

    def on_epoch_end(self, epoch, logs=None):
        self.found.append(np.array(self.model.get_layer(CLASSIFIER).kernel))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("with_folder", [True, False])
def test_the_best_weights_are_kept(
    folder, sources, berts, monkeypatch, tmp_path, kept, with_folder
):
    monkeypatch.setattr(Evaluation, "__call__", falling)
    falling.calls = 0
    seen = Weights()
    options = {"epochs": 2, "batch_size": 33, "keep_best": kept, "callbacks": [seen]}
    output = tmp_path / "run" if with_folder else None
    tuned = finetune(berts["encoder"], "classify", output=output, **sources, **options, **QUIET)
    wanted = seen.found[0 if kept else -1]
    assert np.array_equal(np.array(tuned.bert.model.get_layer(CLASSIFIER).kernel), wanted)
    assert not np.array_equal(seen.found[0], seen.found[-1])
    assert tuned.metrics["accuracy"] == (1.0 if kept else 0.5)


@pytest.fixture
def begun(monkeypatch, sources):
    """The weights that training begins with: the learning rate is nearly nothing."""

    def begin(bert):
        options = {"epochs": 1, "batch_size": 66, "learning_rate": 1e-30, "weight_decay": 0.0}
        return finetune(bert, "classify", train=sources["train"], **options, **QUIET)

    return begin


def test_a_head_of_the_same_labels_goes_on(berts, begun):
    model = kbert.build_classifier(berts["encoder"].config, num_labels=2, seq_len=None)
    same = dataclasses.replace(berts["classifier"], model=model, labels=("bad", "good"))
    other = dataclasses.replace(same, labels=("good", "bad"))
    kernel = np.array(model.get_layer(CLASSIFIER).kernel)
    first, second = begun(same).bert.model, begun(other).bert.model
    assert np.allclose(first.get_layer(CLASSIFIER).kernel, kernel, atol=1e-9)
    assert not np.allclose(second.get_layer(CLASSIFIER).kernel, kernel, atol=1e-2)
    for layer in model.layers:
        if layer.name != CLASSIFIER:
            for one, two in zip(layer.weights, second.get_layer(layer.name).weights, strict=True):
                assert np.allclose(one, two, atol=1e-9)


def test_what_the_source_lacks_is_said(berts, begun, caplog):
    tuned = begun(berts["qa"])
    assert f"first weights begin in: {POOLER}" in caplog.text
    assert tuned.metrics == {}  # no dev data
    assert tuned.folder is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": "sort"}, "task must be one of classify, tag, qa, got 'sort'"),
        ({"epoch": 3}, "finetune has no option 'epoch': did you mean epochs?"),
        ({"epochs": 0}, "epochs must be"),
        ({"warmup_share": 2}, "warmup_share must be a share, 0 … 1, got 2"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
        ({"precision": "half"}, "precision must be one of float32, mixed_bfloat16"),
        ({"lengths": (8, 4)}, "lengths must ascend"),
        ({"lengths": (4, 8)}, "an example must have at most 8 tokens, got 1"),
        ({"dev": [("a cat", "fine", None, "dev.tsv, line 7")]}, "dev.tsv, line 7"),
        ({"train": []}, "data for classify must have one record or more, got none"),
        ({"accumulation": 3}, "batch_size must be a multiple of 3"),
    ],
)
def test_bad_arguments_are_one_line(berts, sources, options, said):
    from kbert.data.classification import Labelled

    if "dev" in options:
        options = options | {"dev": [Labelled(*record) for record in options["dev"]]}
    options = {"task": "classify", **sources, "batch_size": 13, **QUIET} | options
    with pytest.raises(ValueError) as error:
        finetune(berts["encoder"], options.pop("task"), **options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_label_outside_the_range_is_named(berts, tmp_path):
    (tmp_path / "dev.tsv").write_text("a cat\t4\na dog\t5\n")
    with pytest.raises(
        ValueError, match=r"dev.tsv, line 2: label must be one of .* 0, 1, 2, 3, 4, got '5'"
    ):
        evaluate(berts["classifier"], "classify", tmp_path / "dev.tsv")
    with pytest.raises(ValueError, match="classifier"):
        evaluate(berts["encoder"], "classify", tmp_path / "dev.tsv")


def on_command_line(capsys, command, *arguments) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as done:
        run_command(command, [os.fspath(argument) for argument in arguments])
    return done.value.code or 0, *capsys.readouterr()


def test_the_commands(folder, sources, tmp_path, capsys, whole):
    output = tmp_path / "run"
    data = ("--train", sources["train"], "--dev", sources["dev"], "-o", output)
    settings = ("--epochs", "1", "--batch-size", "33", "--quiet")
    status, out, err = on_command_line(
        capsys, finetune_command, folder / "source", "--task", "classify", *data, *settings
    )
    assert (status, err) == (0, "")
    assert "accuracy 0." in out or "accuracy 1." in out
    assert f"wrote {output / 'model'}" in out
    status, out, _ = on_command_line(capsys, finetune_command, "--resume", output)
    assert (status, "accuracy" in out) == (0, True)
    asked = ("--task", "classify", "--data", sources["dev"])
    model = folder / "whole" / "model"
    status, out, _ = on_command_line(capsys, evaluate_command, model, *asked, "--format", "json")
    assert (status, json.loads(out)) == (0, pytest.approx(whole.metrics, rel=1e-4))
    status, out, _ = on_command_line(capsys, evaluate_command, model, *asked)
    assert f"accuracy  {whole.metrics['accuracy']:.4f}" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["SRC"], "--task is missing: kbert finetune SRC --task classify --train FILE -o RUN"),
        (["--resume", "RUN", "--task", "tag"], "--task does not go with --resume"),
        (["--resume", "RUN"], "no run: a folder with a settings.json expected"),
        (["SRC", "--task", "classify", "--train", "no.tsv", "-o", "RUN"], "no.tsv: No such file"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    status, out, err = on_command_line(capsys, finetune_command, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_every_setting_is_an_option():
    from kbert.cli_finetune import _SETTINGS
    from kbert.training.finetuning_settings import FinetuningSettings

    fields = {field.name: field.default for field in dataclasses.fields(FinetuningSettings)}
    assert set(_SETTINGS) == set(fields) - {"lengths"}
    for name, (kind, text) in _SETTINGS.items():
        if isinstance(fields[name], (int, float, str)) and kind is not bool:
            assert f"Default: {fields[name]}." in text.replace("5e-5", "5e-05")
