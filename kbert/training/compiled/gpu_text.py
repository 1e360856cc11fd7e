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
from kbert.training.compiled import hlo_text
from kbert.training.compiled.hlo_text import Instruction

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
    path = files("kbert.training.compiled").joinpath("gpu_targets.tsv")
    names, *lines = (line.split("\t") for line in path.read_text("utf-8").splitlines())
    return {line[0]: dict(zip(names, line, strict=True)) for line in lines}


def target_text(accelerator: Accelerator) -> str:
    """Return XLA's description of a GPU (stream_executor's GpuTargetConfigProto, as text)."""
    values = targets()[accelerator.name]
    major, minor = values["capability"].split(".")
    sizes = {"memory": accelerator.memory, "bandwidth": int(accelerator.bandwidth or 0)}
    return _TARGET_TEXT.format(**values, **sizes, major=major, minor=minor)


def kernels(text: str, accelerator: Accelerator, scopes: Mapping[str, str]) -> Iterator[Kernel]:
    """Yield the kernels of a compiled program; `scopes` as of `hlo_text.cycles`."""
    _, bodies = hlo_text.computations(text)
    shapes = {one.name: one.shape for lines in bodies.values() for one in lines}
    assert accelerator.bandwidth
    for one, times, _ in hlo_text.run(text):
        if one.opcode in _NO_KERNEL or one.collective or one.opcode.endswith("-done"):
            continue
        names = list(dict.fromkeys(_find_operands(one)))
        operands = [shapes.get(name, "") for name in names]
        target = _TARGET.search(one.text)
        result = _WORKSPACE.sub(")", one.shape) if target else one.shape
        sizes = {name: hlo_text.size_of(shape) for name, shape in zip(names, operands, strict=True)}
        for name, size in _sizes_of_parts(one, bodies):
            sizes[name] = min(sizes[name], size)
        moved = sum(sizes.values()) + hlo_text.size_of(result)
        kind, flops, share = _product(one, target[1] if target else "", operands)
        if sort := next(
            (line for line in (one, *_body(one, bodies)) if line.opcode == "sort"), None
        ):
            kind, times = "sort", times * _count_passes(sort)
        peak = accelerator.peak_flops * share / (1 if operands and operands[0][:3] != "f32" else 2)
        seconds = max(moved / accelerator.bandwidth, flops / peak) + LAUNCH
        yield Kernel(kind, one.find_part(scopes), times, moved, flops, seconds, one.name)


def _body(one: Instruction, bodies: Mapping[str, list[Instruction]]) -> list[Instruction]:
    return bodies[one.called[0]] if one.opcode == "fusion" else []


def _count_passes(sort: Instruction) -> int:
    """Return the number of kernels in which XLA sorts; each passes over all operands.

    A bitonic network: comparisons over a distance below 2,048 share a kernel, any other is one
    (openxla/xla, xla/service/gpu/ir_emitter_unnested.cc, EmitSort).
    """
    axis = re.search(r"dimensions=\{(\d+)\}", sort.arguments)
    size = _dimensions(sort.shape)[0][int(axis[1]) if axis else 0]
    stages = (size - 1).bit_length()
    return 1 + sum(stage - 9 for stage in range(11, stages))


def _find_operands(one: Instruction) -> list[str]:
    return _OPERANDS.findall(one.arguments.split(")", 1)[0])


def _sizes_of_parts(
    one: Instruction, bodies: Mapping[str, list[Instruction]]
) -> Iterator[tuple[str, int]]:
    """Yield the operands of which a fusion reads only slices or rows, and the bytes of those."""
    body, operands = _body(one, bodies), _find_operands(one)
    for parameter in (line for line in body if line.opcode == "parameter"):
        readers = [line for line in body if parameter.name in _find_operands(line)]
        if {line.opcode for line in readers} <= _READS_PART:
            number = int(parameter.arguments.split(")", 1)[0])
            yield operands[number], sum(hlo_text.size_of(line.shape) for line in readers)


def _product(one: Instruction, target: str, operands: list[str]) -> tuple[str, int, float]:
    """Return a kernel's kind, its FLOPs and the share of the peak that it may reach."""
    kind = target or re.sub(r"[\d.]+", "", one.name)
    contracted = _CONTRACTED.search(one.text)
    if target and contracted:
        left = _dimensions(operands[0])[0]
        sizes = [left[int(axis)] for axis in re.findall(r"\d+", contracted[1])]
        return kind, 2 * math.prod(_dimensions(one.shape)[0]) * math.prod(sizes), PRODUCTS
    if target.endswith("triton") and (name := _TRITON.search(one.text)):
        kind, flops = name[1].strip("_"), 0
        if name[1] in _ATTENTION:  # heads are (B, S, parts, A, D)
            heads = [size for shape in operands for size in _dimensions(shape) if len(size) == 5]
            queries = min(size[1] for size in heads)
            batch, columns, _, count, width = max(heads, key=lambda size: size[1])
            flops = _ATTENTION[name[1]] * 2 * batch * count * queries * columns * width
        return kind, flops, ATTENTION
    return kind, 0, PRODUCTS


def _dimensions(shape: str) -> list[list[int]]:
    return [[int(size) for size in sizes.split(",") if size] for sizes in _SIZES.findall(shape)]
