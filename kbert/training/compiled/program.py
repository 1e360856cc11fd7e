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
from kbert.training.backends.backend import Backend
from kbert.training.compiled import gpu_text, hlo_text
from kbert.training.engine import Engine
from kbert.training.optimizers import Optimizer


def compiled(kind: str, name: str, **request) -> dict:
    """Compile a training step, and return the report for one chip: see `compiler.CompiledUpdate`.

    If the chips cannot hold it, return {"refused": the compiler's message}. `kind` is "TPU" or
    "GPU", `name` such as "v5e:4x4" or "H100:8", `request` see `update`.
    """
    begun = time.monotonic()
    devices = accelerators.tpu(name) if kind == "TPU" else accelerators.gpu(name)
    function, arguments = update(mesh(devices), **request)
    with compile_for(kind.lower()):
        lowered = function.lower(*arguments)
    try:
        done = lowered.compile()
    except RuntimeError as error:  # JAX's own derives from it
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return {"refused": str(error)}
    memory, text = done.memory_analysis(), done.as_text()
    report = of_tpu if kind == "TPU" else of_gpu
    return {
        "seconds": time.monotonic() - begun,
        "arguments": memory.argument_size_in_bytes,
        "temporary": memory.temp_size_in_bytes,
        "outputs": memory.output_size_in_bytes - memory.alias_size_in_bytes,
        "collectives": hlo_text.collectives(text),
        "host_calls": hlo_text.host_calls(text),
        "dynamic_shapes": hlo_text.dynamic_shapes(text),
        **report(done, text, devices.accelerator),
    }


def of_tpu(done, text: str, chip) -> dict:
    cycles = hlo_text.cycles(text, hlo_text.SCOPES)
    estimate = {part: [one / chip.clock for one in pair] for part, pair in cycles.items()}
    return {"flops": done.cost_analysis()["flops"], "estimate": estimate, "kernels": {}}


def of_gpu(done, text: str, chip) -> dict:
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


def update(
    mesh,
    config: dict,
    head: str,
    seq_len: int,
    max_predictions: int | None,
    batch_size: int,
    precision: str,
    accumulation_steps: int = 1,
    gradient_checkpointing: bool = False,
    optimizer: str = "adamw",
    what: str = "update",
):
    """Return the engine's function, and abstract arguments laid over the chips.

    `config` has keys and values of a `BertConfig`, `batch_size` is over all chips, `what` is
    "update" or "evaluation".
    """
    engine = Engine()
    engine.backend.mesh, engine.backend.replicas = mesh, mesh.size
    on_tensorflow = keras.backend.backend() == "tensorflow"
    if on_tensorflow:  # new values are results, as on JAX, instead of assignments
        engine.backend.apply = functools.partial(Backend.apply, engine.backend)
    sizes: dict = {"seq_len": seq_len, "max_predictions": max_predictions}
    spec = GraphSpec(BertConfig(**config), head, dtype=precision, **sizes)
    model = build(spec.for_training())
    options: dict = {"accumulation_steps": accumulation_steps}
    options["gradient_checkpointing"] = gradient_checkpointing
    engine.prepare(model, Optimizer(optimizer, total_steps=1000), **options)

    def laid(tree, *axes):
        sharding = NamedSharding(mesh, PartitionSpec(*axes))
        return jax.tree.map(
            lambda like: jax.ShapeDtypeStruct(
                tuple(like.shape), keras.backend.standardize_dtype(like.dtype), sharding=sharding
            ),
            tree,
        )

    inputs = {one.name: np.zeros((batch_size, *one.shape[1:]), "int32") for one in model.inputs}
    outputs = zip(model.output_names, model.outputs, strict=True)
    shapes = {name: (batch_size, *one.shape[1:-1]) for name, one in outputs}
    labels = {name: np.zeros(shape, "int32") for name, shape in shapes.items()}
    weights = {name: np.zeros(shape, "float32") for name, shape in shapes.items()}
    values = laid(engine.state.values())
    if what == "evaluation":
        arrays = inputs, labels, weights
        return jax.jit(engine.step.measure), (values.weights, [], laid(arrays, "batch"))
    (arrays,) = engine.split(TrainingBatch(inputs, labels, weights))
    seeds = engine.seeds(0)
    function = engine.step.update
    if on_tensorflow:
        from jax.experimental.jax2tf import call_tf

        function, (seeds,) = call_tf(function), seeds
    function = jax.jit(function, donate_argnums=0)
    return function, (values, [], laid(arrays, None, "batch"), laid(seeds))


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(compiled(**json.loads(sys.argv[1]))), encoding="utf-8")
