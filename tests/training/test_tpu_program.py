"""TensorFlow on TPU, with none at hand: the program for its chips, and errors about them."""

import functools
import importlib.metadata
import re
import socket

import keras
import numpy as np
import pytest
from helpers.engines import small_config
from helpers.errors import raises
from helpers.marks import nightly
from helpers.training_batches import PREDICTIONS, arrays, batch_of

from kbert.graph.spec import GraphSpec
from kbert.model.builder import build
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer

tf = pytest.importorskip("tensorflow")
from kbert.training.backends import strategies  # noqa: E402
from kbert.training.backends.backend import Backend  # noqa: E402

TOGETHER, BATCH, BLOCKS = 3, 12, 1
# What a chip cannot do alone, in HLO: it would stop and ask its host, or know no size.
HOST = re.compile(r"\b(custom-call|infeed|outfeed|send|recv)[\w-]*\(")
DYNAMIC = re.compile(r"set-dimension-size|get-dimension-size|<=\d")
WIDE = re.compile(r"\bf64\[")
HEADS = {
    "pretraining": {"max_predictions": PREDICTIONS, "dtype": "mixed_bfloat16"},
    "classifier": {"num_labels": 3},
}


def engine_of(head: str, on_tpu: bool, dropout: float = 0.1, **options) -> Engine:
    """An engine on this CPU; `on_tpu`: whose program is that of a TPU's one chip."""
    from kbert.training.backends.strategies import LocalReplicas

    keras.utils.set_random_seed(5)
    init = LocalReplicas.__init__

    def init_on_tpu(self, *arguments):
        init(self, *arguments)
        self.on_tpu = self.distributed = on_tpu

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalReplicas, "__init__", init_on_tpu)
        backend = backends.start()
    model = build(GraphSpec(small_config(BLOCKS, dropout), head, seq_len=11, **HEADS[head]))
    engine = Engine(backend, model, Optimizer(learning_rate=1e-2, total_steps=9), **options)
    return engine


def batches(head: str) -> list:
    data = arrays(head, TOGETHER, BATCH)
    return [batch_of(data, step) for step in range(TOGETHER)]


def lowered(function, *arguments, **platform) -> str:
    """The HLO of a function, which XLA's compilers are given."""
    whole = tf.function(function, jit_compile=True, autograph=False)
    return whole.experimental_get_compiler_ir(*arguments)(stage="hlo", **platform)


def problems(text: str) -> list[str]:
    return [found for kind in (HOST, DYNAMIC, WIDE) for found in kind.findall(text)]


def each_of(engine, batch, step: int) -> list[tuple]:
    return engine.program.split_by_replica(engine.split(batch), engine.seeds(step))


def call_of(engine, head: str):
    """Return the arguments of a call of the device."""
    from kbert.training.backends.strategies import stack_steps

    each = [each_of(engine, batch, step) for step, batch in enumerate(batches(head))]
    (values,) = (stack_steps(list(parts)) for parts in zip(*each, strict=True))
    return [tf.constant(2), *tf.nest.map_structure(tf.convert_to_tensor, values)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("head", "options"),
    [
        ("pretraining", {"accumulation_steps": 2}),
        nightly("classifier", {"gradient_checkpointing": True}),
    ],
)
def test_call_is_one_program_without_host_or_dynamic_size(head, options):
    engine = engine_of(head, on_tpu=True, steps_per_execution=TOGETHER, **options)
    text = lowered(engine.program.call, *call_of(engine, head))
    assert problems(text) == []
    assert " while(" in text and " dot(" in text  # the updates' loop, products
    drawn = 3 * BLOCKS + 1 + 3 * BLOCKS * ("gradient_checkpointing" in options)
    assert text.count("rng-bit-generator(") >= drawn - 1
    moved = [line for line in text.splitlines() if "ROOT" in line][-1]
    assert moved.count("f32[") > 3 * len(
        engine.state.variables.weights
    )  # weights and both moments come out


class Chips:
    """One of several chips: it names the others where a step sums over them."""

    num_replicas_in_sync = 2

    def all_reduce(self, operation, tensors):
        def total(tensor):
            return tf.raw_ops.CrossReplicaSum(input=tensor, group_assignment=[[0, 1]])

        return tf.nest.map_structure(total, tensors)


