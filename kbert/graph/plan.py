"""What a pretraining on accelerators takes, memory, FLOPs and time, by the accounting alone."""

import os
from dataclasses import asdict, dataclass

from kbert.graph import accelerators
from kbert.graph.accelerators import Devices
from kbert.graph.accounting import Account, account, default_predictions
from kbert.graph.config import BertConfig, require_positive
from kbert.graph.plan_defaults import PAPER_STEPS, PRECISIONS, UTILIZATION
from kbert.graph.presets import get_config

_RESERVED = 0.05  # of a chip's memory: the runtime's own, fragments


@dataclass(frozen=True)
class ChipMemory:
    """Bytes of one chip during an update, by part; each chip holds all weights.

    Gradients of a micro-batch come as the activations that they are made of go, so of these two
    the larger counts.

    Attributes:
        weights: float32.
        moments: Adam's two, float32.
        gradients: float32; twice with accumulation, which adds a micro-batch's to their sum.
        activations: what the backward pass keeps of a micro-batch.
        capacity: what the chip has for them.
    """

    weights: int
    moments: int
    gradients: int
    activations: int
    capacity: int

    @property
    def total(self) -> int:
        return self.fixed + max(self.activations, self._micro_gradients)

    @property
    def fixed(self) -> int:
        """What is there all the time: weights, moments, with accumulation the gradients' sum."""
        return self.weights + self.moments + self.gradients - self._micro_gradients

    @property
    def _micro_gradients(self) -> int:
        return self.weights  # float32 too

    @property
    def fits(self) -> bool:
        return self.total <= self.capacity


@dataclass(frozen=True)
class Plan:
    """See `plan`.

    Attributes:
        config, seq_len, batch, precision, accumulation, rematerialize, max_predictions, steps: as
            they were asked for; `batch` is of an update, over all chips.
        devices: the chips.
        memory: of one.
        flops: of an update, over all chips, nothing counted twice.
        recomputed_flops: what `rematerialize` computes again, beside them.
        utilization: the share of the peak that times are for.
        largest_batch: that fits, over all chips; 0: not one sequence a chip does.
    """

    config: BertConfig
    devices: Devices
    seq_len: int
    batch: int
    precision: str
    accumulation: int
    rematerialize: bool
    max_predictions: int
    memory: ChipMemory
    flops: int
    recomputed_flops: int
    utilization: float
    largest_batch: int
    steps: int

    @property
    def seconds(self) -> float | None:
        """Of an update; None in float32, whose peak no table here has."""
        if self.precision == "float32":
            return None
        peak = self.devices.accelerator.peak_flops * self.devices.chips
        return (self.flops + self.recomputed_flops) / (self.utilization * peak)

    @property
    def hours(self) -> float | None:
        """Of all steps."""
        return None if self.seconds is None else self.seconds * self.steps / 3600

    @property
    def chip_hours(self) -> float | None:
        """Of all steps, over all chips."""
        return None if self.hours is None else self.hours * self.devices.chips

    def as_dict(self) -> dict:
        """As JSON: bytes, FLOPs, seconds, hours."""
        memory = {name: getattr(self.memory, name) for name in ("total", "fits")}
        found = asdict(self) | {"memory": asdict(self.memory) | memory}
        times = {name: getattr(self, name) for name in ("seconds", "hours", "chip_hours")}
        return found | times

    def __repr__(self) -> str:
        memory = self.memory
        time = "" if self.seconds is None else f", {self.seconds:.3g} s an update"
        return (
            f"Plan({self.devices.name}, {self.batch} × {self.seq_len}: "
            f"{memory.total / 2**30:.2f} of {memory.capacity / 2**30:.2f} GiB a chip{time})"
        )


