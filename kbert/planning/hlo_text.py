"""Reading of XLA's compiled program for TPU: cycles, collectives, calls.

The cycles are the compiler's own estimate, by which it chooses between programs; nobody measured
them. Each instruction of the program has its own in `backend_config`; a fused one has the cycles of
everything in it. Those of a loop's body count once per iteration.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kbert.graph import names
from kbert.training.step.step import LOSS, OPTIMIZER

# Part of the model by what the names of its operations have in them; `keras.name_scope` sets them.
SCOPES = {
    "Embedding-": "embeddings",
    names.ATTENTION: "attention",
    f"-{names.QUERIES}": "attention",
    "attention)": "attention",  # of TensorFlow's gradients, which have no layer's name
    names.FEED_FORWARD: "feed_forward",
    names.MLM: "heads",
    names.FIRST_TOKEN: "heads",
    names.NSP: "heads",
    names.CLASSIFIER: "heads",  # of tokens too
    names.SPAN: "heads",
    LOSS: LOSS,
    OPTIMIZER: OPTIMIZER,
}
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_PRODUCTS = ("convolution", "dot")
# What a program on a chip cannot do alone: it stops and asks its host.
_HOST_CALLS = ("infeed", "outfeed", "send", "recv", "custom-call-to-host")
_BYTES = {"pred": 1, "s4": 0.5, "u4": 0.5, "c64": 8, "token": 0}
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_LINE = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*?[\])}]) ([\w\-]+)\((.*)$")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_SHAPE = re.compile(r"\b([a-z]+\d*(?:e\d+m\d+\w*)?)\[([\d,]*)\]")
_CALLED = re.compile(r"\b(?:body|calls|to_apply|true_computation|false_computation)=%?([\w.\-]+)")
_TURNS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
# Where the compiler does not say so: the loop's condition is that its counter is below a constant.
_CONDITION = re.compile(r"\bcondition=%?([\w.\-]+)")
_BELOW = re.compile(r"\bcompare\([^,]*, (%?[\w.\-]+)\), direction=LT")
_SCOPE = re.compile(r'op_name="([^"]*)"')


class Instruction(NamedTuple):
    """One line of a computation."""

    name: str  # of its result
    shape: str  # of its result, as it is written
    opcode: str  # such as "fusion", "all-reduce"
    arguments: str  # and its attributes
    text: str  # the line

    @property
    def cycles(self) -> int:
        """The compiler's estimate; 0 where there is none."""
        match = _CYCLES.search(self.text)
        return int(match[1]) if match else 0

    @property
    def called(self) -> list[str]:
        """The computations that it names."""
        return _CALLED.findall(self.arguments)

    @property
    def collective(self) -> str:
        """The kind of a collective operation; "" for any other."""
        name = self.opcode.removesuffix("-start")
        return name if name in _COLLECTIVES else ""

    def find_part(self, scopes: Mapping[str, str]) -> str:
        """Return the part of the model that it belongs to, see `cycles`."""
        if self.collective:
            return "collectives"
        match = _SCOPE.search(self.text)
        if match is None:
            return "other"
        scope = match[1]
        offsets = {scope.find(name): part for name, part in scopes.items() if name in scope}
        return offsets[min(offsets)] if offsets else "other"


def computations(text: str) -> tuple[str, dict[str, list[Instruction]]]:
    """Return the entry's name, and each computation's instructions by its name."""
    entry = ""
    bodies: dict[str, list[Instruction]] = {}
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header:
            lines = bodies.setdefault(header[2], [])
            if header[1]:
                entry = header[2]
            continue

        fields = _LINE.match(line)
        if fields:
            name, shape, opcode, arguments = fields.groups()
            lines.append(Instruction(name, shape, opcode, arguments, line))
    return entry, bodies


def run(text: str) -> Iterator[tuple[Instruction, int, bool]]:
    """Yield a program's instructions, how often each runs, and whether it multiplies matrices."""
    entry, bodies = computations(text)
    multiplying = set()
    for name, body in bodies.items():
        if any(instruction.opcode in _PRODUCTS for instruction in body):
            multiplying.add(name)
    yield from _walk(bodies, multiplying, entry, 1)


def _walk(
    bodies: dict[str, list[Instruction]], multiplying: set[str], name: str, times: int
) -> Iterator[tuple[Instruction, int, bool]]:
    """Yield what `run` does of one computation, which runs so often."""
    for instruction in bodies.get(name, ()):
        called = instruction.called
        is_kernel = instruction.opcode in ("fusion", "sort") or instruction.collective
        if instruction.cycles or not called or is_kernel:
            products = instruction.opcode in _PRODUCTS or not multiplying.isdisjoint(called)
            yield instruction, times, products
            continue

        turns = _turns(instruction, bodies)  # a loop, a branch, a call: what it calls is run
        for computation in called:
            yield from _walk(bodies, multiplying, computation, times * turns)


def _turns(loop: Instruction, bodies: dict[str, list[Instruction]]) -> int:
    """Return the number of a loop's iterations."""
    turns = _TURNS.search(loop.text) or _find_bound(loop, bodies)
    return int(turns[1]) if turns else 1


def _find_bound(loop: Instruction, bodies: dict[str, list[Instruction]]) -> re.Match | None:
    """Find the constant that a loop's counter is compared with."""
    condition = _CONDITION.search(loop.text)
    if condition is None:
        return None
    lines = bodies.get(condition[1], ())
    text = "\n".join(line.text for line in lines)
    below = _BELOW.search(text)
    if below is None:
        return None
    bound = re.escape(below[1])
    return re.search(rf"{bound} = \S+ constant\((\d+)\)", text)


def cycles(text: str, scopes: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Sum estimated cycles by part of `scopes`: (products with what is fused, all else)."""
    sums: Counter = Counter()
    for instruction, times, products in run(text):
        part = instruction.find_part(scopes)
        sums[part, products] += instruction.cycles * times

    cycles_of_parts = {}
    for part in (*scopes.values(), "collectives", "other"):
        cycles_of_parts[part] = sums[part, True], sums[part, False]
    return cycles_of_parts


def collectives(text: str) -> dict[str, tuple[int, int]]:
    """By kind: how many, and bytes of their results on a chip."""
    totals: dict[str, tuple[int, int]] = {}
    for instruction, times, _ in run(text):
        kind = instruction.collective
        if kind:
            count, size = totals.get(kind, (0, 0))
            moved = times * size_of(instruction.shape)
            totals[kind] = count + times, size + moved
    return totals


def size_of(shape: str) -> int:
    """Bytes of a shape as it is written, of a tuple all of it: "(bf16[8,128]{1,0}, f32[])"."""
    total = 0.0
    for dtype, sizes in _SHAPE.findall(shape):
        bits = re.search(r"\d+", dtype)
        default = int(bits[0]) / 8 if bits else 0
        width = _BYTES.get(dtype, default)
        texts = sizes.split(",")
        count = math.prod(int(text) for text in texts if text)
        total += width * count
    return math.ceil(total)


def host_calls(text: str) -> list[str]:
    """Instructions that wait for the host."""
    opcodes = [instruction.opcode for instruction, _, _ in run(text)]
    return [opcode for opcode in opcodes if opcode in _HOST_CALLS]


def dynamic_shapes(text: str) -> list[str]:
    """Shapes with a size that is known only while it runs, "s32[<=7]"."""
    return re.findall(r"\w+\[[^\]]*<=[^\]]*\]", text)