def pure_update(engine):
    """An update as a function of its variables, which XLA is to be given for another platform."""

    def update(values, batch, seeds):
        values = tf.nest.pack_sequence_as(engine.state.values(), values)
        apply = functools.partial(Backend.apply, engine.backend)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine.backend, "apply", apply)
            new, figures = engine.step.update(values, [], batch, seeds)
        return figures, tf.nest.flatten(new)

    return update


def has_tpu_kernels() -> bool:
    try:
        return bool(importlib.metadata.version("tensorflow-tpu"))
    except importlib.metadata.PackageNotFoundError:
        return False


@pytest.mark.full
@pytest.mark.skipif(not has_tpu_kernels(), reason="tensorflow-tpu alone has the kernels of a TPU")
@pytest.mark.parametrize(
    ("head", "options"),
    [
        ("pretraining", {"accumulation_steps": 2}),
        ("classifier", {"gradient_checkpointing": True}),
    ],
)
def test_update_of_several_chips_lowers_for_tpu(monkeypatch, head, options):
    """With the wheel for TPU in tensorflow's place; no TPU is needed."""
    engine = engine_of(head, on_tpu=True, **options)
    engine.backend.replicas = 2
    monkeypatch.setattr(tf.distribute, "get_replica_context", Chips)
    ((arrays, seeds),) = each_of(engine, batches(head)[0], 0)
    tensors = tf.nest.map_structure(tf.convert_to_tensor, (arrays, seeds))
    values = [tf.convert_to_tensor(one) for one in tf.nest.flatten(engine.state.values())]
    text = lowered(pure_update(engine), values, *tensors, platform_name="TPU")
    assert problems(text) == [] and text.count("rng-bit-generator(") > 3 * BLOCKS
    assert (
        text.count(" all-reduce(") == len(engine.state.variables.weights) + 1
    )  # gradients, and all sums


@pytest.mark.full
def test_evaluation_is_one_program_without_host():
    engine = engine_of("pretraining", on_tpu=True)
    batch = batches("pretraining")[0]
    values = tf.nest.map_structure(tf.constant, (batch.inputs, batch.labels, batch.weights))
    assert problems(lowered(engine.program.sums, values)) == []


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda x: x[x > 0.5], "<=3"),
        (lambda x: tf.cast(x, "float64") * 2, "f64["),
    ],
)
def test_dynamic_and_float64_programs_are_found(function, found):
    assert found in problems(lowered(function, tf.constant([0.1, 0.7, 0.9])))


@pytest.mark.full
def test_tpu_updates_equal_cpu_updates():
    plain = engine_of("pretraining", on_tpu=False, dropout=0.0)
    chip = engine_of("pretraining", on_tpu=True, dropout=0.0, steps_per_execution=TOGETHER)
    expected = [
        float(plain.update(batch, n)["loss"]) for n, batch in enumerate(batches("pretraining"))
    ]
    found = [one["loss"] for one in chip.updates(batches("pretraining"), 0)()]
    np.testing.assert_allclose(found, expected, rtol=2e-2)  # bfloat16
    assert chip.predict(batches("pretraining")[0].select(slice(0, 5)).inputs)[1].shape == (5, 2)


@pytest.mark.full
def test_tpu_takes_several_steps_per_call():
    engine = engine_of("classifier", on_tpu=True)
    assert engine.steps_per_execution > 1 and engine.backend.default_jit
    with raises(ValueError, "jit"):
        Engine(engine.backend, engine.model, engine.settings, jit=False)


# What is said of a TPU that is not there.


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.full
def test_missing_tpu_is_one_line_error(forks, tmp_path):
    """In a process of its own: to start a TPU clears what TensorFlow has made."""
    names = ["local", "no-such-tpu", f"grpc://127.0.0.1:{closed_port()}"]
    code = f"""
import os
from kbert.training import backends
for os.environ["TPU_NAME"] in {names}:
    try:
        backends.start()
    except ValueError as error:
        print(error)
"""
    printed = forks("tensorflow").run("builtins:exec", code, {}, out=tmp_path / "out.txt")
    lines = [line for line in printed.splitlines() if line.startswith("the TPU ")]
    assert len(lines) == len(names), printed
    for name, line in zip(names, lines, strict=True):
        assert line.startswith(f"the TPU {name!r} cannot be used (") and "unset it" in line


