"""One device, several devices and several hosts compute the same steps, in real processes."""

import json
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest
from helpers import train_process
from helpers.backends import XLA_FLAGS, environment_of
from helpers.marks import full, nightly
from helpers.run_shards import make_shards
from helpers.sizes import SIZES

import kbert

TWO = "--xla_force_host_platform_device_count=2"
TWO_DEVICES_OF_JAX = {"KERAS_BACKEND": "jax", "XLA_FLAGS": f"{XLA_FLAGS} {TWO}"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import keras

    keras.utils.set_random_seed(5)
    config = kbert.BertConfig(**SIZES | {"num_hidden_layers": 1})
    folder = tmp_path_factory.mktemp("first")
    kbert.save(kbert.Bert(config, "pretraining", kbert.build_bert(config)), folder / "bert")
    return folder / "bert"


def ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    numbers = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    return numbers


def environments(kind: str) -> list[dict]:
    """The variables of each process of a way to train."""
    first, second = ports(2)
    hosts = [f"127.0.0.1:{first}", f"127.0.0.1:{second}"]
    if kind == "workers":
        tasks = [{"type": "worker", "index": index} for index in range(2)]
        return [
            {"TF_CONFIG": json.dumps({"cluster": {"worker": hosts}, "task": task})}
            for task in tasks
        ]
    if kind == "jax_devices":
        return [TWO_DEVICES_OF_JAX]
    if kind == "jax":
        return [environment_of("jax")]
    if kind == "jax_hosts":
        return [
            environment_of("jax")
            | {
                "KERAS_DISTRIBUTION_JOB_ADDRESSES": hosts[0],
                "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
                "KERAS_DISTRIBUTION_PROCESS_ID": str(index),
            }
            for index in range(2)
        ]
    if kind == "torch":
        return [{"KERAS_BACKEND": "torch"}]
    if kind.startswith("torch"):  # as torchrun gives them
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(first), "WORLD_SIZE": "2"}
        return [{"KERAS_BACKEND": "torch", "RANK": str(index)} | shared for index in range(2)]
    return [{}]


def backend_of(kind: str) -> str:
    backend = kind.partition("_")[0]
    return backend if backend in ("jax", "torch") else "tensorflow"


def ended(forks, kind: str, place: Path, function: str, *arguments) -> list[dict]:
    """Return the arrays that each process of a way to train writes to its first argument."""
    forks, running = forks(backend_of(kind)), []
    for index, variables in enumerate(environments(kind)):
        out = place / f"{kind}-{index}.npz"
        asked = function, str(out), *arguments
        number = forks.start(*asked, out=out.with_suffix(".txt"), env=variables)
        running.append((number, out))
    for number, out in running:
        assert forks.wait(number) == 0, out.with_suffix(".txt").read_text()[-3000:]
    return [dict(np.load(out)) for _, out in running]


