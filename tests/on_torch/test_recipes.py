"""Recipes: their numbers are those of their sources, and a run of one is the steps, resumable."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml
from helpers.command_line import kbert as run_command
from helpers.corpora import content
from helpers.errors import raises
from test_glue import write_task

import kbert
from kbert.graph import accelerators

# The sources' numbers: A.2 and optimization.py of Google's code; config/train/bert-o4.yaml and
# optim/adam.yaml of cramming's; mosaic-bert-base-uncased.yaml, whose decoupled decay of 1e-5 is
# that of a weight at the peak rate.
SOURCES = {
    "original": {
        "batch_size": 256,
        "learning_rate": 1e-4,
        "beta_2": 0.999,
        "epsilon": 1e-6,
        "weight_decay": 0.01,
        "clip_norm": 1.0,
        "mlm_probability": 0.15,
        "schedule": "linear",
        "warmup_ratio": 10_000 / 1_000_000,
        "dropout": None,
        "mlm_only": False,
    },
    "cramming": {
        "batch_size": 8192,
        "ramp_ratio": 0.60,
        "learning_rate": 1e-3,
        "beta_2": 0.98,
        "epsilon": 1e-12,
        "weight_decay": 0.01,
        "clip_norm": 0.5,
        "mlm_probability": 0.25,
        "warmup_ratio": 1 - 0.25,
        "dropout": 0.0,
        "mlm_only": True,
    },
    "mosaic": {
        "batch_size": 4096,
        "learning_rate": 5e-4,
        "beta_2": 0.98,
        "epsilon": 1e-6,
        "weight_decay": 1e-5 / 5e-4,
        "clip_norm": None,
        "mlm_probability": 0.3,
        "evaluation_mlm_probability": 0.15,
        "min_learning_rate_ratio": 0.02,
        "warmup_ratio": 0.06,
        "mlm_only": True,
    },
}
STEPS = ["--steps", "5", "--config", "config.json", "--vocab-size", "300", "--batch-size", "8"]
STEPS += ["--accumulation-steps", "4", "--ramp-from", "2", "--seq-len", "32", "--seeds", "1"]
STEPS += ["--precision", "float32", "--max-predictions", "5", "--save-every", "2"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A corpus, a small model's configuration, and two tasks of GLUE."""
    folder = tmp_path_factory.mktemp("recipe")
    draw = random.Random(11)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(500)]
    sentences = [" ".join(draw.choices(words, k=draw.randint(4, 12))) + "." for _ in range(3000)]
    documents = ["\n".join(sentences[n : n + 10]) for n in range(0, len(sentences), 10)]
    (folder / "corpus.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    small = kbert.get_config("tiny").replace(vocab_size=300, hidden_size=16, num_hidden_layers=1)
    small.replace(intermediate_size=24).to_json(folder / "config.json")
    for name in ("CoLA", "RTE"):
        write_task(folder / "glue_data", name, 11)
    return folder


def recipe_of(place, output, *options) -> list[str]:
    command = ["recipe", "run", "cramming", "--corpus", "corpus.txt", "-o", str(output), *STEPS]
    return [*command, "--glue", "glue_data", "--tasks", "cola,rte", *options]


def start(place, output, *options) -> subprocess.Popen:
    command = [sys.executable, "-m", "kbert", *recipe_of(place, output, *options)]
    return subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.mark.parametrize("name", SOURCES)
def test_recipes_have_the_numbers_of_their_sources(capsys, tmp_path, name):
    printed = run_command(capsys, "recipe", name)
    assert printed.status == 0
    values = yaml.safe_load(printed.out)
    defaults = {"dropout": None, "mlm_only": False}
    assert {key: (defaults | values)[key] for key in SOURCES[name]} == SOURCES[name]

    file = tmp_path / f"{name}.yaml"
    file.write_text(printed.out)
    shown = run_command(
        capsys, "pretrain", "shards", "--settings", file, "--hours", 24, "--print-settings"
    )
    assert shown.status == 0 and yaml.safe_load(shown.out)["batch_size"] == values["batch_size"]


def test_the_list_names_each_recipe(capsys):
    listed = run_command(capsys, "recipe").out.splitlines()
    for name in SOURCES:
        assert any(line.startswith(f"{name}:") for line in listed)
    assert all(len(line) <= 80 for line in listed)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["pre-norm"], "pre-norm"),
        (["run", "ALiBi", "--corpus", "c", "--hours", "1", "-o", "o"], "ALiBi"),
        (["run", "GLU"], "GLU"),
        (["run", "crammin"], "cramming"),
        (["run", "cramming", "--hours", "1", "--hours", "2"], "--hours"),
        (["run", "cramming", "-o", "o", "--output", "p"], "--output"),
        (["run", "cramming", "--hours", "1", "-o", "o"], "--corpus"),
        (["run", "cramming", "--corpus", "c", "-o", "o"], "--steps"),
        (["run", "mosaic", "cramming"], "mosaic cramming"),
        (["run"], "kbert recipe run"),
        (["run", "cramming", "--corpus", "none", "--hours", "1", "-o", "o"], "none"),
        (["run", "cramming", "--corpus", "c", "--hours", "1", "--steps", "3", "-o", "o"], "hours"),
    ],
)
def test_what_is_no_recipe_is_refused_in_one_line(capsys, tmp_path, monkeypatch, words, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c").write_text("One sentence.\n")
    done = run_command(capsys, "recipe", *words)
    assert done.status == 2 and named in done.err.splitlines()[-1]
    assert not (tmp_path / "o" / "run").exists()


def test_other_settings_than_the_first_calls_are_refused(place, tmp_path):
    corpus = place / "corpus.txt"
    few = {"config": place / "config.json", "vocab_size": 300, "steps": 2, "seq_len": 32}
    few |= {
        "batch_size": 2,
        "accumulation_steps": 1,
        "max_predictions": 5,
        "output": tmp_path / "o",
    }
    done = kbert.run_recipe("original", corpus, **few)
    assert done.trained.history.updates[-1]["step"] == 2 and done.glue is None
    for changed in ({"learning_rate": 2e-4}, {"vocab_size": 301}, {"steps": 3}):
        with raises(ValueError, "choose another output", next(iter(changed))):
            kbert.run_recipe("original", corpus, **few | changed)
    with raises(ValueError, "recipe", "mosaic"):
        kbert.run_recipe("mosaic", corpus, **few)
    with raises(ValueError, "corpus", "shards"):
        kbert.run_recipe("original", corpus, shards=tmp_path / "o" / "shards", **few)
    page = (tmp_path / "o" / "report.html").read_text()
    assert "1810.04805" in page and "44.5" in page  # its source, and cramming's CoLA

    shards = few | {"output": tmp_path / "p", "shards": tmp_path / "o" / "shards"}
    again = kbert.run_recipe("original", **shards)
    for one, other in zip(
        again.trained.bert.model.weights, done.trained.bert.model.weights, strict=True
    ):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_micro_batches_become_as_many_as_the_memory_needs(place, tmp_path, monkeypatch):
    """`kbert plan` says how many fit, and the run's settings have them."""
    kinds = {"config": place / "config.json", "vocab_size": 300, "steps": 1, "seq_len": 32}
    config = kbert.get_config(place / "config.json")
    memory = next(
        size
        for size in range(1 << 20, 1 << 24, 1 << 14)
        if plan_of(config, size, 4).fits and not plan_of(config, size, 2).fits
    )
    monkeypatch.setattr(accelerators, "find_memory", lambda device: memory)
    done = kbert.run_recipe(
        "original",
        place / "corpus.txt",
        output=tmp_path / "o",
        batch_size=64,
        accumulation_steps=1,
        max_predictions=5,
        **kinds,
    )
    settings = yaml.safe_load((done.trained.folder / "settings.json").read_text())["settings"]
    assert (settings["batch_size"], settings["accumulation_steps"]) == (64, 4)


def plan_of(config, memory: int, micro_batches: int):
    return kbert.plan(
        config,
        peak_flops=1e12,
        memory=memory,
        seq_len=32,
        batch_size=64,
        precision="float32",
        accumulation_steps=micro_batches,
        max_predictions=5,
    ).memory


@pytest.mark.parametrize(
    ("device", "gib"),
    [
        ("NVIDIA A100-SXM4-40GB", 40),
        ("NVIDIA A100-SXM4-80GB", 80),
        ("NVIDIA A100 80GB PCIe", 80),
        ("NVIDIA H100 80GB HBM3", 80),
        ("NVIDIA GeForce RTX 4090", 24),
        ("Tesla T4", 16),
        ("a chip of next year", None),
    ],
)
def test_devices_are_known_by_the_names_of_their_drivers(device, gib):
    memory = accelerators.find_memory(device)
    assert memory == (None if gib is None else gib * 2**30)


@pytest.mark.full
def test_a_recipe_killed_in_each_step_ends_with_the_same_files(place, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = start(place, whole)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err.decode()

    points = ["recipe.json", "vocabulary", "shards/begun.json", "shards/index.json"]
    points += ["run/settings.json", "run/checkpoints", "run/result.json", "glue/CoLA"]
    kills = 0
    for point in points:
        process = start(place, killed)
        while process.poll() is None and not (killed / point).exists():
            time.sleep(0.002)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
        process.stderr.close()
    process = start(place, killed)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err.decode()
    assert kills >= 5

    for name in ("vocabulary", "shards"):
        assert content(killed / name) == content(whole / name)
    for name in ("run/model/model.safetensors", "recipe.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    figures = sorted(path.relative_to(whole) for path in whole.glob("glue/*/*/figures.json"))
    assert len(figures) == 2
    for path in figures:
        assert (killed / path).read_bytes() == (whole / path).read_bytes()
    assert (killed / "report.html").is_file()
