"""Fine-tuning with several examples in a row of the batch, end to end."""

import json

import numpy as np
import pytest
from helpers.interrupted_run import Beginning, Copies, assert_states_equal
from helpers.labelled_texts import write_texts
from helpers.sample_data import TAGGED, sample_bert
from helpers.small_berts import small_bert

import kbert
from kbert.graph.names import CLASSIFIER, PACKED_TEXTS, QUERIES, encoder
from kbert.graph.spec import GraphSpec
from kbert.tasks.finetuning.evaluate import evaluate
from kbert.tasks.finetuning.finetune import finetune
from kbert.tasks.finetuning.recipe import mean_flops
from kbert.tasks.resume import resume

QUIET = {"progress": False, "peak_flops": 1e9}
SETTINGS = {"epochs": 10, "batch_size": 13, "learning_rate": 5e-3, "seed": 4, "save_every": 5}
SETTINGS |= QUIET | {"keep_checkpoints": True, "packing": True}
STEPS = 60  # 10 epochs of 66 examples: 6 batches of 11


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small):
    folder = tmp_path_factory.mktemp("packed")
    write_texts(folder / "train.tsv", 66, 1)
    write_texts(folder / "dev.tsv", 23, 2)
    kbert.save(small_bert(small.replace(num_hidden_layers=1), "encoder"), folder / "source")
    return folder


@pytest.fixture(scope="module")
def sources(folder):
    return {"train": folder / "train.tsv", "dev": folder / "dev.tsv"}


@pytest.fixture(scope="module")
def whole(folder, sources):
    copies = Copies(folder / "whole", folder / "crashed", 23, state=20)
    options = {"output": folder / "whole", "callbacks": [copies]}
    return finetune(folder / "source", "classify", **options, **sources, **SETTINGS)


def test_packed_training_learns(whole, folder, sources):
    losses = [line["Classifier_loss"] for line in whole.history.updates]
    assert len(losses) == STEPS and np.mean(losses[-6:]) < 0.5 * np.mean(losses[:6])
    assert whole.metrics["accuracy"] > 0.9
    figures = evaluate(folder / "whole" / "model", "classify", sources["dev"])
    assert figures == pytest.approx(whole.metrics, rel=1e-4)
    settings = json.loads((folder / "whole" / "settings.json").read_text())["settings"]
    assert settings["packing"] is True and len(settings["lengths"]) == 1


@pytest.mark.full
def test_resume_of_packed_run_is_bit_equal(whole, folder):
    with pytest.raises(ValueError, match=r"packing: the run has true, now false"):
        resume(folder / "crashed", packing=False, **QUIET)
    tuned = resume(folder / "crashed", **QUIET)
    assert_states_equal(folder / "whole", folder / "crashed", STEPS)
    assert tuned.metrics == whole.metrics


@pytest.mark.parametrize(
    "options", [{}, {"gradient_checkpointing": True}, {"lora_rank": 2, "lora_dropout": 0.1}]
)
def test_packed_run_trains_the_packed_graph(folder, sources, options):
    begun = Beginning()
    with pytest.raises(RuntimeError, match="begun"):
        finetune(folder / "source", "classify", callbacks=[begun], **sources, **SETTINGS | options)
    assert {PACKED_TEXTS, encoder(1, QUERIES)} <= set(begun.weights)


@pytest.mark.full
def test_gradient_checkpointing_changes_no_number_of_a_packed_run(whole, folder, sources):
    options = {"output": folder / "again", "gradient_checkpointing": True}
    options["callbacks"] = [Copies(folder / "again", folder / "stopped", 23, state=20)]
    again = finetune(folder / "source", "classify", **options, **sources, **SETTINGS)
    for one, other in zip(again.history.updates, whole.history.updates, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-3)
    resume(folder / "stopped", **QUIET)
    assert_states_equal(folder / "again", folder / "stopped", STEPS)


def test_saved_model_of_a_packed_run_is_the_plain_graph(whole, folder):
    plain = kbert.load(folder / "source").model.input_names
    for bert in (whole.bert, kbert.load(folder / "whole" / "model.keras")):
        assert bert.model.input_names == plain
        assert not (bert.model.spec.packed or bert.model.spec.selected_positions)


@pytest.mark.full
def test_packed_tagger_learns():
    bert = sample_bert()
    options = {"epochs": 6, "batch_size": 16, "learning_rate": 3e-3, "packing": True}
    tuned = finetune(
        bert, "tag", train=TAGGED, dev=TAGGED, accumulation_steps=2, **options, **QUIET
    )
    losses = [line["TokenClassifier_loss"] for line in tuned.history.updates]
    assert np.mean(losses[-3:]) < 0.5 * np.mean(losses[:3])


def test_flops_count_packed_rows(small):
    """By the accounting's of a sequence as long as a row, times the rows."""
    from kbert.data.labelled.length_buckets import Examples
    from kbert.data.labelled.packed_batches import PackedBatches

    ids = [[1] * 8] * 12  # two in a row
    examples = Examples(ids, ids, {CLASSIFIER: [0] * 12})
    batches = PackedBatches(examples, batch_size=12, row_length=17)
    spec = GraphSpec(small, "classifier", num_labels=5)
    account = kbert.account(small, 17, head="classifier", num_labels=5)
    assert batches.shapes_in(0) == [(6, 17)]
    assert mean_flops(spec, batches) == 6 * account.training_flops_per_sequence


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"packing": 1}, "packing must be True or False, got 1"),
        (
            {"lengths": (8, 16)},
            "lengths must be one number with packing, the length of its rows, got (8, 16)",
        ),
        ({"lengths": (4,)}, "row_length must hold the longest text, 1"),
        ({"task": "qa"}, "packing must be for the task classify or tag, got qa"),
        ({"accumulation_steps": 3}, "batch_size must be a multiple of 3"),
    ],
)
def test_bad_packing_arguments_are_one_line_errors(folder, sources, options, said):
    options = {"task": "classify", **sources, "batch_size": 13, "packing": True} | QUIET | options
    with pytest.raises(ValueError) as error:
        finetune(folder / "source", options.pop("task"), **options)
    assert said in str(error.value) and "\n" not in str(error.value)