def plan(
    config: BertConfig | str | os.PathLike = "base",
    *,
    tpu: str | None = None,
    gpu: str | None = None,
    seq_len: int = 128,
    batch: int = 256,
    precision: str = "mixed_bfloat16",
    accumulation: int = 1,
    rematerialize: bool = False,
    max_predictions: int | None = None,
    utilization: float = UTILIZATION,
    steps: int = PAPER_STEPS,
) -> Plan:
    """What pretraining takes on a slice or some GPUs, data-parallel, with AdamW.

    Args:
        config: a `BertConfig`, a preset's name or a path to a JSON file.
        tpu: a slice, such as "v5e:4x4"; or
        gpu: a name and how many, such as "H100:8".
        seq_len: tokens in a sequence.
        batch: sequences of an update, over all chips.
        precision: "float32", "mixed_bfloat16" or "mixed_float16".
        accumulation: micro-batches that an update is made of.
        rematerialize: whether each encoder block is computed again for the backward pass.
        max_predictions: predicted positions of a sequence; None: 15 %.
        utilization: of the peak, 0 … 1, that is assumed for the times.
        steps: updates.

    Returns:
        A `Plan`.

    Raises:
        ValueError: an accelerator that is not known, a batch that chips and micro-batches do not
            divide, a sequence longer than the positions, a value out of its range.
    """
    devices = _devices(tpu, gpu, precision)
    if not 0 < utilization <= 1:
        raise ValueError(f"utilization must be above 0 and at most 1, got {utilization!r}")
    config = get_config(config)
    parts = require_positive("accumulation", accumulation) * devices.chips
    if require_positive("batch", batch) % parts:
        raise ValueError(
            f"batch must be a multiple of {parts}, {devices.chips} chips of {accumulation} "
            f"micro-batches each, got {batch}: give {-(-batch // parts) * parts}"
        )
    if max_predictions is None:
        max_predictions = default_predictions(seq_len)
    one = account(config, seq_len, max_predictions=max_predictions, dtype=precision)
    unkept = _unkept_on_tpu(one) if devices.accelerator.kind == "TPU" else 0
    activations = _kept(one, rematerialize, unkept)
    capacity = int(devices.accelerator.memory * (1 - _RESERVED))
    held = one.memory
    gradients = held.gradients * (2 if accumulation > 1 else 1)
    memory = ChipMemory(
        held.weights, held.adam, gradients, activations * (batch // parts), capacity
    )
    largest = (capacity - memory.fixed) // activations
    if capacity < memory.fixed + held.weights:
        largest = 0
    return Plan(
        config=config,
        devices=devices,
        seq_len=one.seq_len,
        batch=batch,
        precision=precision,
        accumulation=accumulation,
        rematerialize=rematerialize,
        max_predictions=max_predictions,
        memory=memory,
        flops=one.training_flops_per_sequence * batch,
        recomputed_flops=one.groups["encoder"].flops * batch if rematerialize else 0,
        utilization=utilization,
        largest_batch=max(0, largest) * parts,
        steps=require_positive("steps", steps),
    )


def _devices(tpu: str | None, gpu: str | None, precision: str) -> Devices:
    if (tpu is None) == (gpu is None):
        raise ValueError(f"plan needs tpu or gpu, one of the two, got tpu={tpu!r}, gpu={gpu!r}")
    devices = accelerators.tpu(tpu) if tpu is not None else accelerators.gpu(str(gpu))
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    if not devices.accelerator.computes(precision):
        name = devices.accelerator.name
        raise ValueError(f"precision must be mixed_float16 or float32 on {name}, got {precision}")
    return devices


def _kept(one: Account, rematerialize: bool, unkept: int) -> int:
    """Bytes that are kept of one sequence.

    Args:
        one: its account.
        rematerialize: whether blocks are computed again: what goes into each is kept, and one.
        unkept: of a block, what the account has and the program has not.
    """
    encoder, layers = one.groups["encoder"].activation_bytes, one.config.num_hidden_layers
    block = encoder // layers - unkept
    if not rematerialize:
        return one.activation_bytes - unkept * layers
    inputs = layers * one.seq_len * one.config.hidden_size * _width(one)
    return one.activation_bytes - encoder + inputs + block


def _unkept_on_tpu(one: Account) -> int:
    """Bytes of a block and sequence: dropout's mask and output in attention.

    `kbert.model.parts.tpu_attention` keeps the probabilities alone, whose signs are the mask.
    """
    return one.config.num_attention_heads * one.seq_len**2 * (1 + _width(one))


def _width(one: Account) -> int:
    return 4 if one.dtype == "float32" else 2
