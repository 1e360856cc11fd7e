"""benchmarks/gpu.py at toy size on a CPU: its figures by hand, what is not measured, bad input."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.sizes import FILES, ROOT, TESTS

from benchmarks import gpu, gpu_table, gpu_works
from benchmarks.contenders import Failed
from kbert.graph import accelerators

# tiny: vocabulary, blocks, hidden, feed-forward; 32 tokens, 4 of them predicted, 3 sequences

pytestmark = pytest.mark.full
V, L, H, F, S, M, B = 30_522, 2, 128, 512, 32, 4, 3
ENCODER = L * S * (4 * 2 * H * H + 2 * 2 * S * H + 2 * 2 * H * F) + 2 * H * H
HEADS = M * (2 * H * H + 2 * H * V) + 2 * 2 * H
UNREAD = (S - M - 1) * (2 * 2 * H * H + 2 * 2 * S * H + 2 * 2 * H * F)  # rows of the last block
PRODUCTS = 3 * 2 * S * (4 * H * H + 2 * H * F)
PARAMETERS = (
    (V + 512 + 2 + 2) * H  # embeddings and their normalization
    + L * (4 * (H * H + H) + 2 * H * F + F + H + 4 * H)
    + (H * H + H)  # pooler
    + (H * H + H + 2 * H + V)
    + (2 * H + 2)
)
ROWS = len(gpu_table.PARTS) * len(gpu_table.WORKS)  # without the toy's


def results_of(folder, *line):
    """What the program writes, run as a file from another folder."""
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), *line, "--output", "found"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads((folder / "found.json").read_text())
    return results, (folder / "found.md").read_text(), done.stdout


def test_the_program_runs_on_a_cpu(tmp_path):
    """Every work of kbert on torch; the nightly round has every backend and peer."""
    line = ["--cpu", "--toy", "--backend", "torch", "--rounds", "1"]
    line += ["--peers", "kbert", "products", "--peak", "2"]
    results, kept, printed = results_of(tmp_path, *line)
    about = results["about"]
    assert about["backend"] == "torch" and about["precision"] == "float32"
    assert about["device"] == {"name": "CPU", "kind": "CPU"} and about["versions"]["numpy"]
    assert about["commit"] and about["command"].endswith("--output found")
    assert about["peak"] == {"flops": 2e12, "source": "--peak"}
    rows = {gpu_table.key(row): row for row in results["rows"]}
    assert len(rows) == len(results["rows"]) == ROWS + len(gpu_table.WORKS)
    counted = {"update": 3 * (ENCODER + HEADS - UNREAD), "inference": ENCODER, "products": PRODUCTS}
    measured = 0
    for (part, work, who), row in rows.items():
        if part != "toy-32" or who not in ("kbert", "products"):
            assert row["status"] == "not measured" and row["why"] == "not run"
            continue
        measured += 1
        assert row["status"] == "measured" and row["batch"] == B and row["why"] == ""
        assert row["flops"] == counted[work]
        (turn,) = row["turns"]
        assert len(turn["samples"]) == 3 and row["seconds"] == sorted(turn["samples"])[1]
        rate = B * counted[work] / row["seconds"]
        assert row["of_datasheet"] == pytest.approx(rate / 2e12)
        assert row["device_memory"] is None and row["first"] > 0
        assert row["of_products"] == pytest.approx(
            rate * rows["toy-32", "products", "products"]["seconds"] / (B * PRODUCTS)
        )
        assert work != "update" or row["planned_memory"] >= 16 * PARAMETERS
    # a CPU's figures are printed, and fill no row of what is kept
    lines = [line for line in kept.splitlines() if "large-" in line or "base-" in line]
    assert len(lines) == ROWS and measured == 3
    assert kept.count("not measured") == ROWS + len(gpu_table.WORKS)
    assert kept.count("run on a CPU") == printed.count("CPU, ") == measured
    assert "aim 40% of datasheet" in printed


@pytest.mark.nightly
@pytest.mark.parametrize("backend", gpu.BACKENDS)
def test_everyone_runs_on_a_cpu(backend, tmp_path):
    line = ["--cpu", "--toy", "--backend", backend, "--rounds", "1"]
    results, _, _ = results_of(tmp_path, *line)
    for row in results["rows"]:
        if row["part"] == "toy-32":
            assert row["turns"] or row["why"].startswith("not installed"), row["why"]


def measured(seconds=0.05, work="update", who="kbert", part="base-512", **about):
    """Results with one row that a GPU has filled."""
    device = {"name": "NVIDIA H100 80GB HBM3", "kind": "GPU"}
    peak = {"flops": 989e12, "source": "H100"}
    about = {
        "device": device,
        "peak": peak,
        "backend": "jax",
        "precision": "mixed_bfloat16",
    } | about
    results = {"about": about, "rows": gpu_table.rows_of(gpu_table.PARTS)}
    (row,) = [one for one in results["rows"] if gpu_table.key(one) == (part, work, who)]
    turn = {"samples": [seconds, seconds * 2, seconds / 2], "device_memory": 3 * 2**30, "first": 9}
    row |= {"batch": 64, "status": "measured", "why": "", "turns": [turn, turn]}
    gpu_table.figures(results)
    return results, row


def test_gpu_table_row():
    """Base, 512 tokens, 76 predicted: 12 blocks of 768, 3,072, and the head on 30,000 tokens.

    Of the last block 77 rows have queries, weighed vectors and three dense layers."""
    results, row = measured()
    forward = 12 * 512 * (8 * 768**2 + 4 * 512 * 768 + 4 * 768 * 3072) + 2 * 768**2
    forward += 76 * 2 * (768**2 + 768 * 30_000) + 4 * 768
    forward -= (512 - 77) * (4 * 768**2 + 4 * 512 * 768 + 4 * 768 * 3072)
    assert row["of_datasheet"] == pytest.approx(64 * 3 * forward / 0.05 / 989e12)
    lines = gpu_table.table([results]).splitlines()
    (line,) = [line for line in lines if "H100" in line]
    share = f"{row['of_datasheet']:.1%}"
    assert (
        f"| 64 | 50.0 (31.2, 87.5) | 1,280.0 | {64 * 3 * forward / 0.05e12:.2f} | {share} " in line
    )
    assert "| aim 40% of datasheet | 3.00 | " in line
    assert sum("not measured" in line for line in lines) == ROWS - 1
    assert len({line.count("|") for line in lines}) == 1


def test_tables_of_several_files_are_one(tmp_path, capsys):
    for number, (part, backend) in enumerate([("base-512", "jax"), ("large-512", "torch")]):
        results, _ = measured(part=part, backend=backend)
        (tmp_path / f"{number}.json").write_text(json.dumps(results))
    assert gpu.main(["--table", *map(str, sorted(tmp_path.iterdir()))]) == 0
    out = capsys.readouterr().out
    assert out.count("H100") == 2 and out.count("HBM3, torch, mixed") == 1
    assert out.count("not measured") == ROWS - 2


def test_gpu_page_shows_the_table_of_the_program():
    page = (ROOT / "docs" / "contributing" / "accelerators.md").read_text(encoding="utf-8")
    assert gpu_table.table([]) in page


def profile_of(*planes):
    """A made-up `jax.profiler.ProfileData`: (plane, line, instruction, nanoseconds)."""
    return SimpleNamespace(
        planes=[
            SimpleNamespace(
                name=plane,
                lines=[
                    SimpleNamespace(
                        name=line,
                        events=[SimpleNamespace(duration_ns=spent, stats=[("hlo_op", name)])],
                    )
                ],
            )
            for plane, line, name, spent in planes
        ]
    )


def test_kernels_of_a_profile_are_compared_with_their_count():
    """The program is that of tests/training/test_compiled_plans.py; 2 steps were profiled."""
    text, gpu_name = (FILES / "update_gpu.hlo").read_text(encoding="utf-8"), "/device:GPU:0"
    profile = profile_of(
        (gpu_name, "Stream #14(Compute)", "cublas-lt-matmul.92", 4000),
        (gpu_name, "Stream #14(Compute)", "loop_add_fusion.3", 24_000),
        (gpu_name, "Stream #15(Memcpy)", "copy.7", 2000),
        (gpu_name, "XLA Ops", "cublas-lt-matmul.92", 4000),
        ("/host:CPU", "Stream", "cublas-lt-matmul.92", 4000),
    )
    chip = accelerators.gpu("H100").accelerator
    found = gpu_works.beside(text, chip, profile, 2)
    launch = pytest.approx(2.5e-6, rel=1e-2)
    assert found == {
        "__cublas$lt$matmul": (1, launch, pytest.approx(2e-6)),
        "attention_kernel": (1, launch, 0.0),
        "loop_slice_fusion": (1, launch, 0.0),
        "loop_add_fusion": (4, pytest.approx(1e-5, rel=1e-2), pytest.approx(1.2e-5)),
        "other": (0, 0, pytest.approx(1e-6)),
    }
    results, row = measured()
    assert gpu_table.kernel_table(results) == ""
    row["kernels"] = found
    lines = gpu_table.kernel_table(results).splitlines()
    assert lines[0] == "base-512, 64 sequences, kbert on JAX"
    assert lines[4] == "| loop_add_fusion | 4 | 0.010 | 0.012 | 1.20 |"
    assert lines[-1] == "| all | 7 | 0.018 | 0.015 | 0.86 |"


def test_first_run_takes_every_backend_in_ten_minutes(monkeypatch, tmp_path, capsys):
    """No process is started: each backend's own settings are looked at."""
    runs = []
    monkeypatch.setattr(gpu, "measure", lambda results, own, cache: runs.append(own))
    line = ["--first", "--cpu", "--output", str(tmp_path / "one")]
    assert gpu.main(line) == 0
    assert [Path(own.output).name for own in runs] == [f"one-{name}" for name in gpu.BACKENDS]
    assert ["transformers" in own.peers for own in runs] == [
        name == "torch" for name in gpu.BACKENDS
    ]
    minutes = [round(own.minutes, 1) for own in runs]
    assert minutes == [3.3, 5.0, 10.0]  # a third, half of the rest, the rest: none takes time here
    assert all(own.works == ["update"] and own.rounds == 1 for own in runs)
    assert "kept in" in capsys.readouterr().out


