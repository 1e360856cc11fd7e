"""The old name of a setting is accepted; that of another library is answered with ours."""

import pytest
from helpers.command_line import kbert as run
from helpers.errors import check_logged, check_named, raises

import kbert
from kbert.graph import aliases
from kbert.tasks.pretraining.settings import PretrainingSettings

OLD = aliases.table()["old setting"]


@pytest.mark.parametrize("name", OLD)
def test_old_name_is_accepted_and_the_log_has_the_new_one(name, messages):
    new = OLD[name]
    assert aliases.rename_options("finetune", {name: 1, "seed": 3}, [new, "seed"]) == {
        new: 1,
        "seed": 3,
    }
    (line,) = messages
    check_named(line, name, new)


def test_old_name_of_a_setting_is_the_new_one(messages):
    old = PretrainingSettings.from_options({"steps": 9, "masked_share": 0.2})
    assert old == PretrainingSettings(steps=9, mlm_probability=0.2)
    assert kbert.account("tiny", lora=8) == kbert.account("tiny", lora_rank=8)
    check_logged(messages, "mlm_probability")
    check_logged(messages, "lora_rank")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: kbert.plan(gpu="H100", recompute=True), ("plan", "gradient_checkpointing")),
        (lambda: kbert.account("tiny", r=8), ("account", "'r'", "lora_rank")),
        (lambda: kbert.glue("a", "b", output="c", lr=1), ("glue", "learning_rates")),
    ],
)
def test_function_says_the_new_name_of_an_argument(call, says):
    with raises((TypeError, ValueError), *says):
        call()


def test_old_name_beside_its_new_one_is_refused():
    with raises(TypeError, "'lora'", "'lora_rank'"):
        kbert.account("tiny", lora=7, lora_rank=7)


def test_unknown_option_is_refused_with_the_closest_name():
    with raises(TypeError, "account", "'seqlen'", "seq_len"):
        kbert.account("tiny", seqlen=7)


@pytest.mark.parametrize(
    ("arguments", "new"),
    [
        (["finetune", "x", "--no-rematerialize"], "--no-gradient-checkpointing"),
        (["pretrain", "x", "--keep", "all"], "--keep-checkpoints (instead of --keep all)"),
        (["plan", "base", "--json"], "--format json"),
        (["plan", "base", "--batch", "8"], "--batch-size"),
        (["inspect", "x", "--output", "json"], "--format"),
        (["inspect", "x", "--format", "google"], "--from-format"),
        (["convert", "x", "y", "--format", "google"], "--from-format"),
        (["prepare", "x", "--format", "wikitext"], "--corpus-format"),
        (["finetune", "x", "--output_dir", "y"], "--output"),
        (["finetune", "x", "--batch_size", "8"], "--batch-size"),
        (["finetune", "x", "--gradient-accumulation-steps", "2"], "--accumulation-steps"),
    ],
)
def test_command_line_says_the_new_name_of_an_option(capsys, arguments, new):
    done = run(capsys, *arguments)
    assert done.status == 2 and done.err.endswith(f"is called {new}.\n")
