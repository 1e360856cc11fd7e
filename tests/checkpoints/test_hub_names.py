"""Names of models: what is one, what is a path, and every command that takes a checkpoint."""

import shutil

import pytest
from helpers.command_line import kbert as run
from helpers.errors import logged, raises
from helpers.hub_models import BERT, failed_line
from helpers.labelled_texts import write_texts
from helpers.marks import full
from helpers.peer_outputs import run_peer
from numpy.testing import assert_equal

import kbert
from kbert.graph.presets import PRESETS
from kbert.hub import fetching
from kbert.hub.cached_models import list_cached_models
from kbert.hub.names import ModelName, list_known_models

NAMES = {
    "bert-base-uncased": ("hf", BERT, None),
    "bert-base-uncased@v1": ("hf", BERT, "v1"),
    BERT: ("hf", BERT, None),
    f"hf://{BERT}@refs/pr/1": ("hf", BERT, "refs/pr/1"),
    f"hf:/{BERT}": ("hf", BERT, None),  # what pathlib.Path makes of an address
    # what people paste
    f"https://huggingface.co/{BERT}": ("hf", BERT, None),
    f"https://huggingface.co/{BERT}/tree/v1": ("hf", BERT, "v1"),
    "hf://bert-base-uncased": ("hf", BERT, None),
    "models--google-bert--bert-base-uncased": ("hf", BERT, None),
    "my-org/m.1_b-2": ("hf", "my-org/m.1_b-2", None),
    "kaggle://keras/bert/keras/bert_base_en": ("kaggle", "keras/bert/keras/bert_base_en", None),
    "kaggle://keras/bert/keras/bert_base_en/3": ("kaggle", "keras/bert/keras/bert_base_en", "3"),
}
PATHS = ["", ".", "./a", "../a", "/a/b", "a/b/c", "~/a", "a/", "org/model.keras", "a b/c", "org/-m"]
MALFORMED = [
    "hf://bert-bse",
    "hf://a/b/c",
    "hf://a/b@",
    "kaggle://keras/bert",
    "kaggle:bert_base_en",
]
REVISIONS = ["/etc", "../..", "a@b", "a/", ".", "a//b"]


@pytest.mark.parametrize("text", NAMES)
def test_names_are_read(text):
    name = ModelName.parse(text)
    assert (name.hub, name.repo, name.revision) == NAMES[text]
    assert ModelName.parse(str(name)) == name


def test_what_can_only_be_a_path_is_no_name():
    assert [ModelName.parse(text) for text in PATHS] == [None] * len(PATHS)


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_addresses_are_refused(text, capsys):
    with raises(ValueError, text):
        kbert.load(text)
    assert text in failed_line(capsys, "inspect", text)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_revision_is_no_path(revision):
    for name in ("bert-base-uncased", "hf://org/name"):
        with raises(ValueError, f"{name}@{revision}"):
            kbert.load(f"{name}@{revision}")
    with pytest.raises((ValueError, OSError)):
        kbert.load(f"org/name@{revision}")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_has_no_weights_and_the_line_names_those_of_google(preset):
    with raises(FileNotFoundError, preset) as caught:
        kbert.load(preset)
    name = str(caught.value).split("load('")[1].split("'")[0]
    row = next(row for row in list_known_models().values() if row["name"] == name)
    sizes = {
        key: value for key, value in vars(PRESETS[row["preset"]]).items() if "vocab" not in key
    }
    assert sizes == {key: vars(PRESETS[preset])[key] for key in sizes}


