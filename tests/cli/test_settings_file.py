"""`--settings FILE` and `--print-settings`: what is read, what is refused, what is printed.

Whole runs are in tests/on_torch/test_runs_from_files.py.
"""

import json
import math
import os
import re
import sys
import tomllib

import keras  # noqa: F401  started here, so that no command says that it is starting Keras
import pytest
import yaml
from helpers.command_line import kbert as run
from helpers.errors import check_named
from helpers.marks import full
from helpers.sizes import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from kbert.cli import yaml_text
from kbert.cli.main import cli

LARGEST_YAML = 2**18
RUN = {"task": "finetune", "run": "1", "fingerprint": {}, "settings": {"task": "tag"}}
OF_PRETRAIN = RUN | {"task": "pretrain"}

# A file's ending and content, and parts of what the line says besides the name of the file.
MISTAKES = [
    ("yaml", "epoch: 3", "'epoch'", "epochs"),
    ("yaml", "num_train_epochs: 3", "'num_train_epochs'", "epochs"),
    ("yaml", "output_dir: run", "'output_dir'", "output"),
    ("yaml", "model_name_or_path: x", "'model_name_or_path'", "source"),
    ("yaml", "batch-size: 3", "'batch-size'", "batch_size"),
    ("yaml", "steps: 3", "'steps'", "kbert finetune --help"),
    ("yaml", "callbacks: []", "'callbacks'"),
    ("yaml", "resume: run", "'resume'"),
    ("yaml", "'': 1", "''"),
    ("yaml", "epochs: many", "epochs", "whole number", "'many'"),
    ("yaml", "epochs:", "epochs", "whole number", "None"),
    ("yaml", "epochs: 2.0", "epochs", "whole number", "2.0"),
    ("yaml", "epochs: yes", "epochs", "'yes'"),
    ("yaml", "learning_rate: .nan", "learning_rate", "finite"),
    ("yaml", "learning_rate: '1e-5'", "learning_rate", "'1e-5'"),
    ("yaml", "keep_best: maybe", "keep_best", "True or False", "'maybe'"),
    ("yaml", "keep_best: 1", "keep_best", "True or False"),
    ("yaml", "precision: fp16", "precision", "'fp16'", "mixed_float16"),
    ("yaml", "label_columns: a", "label_columns", "two or more"),
    ("yaml", "lengths: 32, x", "lengths", "'x'"),
    ("yaml", "text_column: {a: 1}", "text_column"),
    ("yaml", "freeze: [1, 2]", "freeze"),
    ("yaml", "optimizer: 3", "optimizer", "adamw", "settings file"),
    ("yaml", "schedule: 3", "schedule", "cosine", "settings file"),
    ("yaml", "loss: 3", "loss", "huber", "settings file"),
    ("yaml", "metrics: 3", "metrics", "settings file"),
    ("yaml", "class_weights: 3", "class_weights", "weights by label"),
    ("yaml", "loss: {function: mine.focal}", "loss", "kbert.finetune(…, loss=focal)"),
    ("yaml", "metrics: [{function: mine.rate}]", "metrics", "kbert.finetune(…, metrics=[rate])"),
    ("yaml", "schedule_power: 2", "schedule_power", "linear"),
    ("yaml", "lora_targets: query", "lora_targets", "lora_rank"),
    ("yaml", "lora_targets: [query, dense]\nlora_rank: 2", "lora_targets", "dense"),
    ("yaml", "lora_targets: []\nlora_rank: 2", "lora_targets", "[]"),
    ("yaml", "output: ~nobody-at-all/x", "output", "~nobody-at-all"),
    ("yaml", "temperature: 3", "temperature", "teacher"),
    ("yaml", "patience: 3", "patience", "dev"),
    ("yaml", "task: classify\nscale: 3", "scale", "embed"),
    ("yaml", "optimizer: {config: {}}", "optimizer", "adamw"),
    ("yaml", "devices: 0", "devices", "at least 1"),
    ("yaml", "progress: 3", "progress"),
    ("yaml", "seed: 2024-01-01", "seed", "'2024-01-01'"),
    ("yaml", "seed: 1:30", "seed", "'1:30'"),
    ("yaml", "seed: 010", "seed", "'010'"),
    ("yaml", "task: clasify", "task", "'clasify'", "classify"),
    ("yaml", "task: mlm", "task", "kbert.pretrain"),
    ("yaml", "task: [tag]", "task", "['tag']"),
    ("yaml", "train: [a, b]", "train", "path"),
    ("yaml", "train: ''", "train", "path"),
    ("yaml", "source: 3", "source", "path", "3"),
    ("yaml", "output: hf://a/b", "hf://a/b"),
    ("yaml", "- epochs", "got list"),
    ("yaml", "epochs", "got str"),
    ("yaml", "", "an empty file"),
    ("yaml", "# epochs: 3", "an empty file"),
    ("yaml", "seed: 1\nepochs: 2: 3", "line 2"),
    ("yaml", "epochs: 1\nseed: 2\nepochs: 3", "line 3", "'epochs'", "twice"),
    ("yaml", "optimizer:\n  class_name: Lion\n  class_name: SGD", "line 3", "'class_name'"),
    ("yaml", "1: a\n'1': b", "line 2", "'1'"),
    ("yaml", "? [a]\n: 1", "line 1", "key"),
    ("yaml", "seed: 1\n---\nseed: 2", "line 2"),
    ("yaml", "seed: \t", "line 1"),
    ("yaml", "seed: 'x", "line 1"),
    ("yaml", "a: &a [1]\nb: *a", "line 2"),
    ("yaml", "a: &a [*a]", "line 1"),
    ("yaml", "seed: !!python/object:os.system ls", "line 1", "!name"),
    ("yaml", "seed: !!timestamp 2024-01-01", "line 1"),
    ("yaml", "seed: " + "[" * 5000, "line 1", "levels"),
    ("yaml", "seed: " + "9" * 80, "80 digits"),
    ("yaml", "seed: " + "9" * 5000, "digits"),
    ("yaml", "seed: \x00", "0000"),
    ("yaml", b"seed: \xff", "UTF-8"),
    ("yaml", "# " + "x" * LARGEST_YAML, f"{LARGEST_YAML:,} bytes"),
    ("toml", "epochs = 1\nepochs = 2", "TOML", "overwrite"),
    ("toml", "epochs =", "TOML"),
    ("toml", "epochs = 2024-01-01", "TOML", "date"),
    ("toml", "[training]\nepochs = 1", "'training'"),
    ("toml", "learning_rate = nan", "learning_rate", "finite"),
    ("toml", "x = " + "[" * 5000, "TOML"),
    ("toml", b"seed = '\xff'", "UTF-8"),
    ("toml", "", "an empty file"),
    ("json", '{"epochs": 1, "epochs": 2}', "'epochs'", "twice"),
    ("json", '{"learning_rate": NaN}', "learning_rate", "finite"),
    ("json", '{"epochs": 3,', "line 1"),
    ("json", "[3]", "got list"),
    ("json", "", "an empty file"),
    ("json", '{"epochs": "3"}', "epochs", "'3'"),
    ("json", json.dumps(OF_PRETRAIN), "kbert pretrain"),
    ("json", json.dumps(RUN | {"fingerprint": 3}), "fingerprint"),
    ("json", json.dumps(RUN | {"settings": {"task": "sing"}}), "task", "'sing'"),
    ("json", json.dumps(RUN | {"settings": {"accumulation": 3}}), "accumulation_steps"),
    ("txt", "epochs: 3", ".yaml, .yml, .json, .toml"),
]
PRETRAIN_MISTAKES = [
    ("yaml", "max_length: 3", "'max_length'", "seq_len"),
    ("yaml", "train: x", "'train'"),
    ("yaml", "config: {vocab_size: 9, hiden_size: 3}", "config", "'hiden_size'", "hidden_size"),
    ("yaml", "config: 3", "config", "path", "3"),
    ("yaml", "steps: 1e3", "steps", "whole number"),
    ("json", json.dumps(OF_PRETRAIN), "'task'"),
    ("yaml", "steps: 9\nfreeze: embeddings", "freeze", "init"),
    ("yaml", "steps: 9\nconfig: tiny\ninit: x", "config", "init"),
    ("yaml", "steps: 9\ndev: x\ndev_ratio: 0.5", "dev", "dev_ratio"),
    ("yaml", "steps: 9\nalpha: 0.3", "alpha", "teacher"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working folder, with a folder of settings and data beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "train.tsv").write_text("a\t0\nb\t1\n")
    return tmp_path / "files"


def write(folder, content, name="run.yaml"):
    data = content if isinstance(content, bytes) else content.encode()
    (folder / name).write_bytes(data)
    return folder / name


def printed(capsys, *arguments, command="finetune") -> dict:
    """What `--print-settings` prints, as PyYAML reads it."""
    done = run(capsys, command, *arguments, "--print-settings")
    assert (done.status, done.err) == (0, ""), done
    return yaml.safe_load(done.out)


@pytest.mark.parametrize(
    ("command", "ending", "content", "says"),
    [("finetune", ending, content, says) for ending, content, *says in MISTAKES]
    + [("pretrain", ending, content, says) for ending, content, *says in PRETRAIN_MISTAKES],
    ids=lambda value: repr(value)[:30],
)
def test_mistake_is_one_line_with_file_and_key(capsys, folder, command, ending, content, says):
    file = write(folder, content, f"run.{ending}")
    before = sorted(folder.parent.rglob("*"))
    status, out, err = run(capsys, command, "--settings", file)
    assert (status, out) == (2, ""), (status, out, err)
    assert err.startswith(f"kbert: {file}") and err.count("\n") == 1, err
    check_named(err, *says)
    assert sorted(folder.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--settings none.yaml", "none.yaml"),
        ("--settings=", "empty"),
        ("--settings files", ".yaml"),
        ("--settings files/run.yaml --resume files", "--resume"),
        ("--print-settings --resume files", "--resume"),
        ("--print-settings --epochs 0", "epochs"),
        ("--print-settings --lora-alpha 3", "lora_rank"),
        ("--print-settings --temperature 3", "kbert: temperature"),
        ("--print-settings --patience 3", "kbert: patience"),
        ("--print-settings --task classify --scale 3", "kbert: scale"),
        ("--print-settings --settings files/function.yaml", "kbert: files/function.yaml: loss"),
        ("--settings files/run.yaml --temperature 3", "kbert: temperature"),
        ("--print-settings --devices 0", "devices"),
        ("--settings files/run.yaml", "SRC"),
    ],
)
def test_mistake_on_the_command_line_is_one_line(capsys, folder, line, says):
    write(folder, "epochs: 3")
    write(folder, "loss: {function: mine.focal}", "function.yaml")
    status, out, err = run(capsys, "finetune", *line.split(" "))
    assert (status, out, err.count("\n")) == (2, "", 1) and says in err, err


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ("train: none.tsv", "files/none.tsv (train in files/run.yaml)"),
        ("source: nobody/nothing", "'nobody/nothing' (source in files/run.yaml)"),
        ("output: ../files", "files/../files (output in files/run.yaml)"),
    ],
)
def test_missing_path_is_named_with_its_key(capsys, folder, changed, says):
    key = changed.partition(":")[0]
    lines = [
        "source: ../x",
        "task: classify",
        "train: train.tsv",
        "output: run",
        "dev: samples.DEV",
    ]
    kept = [line for line in lines if not line.startswith(key)]
    write(folder, "\n".join([*kept, changed]))
    done = run(capsys, "finetune", "--settings", "files/run.yaml")
    assert (done.status, done.err.count("\n")) == (2, 1) and says in done.err, done.err


