"""benchmarks/gpu.py runs at toy size on a CPU, fills its table and refuses bad input."""

import json
import os
import subprocess
import sys

import pytest
from helpers.sizes import ROOT

from benchmarks import gpu, gpu_table

pytestmark = pytest.mark.full


def run_program(folder, *line):
    """Return the results and the table that the program writes, run from another folder."""
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), *line, "--output", "found"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads((folder / "found.json").read_text())
    return results, (folder / "found.md").read_text()


def test_the_program_runs_on_a_cpu(tmp_path):
    """Every work of kbert on torch; the nightly round has every backend and peer."""
    line = ["--cpu", "--toy", "--backend", "torch", "--rounds", "1"]
    line += ["--peers", "kbert", "products", "--peak", "2"]
    results, table = run_program(tmp_path, *line)
    assert results["about"]["peak"] == {"flops": 2e12, "source": "--peak"}
    rows = [row for row in results["rows"] if row["status"] == "measured"]
    assert [row["part"] for row in rows] == ["toy-32"] * 3
    for row in rows:
        (turn,) = row["turns"]
        assert row["seconds"] == sorted(turn["samples"])[1] > 0
        rate = row["batch"] * row["flops"] / row["seconds"]
        assert row["of_datasheet"] == pytest.approx(rate / 2e12)
    # A table for the pages holds no figure of a CPU.
    assert table.count("run on a CPU") == len(rows)
    assert table.count("not measured") == len(results["rows"])


@pytest.mark.nightly
@pytest.mark.parametrize("backend", gpu.BACKENDS)
def test_everyone_runs_on_a_cpu(backend, tmp_path):
    results, _ = run_program(tmp_path, "--cpu", "--toy", "--backend", backend, "--rounds", "1")
    for row in results["rows"]:
        if row["part"] == "toy-32":
            assert row["turns"] or row["why"].startswith("not installed"), row["why"]


def test_gpu_page_shows_the_table_of_the_program():
    page = (ROOT / "docs" / "contributing" / "accelerators.md").read_text(encoding="utf-8")
    assert gpu_table.table([]) in page


@pytest.mark.parametrize(
    ("line", "things"),
    [
        (["--only", "base"], ("--only", "base-128")),
        (["--backend", "numpy"], ("--backend", "numpy")),
        (["--batch", "0"], ("--batch", "0")),
        (["--output", "no/such/folder/name"], ("--output",)),
        (["--table", "no.json"], ("--table", "no.json")),
    ],
)
def test_bad_input_is_one_line(line, things, capsys):
    assert gpu.main(line) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("gpu.py: ") and all(thing in said for thing in things)
