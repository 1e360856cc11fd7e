"""The process that compiles a step for TPUs or GPUs: its arguments are JSON and a file for JSON.

    python -m kbert.planning.program '{…}' RESULT.json

libtpu and JAX's plugin for CUDA hold the compilers. Keras's backend is JAX on the CPU, or for GPUs
TensorFlow, whose whole step becomes a function of JAX's.
"""

import functools
import json
import sys
import time
from pathlib import Path

import jax
import keras
import numpy as np
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec

from kbert.data.training_batch import TrainingBatch
from kbert.graph import accelerators
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec
from kbert.model.builder import build
from kbert.ops import compile_for
from kbert.planning import gpu_text, hlo_text
from kbert.training import backends
from kbert.training.backends.backend import Backend
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer


def compiled(kind: str, name: str, **request) -> dict:
    """Compile a training step, and return the report for one chip: see `compiler.CompiledUpdate`.

    If the chips cannot hold it, return {"refused": the compiler's message}. `kind` is "TPU" or
    "GPU", `name` such as "v5e:4x4" or "H100:8", `request` see `prepare`.
    """
    begun = time.monotonic()
    devices = accelerators.tpu(name) if kind == "TPU" else accelerators.gpu(name)
    function, arguments = prepare(mesh(devices), **request)
    with compile_for(kind.lower()):
        lowered = function.lower(*arguments)
    try:
        done = lowered.compile()
    except RuntimeError as error:  # JAX's own derives from it
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return {"refused": str(error)}

    memory = done.memory_analysis()
    text = done.as_text()
    if kind == "GPU":
        report = estimate_gpu(text, devices.accelerator)
    else:
        report = estimate_tpu(text, devices.accelerator)
        report["flops"] = done.cost_analysis()["flops"]
    return {
        "seconds": time.monotonic() - begun,
        "arguments": memory.argument_size_in_bytes,
        "temporary": memory.temp_size_in_bytes,
        "outputs": memory.output_size_in_bytes - memory.alias_size_in_bytes,
        "collectives": hlo_text.collectives(text),
        "host_calls": hlo_text.host_calls(text),
        "dynamic_shapes": hlo_text.dynamic_shapes(text),
        **report,
    }


def estimate_tpu(text: str, chip) -> dict:
    """Return estimated seconds by part: see `compiler.CompiledUpdate`."""
    assert chip.clock is not None
    estimate = {}
    cycles = hlo_text.cycles(text, hlo_text.SCOPES)
    for part, (of_products, of_others) in cycles.items():
        estimate[part] = [of_products / chip.clock, of_others / chip.clock]
    return {"estimate": estimate, "kernels": {}}


def estimate_gpu(text: str, chip) -> dict:
    """Return FLOPs, estimated seconds by part, and kernels: see `compiler.CompiledUpdate`."""
    names = (*dict.fromkeys(hlo_text.SCOPES.values()), "other")
    estimate = {part: [0.0, 0.0] for part in names}  # of products, of all else
    kernels: dict = {}
    flops = 0
    for kernel in gpu_text.kernels(text, chip, hlo_text.SCOPES):
        times = kernel.times
        spent = times * kernel.seconds
        flops += times * kernel.flops

        count, moved, seconds = kernels.get(kernel.kind, (0, 0, 0.0))
        moved += times * kernel.moved
        kernels[kernel.kind] = count + times, moved, seconds + spent

        if kernel.part in estimate:  # what goes between GPUs is not estimated
            is_product = kernel.flops > 0
            estimate[kernel.part][0 if is_product else 1] += spent
    return {"flops": flops, "estimate": estimate, "kernels": kernels}


def mesh(devices):
    """Return the chips of `accelerators.Devices`, side by side."""
    if devices.accelerator.kind == "GPU":
        described = topologies.get_topology_desc(
            platform="cuda",
            topology_name="",
            target_config=gpu_text.target_text(devices.accelerator),
            topology=f"1x1x{devices.chips}",
        )
    else:
        options = {}
        if devices.name.endswith(":1x1"):
            options["chips_per_host_bounds"] = [1, 1, 1]
        described = topologies.get_topology_desc(
            platform="tpu", topology_name=devices.name, **options
        )
    devices = np.array(described.devices)
    return jax.sharding.Mesh(devices, ("batch",))


def prepare(
    mesh, config: dict, head: str, batch_size: int, precision: str, what: str = "update", **options
):
    """Return the engine's function, and abstract arguments laid over the chips.

    `config` has keys and values of a `BertConfig`, `batch_size` is over all chips, `what` is
    "update" or "evaluation"; `options` are sizes of `GraphSpec` and options of `Engine`.
    """
    on_tensorflow = keras.backend.backend() == "tensorflow"
    sizes = {name: options.pop(name) for name in ("seq_len", "max_predictions")}
    spec = GraphSpec(BertConfig(**config), head, dtype=precision, **sizes)
    optimizer_name = options.pop("optimizer", "adamw")
    optimizer = Optimizer(optimizer_name, total_steps=1000)
    backend = _start_backend(mesh, on_tensorflow)
    model = build(spec.for_training())
    engine = Engine(backend, model, optimizer, **options)

    batch = _make_batch(engine.model, batch_size)
    values = _lay(mesh, engine.state.values())
    if what == "evaluation":
        arrays = _lay(mesh, (batch.inputs, batch.labels, batch.weights), "batch")
        measure = jax.jit(engine.step.measure)
        return measure, (values.weights, [], arrays)

    (arrays,) = engine.split(batch)
    seeds = engine.seeds(0)
    function = engine.step.update
    if on_tensorflow:
        from jax.experimental.jax2tf import call_tf

        function = call_tf(function)
        (seeds,) = seeds  # of the one replica
    function = jax.jit(function, donate_argnums=0)
    arrays = _lay(mesh, arrays, None, "batch")
    seeds = _lay(mesh, seeds)
    return function, (values, [], arrays, seeds)


def _start_backend(mesh, on_tensorflow: bool) -> Backend:
    """Return the backend of the chips that a step is compiled for."""
    backend = backends.start()
    backend.mesh = mesh
    backend.replicas = mesh.size
    if on_tensorflow:  # new values are results, as on JAX, instead of assignments
        backend.apply = functools.partial(Backend.apply, backend)
    return backend


def _make_batch(model, batch_size: int) -> TrainingBatch:
    """Return a batch of zeros, in the shapes of a model's inputs and outputs."""
    inputs = {
        tensor.name: np.zeros((batch_size, *tensor.shape[1:]), "int32") for tensor in model.inputs
    }
    labels = {}
    weights = {}
    for name, output in zip(model.output_names, model.outputs, strict=True):
        shape = (batch_size, *output.shape[1:-1])
        labels[name] = np.zeros(shape, "int32")
        weights[name] = np.zeros(shape, "float32")
    return TrainingBatch(inputs, labels, weights)


def _lay(mesh, tree, *axes):
    """Return abstract arrays, whose axes are split over the chips where `axes` say so."""
    sharding = NamedSharding(mesh, PartitionSpec(*axes))

    def describe(array):
        dtype = keras.backend.standardize_dtype(array.dtype)
        return jax.ShapeDtypeStruct(tuple(array.shape), dtype, sharding=sharding)

    return jax.tree.map(describe, tree)


if __name__ == "__main__":
    answer = compiled(**json.loads(sys.argv[1]))
    path = Path(sys.argv[2])
    path.write_text(json.dumps(answer), encoding="utf-8")
