"""Reading of XLA's compiled program for NVIDIA GPUs: its kernels, and an estimate of their time.

XLA's own costs are empty where there is no GPU, so each kernel is counted: its operands and results
against the memory's bandwidth, the FLOPs of a product against a share of the datasheet's peak, and
the time to launch it. That compares programs; nobody measured it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import NamedTuple

from kbert.graph.accelerators import Accelerator
from kbert.planning import hlo_text
from kbert.planning.hlo_text import Instruction

LAUNCH = 2.5e-6  # seconds
PRODUCTS, ATTENTION = 0.75, 0.35  # shares of the peak that cuBLAS and a kernel of Triton reach
# Products of queries and keys that `kbert.ops.jax_gpu` computes; the gradient computes scores twice
_ATTENTION = {"_attention_kernel": 2, "_attention_gradient_kernel": 7}
_NO_KERNEL = ("parameter", "get-tuple-element", "bitcast", "tuple", "constant")
_READS_PART = {"slice", "dynamic-slice", "gather"}
_OPERANDS = re.compile(r"%([\w.\-]+)")
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_CONTRACTED = re.compile(r'"lhs_contracting_dimensions":\[([^\]]*)\]')
_TRITON = re.compile(r'\bname = "(\w+)"')
_SIZES = re.compile(r"\[([\d,]*)\]")
_WORKSPACE = re.compile(r", s8\[\d+\]\{0\}\)")  # which cuBLAS may use
_TARGET_TEXT = """gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: {threads_per_core}
  shared_memory_per_block: 49152 shared_memory_per_core: {shared_per_core}
  shared_memory_per_block_optin: {shared_per_block}
  core_count: {cores} fpus_per_core: {fpus_per_core} clock_rate_ghz: {gigahertz}
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: {bandwidth} l2_cache_size: {l2} device_memory_size: {memory}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 8 patch: 0 }}
device_description_str: "{name}"
"""


class Kernel(NamedTuple):
    """A kernel of a program."""

    kind: str  # a library's function, or the kind of XLA's fusion
    part: str  # of the model
    times: int  # how often a step runs it
    moved: int  # bytes of its operands and results
    flops: int  # FLOPs of its products
    seconds: float  # estimated time of one run
    name: str  # of its instruction in the program


def targets() -> dict[str, dict[str, str]]:
    """Return what XLA's compiler must know of each GPU that it can compile for, by name."""
    path = files("kbert.planning").joinpath("gpu_targets.tsv")
    header, *lines = path.read_text("utf-8").splitlines()
    names = header.split("\t")
    by_gpu = {}
    for line in lines:
        cells = line.split("\t")
        values = dict(zip(names, cells, strict=True))
        by_gpu[values[names[0]]] = values
    return by_gpu


def target_text(accelerator: Accelerator) -> str:
    """Return XLA's description of a GPU (stream_executor's GpuTargetConfigProto, as text)."""
    values = targets()[accelerator.name]
    major, minor = values["capability"].split(".")
    bandwidth = int(accelerator.bandwidth or 0)
    sizes = {"memory": accelerator.memory, "bandwidth": bandwidth}
    return _TARGET_TEXT.format(**values, **sizes, major=major, minor=minor)


def kernels(text: str, accelerator: Accelerator, scopes: Mapping[str, str]) -> Iterator[Kernel]:
    """Yield the kernels of a compiled program; `scopes` as of `hlo_text.cycles`."""
    assert accelerator.bandwidth
    _, bodies = hlo_text.computations(text)
    shapes: dict[str, str] = {}
    for body in bodies.values():
        shapes |= {instruction.name: instruction.shape for instruction in body}

    for instruction, times, _ in hlo_text.run(text):
        opcode = instruction.opcode
        if opcode in _NO_KERNEL or instruction.collective or opcode.endswith("-done"):
            continue

        operands = {name: shapes.get(name, "") for name in _find_operands(instruction)}
        operand_shapes = list(operands.values())
        match = _TARGET.search(instruction.text)
        target = match[1] if match else ""
        moved = _count_moved(instruction, target, operands, bodies)
        kind, flops, share = _product(instruction, target, operand_shapes)
        sort = _find_sort(instruction, bodies)
        if sort is not None:
            kind = "sort"
            times = times * _count_passes(sort)

        peak = accelerator.peak_flops * share
        is_float32 = not operands or operand_shapes[0].startswith("f32")
        if is_float32:
            peak /= 2
        memory_seconds = moved / accelerator.bandwidth
        seconds = max(memory_seconds, flops / peak) + LAUNCH

        part = instruction.find_part(scopes)
        yield Kernel(kind, part, times, moved, flops, seconds, instruction.name)