def test_yaml_json_and_toml_have_the_same_values(capsys, folder):
    values = {"task": "tag", "epochs": 2, "learning_rate": 1e-5, "keep_best": False}
    values |= {"label_columns": ["a", "b"], "train": "train.tsv"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    files = {"yml": yaml.safe_dump(values), "json": json.dumps(values), "toml": "\n".join(lines)}
    assert tomllib.loads(files["toml"]) == values
    read = [
        printed(capsys, "--settings", write(folder, text, f"run.{ending}"))
        for ending, text in files.items()
    ]
    assert read[0] == read[1] == read[2]
    assert read[0] | values | {"train": str(folder / "train.tsv")} == read[0]


def test_plain_yaml_means_what_it_looks_like(capsys, folder):
    content = """
        learning_rate: 1e-5
        weight_decay: 1e-2
        keep_best: no
        packing: ON
        clip_norm: null
        positive_label: no
        text_column: 2024-01-01
        label_columns: yes, off
        dimensions: 64, 32
        lengths: [32]
        evaluate_every: 1_000
    """
    values = printed(capsys, "--settings", write(folder, content))
    expected = {"learning_rate": 1e-5, "weight_decay": 0.01, "keep_best": False, "packing": True}
    expected |= {"clip_norm": None, "positive_label": "no", "text_column": "2024-01-01"}
    expected |= {"label_columns": ["yes", "off"], "dimensions": [64, 32], "lengths": [32]}
    assert values | expected | {"evaluate_every": 1000} == values


def test_command_line_replaces_the_file(capsys, folder):
    file = write(folder, "epochs: 2\nclip_norm: null\nseed: 3\ntrain: train.tsv\nkeep_best: false")
    options = ("--epochs", "4", "--clip-norm", "0.5", "--train", "other.tsv", "--keep-best")
    values = printed(capsys, "--settings", file, *options)
    expected = {"epochs": 4, "clip_norm": 0.5, "seed": 3, "keep_best": True}
    assert values | expected | {"train": str(folder.parent / "other.tsv")} == values


def test_relative_paths_count_from_the_folder_of_the_file(capsys, folder, monkeypatch):
    for name in ("model", "deep"):
        (folder / name).mkdir()
    (folder.parent / "only_here").mkdir()
    monkeypatch.setenv("HOME", str(folder.parent / "home"))
    paths = {"train": "train.tsv", "dev": "../dev.tsv", "output": "deep/run", "source": "model"}
    expected = {name: str(folder / path) for name, path in paths.items()}
    values = printed(capsys, "--settings", write(folder, yaml.safe_dump(paths)))
    assert values | expected == values

    texts = {"source": "only_here", "teacher": "./model", "train": "-", "dev": "samples.DEV"}
    values = printed(capsys, "--settings", write(folder, yaml.safe_dump(texts)))
    assert values | texts | {"teacher": str(folder / "model")} == values
    texts = {"source": "~/model", "teacher": str(folder / "none"), "train": "~/train.tsv"}
    values = printed(capsys, "--settings", write(folder, yaml.safe_dump(texts)))
    home = str(folder.parent / "home")
    expected = {"source": f"{home}/model", "train": f"{home}/train.tsv"}
    assert values | texts | expected == values


def test_name_of_a_preset_is_no_path(capsys, folder):
    (folder / "tiny").mkdir()
    (folder / "mine.json").write_text("{}")
    for config, expected in (("tiny", "tiny"), ("mine.json", str(folder / "mine.json"))):
        file = write(folder, f"config: {config}")
        assert printed(capsys, "--settings", file, command="pretrain")["config"] == expected
        file = write(folder, f"init: {config}")
        values = printed(capsys, "--settings", file, command="pretrain")
        assert values["init"] == str(folder / config)


def test_configuration_is_tiny_without_a_model_to_start_from(capsys):
    assert printed(capsys, command="pretrain")["config"] == "tiny"
    assert printed(capsys, "--init", "x", command="pretrain")["config"] is None


def test_function_is_replaced_by_the_command_line(capsys, folder):
    file = write(folder, "loss: {function: mine.focal}")
    assert printed(capsys, "--settings", file, "--loss", "huber")["loss"] == "huber"


def test_function_in_a_file_is_refused_before_keras_starts(run_python, folder):
    file = write(folder, "loss: {function: mine.focal}")
    code = f"""
import sys
from kbert.cli.main import main
try:
    main(["finetune", "--settings", {str(file)!r}])
finally:
    print({{"keras", "tensorflow", "jax", "torch"}} & set(sys.modules))
"""
    done = run_python(code, check=False)
    assert done.returncode == 2 and done.stdout.endswith("set()\n"), done
    assert done.stderr.startswith(f"kbert: {file}: loss") and done.stderr.count("\n") == 1


def test_list_of_lora_targets_is_read(capsys, folder):
    file = write(folder, "lora_targets: [query, output]\nlora_rank: 2")
    assert printed(capsys, "--settings", file)["lora_targets"] == ["query", "output"]


@pytest.mark.parametrize("command", ["finetune", "pretrain"])
def test_print_settings_prints_every_option_in_the_order_of_help(capsys, command):
    values = printed(capsys, command=command)
    params = [param.name for param in cli.commands[command].params]
    left_out = {"run", "settings_file", "print_settings", "quiet"}
    assert set(params) - left_out <= set(values)
    only_in_python = {"optimizer", "lengths", "metrics", "progress"}
    assert set(values) - set(params) <= only_in_python
    in_order = [name for name in params if name not in left_out | {"lowercase"}]
    assert [name for name in values if name in in_order] == in_order
    assert values["learning_rate"] == {"finetune": 5e-5, "pretrain": 1e-4}[command]


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("finetune", ""),
        ("finetune", "bert-base-uncased --task ner --train a.tsv --dev samples.DEV -o run"),
        ("finetune", "./x --train - --teacher files --uncased --label-columns a,b --lr 1e-9"),
        ("finetune", "x --text-column 1e5 --positive-label no --label-column 010 --freeze 1-8"),
        ("pretrain", "files --config tiny -o run --steps 10 --dev files --learning-rate 1e-7"),
        ("pretrain", "files --init bert-base-uncased -o run --steps 10 --optimizer lamb"),
    ],
)
def test_printed_settings_are_read_as_the_same_run(capsys, folder, monkeypatch, command, line):
    line = line.replace("--lr", "--learning-rate")
    first = run(capsys, command, *line.split(), "--print-settings")
    assert first.status == 0, first.err
    file = write(folder, first.out, "printed.yaml")
    monkeypatch.chdir(folder / "..")
    again = run(capsys, command, "--settings", file, "--print-settings")
    assert again.out == first.out
    assert yaml.safe_load(first.out) == json.loads(json.dumps(yaml.safe_load(again.out)))


