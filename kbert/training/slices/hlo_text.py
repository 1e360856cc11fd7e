"""Reading of XLA's compiled program for TPU: cycles, collectives, calls.

The cycles are the compiler's own estimate, by which it chooses between programs; nobody measured
them. Each instruction of the program has its own in `backend_config`; a fused one has the cycles of
everything in it. Those of a loop's body count once per iteration.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
)
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


@dataclass(frozen=True)
class Instruction:
    """One line of a computation.

    Attributes:
        opcode: such as "fusion", "all-reduce".
        shape: of its result, as it is written.
        scope: where in the traced function it comes from; "" where it does not say.
        cycles: the estimate; 0 where there is none.
        called: the computations that it names.
        turns: of a loop; 1 where the line does not say.
        text: the line.
    """

    opcode: str
    shape: str
    scope: str
    cycles: int
    called: tuple[str, ...]
    turns: int
    text: str


def computations(text: str) -> tuple[str, dict[str, list[Instruction]]]:
    """Return the entry's name, and each computation's instructions by its name."""
    entry = ""
    found: dict[str, list[Instruction]] = {}
    for line in text.splitlines():
        if header := _HEADER.match(line):
            lines = found.setdefault(header[2], [])
            entry = header[2] if header[1] else entry
        elif part := _LINE.match(line):
            lines.append(_instruction(part, line))
    return entry, found


def _instruction(part: re.Match, line: str) -> Instruction:
    cycles, scope, turns = _CYCLES.search(line), _SCOPE.search(line), _TURNS.search(line)
    return Instruction(
        part[3],
        part[2],
        scope[1] if scope else "",
        int(cycles[1]) if cycles else 0,
        tuple(_CALLED.findall(part[4])),
        int(turns[1]) if turns else 1,
        line,
    )


def run(text: str) -> Iterator[tuple[Instruction, int, bool]]:
    """Yield a program's instructions, how often each runs, and whether it multiplies matrices."""
    entry, found = computations(text)
    multiplying = {name for name, lines in found.items() if any(map(_multiplies, lines))}

    def walk(name, times):
        for one in found.get(name, ()):
            products = _multiplies(one) or not multiplying.isdisjoint(one.called)
            if one.cycles or not one.called or one.opcode in ("fusion", *COLLECTIVES):
                yield one, times, products
            else:  # a loop, a branch, a call: what it calls is run
                for called in one.called:
                    yield from walk(called, times * _turns(one, found))

    yield from walk(entry, 1)


def _turns(one: Instruction, found: dict[str, list[Instruction]]) -> int:
    """Return the number of a loop's iterations."""
    condition = _CONDITION.search(one.text)
    text = "\n".join(line.text for line in found.get(condition[1], ())) if condition else ""
    if one.turns == 1 and (below := _BELOW.search(text)):
        bound = re.search(rf"{re.escape(below[1])} = \S+ constant\((\d+)\)", text)
        return int(bound[1]) if bound else 1
    return one.turns


def _multiplies(one: Instruction) -> bool:
    return one.opcode in ("convolution", "dot")


def cycles(text: str, parts: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Estimated cycles by part: (of products with what is fused to them, of all else).

    Args:
        text: of a compiled program.
        parts: of the model, by what their operations' names have in them; what is in none of them
            is "other", collectives are "collectives".
    """
    found: Counter = Counter()
    for one, times, products in run(text):
        found[_part(one, parts), products] += one.cycles * times
    names = (*dict.fromkeys(parts.values()), "collectives", "other")
    return {name: (found[name, True], found[name, False]) for name in names}


def _part(one: Instruction, parts: Mapping[str, str]) -> str:
    if _collective(one):
        return "collectives"
    places = {one.scope.find(name): part for name, part in parts.items() if name in one.scope}
    return places[min(places)] if places else "other"


def _collective(one: Instruction) -> str:
    name = one.opcode.removesuffix("-start")
    return name if name in COLLECTIVES else ""


def collectives(text: str) -> dict[str, tuple[int, int]]:
    """By kind: how many, and bytes of their results on a chip."""
    found: dict[str, tuple[int, int]] = {}
    for one, times, _ in run(text):
        if kind := _collective(one):
            count, size = found.get(kind, (0, 0))
            found[kind] = count + times, size + times * size_of(one.shape)
    return found


def size_of(shape: str) -> int:
    """Bytes of a shape as it is written, of a tuple all of it: "(bf16[8,128]{1,0}, f32[])"."""
    return math.ceil(
        sum(
            math.prod(map(int, filter(None, sizes.split(",")))) * _width(dtype)
            for dtype, sizes in _SHAPE.findall(shape)
        )
    )


def _width(dtype: str) -> float:
    if dtype in _BYTES:
        return _BYTES[dtype]
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) / 8 if bits else 0


def host_calls(text: str) -> list[str]:
    """Instructions that wait for the host."""
    return [one.opcode for one, _, _ in run(text) if one.opcode in _HOST_CALLS]


def dynamic_shapes(text: str) -> list[str]:
    """Shapes with a size that is known only while it runs, "s32[<=7]"."""
    return re.findall(r"\w+\[[^\]]*<=[^\]]*\]", text)
