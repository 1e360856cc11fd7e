"""The process that compiles a step for TPUs or GPUs: its arguments are JSON and a file for JSON.

    python -m kbert.training.compiled.program '{…}' RESULT.json

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
from kbert.training import backends
from kbert.training.backends.backend import Backend
from kbert.training.compiled import gpu_text, hlo_text
from kbert.training.engine import Engine
from kbert.training.optimizers import Optimizer


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
    memory, text = done.memory_analysis(), done.as_text()
    if kind == "GPU":
        report = estimate_gpu(text, devices.accelerator)
    else:
        cycles, clock = hlo_text.cycles(text, hlo_text.SCOPES), devices.accelerator.clock
        assert clock is not None
        estimate = {part: [one / clock for one in pair] for part, pair in cycles.items()}
        report = {"flops": done.cost_analysis()["flops"], "estimate": estimate, "kernels": {}}
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


def estimate_gpu(text: str, chip) -> dict:
    """Return FLOPs, estimated seconds by part, and kernels: see `compiler.CompiledUpdate`."""
    estimate = {part: [0.0, 0.0] for part in (*dict.fromkeys(hlo_text.SCOPES.values()), "other")}
    kernels: dict = {}
    flops = 0
    for one in gpu_text.kernels(text, chip, hlo_text.SCOPES):
        count, moved, seconds = kernels.get(one.kind, (0, 0, 0.0))
        spent = one.times * one.seconds
        kernels[one.kind] = count + one.times, moved + one.times * one.moved, seconds + spent
        if one.part in estimate:  # what goes between GPUs is not estimated
            estimate[one.part][one.flops == 0] += spent
        flops += one.times * one.flops
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
        one = {"chips_per_host_bounds": [1, 1, 1]} if devices.name.endswith(":1x1") else {}
        described = topologies.get_topology_desc(platform="tpu", topology_name=devices.name, **one)
    return jax.sharding.Mesh(np.array(described.devices), ("batch",))


def prepare(
    mesh, config: dict, head: str, batch_size: int, precision: str, what: str = "update", **options
):
    """Return the engine's function, and abstract arguments laid over the chips.

    `config` has keys and values of a `BertConfig`, `batch_size` is over all chips, `what` is
    "update" or "evaluation"; `options` are sizes of `GraphSpec` and options of `Engine`.
    """
    backend = backends.start()
    backend.mesh, backend.replicas = mesh, mesh.size
    on_tensorflow = keras.backend.backend() == "tensorflow"
    if on_tensorflow:  # new values are results, as on JAX, instead of assignments
        backend.apply = functools.partial(Backend.apply, backend)
    sizes = {name: options.pop(name) for name in ("seq_len", "max_predictions")}
    spec = GraphSpec(BertConfig(**config), head, dtype=precision, **sizes)
    optimizer = Optimizer(options.pop("optimizer", "adamw"), total_steps=1000)
    engine = Engine(backend, build(spec.for_training()), optimizer, **options)
    model, values = engine.model, _lay(mesh, engine.state.values())
    inputs = {one.name: np.zeros((batch_size, *one.shape[1:]), "int32") for one in model.inputs}
    outputs = zip(model.output_names, model.outputs, strict=True)
    weights = {name: np.zeros((batch_size, *one.shape[1:-1]), "float32") for name, one in outputs}
    labels = {name: array.astype("int32") for name, array in weights.items()}
    if what == "evaluation":
        arrays = _lay(mesh, (inputs, labels, weights), "batch")
        return jax.jit(engine.step.measure), (values.weights, [], arrays)
    (arrays,) = engine.split(TrainingBatch(inputs, labels, weights))
    seeds, function = engine.seeds(0), engine.step.update
    if on_tensorflow:
        from jax.experimental.jax2tf import call_tf

        function, (seeds,) = call_tf(function), seeds
    function = jax.jit(function, donate_argnums=0)
    return function, (values, [], _lay(mesh, arrays, None, "batch"), _lay(mesh, seeds))


def _lay(mesh, tree, *axes):
    """Return abstract arrays, whose axes are split over the chips where `axes` say so."""
    sharding, dtype_of = NamedSharding(mesh, PartitionSpec(*axes)), keras.backend.standardize_dtype
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(tuple(x.shape), dtype_of(x.dtype), sharding=sharding), tree
    )


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(compiled(**json.loads(sys.argv[1]))), encoding="utf-8")
