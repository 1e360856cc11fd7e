"""Which versions kbert takes, by pyproject.toml; `.ci/nightly` tests the lowest."""

import re
import tomllib
from pathlib import Path

from from_code.table import table

ROOT = Path(__file__).parents[2]


def page() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"kbert": project["dependencies"], **project["optional-dependencies"]}
    lines = [
        (name, _named(requirement), *_bounds(requirement))
        for name, requirements in groups.items()
        for requirement in requirements
    ]
    header = ("extra", "package", "from version", "below version")
    return f"Python {project['requires-python']}\n\n{table(header, lines)}"


def _named(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9_.-]+(?:\[[^]]+\])?", requirement)[0]
    return f"`{name}`"


def _bounds(requirement: str) -> tuple[str, str]:
    """The lowest version and the one that it must be below; an exact one alone."""
    versions = requirement.partition(";")[0]
    exact = re.search(r"==([\w.]+)", versions)
    if exact:
        return f"exactly {exact[1]}", ""
    found = [re.search(rf"{sign}([\w.]+)", versions) for sign in (">=", "<")]
    low, high = (match[1] if match else "" for match in found)
    return low, high
