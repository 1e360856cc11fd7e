"""Planning of a pretraining on accelerators: memory, FLOPs and time, from the accounting."""

import os
from dataclasses import asdict, dataclass, replace

from kbert.graph import accelerators, aliases, names
from kbert.graph.accelerators import PAPER_STEPS, PRECISIONS, UTILIZATION, Accelerator, Devices
from kbert.graph.accounting import DTYPES, Account, account, default_predictions
from kbert.graph.config import BertConfig, require_positive
from kbert.graph.presets import get_config
from kbert.graph.trained_parts import LORA_TARGETS
from kbert.io import printable
from kbert.io.units import parse_amount
from kbert.io.wording import check_choice

_RESERVED = 0.05  # of a chip's memory: the runtime's own, fragments


@dataclass(frozen=True)
class ChipMemory:
    """Memory of one chip during a training step, in bytes; each chip holds all weights.

    A micro-batch's gradients replace its activations as they are computed, so only the larger of
    the two counts.

    Attributes:
        weights: the weights, float32, those of adapters included.
        moments: Adam's two moments, float32.
        gradients: the gradients, float32; twice as much with accumulation_steps, which adds each
            micro-batch's gradients to a sum.
        activations: what the backward pass keeps of a micro-batch.
        capacity: the chip's memory available for all of this.
        micro_gradients: the gradients of one micro-batch, float32.
        averages: with `ema`, the moving averages of the trained weights, float32; else 0.
    """

    weights: int
    moments: int
    gradients: int
    activations: int
    capacity: int
    micro_gradients: int
    averages: int = 0

    @property
    def total(self) -> int:
        return self.fixed + max(self.activations, self.micro_gradients)

    @property
    def fixed(self) -> int:
        """Permanently used bytes: weights, moments, averages, the sum over micro-batches."""
        held = self.weights + self.moments + self.averages
        return held + self.gradients - self.micro_gradients

    @property
    def fits(self) -> bool:
        return self.total <= self.capacity

    def count_fitting(self, activations: int) -> int:
        """Return how many sequences fit beside the fixed bytes, given one's activation bytes."""
        if self.capacity < self.fixed + self.micro_gradients:
            return 0
        return (self.capacity - self.fixed) // max(1, activations)


@dataclass(frozen=True)
class Plan:
    """The result of `plan`.

    Attributes:
        config, seq_len, batch_size, precision, accumulation_steps, gradient_checkpointing,
            max_predictions, steps, utilization, freeze, lora_rank, lora_targets, ema: the
            arguments; `batch_size` is per training step, over all chips.
        devices: the chips.
        memory: the memory of one chip.
        flops: FLOPs of a training step, over all chips, without recomputation.
        recomputed_flops: additional FLOPs of `gradient_checkpointing`.
        largest_batch: the largest batch that fits, over all chips; 0 if one sequence per chip does
            not fit.
        trainable_params: number of parameters with a gradient.
        peak_flops: peak FLOP/s of a chip in that precision; None if unknown.
    """

    config: BertConfig
    devices: Devices
    seq_len: int
    batch_size: int
    precision: str
    accumulation_steps: int
    gradient_checkpointing: bool
    max_predictions: int
    memory: ChipMemory
    flops: int
    recomputed_flops: int
    utilization: float
    largest_batch: int
    steps: int
    freeze: str | None
    lora_rank: int | None
    lora_targets: str
    ema: float | None
    trainable_params: int
    peak_flops: float | None

    @property
    def seconds(self) -> float | None:
        """Seconds per training step; None if the peak is unknown (the table lacks float32)."""
        if self.peak_flops is None:
            return None
        peak = self.peak_flops * self.devices.chips
        flops = self.flops + self.recomputed_flops
        return flops / (self.utilization * peak)

    @property
    def hours(self) -> float | None:
        """Hours of all steps."""
        return None if self.seconds is None else self.seconds * self.steps / 3600

    @property
    def chip_hours(self) -> float | None:
        """Hours of all steps, summed over all chips."""
        return None if self.hours is None else self.hours * self.devices.chips

    def as_dict(self) -> dict:
        """Return the plan for JSON: bytes, FLOPs, seconds, hours."""
        memory = asdict(self.memory)
        memory |= {"total": self.memory.total, "fits": self.memory.fits}
        times = {name: getattr(self, name) for name in ("seconds", "hours", "chip_hours")}
        return asdict(self) | {"memory": memory} | times

    def __repr__(self) -> str:
        memory = self.memory
        time = "" if self.seconds is None else f", {self.seconds:.3g} s per step"
        return (
            f"Plan({self.devices.name}, {self.batch_size} × {self.seq_len}: "
            f"{memory.total / 2**30:.2f} of {memory.capacity / 2**30:.2f} GiB per chip{time})"
        )


