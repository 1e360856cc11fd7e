"""PEFT's names of the matrices in BERT's blocks: module names of transformers, by family.

Families are named here by their column of the table of names, `kbert.checkpoints.weight_names`.
"""

import functools
import re
from dataclasses import dataclass

from kbert.checkpoints import weight_names
from kbert.checkpoints.transformers.classes import classes_by_column
from kbert.graph import names
from kbert.graph.trained_parts import MATRICES

_NUMBER = r"([0-9]{1,6})"
# What a module's name begins with where its last word alone says which it is.
_SURE = re.compile(r"^(attention\.self|attention(?=\.\w+_lin$)|ffn)\.")


@dataclass(frozen=True)
class Module:
    """A matrix's module as a file names it: with the prefix of its family, if it has one.

    `column` is the family, None: BERT or RoBERTa. `block` is 1 … L; `matrix` one of
    `kbert.graph.trained_parts.MATRICES`.
    """

    name: str
    column: str | None
    block: int
    matrix: str


def parse_module(name: str) -> Module | None:
    """Return the matrix of a module's name in any family; None if it is no matrix of a block."""
    prefix, bare = split(name)
    for column in classes_by_column():
        for matrix, text in modules(column).items():
            pattern = re.escape(text).replace(r"\{i\}", _NUMBER)
            if (match := re.fullmatch(pattern, bare)) and prefix in (None, column):
                known = column if prefix or column == "distilbert" else None
                return Module(name, known, int(match[1]) + 1, matrix)
    return None


def split(name: str) -> tuple[str | None, str]:
    """Split a weight's name into the family that its prefix says, else None, and the rest."""
    for column, classes in classes_by_column().items():
        if name.startswith(classes.prefix):
            return column, name.removeprefix(classes.prefix)
    return None, name


@functools.cache
def modules(column: str) -> dict[str, str]:
    """Return the modules of `MATRICES` in a family without its prefix; {i} is the block, from 0."""
    by_variable = {
        (row.layer, row.variable): row.names for row in weight_names.templates_of("encoder")
    }
    keys = {name: (names.encoder("{n}", one.part), one.variable) for name, one in MATRICES.items()}
    return {name: by_variable[key][column].removesuffix(".weight") for name, key in keys.items()}


def module(column: str, block: int, matrix: str) -> str:
    """Return a matrix's module in a family, without its prefix; blocks count from 1."""
    return modules(column)[matrix].format(i=block - 1)


def targets(column: str, matrices: list[tuple[int, str]], blocks: int) -> list[str] | str:
    """Return PEFT's target_modules: endings of modules' names if they suffice, else a pattern.

    An ending stands for all `blocks`, and BERT's "output.dense" for two matrices. `matrices` are
    (block, name).
    """
    endings = {
        name: text.partition(".{i}.")[2]
        for name, text in modules(column).items()
        if any(name == other for _, other in matrices)
    }
    alone = "output" in endings and "attention_output" not in endings
    both = not (alone and endings["output"] == "output.dense")
    if both and len(matrices) == len(endings) * blocks:
        return [_SURE.sub("", ending) for ending in endings.values()]
    of_blocks = "|".join(str(number - 1) for number in sorted({block for block, _ in matrices}))
    of_matrices = "|".join(ending.replace(".", r"\.") for ending in endings.values())
    return rf".*\.layer\.({of_blocks})\.({of_matrices})"