def test_printed_values_are_those_of_the_command_line(capsys, folder):
    line = (
        "x --text-column 1e5 --positive-label no --label-column 010 --freeze 1-8 --dimensions 9,8"
    )
    values = printed(capsys, *line.split(), "--learning-rate", "1e-9", "--train", "a.tsv")
    expected = {"source": "x", "text_column": "1e5", "positive_label": "no", "label_column": "010"}
    expected |= {"freeze": "1-8", "dimensions": [9, 8], "train": str(folder.parent / "a.tsv")}
    assert values | expected == values and math.isclose(values["learning_rate"], 1e-9)


def test_print_settings_starts_no_keras_and_makes_no_folder(run_python, folder):
    optimizer = "optimizer: {class_name: Lion, config: {beta_1: 0.8}}"
    file = write(folder, f"{optimizer}\noutput: run\ntrain: train.tsv")
    code = f"""
import os, sys
os.chdir({str(folder)!r})
from kbert.cli.main import main
try:
    main(["finetune", "--settings", {str(file)!r}, "--print-settings"])
finally:
    print({{"keras", "tensorflow", "jax", "torch"}} & set(sys.modules))
"""
    out = run_python(code).stdout
    values = yaml.safe_load(out.rpartition("set()")[0])
    assert out.endswith("set()\n") and values["optimizer"]["class_name"] == "Lion"
    assert values["output"] == str(folder / "run") and not (folder / "run").exists()


