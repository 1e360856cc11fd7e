"""`kbert` runs as a process: closed pipes, ASCII terminals, missing packages."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.marks import full
from helpers.run_shards import make_shards
from helpers.sizes import SIZES

OTHERS = ("tensorflow", "torch")
KBERT = Path(sys.executable).with_name("kbert")
PYTHON = shlex.quote(sys.executable)


@pytest.fixture
def run(tmp_path):
    """Runs a command line with bash; `pipefail`, so that a pipe's first error counts."""
    if not KBERT.exists():
        pytest.skip("kbert is not installed beside this Python: pip install -e .")

    def bash(line: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            env={**os.environ, "PATH": f"{KBERT.parent}:{os.environ['PATH']}", **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
        )

    return bash


def one_line(done) -> str:
    """The one line on stderr with which a command was refused."""
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.startswith("kbert: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.fixture
def without(tmp_path):
    """A folder for PYTHONPATH in front of which a package is not installed."""

    def hide(package: str) -> str:
        stub = tmp_path / "hidden" / package
        stub.mkdir(parents=True)
        error = f'raise ModuleNotFoundError("No module named {package!r}", name="{package}")\n'
        (stub / "__init__.py").write_text(error, encoding="utf-8")
        return os.pathsep.join([str(stub.parent), *filter(None, [os.environ.get("PYTHONPATH")])])

    return hide


@pytest.mark.full
def test_closed_pipe_is_no_error(run, tmp_path):
    """As for every other filter: nothing on stderr, and a script with pipefail goes on."""
    config = SIZES | {"num_hidden_layers": 40}  # more than a pipe holds
    (tmp_path / "deep.json").write_text(json.dumps(config), encoding="utf-8")
    for line, printed in (
        ("kbert account base | true", 0),
        ("kbert summary deep.json | head -n 2", 2),
    ):
        done = run(line)
        assert done.stdout.count("\n") == printed
        complaints = [text for text in done.stderr.splitlines() if not text.endswith("…")]
        assert (complaints, done.returncode) == ([], 0), line


@pytest.mark.parametrize(
    "locale",
    [
        {"PYTHONIOENCODING": "ascii"},
        full(
            {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
        ),
    ],
    ids=["encoding", "locale"],
)
@pytest.mark.full
def test_ascii_terminal_is_no_error(run, locale):
    done = run("kbert account base && kbert --help && kbert params tiny", **locale)
    assert (done.returncode, done.stderr) == (0, "")
    assert "23,040,000" in done.stdout and "4,722,432" in done.stdout
    assert "H?T = 768?30000" in done.stdout or "H·T = 768·30000" in done.stdout
    assert "basse" in one_line(run("kbert account basse", **locale))


def test_unwritable_output_gives_one_line(run):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    assert "No space left on device" in one_line(run("kbert account base > /dev/full"))


@pytest.mark.full
def test_closed_stream_gives_one_line(run, tmp_path):
    (tmp_path / "empty").mkdir()
    said = one_line(run("kbert embed empty - -o v.npy <&-"))
    assert "stdin" in said and "closed" in said
    assert "stdout is closed" in one_line(run("kbert account base >&-"))
    done = run("kbert account tiny 2>&- && kbert account basse 2>&-")
    assert (done.returncode, done.stderr) == (2, "") and "parameters" in done.stdout


@pytest.mark.full
def test_copy_of_standard_input_that_was_killed_is_removed(tmp_path):
    command = [sys.executable, "-m", "kbert", *["vocab", "-", "--size", "99", "-o", "v"]]
    options = {"env": {**os.environ, "TMPDIR": str(tmp_path)}, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=tmp_path, **options) as process:
        until = time.monotonic() + 100
        while not list(tmp_path.glob(".kbert-stdin.*")) and time.monotonic() < until:
            time.sleep(0.05)
        process.kill()
    assert list(tmp_path.glob(".kbert-stdin.*"))
    subprocess.run(command, input=b"a", cwd=tmp_path, **options)
    assert not list(tmp_path.glob(".kbert-stdin.*"))


@pytest.mark.full
def test_python_m_kbert_equals_kbert(run):
    module, script = (run(f"{name} account tiny") for name in (f"{PYTHON} -m kbert", "kbert"))
    assert module.stdout == script.stdout and module.returncode == 0
    assert one_line(run(f"{PYTHON} -m kbert acount"))


def test_unknown_backend_gives_one_line_with_the_known_ones(run):
    said = one_line(run("kbert summary tiny --built", KERAS_BACKEND="nope"))
    for part in ("KERAS_BACKEND", "nope", "tensorflow", "jax", "torch"):
        assert part in said


@pytest.mark.full
@pytest.mark.parametrize("backend", ["jax", *(full(name) for name in OTHERS)])
def test_missing_backend_gives_one_line_with_the_fix(run, without, backend):
    hidden = {"PYTHONPATH": without(backend), "KERAS_BACKEND": backend}
    said = one_line(run("kbert verify tiny", **hidden))
    for part in (backend, "not installed", "pip install", "KERAS_BACKEND"):
        assert part in said
    assert run("kbert account tiny", **hidden).returncode == 0  # needs no backend


@pytest.mark.full
def test_training_shows_no_log_of_the_backend(run, tmp_path):
    make_shards(tmp_path)
    config = SIZES | {"num_hidden_layers": 1}
    (tmp_path / "one.json").write_text(json.dumps(config), encoding="utf-8")
    options = "--config one.json --steps 1 --seq-len 16 --batch-size 3 -o run"
    done = run(f"env -u TF_CPP_MIN_LOG_LEVEL kbert pretrain shards {options}")
    assert done.returncode == 0, done.stderr
    assert not re.findall(r"(?m)^(?:WARNING: |[IWE]\d{4} ).*", done.stderr)


def test_ctrl_c_in_a_garbage_collector_callback_stops(run):
    """Python only prints what is raised there, and goes on; JAX has such a callback."""
    code = """
import gc, signal, time, click
from kbert.cli.console import run

@click.command()
def command():
    def callback(phase, info):
        if phase == "start":
            gc.callbacks.remove(callback)
            signal.raise_signal(signal.SIGINT)
    gc.callbacks.append(callback)
    gc.collect()
    time.sleep(9)
    print("it went on")

run(command, [])
"""
    done = run(f"{PYTHON} - <<'EOF'\n{code}\nEOF")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "kbert: stopped\n")