@pytest.fixture(scope="module")
def one_device(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("one") / "device.npz"
    train_process.main(str(out), str(folder), 0.0, 1, 1, 1)
    found = dict(np.load(out))
    assert found.pop("engine").tolist() == [1, 0, 1]
    return found


@pytest.mark.parametrize(
    "kind",
    [
        *(full(kind) for kind in ("torch_accumulated", "mirrored", "workers", "jax_hosts")),
        # one device beside transformers: on_each_backend/test_training_parity.py; two devices of
        # JAX: test_two_jax_devices_draw_the_masks_of_one; two processes without micro-batches
        *(nightly(kind) for kind in ("jax", "jax_devices", "torch", "torch_processes")),
    ],
)
def test_every_way_to_train_equals_one_device(kind, folder, one_device, forks, tmp_path):
    assert (one_device["norms"] > 0.5).all()  # the clip bites
    devices = 2 if kind in ("mirrored", "jax_devices") else 1
    micro_batches = 2 if kind == "torch_accumulated" else 1
    at_once = 3 if kind in ("mirrored", "workers") else 1  # of 5: a call is not full
    asked = str(folder), 0.0, devices, micro_batches, at_once
    every = ended(forks, kind, tmp_path, "helpers.train_process:main", *asked)
    replicas = 2 if devices == 2 or len(every) == 2 else 1
    for index, found in enumerate(every):
        assert found.pop("engine").tolist() == [replicas, index, len(every)]
        assert found.keys() == one_device.keys()
        for name, array in found.items():
            np.testing.assert_allclose(array, one_device[name], atol=1e-5, rtol=1e-5, err_msg=name)


@pytest.mark.full
def test_replicas_draw_their_own_dropout_masks(folder, forks, tmp_path):
    """Two replicas with the same examples: the same masks would give both the same sums."""
    code = f"""
import os, sys
import tensorflow as tf
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import kbert
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer
from helpers.training_batches import PREDICTIONS, arrays, batch_of
backend = backends.start(2)
with backend.scope():
    config = kbert.load({str(folder)!r}).config
    model = kbert.build_bert(config, seq_len=11, max_predictions=PREDICTIONS)
engine = Engine(backend, model, Optimizer(total_steps=9))
batch = batch_of(arrays("pretraining", 1, 6), 0)
engine.backend.local = 1
twice = engine.split(batch) * 2
seeds = engine.seeds(0)

def losses(seeds):
    def local(batch, seeds):
        tensors = [tf.convert_to_tensor(one.value) for one in engine.state.variables.weights]
        seeds = tf.ensure_shape(seeds, seeds.shape)
        return engine.step.gradients_of_device(tensors, 1.0, [], batch, seeds)[1][0, 0]
    strategy, local_replicas = engine.backend.strategy, engine.backend.local_replicas
    run = tf.function(lambda b, s: strategy.run(local, args=(b, s)))
    found = run(local_replicas.per_replica(twice), local_replicas.per_replica(list(seeds)))
    return [float(value) for value in strategy.experimental_local_results(found)]

one, two = losses(seeds)
assert one != two, (one, two)
same, again = losses([seeds[0], seeds[0]])
assert abs(same - again) < 1e-6 and abs(same - one) < 1e-6
print("differ")
"""
    printed = forks("tensorflow").run("builtins:exec", code, {}, out=tmp_path / "out.txt")
    assert printed.splitlines()[-1] == "differ"


@pytest.mark.full
def test_two_jax_devices_draw_their_own_masks(folder, forks, tmp_path):
    """Their gradients are the sum of each part's with its device's seeds, computed on one."""
    code = f"""
import jax, keras, kbert
import numpy as np
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer
from helpers.training_batches import PREDICTIONS, arrays, batch_of

backend = backends.start(2)
with backend.scope():
    config = kbert.load({str(folder)!r}).config
    model = kbert.build_bert(config, seq_len=11, max_predictions=PREDICTIONS)
engine = Engine(backend, model, Optimizer(total_steps=9), accumulation_steps=2)
batch = batch_of(arrays("pretraining", 1, 12), 0)
found = list(engine.gradients(batch, 0).values())
(whole,), seeds = engine.split(batch), engine.seeds(0)
parts = [jax.tree.map(lambda one: one[:, n : n + 3], whole) for n in (0, 3)]
weights = [np.asarray(weight.value) for weight in engine.state.variables.weights]

def summed(*seeds):
    each = [
        engine.step.gradients_of_device(weights, 1.0, [], part, own)[0]
        for part, own in zip(parts, seeds)
    ]
    return [np.asarray(one + other) for one, other in zip(*each)]

for one, other in zip(found, summed(*seeds), strict=True):
    np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-4)
same = summed(seeds[0], seeds[0])
assert max(np.abs(one - other).max() for one, other in zip(found, same)) > 1e-3
print("own")
"""
    asked = "builtins:exec", code, {}
    printed = forks("jax").run(*asked, out=tmp_path / "out.txt", env=TWO_DEVICES_OF_JAX)
    assert printed.split()[-1] == "own"


@pytest.mark.parametrize("kind", [full("torch_processes"), full("workers"), full("jax_hosts")])
def test_two_processes_share_a_budget(kind, forks, tmp_path):
    """They agree on each step's share and size; a killed run computes the recorded steps again."""
    shards = make_shards(tmp_path)
    first, second = tmp_path / "first", tmp_path / "second"
    program = "helpers.budget_process:main"
    one, other = ended(forks, kind, first_folder(tmp_path), program, str(shards), str(first), True)
    assert one.keys() == other.keys() and len(one["losses"]) > 20
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)
    lines = (first / "budget.jsonl").read_text().splitlines(keepends=True)
    assert [json.loads(line)["step"] for line in lines] == [*range(1, one["steps"][-1] + 1)]
    assert (np.diff(one["shares"]) >= 0).all() and 0.8 < one["shares"][-1] <= 1

    known = len(lines) // 2
    second.mkdir()
    shutil.copy(first / "settings.json", second)
    (second / "budget.jsonl").write_text("".join(lines[:known]))
    for again in ended(forks, kind, second, program, str(shards), str(second), False):
        is_known = one["steps"] <= known
        count = is_known.sum()
        for name in ("steps", "losses", "shares"):
            np.testing.assert_array_equal(again[name][:count], one[name][:count], err_msg=name)


def first_folder(folder: Path) -> Path:
    """A folder for what the first processes write."""
    (folder / "out").mkdir()
    return folder / "out"