def test_a_name_with_a_slip_is_answered_with_the_right_one(hub, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm").mkdir()
    assert "minilm" not in failed_line(capsys, "inspect", "minlm")
    (tmp_path / "minilm" / "config.json").write_text("{}")
    line = failed_line(capsys, "inspect", "minlm")
    assert "'minlm'" in line and " minilm?" in line
    line = failed_line(capsys, "inspect", "./minlm")
    assert "./minlm:" in line and " ./minilm?" in line
    assert "bert-large-cased" in failed_line(capsys, "inspect", "bert-large-casd")
    assert "wholly-other" in failed_line(capsys, "inspect", "wholly-other")
    assert hub.requests == []


@pytest.mark.parametrize("name", ["bert-base-uncased", BERT])
def test_a_path_goes_before_a_name_and_a_message_says_so(hub, saved, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(saved[0] / "encoder", tmp_path / name)
    hub.add(BERT, saved[0] / "pretraining")
    fetching.warn_of_namesake.cache_clear()
    with logged(f"{name} ", f"hf://{BERT}"):
        bert = kbert.load(name)
    assert bert.head == "encoder" and bert.source is None and hub.requests == []
    assert kbert.load(f"hf://{BERT}").head == "pretraining"


@pytest.mark.full
def test_a_folder_of_an_owners_name_hides_none_of_its_models(hub, saved, tmp_path, monkeypatch):
    """Only a whole path that exists goes before a name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "google-bert").mkdir()
    commit = hub.add(BERT, saved[0] / "pretraining")
    for name in (BERT, "bert-base-uncased", f"{BERT}@{commit}"):
        assert kbert.load(name).source == f"hf://{BERT}@{commit}"
    assert [one.name for one in list_cached_models()] == [BERT]


def test_an_abbreviated_commit_is_found_in_the_cache(hub, saved, capsys):
    commit = hub.add(BERT, saved[0] / "pretraining")
    kbert.download(BERT)
    assert kbert.load(f"{BERT}@{commit[:8]}").source == f"hf://{BERT}@{commit}"
    line = failed_line(capsys, "inspect", f"{BERT}@nope")
    assert BERT in line and "'nope'" in line


def test_a_model_of_another_family_is_refused_before_its_weights(hub, saved, tmp_path, capsys):
    """After config.json, whose words are transformers'."""
    folder = tmp_path / "gpt2"
    shutil.copytree(saved[0] / "pretraining", folder)
    (folder / "config.json").write_text('{"model_type": "gpt2", "n_embd": 24}')
    hub.add("openai-community/gpt2", folder)
    assert "GPT-2" in failed_line(capsys, "inspect", "openai-community/gpt2")
    assert "model.safetensors" not in hub.sent()


QUICK = ("inspect", "embed", "convert")
COMMANDS = {  # the head that is asked for, and the rest of the line
    "inspect": ("encoder", []),
    "embed": ("encoder", ["{folder}/lines.txt", "-o", "{out}.npy"]),
    "convert": ("encoder", ["{out}.keras"]),
    "fill-mask": ("pretraining", ["the [MASK] sat"]),
    "similarity": ("encoder", ["a cat", "the moon"]),
    "search": ("encoder", ["a cat", "the moon", "a dog"]),
    "rank": ("classifier", ["a cat", "the moon", "a dog", "--label", "LABEL_1"]),
    "attention": ("encoder", ["a cat", "-o", "{out}.html"]),
    "attribute": ("classifier", ["a cat"]),
    "next-sentence": ("pretraining", ["a cat", "the moon"]),
    "classify": ("classifier", ["a cat"]),
    "tag": ("tokens", ["a cat"]),
    "answer": ("qa", ["a cat", "the moon"]),
    "evaluate": ("classifier", ["--task", "classify", "--data", "{folder}/dev.tsv"]),
    "explore": ("encoder", ["-o", "{out}.html"]),
    "finetune": (
        "encoder",
        ["--task", "classify", "--train", "{folder}/train.tsv", "-o", "{out}", "--epochs", "1"],
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("command", [name if name in QUICK else full(name) for name in COMMANDS])
def test_commands_open_models_by_their_names(hub, saved, tmp_path, capsys, command):
    head, rest = COMMANDS[command]
    hub.add("org/model", saved[0] / head)
    (tmp_path / "lines.txt").write_text("a cat\nthe red moon\n", encoding="utf-8")
    write_texts(tmp_path / "train.tsv", 13, 1)
    (tmp_path / "dev.tsv").write_text("a cat\t1\nthe red moon\t4\n", encoding="utf-8")
    words = [word.format(folder=tmp_path, out=tmp_path / "out") for word in rest]
    done = run(capsys, command, "org/model", *words, "--quiet")
    assert done.status == 0, done.err
    assert any(file.startswith("model.safe") for file in hub.sent())


@pytest.mark.full
def test_adapters_are_opened_by_their_names(hub, tmp_path, capsys):
    """PEFT's own adapter and its base, each by name and by path."""
    run_peer("peer_peft_folder:write_adapters", tmp_path)
    paths = [tmp_path / "classifier_base", tmp_path / "classifier"]
    names = ["org/base", "org/adapter"]
    for name, path in zip(names, paths, strict=True):
        hub.add(name, path)
    ours, theirs = (kbert.load(base, adapter=adapter) for base, adapter in (names, paths))
    assert ours.adapter is not None and ours.labels == theirs.labels
    assert_equal(ours.model.get_weights(), theirs.model.get_weights())
    out = tmp_path / "merged"
    assert run(capsys, "convert", "org/base", out, "--adapter", "org/adapter").status == 0
    assert kbert.load(out).source is None
