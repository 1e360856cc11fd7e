"""Compilation of a plan's training step for its TPU slice or GPUs, in a separate process."""

import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kbert.graph.accounting import account
from kbert.graph.spec import GraphSpec
from kbert.io import extras
from kbert.io.wording import hint
from kbert.planning import gpu_text
from kbert.planning.plan import Plan, plan

_ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # there is no TPU that two processes would fight for
    "JAX_PLATFORMS": "cpu",
    "JAX_TRACEBACK_FILTERING": "off",  # the last line is the error
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
    "TPU_SKIP_MDS_QUERY": "1",  # nobody to ask which TPU this machine is part of
    "TPU_WORKER_HOSTNAMES": "localhost",
}
# Without a GPU nothing can be tried out, and products by Triton need that; training is
# deterministic, see `kbert.training.determinism`.
_FLAGS = {
    "TPU": {},
    "GPU": {
        "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false "
        "--xla_gpu_deterministic_ops=true"
    },
}
# "Used 20.1G of 15.75G hbm", "… temporaries (327.73G) exceeds available HBM (15.75G)"
_TOO_LARGE = re.compile(r"([\d.]+[KMGT])\)? (?:of|exceeds available HBM) \(?([\d.]+[KMGT])")


@dataclass(frozen=True)
class CompiledUpdate:
    """The compiler's report on one chip's program; see `compile_plan`.

    Attributes:
        plan: the plan that was compiled.
        backend: Keras's backend, whose step it is.
        seconds: duration of the compilation.
        arguments: bytes of weights, moments and the batch; their new values overwrite them.
        temporary: peak bytes of everything else: gradients, activations.
        outputs: bytes of results that overwrite no argument.
        flops: XLA's count of the FLOPs of all operations; for GPUs those of matrix products.
        estimate: estimated seconds by part: (of products with what is fused to them, of all else).
            For TPUs the compiler's own, for GPUs see `gpu_text`; nobody measured them.
        kernels: for GPUs (number, bytes moved, estimated seconds) by kind.
        collectives: number and bytes of collective operations, by kind.
        host_calls: instructions that wait for the host.
        dynamic_shapes: shapes that are unknown before the program runs.
    """

    plan: Plan
    backend: str
    seconds: float
    arguments: int
    temporary: int
    outputs: int
    flops: float
    estimate: dict[str, tuple[float, float]]
    kernels: dict[str, tuple[int, int, float]]
    collectives: dict[str, tuple[int, int]]
    host_calls: list[str]
    dynamic_shapes: list[str]

    @property
    def memory(self) -> int:
        """Memory of a chip, in bytes."""
        return self.arguments + self.temporary + self.outputs

    @property
    def estimated_seconds(self) -> float:
        """Estimated seconds per training step; for GPUs without what goes between them."""
        sums = [sum(seconds) for seconds in self.estimate.values()]
        return sum(sums)

    @property
    def model_flops(self) -> int:
        """The accounting's FLOPs of the compiled step, which selects positions, over all chips."""
        plan = self.plan
        sizes: dict = {"seq_len": plan.seq_len, "max_predictions": plan.max_predictions}
        selected = GraphSpec(plan.config, **sizes).for_training().selected_positions
        accounted = account(plan.config, **sizes, selected_positions=selected)
        return accounted.training_flops * plan.batch_size

    @property
    def utilization(self) -> float:
        """Utilization: `model_flops` in the estimated seconds, over the datasheet's peak."""
        peak = self.plan.devices.accelerator.peak_flops * self.plan.devices.chips
        return self.model_flops / (self.estimated_seconds * peak)

    def as_dict(self) -> dict:
        """Return the report and the plan for JSON."""
        report = {name: value for name, value in asdict(self).items() if name != "plan"}
        for name in ("memory", "estimated_seconds", "utilization"):
            report[name] = getattr(self, name)
        return self.plan.as_dict() | {"compiled": report}

    def __repr__(self) -> str:
        return (
            f"CompiledUpdate({self.plan.devices.name}: {self.memory / 2**30:.2f} GiB a chip, "
            f"{self.estimated_seconds:.4g} s a step by an estimate, "
            f"{self.utilization:.0%} of the peak)"
        )


