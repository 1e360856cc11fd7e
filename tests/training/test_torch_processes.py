"""torch trains on several devices, one process each: they meet, sum, and say how many joined."""

import socket

import pytest
from test_training_processes import environments, ports

torch = pytest.importorskip("torch")
hosts = pytest.importorskip("kbert.training.backends.torch_hosts")

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
PAIR = """
import sys
import keras
import numpy as np
import torch
import kbert
from kbert.training.engine import Engine
from kbert.training.backends import torch_hosts
from kbert.training.optimizers import Optimizer
from helpers.sizes import SIZES
from helpers.training_batches import PREDICTIONS, arrays, batch_of
"""
MASKS = """
engine = Engine()
torch_hosts._BUCKET_BYTES = 5000  # of 0.1 MB of gradients
keras.utils.set_random_seed(engine.backend.process)  # other weights in each, until prepared
model = kbert.build_bert(kbert.BertConfig(**SIZES), seq_len=11, max_predictions=PREDICTIONS)
engine.prepare(model, Optimizer(total_steps=9), accumulation_steps=2)
data = arrays("pretraining", 3, 12)

def norm_of(step, local):
    # of all rows, their masks by replica, computed here
    engine.backend.local = local
    found = engine.gradients(batch_of(data, step), step)
    return float(np.sqrt(sum((gradient ** 2).sum() for gradient in found.values())))

for step in range(3):
    expected = norm_of(step, 2), norm_of(step, 1)
    figures = engine.update(batch_of(data, step).select(engine.slice_examples(12)), step)
    print("of", float(figures["gradient_norm"]), *expected)
print("of", *[float(weight.value.detach().abs().sum()) for weight in model.weights])
"""
LEAVES = """
if engine.backend.process == 1:
    raise OSError(5, "the disk is gone")
try:
    engine.barrier()
except RuntimeError as error:
    print(type(error).__name__, engine.backend.is_process_failure(error), str(error).splitlines())
"""


@pytest.fixture(scope="module")
def pair(forks, tmp_path_factory) -> list[tuple[int, str]]:
    """Two processes that train with dropout, then the second fails: status, what each printed."""
    folder, running = tmp_path_factory.mktemp("pair"), []
    for index, variables in enumerate(environments("torch_processes")):
        asked = "builtins:exec", PAIR + MASKS + LEAVES, {}
        out = folder / f"{index}.txt"
        running.append((forks("torch").start(*asked, out=out, env=variables), out))
    return [(forks("torch").wait(number, 120), out.read_text()) for number, out in running]


@pytest.fixture
def process(monkeypatch):
    """Sets the variables of a process; returns where process 0 is to listen."""
    (port,) = ports(1)

    def set_variables(**others: str | None) -> str:
        found = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for name in NAMES:
            text = (found | others).get(name)
            monkeypatch.delenv(name, raising=False)
            if text is not None:
                monkeypatch.setenv(name, str(text))
        return f"127.0.0.1:{port}"

    return set_variables


@pytest.mark.full
def test_torch_replicas_draw_own_masks_and_share_one_update(pair):
    """With dropout, over micro-batches: the sum of what one process computes for each replica."""
    (status, one), (_, two) = pair
    assert status == 0, one[-2000:] + two[-2000:]
    lines = [line for line in one.splitlines() if line.startswith("of ")]
    updates = [line.removeprefix("of ") for line in lines[:-1]]
    assert len(updates) == 3
    assert lines == [line for line in two.splitlines() if line.startswith("of ")]  # to a digit
    for line in updates:
        found, expected, of_one_replica = map(float, line.split())
        assert abs(found / expected - 1) < 1e-5
        assert abs(found / of_one_replica - 1) > 1e-3


@pytest.mark.full
def test_error_in_one_process_ends_the_others(pair):
    (_, one), (status, two) = pair
    assert status == 1 and "the disk is gone" in two
    (line,) = (line for line in one.splitlines() if line.startswith("ProcessFailed"))
    name, known, lines = line.split(maxsplit=2)
    assert (name, known) == ("ProcessFailed", "True") and "', '" not in lines
    assert lines.startswith("['the sum over processes failed: ")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE must be a whole number of at least 1, .* got 'two'"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE must be .* got '0': start the processes by torchrun"),
        ({"RANK": None}, r"RANK must be 0 … 1, since WORLD_SIZE is 2, got None: start the"),
        ({"RANK": "x"}, "RANK must be 0 … 1, .* got 'x'"),
        ({"RANK": "2"}, "RANK must be 0 … 1, .* got '2': .* or give each its own"),
        ({"RANK": "1", "WORLD_SIZE": "1"}, "RANK must be 0 … 0, since WORLD_SIZE is 1, got '1'"),
        ({"MASTER_ADDR": None}, "MASTER_ADDR must name the host of process 0, .* got None"),
        ({"MASTER_PORT": None}, "MASTER_PORT must be a free port .* got None: start the"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT must be a free port .* 1 … 65535, got 'http'"),
        ({"MASTER_PORT": "65536"}, "MASTER_PORT must be .* got '65536': .* give each the same"),
    ],
)
def test_bad_torchrun_variables_are_one_line_errors(process, variables, message):
    process(**variables)
    with pytest.raises(ValueError, match=message) as error:
        hosts.start()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("local", "gpus", "message"),
    [
        ("1", 2, None),
        (None, 1, None),
        ("2", 2, "LOCAL_RANK must be 0 … 1, .* got '2': start at most one process a GPU"),
        (None, 2, "LOCAL_RANK must be 0 … 1, .* got None: .* torchrun --nproc-per-node=2"),
    ],
)
def test_process_uses_the_gpu_of_its_rank(process, monkeypatch, local, gpus, message):
    """Without a GPU: what torch is asked for."""
    process(LOCAL_RANK=local)
    asked = []
    monkeypatch.delenv("KERAS_TORCH_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", asked.append)
    monkeypatch.setattr(hosts, "_group", lambda: None)
    monkeypatch.setattr(hosts.dist, "init_process_group", lambda kind, **_: asked.append(kind))
    if message is None:
        assert hosts.start() == (0, 2)
        assert asked == [int(local or 0), "nccl"]
        return
    with pytest.raises(ValueError, match=message) as error:
        hosts.start()
    assert "\n" not in str(error.value) and not asked


def test_several_devices_in_one_process_are_refused():
    from kbert.training.backends.torch import TorchBackend

    with pytest.raises(ValueError, match=r"devices must be 1 with torch, .* got 2: .* by torchrun"):
        TorchBackend(2)


@pytest.mark.full
@pytest.mark.parametrize(("number", "reason"), [("0", "1/2 clients joined"), ("1", "")])
def test_absent_torch_process_is_one_line_error(process, number, reason):
    address = process(RANK=number)
    with pytest.raises(TimeoutError) as error:
        hosts.start(timeout_s=0.3)
    text = str(error.value)
    assert text.startswith(f"not all of the 2 processes met at {address} within 0 s (")
    assert reason in text and "\n" not in text
    assert text.endswith(
        "): start each with the same MASTER_ADDR and MASTER_PORT and its own RANK, or lower "
        "WORLD_SIZE"
    )


def test_taken_master_port_is_one_line_error(process):
    address = process()
    with socket.create_server(("", int(address.split(":")[1]))), pytest.raises(OSError) as error:
        hosts.start()
    text = error.value.strerror
    assert text.startswith(f"MASTER_PORT gives this process the address {address}, but its port is")
    assert "\n" not in text
