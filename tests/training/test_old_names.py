"""The old name of a setting is refused with the new one."""

import pytest
from helpers.command_line import kbert as run

import kbert
from kbert.graph import aliases
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.pretraining.settings import PretrainingSettings

OLD = aliases.table()["old setting"]


@pytest.mark.parametrize("name", OLD)
def test_old_name_is_refused_with_the_new_one(name):
    own = {field.name for field in PretrainingSettings.fields()}
    own |= {"progress", "keep_checkpoints"}
    settings = PretrainingSettings if OLD[name] in own else FinetuningSettings
    with pytest.raises(ValueError, match=f"no option '{name}': it is called {OLD[name]}$"):
        settings.from_options({name: 1})


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
