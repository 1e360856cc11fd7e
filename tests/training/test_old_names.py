"""The old name of a setting is refused with the new one; a renamed one is accepted."""

import inspect

import pytest
from helpers.command_line import kbert as run

import kbert
from kbert.graph import aliases

OLD = aliases.table()["old setting"]


@pytest.mark.parametrize("name", OLD)
def test_old_name_is_refused_with_the_new_one(name):
    calls = {
        kbert.pretrain: lambda: kbert.pretrain("shards", output="run", steps=1, **{name: 1}),
        kbert.finetune: lambda: kbert.finetune("x", "classify", train="train.tsv", **{name: 1}),
    }
    for function, call in calls.items():
        if OLD[name] in inspect.signature(function).parameters:
            for kind in (TypeError, ValueError):
                with pytest.raises(kind, match=f"no option '{name}': it is called {OLD[name]}$"):
                    call()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: kbert.plan(gpu="H100", rematerialize=True), "plan has .* gradient_checkpointing"),
        (lambda: kbert.account("tiny", lora=8), "account has no option 'lora': .* lora_rank"),
        (lambda: kbert.prepare("a", "b", "c", show=True), "prepare has .* called progress"),
        (lambda: kbert.PretrainingBatches("a", masked_share=0.1), "Batches has .* mlm_probability"),
        (lambda: kbert.build_encoder("tiny").summary(lora=8), "summary has .* lora_rank"),
        (lambda: kbert.glue("a", "b", output="c", lora=8), "^glue has .* lora_rank"),
        (lambda: kbert.glue("a", "b", output="c", lr=1), "^glue has .* learning_rates"),
    ],
)
def test_function_says_the_new_name_of_an_argument(call, says):
    with pytest.raises((TypeError, ValueError), match=says):
        call()


@pytest.fixture
def renamed(monkeypatch):
    """An option of `account` that had another name."""
    monkeypatch.setitem(aliases.table()["renamed option"], "length", "seq_len")


def test_renamed_option_is_accepted_and_the_log_names_the_new_one(renamed, caplog):
    assert kbert.account("tiny", length=7) == kbert.account("tiny", seq_len=7)
    (record,) = caplog.records
    assert "length" in record.getMessage() and "seq_len" in record.getMessage()


def test_renamed_option_beside_its_new_name_is_refused(renamed):
    with pytest.raises(TypeError, match="'length' and 'seq_len'"):
        kbert.account("tiny", length=7, seq_len=7)


def test_unknown_option_is_refused_with_the_closest_name():
    with pytest.raises(TypeError, match="account has no option 'seqlen': did you mean seq_len"):
        kbert.account("tiny", seqlen=7)


@pytest.mark.parametrize(
    ("arguments", "new"),
    [
        (["finetune", "x", "--lora", "8"], "--lora-rank"),
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
        (["plan", "base", "--rematerialize"], "--gradient-checkpointing"),
        (["finetune", "x", "--gradient-accumulation-steps", "2"], "--accumulation-steps"),
    ],
)
def test_command_line_says_the_new_name_of_an_option(capsys, arguments, new):
    done = run(capsys, *arguments)
    assert done.status == 2 and done.err.endswith(f"is called {new}.\n")