def _count_moved(
    instruction: Instruction,
    target: str,
    operands: Mapping[str, str],
    bodies: Mapping[str, list[Instruction]],
) -> int:
    """Return the bytes of a kernel's operands and results; `operands` are shapes by name."""
    result = _WORKSPACE.sub(")", instruction.shape) if target else instruction.shape
    sizes = {name: hlo_text.size_of(shape) for name, shape in operands.items()}
    for name, size in _sizes_of_parts(instruction, bodies):
        sizes[name] = min(sizes[name], size)
    return sum(sizes.values()) + hlo_text.size_of(result)


def _body(instruction: Instruction, bodies: Mapping[str, list[Instruction]]) -> list[Instruction]:
    if instruction.opcode != "fusion":
        return []
    name = instruction.called[0]
    return bodies[name]


def _find_sort(
    instruction: Instruction, bodies: Mapping[str, list[Instruction]]
) -> Instruction | None:
    """Return a sort, itself or the one within a fusion; None without any."""
    for line in (instruction, *_body(instruction, bodies)):
        if line.opcode == "sort":
            return line
    return None


def _count_passes(sort: Instruction) -> int:
    """Return the number of kernels in which XLA sorts; each passes over all operands.

    A bitonic network: comparisons over a distance below 2,048 share a kernel, any other is one
    (openxla/xla, xla/service/gpu/ir_emitter_unnested.cc, EmitSort).
    """
    match = re.search(r"dimensions=\{(\d+)\}", sort.arguments)
    axis = int(match[1]) if match else 0
    size = _dimensions(sort.shape)[0][axis]
    stages = (size - 1).bit_length()
    return 1 + sum(stage - 9 for stage in range(11, stages))


def _find_operands(instruction: Instruction) -> list[str]:
    arguments, _, _ = instruction.arguments.partition(")")
    return _OPERANDS.findall(arguments)


def _sizes_of_parts(
    instruction: Instruction, bodies: Mapping[str, list[Instruction]]
) -> Iterator[tuple[str, int]]:
    """Yield the operands of which a fusion reads only slices or rows, and the bytes of those."""
    body = _body(instruction, bodies)
    operands = _find_operands(instruction)
    for parameter in body:
        if parameter.opcode != "parameter":
            continue
        readers = [line for line in body if parameter.name in _find_operands(line)]
        if {line.opcode for line in readers} <= _READS_PART:
            number, _, _ = parameter.arguments.partition(")")
            size = sum(hlo_text.size_of(line.shape) for line in readers)
            yield operands[int(number)], size


def _product(instruction: Instruction, target: str, operands: list[str]) -> tuple[str, int, float]:
    """Return a kernel's kind, its FLOPs and the share of the peak that it may reach."""
    kind = target or re.sub(r"[\d.]+", "", instruction.name)
    contracted = _CONTRACTED.search(instruction.text)
    if target and contracted:
        left, *_ = _dimensions(operands[0])
        axes = re.findall(r"\d+", contracted[1])
        sizes = [left[int(axis)] for axis in axes]
        products_per_result = math.prod(sizes)

        result, *_ = _dimensions(instruction.shape)
        flops = 2 * math.prod(result) * products_per_result
        return kind, flops, PRODUCTS

    triton = _TRITON.search(instruction.text)
    if triton and target.endswith("triton"):
        name = triton[1]
        flops = _count_attention_flops(name, operands) if name in _ATTENTION else 0
        return name.strip("_"), flops, ATTENTION
    return kind, 0, PRODUCTS


def _count_attention_flops(name: str, operands: list[str]) -> int:
    """Return the FLOPs of a kernel of attention, whose heads are (B, S, parts, A, D)."""
    heads = []
    for shape in operands:
        heads += [sizes for sizes in _dimensions(shape) if len(sizes) == 5]
    queries = min(sizes[1] for sizes in heads)
    batch, columns, _, count, width = max(heads, key=lambda sizes: sizes[1])
    return _ATTENTION[name] * 2 * batch * count * queries * columns * width


def _dimensions(shape: str) -> list[list[int]]:
    """Return the sizes of a shape's arrays, of which a tuple has several."""
    dimensions = []
    for sizes in _SIZES.findall(shape):
        texts = sizes.split(",")
        dimensions.append([int(text) for text in texts if text])
    return dimensions