def a_row(**about):
    peak = {"flops": None, "source": ""}
    usual = {"device": {"kind": "CPU"}, "backend": "jax", "precision": "float32", "peak": peak}
    results = {"about": usual | about}
    results["rows"] = gpu_table.rows_of({"base-128": gpu_table.PARTS["base-128"]})
    return results["rows"][0], results


def settings(**changes):
    values = {"batch": None, "toy": True, "parts": gpu_table.PARTS, "rounds": 1, "minutes": None}
    values |= {"first": False}
    values |= {"only": ["base-128"], "peers": ["kbert"], "works": gpu_table.KINDS}
    return argparse.Namespace(**values | changes)


@pytest.fixture
def fitting(monkeypatch):
    """The first work is that of tests/helpers/sleep_work.py, which 2 sequences fit."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    make = gpu.contender_of

    def contender_of(*arguments):
        contender = make(*arguments)
        object.__setattr__(contender, "make", "helpers.sleep_work:fitting")
        return contender

    monkeypatch.setattr(gpu, "contender_of", contender_of)


def test_the_largest_batch_that_fits_is_found(fitting, monkeypatch):
    row, results = a_row()
    monkeypatch.setattr(gpu, "batches_of", lambda *_: [4, 3, 2, 1])
    gpu.take_turn(row, results, settings(), "")
    gpu.take_turn(row, results, settings(), "")
    assert row["batch"] == 2 and list(row["tried"]) == ["4", "3"]
    assert [turn["device_memory"] for turn in row["turns"]] == [14, 14]
    assert row["turns"][0]["samples"][0] == pytest.approx(0.01, rel=0.5)


def test_failed_gpu_row_is_reported_and_the_next_runs(fitting, tmp_path):
    _, results = a_row()
    for batch, says in ((4, "out of memory at a batch of 4"), (5, "broken"), (2, "")):
        given = settings(batch=batch, output=tmp_path / "o")
        for row in results["rows"]:
            row["why"] = "not run"
        gpu.measure(results, given, "")
        assert [row["why"] for row in results["rows"]] == [says] * 2 + ["not run"] * 5
    lines = (tmp_path / "o.md").read_text()
    assert lines.count("run on a CPU") == 2


def test_gpu_benchmark_stops_before_its_time_limit(tmp_path):
    _, results = a_row()
    given = settings(minutes=1e-9, output=tmp_path / "o")
    gpu.measure(results, given, "")
    assert [row["why"] for row in results["rows"]][:3] == ["no time was left"] * 2 + ["not run"]


def test_batches_far_too_large_are_not_tried():
    """Base at 128 in mixed_bfloat16 keeps some 40 MB a sequence, by the plan for GPUs."""
    row, results = a_row(device={"kind": "GPU", "memory_mib": "15000"}, precision="mixed_bfloat16")
    assert gpu.batches_of(row, results, settings()) == [512, 256, 128, 64, 32, 16]
    assert gpu.batches_of(row, results, settings(batch=77)) == [77]
    assert gpu.batches_of(row, results, settings(first=True)) == [64, 32, 16]
    products = results["rows"][2]
    assert gpu.batches_of(products, results, settings()) == [128, 64, 32, 16]
    row["batch"] = 256
    assert gpu.batches_of(products, results, settings()) == [256]


def test_missing_peer_of_gpu_benchmark_is_named(monkeypatch):
    row, results = a_row()
    row |= {"who": "transformers"}
    monkeypatch.setattr("benchmarks.contenders._is_there", lambda name: name != "transformers")
    with pytest.raises(Failed, match=r"^not installed: transformers$"):
        gpu.take_turn(row, results, settings(batch=1), "")


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("NVIDIA L4", "L4"),
        ("Tesla T4", "T4"),
        ("TPU v5 lite", "v5e"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L40", None),
        ("NVIDIA A10G", None),
        ("Tesla V100-PCIE-16GB", None),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("NVIDIA GeForce RTX 4090", None),
    ],
)
def test_the_datasheet_is_found_by_the_devices_name(name, row):
    found = gpu.datasheet(name)
    assert (found and found.name) == row
    peak = gpu.peak_of(argparse.Namespace(peak=None), {"name": name}, found, "mixed_bfloat16")
    assert peak["flops"] == (found and found.peak_flops)
    assert row or "--peak TFLOPS gives it" in peak["source"]


def test_gpu_precision_is_that_of_the_device_products():
    of = gpu.precision_of
    assert (
        of({"kind": "GPU", "capability": "9.0"}, gpu.datasheet("NVIDIA H100")) == "mixed_bfloat16"
    )
    assert of({"kind": "GPU"}, gpu.datasheet("Tesla T4")) == "mixed_float16"
    assert of({"kind": "GPU", "capability": "7.0"}, None) == "mixed_float16"
    assert of({"kind": "TPU"}, gpu.datasheet("TPU v4")) == "mixed_bfloat16"


@pytest.mark.parametrize(
    ("said", "full"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.\n  a page", True),
        ("CUDA out of memory. Tried to allocate 9.00 GiB.\nA page", True),
        ("the shapes\ndo not fit", False),
    ],
)
def test_library_error_is_shortened_to_one_line(said, full):
    line = gpu_works.said(RuntimeError(said))
    assert line.startswith("out of memory: RuntimeError: ") == full
    assert "\n" not in line and len(gpu_works.said(RuntimeError(said * 99))) == 200


def one_line(capsys, *line):
    assert gpu.main(list(line)) == 2
    (said,) = capsys.readouterr().err.splitlines()
    return said


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            ["--only", "base"],
            "--only must be of base-128, base-512, large-128, ",
        ),
        (["--toy", "--only", "base-128"], "--only must be of toy-32, got base-128"),
        (["--backend", "numpy"], "--backend must be of jax, torch, tensorflow, got numpy"),
        (["--precision", "int8"], "--precision must be of mixed_bfloat16, "),
        (["--peers", "keras"], "--peers must be of kbert, products, KerasHub, transformers, got "),
        (["--works", "training"], "--works must be of update, inference, products, got training"),
        (["--batch", "0"], "--batch must be above 0, got 0"),
        (["--minutes", "nan"], "--minutes must be above 0, got nan"),
        (["--rounds", "x"], "argument --rounds: invalid int value: 'x'"),
        (["--size", "base"], "unrecognized arguments: --size base"),
        (["--output", "no/such/folder/name"], "--output must be a new name in a folder"),
        (["--table", "no.json"], "--table must be of files that gpu.py wrote, got no.json (File"),
    ],
)
def test_bad_input_is_one_line(line, says, capsys):
    assert one_line(capsys, *line).startswith(f"gpu.py: {says}")


def test_gpu_table_of_a_wrong_file_is_refused(tmp_path, capsys):
    for number, text in enumerate(("{}", "[1]", '{"about": {}, "rows": [1]}', "no JSON")):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        assert "--table must be of files that gpu.py wrote" in one_line(
            capsys, "--table", str(path)
        )


def test_missing_backend_of_gpu_benchmark_is_named(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "installed", lambda package: package == "keras")
    said = one_line(capsys, "--backend", "jax", "--cpu")
    assert said.startswith(
        "gpu.py: Keras and its backend must be installed, got jax: not installed"
    )
    assert "jax: not installed; torch: not installed; tensorflow" in one_line(capsys)


def test_gpu_benchmark_without_a_gpu_says_so(monkeypatch, capsys):
    """JAX is asked; the others are said not to be there."""
    monkeypatch.setattr(gpu, "installed", lambda package: package in ("keras", "jax"))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    said = one_line(capsys)
    assert said.startswith("gpu.py: Keras's backend must see a GPU, got jax: sees none; torch: not")
    assert said.endswith(": --cpu takes the CPU")
