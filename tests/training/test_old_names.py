"""Finished runs of older releases are opened; a setting's old name is refused with the new one."""

import json

import pytest
from helpers.command_line import kbert as run
from helpers.run_shards import CONFIG, SETTINGS, make_shards, without_times

import kbert
from kbert.graph import aliases
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.pretraining.settings import PretrainingSettings

QUIET = {"progress": False, "peak_flops": 1e9}
OLD = aliases.table()["old setting"]


def with_old_names(content: dict) -> dict:
    """Give settings the names that older releases wrote."""
    old = {new: name for name, new in OLD.items()}
    return {
        old.get(name, name): with_old_names(value) if isinstance(value, dict) else value
        for name, value in content.items()
    }


def test_finished_run_of_an_older_release_is_opened(tmp_path, capsys):
    config, folder = kbert.BertConfig(**CONFIG), tmp_path / "run"
    options = SETTINGS | QUIET | {"steps": 3, "save_every": 1, "keep_checkpoints": True}
    first = kbert.pretrain(make_shards(tmp_path), config, output=folder, **options)
    content = with_old_names(json.loads((folder / "settings.json").read_text())) | {"keep": "all"}
    assert {"rematerialize", "lora", "masked_share", "held_out"} <= set(content["settings"])
    assert "masked_share" in content["fingerprint"]["train"]
    del content["computation"]
    (folder / "settings.json").write_text(json.dumps(content))
    opened = kbert.resume(folder, **QUIET)
    assert without_times(opened.history.updates) == without_times(first.history.updates)
    assert list((folder / "checkpoints").glob("*.safetensors"))  # they are not removed
    done = run(capsys, "pretrain", "--resume", folder)
    assert done.status == 0 and "is finished already, after 3 steps" in done.out


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