def test_settings_of_a_run_are_taken_without_what_it_derived(capsys, folder):
    kept = {"task": "classify", "labels": ["bad", "good"], "lengths": [3, 9], "epochs": 7}
    kept |= {"positive_label": "good", "max_length": 64, "clip_norm": None}
    places = {"source": "bert-base-uncased", "train": "/data/train.tsv", "dev": None}
    content = RUN | {"settings": kept, "places": places}
    content["derived"] = ["labels", "lengths", "positive_label"]
    write(folder, json.dumps(content), "settings.json")
    values = printed(capsys, "--settings", "files/settings.json", "--seed", "5", "-o", "run")
    expected = {"task": "classify", "epochs": 7, "lengths": None, "positive_label": None, "seed": 5}
    expected |= {"max_length": 64, "clip_norm": None, "source": "bert-base-uncased", "dev": None}
    assert values | expected | {"train": "/data/train.tsv"} == values and "labels" not in values

    content["derived"] = ["labels", "max_length"]  # the user gave the others
    write(folder, json.dumps(content), "settings.json")
    values = printed(capsys, "--settings", "files/settings.json")
    expected = {"lengths": [3, 9], "positive_label": "good", "max_length": None}
    assert values | expected == values


def test_settings_of_a_run_of_an_older_kbert_are_all_taken(capsys, folder):
    kept = {"task": "classify", "labels": ["bad", "good"], "lengths": [3, 9], "max_length": 9}
    write(folder, json.dumps(RUN | {"settings": kept}), "settings.json")
    values = printed(capsys, "--settings", "files/settings.json")
    assert (values["lengths"], values["max_length"]) == ([3, 9], 9) and "labels" not in values


