"""`kbert pretrain`, its function and `resume`: results, errors, and resumed runs."""

import dataclasses
import json
import resource
import shutil

import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import check_logged, check_named, raises
from helpers.interrupted_run import Beginning, assert_states_equal
from helpers.labelled_texts import QUIET
from helpers.run_shards import CONFIG, SETTINGS, make_shards, without_times

import kbert
from kbert.graph import aliases
from kbert.graph.names import QUERIES, encoder
from kbert.tasks.pretraining.run_request import request_pretraining
from kbert.tasks.pretraining.settings import PretrainingSettings
from kbert.training.run.run_folder import COMPUTATION

pytestmark = pytest.mark.full
QUICK = SETTINGS | {"steps": 6, "evaluate_every": 3, "save_every": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "tiny.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    make_shards(folder)
    return folder


@pytest.fixture(scope="module")
def trained(data):
    config = kbert.BertConfig(**CONFIG)
    return kbert.pretrain(
        data / "shards", config, output=data / "run", keep_checkpoints=True, **QUIET, **QUICK
    )


def test_padding_token_of_the_shards_is_masked(tmp_path):
    """[PAD] is the third token, and a configuration says 0 where it says nothing."""
    tokens = ["[UNK]", "[CLS]", "[PAD]", "[SEP]", "[MASK]", "cat", "dog", "sat", "ran"]
    tokenizer = kbert.Tokenizer.from_vocab(tokens, lowercase=True)
    (tmp_path / "corpus.txt").write_text("cat sat\ndog ran\n\ndog sat\ncat ran\n" * 20)
    kbert.prepare(tmp_path / "corpus.txt", tokenizer, tmp_path / "shards", processes=1)
    places = {"shards": tmp_path / "shards", "dev": None}
    request = request_pretraining(PretrainingSettings(steps=1, seq_len=16), places, "tiny")
    assert request.read(request).config.pad_token_id == tokens.index("[PAD]")


@pytest.fixture
def unfinished(trained, tmp_path):
    """A copy of the run as it was after its last update but one."""
    shutil.copytree(trained.folder, tmp_path / "unfinished")
    (tmp_path / "unfinished" / "result.json").unlink()
    (tmp_path / "unfinished" / "checkpoints" / "step-00000006.safetensors").unlink()
    return tmp_path / "unfinished"


def test_run_folder_has_report_environment_and_result(trained):
    folder = trained.folder
    environment = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    assert environment["backend"] == "torch" and environment["devices"] == ["CPU"]
    assert environment["peak_flops_source"] == "given"
    assert str(folder.parent) not in (folder / "environment.json").read_text(encoding="utf-8")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert (
        page.startswith("<!doctype html>")
        and f"{trained.bert.model.count_params():,} param" in page
    )
    assert str(folder.parent) not in page
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert result["steps"] == 6 and result["val_loss"] == trained.history.updates[-1]["val_loss"]
    assert list((folder / "tensorboard").iterdir())


def test_both_saved_models_hold_the_last_weights(trained):
    from kbert.training.run.state_files import read_state

    arrays, _ = read_state(trained.folder / "checkpoints" / "step-00000006.safetensors")
    table = arrays["model/Embedding-Token/embeddings"]
    for name in ("model", "model.keras"):
        bert = kbert.load(trained.folder / name)
        assert bert.tokenizer.tokens == trained.bert.tokenizer.tokens
        weights = bert.model.get_layer("Embedding-Token").get_weights()[0]
        assert np.array_equal(weights, table)
    assert kbert.fill_mask(bert, "the cat [MASK] .", top_k=1)[0][0].token in bert.tokenizer.tokens


@pytest.mark.parametrize(
    "options", [{}, {"gradient_checkpointing": True}, {"lora_rank": 2, "lora_dropout": 0.1}]
)
def test_run_trains_the_graph_of_selected_positions_and_saves_the_plain_one(
    data, trained, tmp_path, options
):
    begun = Beginning()
    options = QUIET | QUICK | options | {"output": tmp_path / "r", "callbacks": [begun]}
    with raises(RuntimeError, "begun"):
        kbert.pretrain(data / "shards", init=trained.folder / "model", **options)
    assert encoder(1, QUERIES) in begun.weights
    saved = kbert.load(trained.folder / "model.keras").model
    assert encoder(1, QUERIES) not in [layer.name for layer in saved.layers]
    for layer in filter(lambda layer: layer.weights, saved.layers):
        found = begun.weights[layer.name][: len(layer.weights)]  # adapters come last
        for one, other in zip(layer.get_weights(), found, strict=True):
            assert np.array_equal(one, other)


def test_mfu_follows_the_accounting(trained):
    options = {"max_predictions": 3, "selected_positions": True}
    flops = kbert.account(kbert.BertConfig(**CONFIG), 17, 6, **options)
    line = trained.history.updates[-1]
    updates = line["tokens_per_second"] / (17 * 6)
    assert line["mfu"] == pytest.approx(updates * 6 * flops.training_flops_per_sequence / 1e9)


def test_resume_of_finished_run_says_so(trained, messages, capsys):
    again = kbert.resume(trained.folder, **QUIET)
    check_logged(messages, "6 steps", "finished")
    assert again.history.updates[-1]["step"] == 6
    asked = ("pretrain", "--resume", trained.folder)
    status, out, _ = kbert_command(capsys, *asked)
    check_named(out, "6 steps", "finished")
    assert status == 0 and "wrote" not in out
    status, out, err = kbert_command(capsys, *asked, "--steps", 9)
    check_named(err, "steps", "6", "9")
    assert status == 2 and out == ""


@pytest.mark.parametrize("name", ["Lion", "Adafactor"])
def test_run_with_an_optimizer_of_keras_resumes_bit_equal(data, tmp_path, name):
    import keras

    chosen = getattr(keras.optimizers, name)
    folder, whole = tmp_path / "run", tmp_path / "whole"
    options = QUIET | QUICK | {"output": folder, "keep_checkpoints": True}
    optimizer = chosen(**({"beta_1": 0.8} if name == "Lion" else {"epsilon_2": 2e-3}))
    run = kbert.pretrain(
        data / "shards", kbert.BertConfig(**CONFIG), optimizer=optimizer, **options
    )
    assert run.history.updates[-1]["loss"] < 1.1 * run.history.updates[0]["loss"]
    shutil.copytree(folder, whole)
    (folder / "result.json").unlink()
    (folder / "checkpoints/step-00000006.safetensors").unlink()
    kbert.resume(folder, **QUIET)
    assert_states_equal(whole, folder, 6)
    assert name in (folder / "report.html").read_text(encoding="utf-8")
    assert f"`optimizer` | {name}" in (folder / "model" / "README.md").read_text(encoding="utf-8")


def test_resume_refuses_other_settings_by_name(unfinished):
    with raises(ValueError, "learning_rate", "0.003", "0.1"):
        kbert.resume(unfinished, learning_rate=0.1, **QUIET)
    with raises(ValueError, "'learningrate'", "learning_rate"):
        kbert.resume(unfinished, learningrate=0.1, **QUIET)
    for other in ({"epochs": 3}, {"train": "train.tsv"}):  # of fine-tuning
        with raises(ValueError, "pretrain", f"'{next(iter(other))}'"):
            kbert.resume(unfinished, **other, **QUIET)


def test_resume_refuses_other_data_by_name(unfinished, tmp_path):
    other = make_shards(tmp_path, seed=5)
    with raises(ValueError, "data.train.shards.corpus") as error:
        kbert.resume(unfinished, shards=other, **QUIET)
    text = str(error.value)
    assert "\n" not in text and len(text) < 500  # hashes are cut
    assert "shards.corpus[0].bytes" in text


@pytest.mark.parametrize("version", [None, 1, 999])
def test_run_of_another_computation_is_refused_on_one_line(unfinished, capsys, version):
    file = unfinished / "settings.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    if version is None:  # as the first releases wrote it
        del content["computation"]
    else:
        content["computation"] = version
    file.write_text(json.dumps(content), encoding="utf-8")
    before = sorted((unfinished / "checkpoints").iterdir())
    things = (unfinished, f"version {COMPUTATION}", f"got {version or 1}")
    with raises(ValueError, *things) as error:
        kbert.resume(unfinished, **QUIET)
    assert "\n" not in str(error.value)
    status, _, err = kbert_command(capsys, "pretrain", "--resume", unfinished)
    check_named(err, *things)
    assert status == 2 and err.count("\n") == 1
    assert sorted((unfinished / "checkpoints").iterdir()) == before
    (unfinished / "result.json").write_text('{"steps": 6}', encoding="utf-8")  # finished: opened
    assert len(kbert.resume(unfinished, **QUIET).history.updates) == 6


def with_old_names(content: dict) -> dict:
    """Give settings the names that older releases wrote."""
    old = {new: name for name, new in aliases.table()["old setting"].items()}
    return {
        old.get(name, name): with_old_names(value) if isinstance(value, dict) else value
        for name, value in content.items()
    }


def test_finished_run_of_an_older_release_is_opened(trained, tmp_path, capsys):
    folder = shutil.copytree(trained.folder, tmp_path / "run")
    content = with_old_names(json.loads((folder / "settings.json").read_text())) | {"keep": "all"}
    assert {"rematerialize", "lora", "masked_share", "held_out"} <= set(content["settings"])
    assert "masked_share" in content["fingerprint"]["train"]
    del content["computation"]
    (folder / "settings.json").write_text(json.dumps(content))
    opened = kbert.resume(folder, **QUIET)
    assert without_times(opened.history.updates) == without_times(trained.history.updates)
    assert list((folder / "checkpoints").glob("*.safetensors"))  # they are not removed
    done = kbert_command(capsys, "pretrain", "--resume", folder)
    check_named(done.out, "6 steps", "finished")
    assert done.status == 0


def test_resume_of_missing_data_or_other_task_is_refused(unfinished, tmp_path, capsys):
    file = unfinished / "settings.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["places"]["shards"] = str(tmp_path / "nowhere")
    file.write_text(json.dumps(content), encoding="utf-8")
    how = ("SHARDS --resume",)
    with raises(FileNotFoundError, *how) as error:
        kbert.resume(unfinished, **QUIET)
    assert str(error.value).startswith(str(tmp_path / "nowhere"))
    content["places"] = {"source": "a", "train": "b.tsv", "dev": "c.tsv"}
    file.write_text(json.dumps(content | {"task": "finetune"}), encoding="utf-8")
    status, _, err = kbert_command(capsys, "pretrain", "--resume", unfinished)
    assert status == 2 and "kbert finetune --resume" in err


def test_too_long_sentences_are_reported_once(data, messages):
    from kbert.tasks.pretraining.run_request import open_batches
    from kbert.tasks.pretraining.settings import PretrainingSettings

    settings = PretrainingSettings(steps=1, batch_size=2, seq_len=8, dev_ratio=0.2)
    places = {"shards": data / "shards", "dev": None}
    assert all(open_batches(places, settings))
    assert sum("seq_len=8" in line for line in messages) == 1
    messages.clear()
    open_batches(places, dataclasses.replace(settings, mlm_only=True))
    assert not messages  # packed documents are not cut


def test_moved_shards_are_the_same_data(unfinished, data, tmp_path, trained):
    moved = shutil.copytree(data / "shards", tmp_path / "elsewhere")
    again = kbert.resume(unfinished, shards=moved, **QUIET)
    np.testing.assert_equal(again.bert.model.get_weights(), trained.bert.model.get_weights())


def test_full_disk_ends_the_run_with_a_whole_state(unfinished, capsys):
    """As the kernel says it: a limit on the size of files, which the state exceeds."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        status, _, err = kbert_command(capsys, "pretrain", "--resume", unfinished, "--quiet")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    last = err.splitlines()[-1]
    assert status == 2 and "File too large" in last and "step-00000006" in last
    assert "last good state is from step" in last and f"--resume {unfinished}" in last
    assert not list((unfinished / "checkpoints").glob(".*"))
    assert kbert.resume(unfinished, **QUIET).history.updates[-1]["step"] == 6


def test_vanished_data_end_the_run_and_it_resumes_later(data, tmp_path, messages):
    shards = shutil.copytree(data / "shards", tmp_path / "shards")
    tokens = shards / "tokens-00000.npy"

    import keras

    class Removes(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if tokens.exists():
                tokens.rename(tmp_path / "kept.npy")

    options = QUICK | {"evaluate_every": 1, "dev_ratio": 0, "steps": 20}
    config = kbert.BertConfig(**CONFIG)
    with raises(OSError, "tokens-00000.npy") as error:
        kbert.pretrain(
            shards, config, output=tmp_path / "r", callbacks=[Removes()], **QUIET, **options
        )
    assert error.value.filename == str(tokens)
    check_named("\n".join(messages), "saved", "kbert.resume('")
    (tmp_path / "kept.npy").rename(tokens)
    again = kbert.resume(tmp_path / "r", **QUIET)
    assert [line["step"] for line in again.history.updates] == list(range(1, 21))


@pytest.mark.parametrize(
    ("changes", "things"),
    [
        ({"seq_len": 18}, ("seq_len", "17", "got 18")),
        ({"batch_size": 7, "accumulation_steps": 2}, ("batch_size", "2")),
        ({"precision": "int8"}, ("precision", "float32, mixed_bfloat16, mixed_float16", "int8")),
        (
            {"config": kbert.BertConfig(**CONFIG | {"vocab_size": 11})},
            ("vocab_size",),
        ),
        ({"init": "nothing/there.keras"}, ("nothing/there.keras",)),
        ({"steps": 5, "warmup_steps": 6}, ("warmup_steps", "got 6")),
        ({"schedule": "cosin"}, ("'cosin'", "cosine")),
        ({"dev_ratio": 0.99}, ("dev_ratio=0.99",)),
        ({"dev": "data", "dev_ratio": 0.1}, ("dev", "dev_ratio")),
    ],
)
def test_bad_pretrain_arguments_leave_no_run(data, tmp_path, changes, things):
    config = changes.pop("config", kbert.BertConfig(**CONFIG))
    if "dev" in changes:
        changes["dev"] = data / "shards"
    with raises((ValueError, FileNotFoundError), *things) as error:
        kbert.pretrain(data / "shards", config, output=tmp_path / "r", **QUIET, **(QUICK | changes))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "r" / "settings.json").exists()