# TensorFlow's own TPUStrategy, whose resolver says that there are two chips; their variables lie on
# two CPUs. What it makes of a call is not run.
STRATEGY = """
import numpy as np, sys
import tensorflow as tf
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
place = "/job:localhost/replica:0/task:0/device:"

class Resolver(tf.distribute.cluster_resolver.TPUClusterResolver):
    def get_tpu_system_metadata(self):
        devices = [tf.config.LogicalDevice(f"{place}TPU:{n}", "TPU") for n in range(2)]
        return tf.tpu.experimental.TPUSystemMetadata(2, 1, 2, None, devices)

strategy = tf.distribute.TPUStrategy(Resolver(tpu="local"))
strategy.extended._tpu_devices = np.array([[f"{place}CPU:{n}"] for n in range(2)], dtype=object)
import kbert
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.backends import strategies
from kbert.training.backends.strategies import stack_steps
from kbert.training.optimization.optimizers import Optimizer
from helpers.sizes import SIZES
from helpers.training_batches import PREDICTIONS, arrays, batch_of
from helpers.vector_process import CASES, batch, prepared
strategies.connect_tpu = lambda name: strategy
backend = backends.start(2)
with backend.scope():
    config = kbert.BertConfig(**SIZES | {"num_hidden_layers": 1})
    model = kbert.build_bert(config, seq_len=11, max_predictions=PREDICTIONS)
optimizer = Optimizer(total_steps=9)
engine = Engine(backend, model, optimizer, steps_per_execution=3, accumulation_steps=2)
engine.state.restore(engine.state.all())
data = arrays("pretraining", 3, 12)

def told(batches):
    each = [
        engine.program.split_by_replica(engine.split(one), engine.seeds(n))
        for n, one in enumerate(batches)
    ]
    steps = [stack_steps(list(parts)) for parts in zip(*each)]
    values = engine.backend.local_replicas.per_replica(steps)
    traced = engine.program.call.get_concrete_function(tf.constant(2), *values)
    graph = traced.graph.as_graph_def(add_shapes=True)
    nodes = [*graph.node, *(node for one in graph.library.function for node in one.node_def)]
    kinds = [node.op for node in nodes]
    unknown = {
        node.op for node in nodes for shape in node.attr["_output_shapes"].list.shape
        if shape.unknown_rank or any(size.size < 0 for size in shape.dim)
    }
    weights = len(engine.state.variables.weights)
    print(kinds.count("TPUReplicateMetadata"), kinds.count("CrossReplicaSum") - weights,
          kinds.count("AssignVariableOp") - len(tf.nest.flatten(engine.state.values())),
          sorted(unknown),
          sorted(kind for kind in set(kinds) if "PyFunc" in kind or "feed" in kind))

told([batch_of(data, n) for n in range(3)])
*case, options = CASES["infonce_in_parts"]
engine = prepared(backend, *case, options | {"steps_per_execution": 3})
told([batch(*case[:2], n) for n in range(3)])
"""


@pytest.mark.full
def test_tpu_strategy_takes_a_call_with_static_shapes(forks, tmp_path):
    asked = {"out": tmp_path / "out.txt", "env": {"TPU_NAME": "local"}}
    printed = forks("tensorflow").run("builtins:exec", STRATEGY, {}, **asked)
    # one program; gradients and all sums go between the chips; every variable is given once; where
    # vectors are learned these go too, with the records' labels and weights
    update, of_vectors = printed.splitlines()[-2:]
    assert update.split() == ["1", "1", "0", "[]", "[]"]
    assert of_vectors.split()[:3] == ["1", "4", "0"] and of_vectors.endswith("[]")
    assert of_vectors.split()[3] in ("[]", "['BroadcastGradientArgs']")


def test_devices_must_be_all_chips_of_a_tpu(monkeypatch):
    class Chips:
        num_replicas_in_sync = 8

    monkeypatch.setenv("TPU_NAME", "local")
    monkeypatch.setattr(strategies, "connect_tpu", lambda name: Chips)
    with raises(ValueError, "devices", "all 8", "'local'", "got 3"):
        backends.start(3)