def test_settings_of_a_pretraining_follow_another_number_of_steps(capsys, folder):
    kept = {"steps": 100, "warmup_steps": 10, "evaluate_every": 10, "save_every": 7}
    kept |= {"log_every": 1, "config": {"vocab_size": 99}, "seq_len": 32}
    places = {"shards": "/data/shards", "init": None}
    content = OF_PRETRAIN | {"settings": kept, "places": places}
    content["derived"] = ["warmup_steps", "log_every"]  # the user gave 10, as it happens
    file = write(folder, json.dumps(content), "settings.json")
    values = printed(capsys, "--settings", file, "--steps", "1000", command="pretrain")
    expected = {"steps": 1000, "warmup_steps": None, "evaluate_every": 10, "save_every": 7}
    expected |= {"config": {"vocab_size": 99}, "shards": "/data/shards", "seq_len": 32}
    assert values | expected == values
    content["places"] = places | {"init": "/x"}
    file = write(folder, json.dumps(content), "settings.json")
    values = printed(capsys, "--settings", file, command="pretrain")
    assert (values["config"], values["init"]) == (None, "/x")


WORDS = st.one_of(
    st.text(max_size=9),
    st.text("-+.0123456789eE_:~#&*!%@`'\"{}[],?|> abcdf", max_size=8),
    st.sampled_from(
        [
            "no",
            "YES",
            "on",
            "null",
            "~",
            "true",
            "1e5",
            ".5",
            "5.",
            "1_0",
            "0x1",
            "0o1",
            "010",
            "1:30",
            "2024-01-01",
            "=",
            "<<",
        ]
    ),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**18), 10**18),
    st.floats(allow_nan=False, allow_infinity=False),
    WORDS,
)
VALUES = st.recursive(
    SCALARS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=3), values),
    max_leaves=5,
)


@pytest.mark.parametrize("count", [20, full(100)])
@pytest.mark.full
def test_yaml_that_is_written_is_read_again_by_kbert_and_pyyaml(count):
    @settings(max_examples=count, deadline=None)
    @given(st.dictionaries(WORDS, VALUES))
    def compare(values):
        text = yaml_text.dump(values)
        assert yaml_text.parse(text, "file") == yaml.safe_load(text) == values

    compare()


@pytest.mark.parametrize(("page", "command"), [("finetune", "finetune"), ("pretrain", "pretrain")])
def test_file_on_the_page_is_read(capsys, folder, page, command):
    text = (ROOT / "docs" / "how_to" / f"{page}.md").read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.S)
    values = printed(capsys, "--settings", write(folder, example), command=command)
    assert values["output"].startswith(str(folder)) and values["batch_size"] != 32


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFO")
def test_fifo_is_refused(capsys, folder):
    os.mkfifo(folder / "run.yaml")
    done = run(capsys, "finetune", "--settings", folder / "run.yaml")
    assert done.status == 2 and "FIFO" in done.err