def compile_plan(
    target: Plan, waited: Callable[[float], None] = lambda seconds: None
) -> CompiledUpdate:
    """Compile a plan's whole training step for its TPU slice or GPUs; none of them is needed.

    This takes one to several minutes. The step is JAX's; for one GPU it is TensorFlow's if the
    variable KERAS_BACKEND says so.

    Args:
        target: from `kbert.plan(…, tpu=…)` or `kbert.plan(…, gpu=…)`.
        waited: called regularly with the seconds since the start.

    Raises:
        ImportError: the compiler is not installed.
        ValueError: GPUs that cannot be compiled for (at most 8; TensorFlow: one); a program too
            large for the chips, with the option that would make it fit.
        RuntimeError: the compiler failed.
    """
    unsupported = (target.freeze, target.lora_rank, target.ema)
    if any(value is not None for value in unsupported):
        raise ValueError(
            "the plan must be of a whole model to be compiled, got freeze, lora_rank or ema"
        )
    chip = target.devices.accelerator
    is_gpu = chip.kind == "GPU"
    on_tensorflow = is_gpu and os.environ.get("KERAS_BACKEND") == "tensorflow"
    if is_gpu:
        _check_gpus(target, most=1 if on_tensorflow else 8)

    request = {
        "kind": chip.kind,
        "name": target.devices.name,
        "head": "pretraining",
        "config": asdict(target.config),
        **_settings_of(target),
    }
    backend = "tensorflow" if on_tensorflow else "jax"
    answer = compiled(request, waited, backend)
    if "refused" in answer:
        raise ValueError(_refusal(target, answer["refused"]))
    report = CompiledUpdate(target, backend, **answer)
    if is_gpu and report.memory > target.memory.capacity:
        used = f"Used {report.memory / 2**30:.1f}G of {chip.memory / 2**30:.0f}G hbm"
        raise ValueError(_refusal(target, used))
    return report


def _check_gpus(target: Plan, most: int) -> None:
    """Raise a ValueError for GPUs, or too many of them, that cannot be compiled for."""
    name = target.devices.accelerator.name
    names = gpu_text.targets()
    if name not in names:
        near = hint(name, names, "there are")
        raise ValueError(f"gpu must be one that can be compiled for, got {name!r}: {near}")
    if target.devices.chips > most:
        limit = "one with TensorFlow" if most == 1 else "at most 8 of one host"
        text = f"gpu must be {limit} to be compiled for, got {target.devices.name!r}"
        raise ValueError(text)


def _settings_of(target: Plan) -> dict:
    return {
        "seq_len": target.seq_len,
        "max_predictions": target.max_predictions,
        "batch_size": target.batch_size,
        "precision": target.precision,
        "accumulation_steps": target.accumulation_steps,
        "gradient_checkpointing": target.gradient_checkpointing,
    }


def compiled(
    request: dict, waited: Callable[[float], None] = lambda seconds: None, backend: str = "jax"
) -> dict:
    """Return the answer of `program` to a request; `backend` is Keras's in its process."""
    if request["kind"] == "TPU":
        extras.require("compiling for a TPU", "tpu", "jax", "libtpu")
    else:
        extras.require("compiling for a GPU", "jax-cuda", "jax", "jax_cuda12_plugin")
        extras.require("compiling for a GPU", backend, backend)

    flags = _FLAGS[request["kind"]]
    environment = os.environ | _ENVIRONMENT | flags
    environment |= {"KERAS_BACKEND": backend}
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer")
        arguments = [json.dumps(request), str(answer)]
        status, output = _run_program(arguments, environment, waited)
        if not answer.exists():
            text = output.decode(errors="replace")
            lines = text.strip().splitlines()
            last = lines[-1] if lines else f"exit status {status}, and no word"
            raise RuntimeError(f"{request['name']}: the compiler failed: {last[:300]}")
        return json.loads(answer.read_text(encoding="utf-8"))


def _run_program(
    arguments: list[str], environment: dict[str, str], waited: Callable[[float], None]
) -> tuple[int, bytes]:
    """Run `program` in a process of its own; return its exit status and its output."""
    begun = time.monotonic()
    output = b""
    with subprocess.Popen(
        [sys.executable, "-m", "kbert.planning.program", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
    ) as process:
        try:
            while process.returncode is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    output, _ = process.communicate(timeout=0.1)
                waited(time.monotonic() - begun)
        finally:
            process.kill()  # where this process is stopped
    return process.returncode, output


def _refusal(target: Plan, output: str) -> str:
    """Return in one line why a program does not fit, and what would, by the accounting."""
    used = _TOO_LARGE.search(output)
    sizes = f"needs {used[1]}B of {used[2]}B a chip" if used else output.splitlines()[0][:200]
    refusal = (
        f"{target.devices.name} cannot hold {target.batch_size} × {target.seq_len} tokens: the "
        f"compiled step {sizes}: "
    )

    batch_of_chip = target.batch_size // target.devices.chips
    powers = [2**n for n in range(batch_of_chip.bit_length())]
    divisors = [power for power in powers if batch_of_chip % power == 0]
    for checkpointing, steps in itertools.product((False, True), divisors):
        options = []
        if checkpointing:
            options.append("--gradient-checkpointing")
        if steps > 1:
            options.append(f"--accumulation-steps {steps}")
        if options and _fits(target, checkpointing, steps):
            return f"{refusal}with {' '.join(options)} it would, by the accounting"
    return (
        f"{refusal}neither --accumulation-steps nor --gradient-checkpointing makes it fit: "
        "take a smaller model"
    )


def _fits(target: Plan, checkpointing: bool, accumulation_steps: int) -> bool:
    """Return whether a plan's model would fit, by the accounting."""
    settings: dict[str, Any] = _settings_of(target)
    kind = target.devices.accelerator.kind.lower()
    settings[kind] = target.devices.name
    settings["accumulation_steps"] = accumulation_steps
    settings["gradient_checkpointing"] = checkpointing
    return plan(target.config, **settings).memory.fits