@printable.escape_errors()
@aliases.answer_old_names
def plan(
    config: BertConfig | str | os.PathLike = "base",
    *,
    tpu: str | None = None,
    gpu: str | None = None,
    peak_flops: float | str | None = None,
    memory: float | str | None = None,
    seq_len: int = 128,
    batch_size: int = 256,
    precision: str = "mixed_bfloat16",
    accumulation_steps: int = 1,
    gradient_checkpointing: bool = False,
    max_predictions: int | None = None,
    utilization: float = UTILIZATION,
    steps: int = PAPER_STEPS,
    freeze: str | None = None,
    lora_rank: int | None = None,
    lora_targets: str = LORA_TARGETS,
    ema: float | None = None,
) -> Plan:
    """Estimate memory, FLOPs and time of a data-parallel pretraining with AdamW on TPUs or GPUs.

    Args:
        config: a `BertConfig`, a preset's name or a path to a JSON file.
        tpu: a TPU slice, such as "v5e:4x4"; or
        gpu: a GPU's name and the number of them, such as "H100:8", "RTX 4090".
        peak_flops: peak FLOP/s of a chip in that precision, such as 165e12 or "165T"; None: from
            kbert's table.
        memory: memory of a chip, in bytes or as "24GiB"; None: from kbert's table. With
            `peak_flops` and `memory` any GPU can be planned for.
        seq_len: tokens in a sequence.
        batch_size: sequences per training step, over all chips.
        precision: "float32", "mixed_bfloat16" or "mixed_float16".
        accumulation_steps: micro-batches per training step.
        gradient_checkpointing: whether each encoder block is recomputed for the backward pass.
        max_predictions: predicted positions per sequence; None: 15 %.
        utilization: the fraction of the peak, 0 … 1, that the times assume.
        steps: number of training steps.
        freeze, lora_rank, lora_targets: what of a checkpoint is trained, as in `kbert.pretrain`;
            None: everything.
        ema: as in `kbert.pretrain`; None: no averages of the weights.

    Returns:
        A `Plan`.

    Raises:
        ValueError: an unknown accelerator; a batch that the chips and micro-batches do not divide;
            a sequence longer than the positions; a value out of its range; parts that the graph
            does not have.
    """
    devices = _devices(tpu, gpu, precision, peak_flops, memory)
    if not 0 < utilization <= 1:
        raise ValueError(f"utilization must be above 0 and at most 1, got {utilization!r}")
    if ema is not None and not 0 < ema < 1:
        raise ValueError(f"ema must be a share above 0 and below 1, got {ema!r}")
    config = get_config(config)
    micro_batches = _count_micro_batches(devices, batch_size, accumulation_steps)
    if max_predictions is None:
        max_predictions = default_predictions(seq_len)

    costs = account(  # of one sequence
        config,
        seq_len,
        max_predictions=max_predictions,
        dtype=precision,
        freeze=freeze,
        lora_rank=lora_rank,
        lora_targets=lora_targets,
    )
    step_memory = costs.memory
    blocks = _blocks_with_gradient(costs)
    activations = _activations(costs, blocks, gradient_checkpointing, devices.accelerator)
    gradients = step_memory.gradients
    if accumulation_steps > 1:
        gradients *= 2
    needed = ChipMemory(
        weights=step_memory.weights,
        moments=step_memory.adam,
        gradients=gradients,
        activations=activations * (batch_size // micro_batches),
        capacity=int(devices.accelerator.memory * (1 - _RESERVED)),
        micro_gradients=step_memory.gradients,
        # Adam holds two arrays of a trained weight, an average is one.
        averages=step_memory.adam // 2 if ema is not None else 0,
    )

    recomputed_flops = 0
    if gradient_checkpointing:
        encoder_flops = costs.groups["encoder"].flops * blocks // config.num_hidden_layers
        recomputed_flops = encoder_flops * batch_size
    # kbert's table of chips has no peaks for float32.
    has_peak = peak_flops is not None or precision != "float32"
    return Plan(
        config=config,
        devices=devices,
        seq_len=costs.seq_len,
        batch_size=batch_size,
        precision=precision,
        accumulation_steps=accumulation_steps,
        gradient_checkpointing=gradient_checkpointing,
        max_predictions=max_predictions,
        memory=needed,
        flops=costs.training_flops * batch_size,
        recomputed_flops=recomputed_flops,
        utilization=utilization,
        largest_batch=needed.count_fitting(activations) * micro_batches,
        steps=require_positive("steps", steps),
        freeze=freeze,
        lora_rank=lora_rank,
        lora_targets=lora_targets,
        ema=ema,
        trainable_params=costs.trainable_params,
        peak_flops=devices.accelerator.peak_flops if has_peak else None,
    )


def _count_micro_batches(devices: Devices, batch_size: int, accumulation_steps: int) -> int:
    """Return how many micro-batches all chips compute in a step; the batch must divide by it."""
    micro_batches = require_positive("accumulation_steps", accumulation_steps) * devices.chips
    if require_positive("batch_size", batch_size) % micro_batches:
        raise ValueError(
            f"batch_size must be a multiple of {micro_batches}, {devices.chips} chips with "
            f"{accumulation_steps} micro-batches each, got {batch_size}: "
            f"give {-(-batch_size // micro_batches) * micro_batches}"
        )
    return micro_batches


def _devices(tpu: str | None, gpu: str | None, precision: str, peak_flops, memory) -> Devices:
    specs: dict = {}
    if peak_flops is not None:
        expected = "FLOP/s of a chip, such as 165e12 or 165T"
        specs["peak_flops"] = parse_amount("peak_flops", peak_flops, "flops?(?:/s)?", 1e9, expected)
    if memory is not None:
        expected = "bytes of a chip, such as 24GiB"
        amount = parse_amount("memory", memory, "b", 2**20, expected)
        specs["memory"] = int(amount)

    has_both = len(specs) == 2
    if has_both and tpu is None and gpu is None:
        gpu = "a GPU"
    if (tpu is None) == (gpu is None):
        raise ValueError(f"plan needs tpu or gpu, one of the two, got tpu={tpu!r}, gpu={gpu!r}")
    devices = accelerators.tpu(tpu) if tpu is not None else accelerators.gpu(str(gpu), has_both)

    if specs:
        plain_names = [name.replace("_flops", "") for name in specs]
        spec_names = " and ".join(plain_names)
        source = f"{devices.accelerator.source}; {spec_names} as given".removeprefix("; ")
        chip = replace(devices.accelerator, source=source, **specs)
        devices = replace(devices, accelerator=chip)

    check_choice(precision, PRECISIONS, "precision")
    if not devices.accelerator.computes(precision):
        name = devices.accelerator.name
        raise ValueError(f"precision must be mixed_float16 or float32 on {name}, got {precision}")
    return devices


def _blocks_with_gradient(costs: Account) -> int:
    """Return the number of encoder blocks with a gradient: all from the lowest trained one up."""
    layers = costs.config.num_hidden_layers
    if costs.trained is None:
        return layers

    adapted = {matrix.layer for matrix in costs.trained.adapted}
    frozen = costs.trained.frozen
    lowest = next(
        row
        for row in costs.rows
        if row.layer in adapted or (row.params and row.layer not in frozen)
    )
    block = names.block_of(lowest.layer)
    if block:
        return layers + 1 - block
    return layers if lowest.group == "embeddings" else 0


def _activations(
    costs: Account, blocks: int, gradient_checkpointing: bool, accelerator: Accelerator
) -> int:
    """Return the activation bytes of one sequence, if `blocks` blocks have a gradient.

    With gradient checkpointing each block's input is kept, and the activations of one block. The
    account counts bytes that no program keeps. On a TPU: the mask and the output of attention's
    dropout; `kbert.ops.jax.attention` keeps only the probabilities, and their signs are the mask.
    On a GPU: the probabilities too, and the masks of the other two dropouts; `kbert.ops.jax_gpu`
    and torch's fused attention compute them again. For a B200, XLA keeps 1 + erf(x / √2) of GELU in
    float32 (compiled in mixed_bfloat16); for an H100 it computes that again.
    """
    config = costs.config
    width = DTYPES[costs.dtype][3]
    probs = config.num_attention_heads * costs.seq_len**2
    tokens = costs.seq_len * config.hidden_size

    if accelerator.kind == "TPU":
        surplus = probs * (1 + width)
    else:
        surplus = probs * (1 + 2 * width) + 2 * tokens
    if accelerator.name == "B200" and config.hidden_act == "gelu":
        surplus -= 4 * costs.seq_len * config.intermediate_size

    total = costs.memory.activations
    if not gradient_checkpointing:
        return total - surplus * blocks
    if not blocks:
        return total
    block = costs.groups["encoder"].activation_bytes // config.num_hidden_layers
    inputs = blocks * tokens * width
    return total - blocks * block + inputs + block - surplus
