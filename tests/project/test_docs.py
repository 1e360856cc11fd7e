"""The page for those who come from elsewhere: its code runs, its names are there."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.hub_cache import make_snapshot, use_cache
from helpers.page_blocks import blocks, runs
from helpers.sizes import ROOT

import kbert

PATH = ROOT / "docs" / "how_to" / "coming_from.md"
PAGE = PATH.read_text(encoding="utf-8")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(94))]


@pytest.fixture
def model(small, tmp_path):
    """A small model in the cache, in the place of the one that the page loads."""
    tokenizer = kbert.Tokenizer.from_vocab(WORDS, lowercase=True)
    bert = kbert.Bert(small, "pretraining", kbert.build_bert(small), tokenizer)
    with use_cache(tmp_path / "home") as cache:
        kbert.save(bert, make_snapshot(cache, "google-bert/bert-base-uncased"))
        yield


def trained_layers(names):
    return {weight.path.split("/")[0] for weight in names["bert"].model.trainable_weights}


# What each piece of code on the page comes to, in its order: 2 texts, 5 tokens.
RESULTS = [
    lambda names: names["model"] is names["bert"].model and not names["report"].initialized,
    lambda names: names["padded"].token_ids.shape == (2, 16),
    lambda names: np.shape(names["last_hidden_state"]) == (2, 5, 24),
    lambda names: (
        [{one.label for one in text} for text in names["found"]] == [{"neg", "neutral", "pos"}] * 2
        and kbert.load("tuned").labels == ("neg", "neutral", "pos")
    ),
    lambda names: (
        names["again"].labels == ("negative", "positive")
        and 0 <= names["accuracy"] <= 1
        and len(names["tuned"].history.evaluations) == 2
    ),
    lambda names: names["token"] in WORDS and 0 < names["probability"] < 1,
    lambda names: np.shape(names["logits"]) == (2, 5, 99),
    lambda names: (
        {layer.rsplit("-", 1)[0] for layer in trained_layers(names)}
        == {"Encoder-3", "Encoder-3-MultiHeadSelfAttention", "Encoder-3-FeedForward"}
        and [round(float(names["rate"](step)), 6) for step in (0, 5, 10, 90)] == [0, 5e-5, 1e-4, 0]
    ),
    lambda names: (
        [array.shape for array in names["batch"].inputs.values()] == [(2, 16), (2, 16), (2, 3)]
        and [tensor.name for tensor in names["model"].inputs] == list(names["batch"].inputs)
    ),
    lambda names: np.shape(names["sequence_output"]) == (2, 5, 24),
]
CODE = [one.text for one in blocks(PATH) if one.kind == "python" and runs(one)]


@pytest.mark.full
@pytest.mark.parametrize(("code", "holds"), list(zip(CODE, RESULTS, strict=True)))
def test_migration_code_runs(model, code, holds, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text("w1 w2 w3 w4.\nw5 w6.\n\nw7 w8 w9.\nw10 w11 w12.\n" * 3)
    names = {"kbert": kbert, "texts": ["w1 w2 w3", "w4"]}
    names |= {"labels": np.array([2, 0]), "tokenizer": kbert.load("bert-base-uncased").tokenizer}
    exec(code, names)
    assert holds(names)


def test_names_on_the_migration_page_exist():
    used = set(re.findall(r"kbert\.([a-zA-Z_]+)", PAGE))
    assert len(used) > 10
    packages = {name for name in used if importlib.util.find_spec(f"kbert.{name}")}
    assert [name for name in used - packages if not hasattr(kbert, name)] == []


def test_recipe_page_matches_the_accounting():
    page = (ROOT / "docs" / "contributing" / "recipe_base.md").read_text(encoding="utf-8")
    total = 0
    for seq_len, predictions, updates in ((128, 20, 900_000), (512, 77, 100_000)):
        found = kbert.account(
            "base_uncased", seq_len, 32, max_predictions=predictions, dtype="mixed_bfloat16"
        )
        flops = found.training_flops_per_sequence
        total += flops * 256 * updates
        kept = found.memory.weights + found.memory.gradients + found.memory.adam
        for number in (flops, kept, found.memory.activations):
            assert f"| {number:,} |" in page
        assert f"| {flops * 256 * updates:.2e} |".replace("e+", "e") in page
    assert f"{total:.2e} FLOPs".replace("e+", "e") in page
    for peak, hours in ((8 * 312, "6.6"), (8 * 989, "2.1"), (420, "39")):
        digits = 0 if peak == 420 else 1
        assert (
            f"{total / (peak * 1e12 * 0.4) / 3600:.{digits}f}" == hours and f"| {hours} |" in page
        )
    paper = total / (4 * 24 * 3600) / (16 * 45e12)  # 4 days, 16 chips of TPU v2
    assert round(paper, 2) == 0.10 and "10 % of their peak" in page


def test_nothing_installs_kbert_from_the_index():
    """The index has another project's kbert, and whoever takes kbert-keras there has its users."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "kbert-keras" and list(project["scripts"]) == ["kbert"]
    endings = {".py", ".md", ".ipynb", ".toml"}
    folders = ("kbert", "docs", "notebooks", "benchmarks", "tests")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*")]
    files += [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    fetches = re.compile(r"pip3? install (?:-\S+ )*['\"]*kbert|['\"]kbert(?:-keras)?\[")
    found = [
        file
        for file in files
        if file.suffix in endings and fetches.search(file.read_text(encoding="utf-8"))
    ]
    assert len(files) > 200 and found == []
