"""Mutations of kbert/ in tests/mutations.toml: errors that the tests must catch.

    PYTHONPATH=tests python -m helpers.mutations [NAME …] [--list] [--unmutated] [--jobs N]

Each mutation is applied to a copy of the project's tracked files. There its test must fail, on its
backend and in its round. One row is printed for each; the exit status is 1 where one survived.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from helpers.backends import environment_of
from helpers.peer_outputs import FOLDER
from helpers.sizes import ROOT, TESTS

ROUNDS = {"default": "not full and not nightly", "full": "full and not nightly"}
OPTIONS = ["-n", "0", "-q", "-x", "-rf", "--tb=short", "-p", "no:cacheprovider"]


@dataclass(frozen=True)
class Mutation:
    """In `file` the text `old` becomes `new`: then `test` fails, a pytest node of `round`."""

    name: str
    file: str
    old: str
    new: str
    test: str
    round: str = "default"
    backend: str = "tensorflow"

    def mutate(self, root: Path) -> str:
        """Return the file's mutated text, or raise a ValueError if `old` is not there once."""
        path = root / self.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: old must be once in {self.file}, found {count} times")
        return text.replace(self.old, self.new)

    def row(self, *more: str) -> str:
        cells = self.name, self.file, self.round, self.test, self.backend, *more
        return f"| {' | '.join(cells)} |"


def read_list() -> list[Mutation]:
    with (TESTS / "mutations.toml").open("rb") as file:
        return [Mutation(**entry) for entry in tomllib.load(file)["mutation"]]


def run_tests(which: str, backend: str, tests: list[str], mutation: Mutation | None = None):
    """Run tests of a copy of the project with its own kbert; return status and output."""
    with tempfile.TemporaryDirectory(prefix="kbert-mutation-") as folder:
        root = Path(os.path.realpath(folder))
        listed = subprocess.check_output(["git", "-C", ROOT, "ls-files", "-z"], text=True)
        for name in filter(None, listed.split("\0")):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
        if mutation:
            (root / mutation.file).write_text(mutation.mutate(root), encoding="utf-8")
        path = {"PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}"}
        call = {"cwd": root, "env": os.environ | environment_of(backend) | path, "text": True}
        where = [sys.executable, "-c", "import kbert; print(kbert.__file__)"]
        imported = subprocess.check_output(where, **call).strip()
        assert imported == str(root / "kbert" / "__init__.py"), imported
        command = [sys.executable, "-m", "pytest", *OPTIONS, "-m", ROUNDS[which], *tests]
        done = subprocess.run(command, **call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def is_caught(mutation: Mutation) -> bool:
    """Return whether its test itself failed: not the import or a fixture; print its row."""
    status, output = run_tests(mutation.round, mutation.backend, [mutation.test], mutation)
    failed = re.search(rf"^FAILED {re.escape(mutation.test)}", output, re.MULTILINE)
    caught = status == 1 and failed is not None
    print(mutation.row("caught" if caught else "SURVIVED"), flush=True)
    print("" if caught else output[-1500:], end="", file=sys.stderr)
    return caught


def pass_without(mutations: list[Mutation]) -> bool:
    """Return whether all their tests pass without a mutation."""
    groups: dict[tuple[str, str], set[str]] = {}
    for one in mutations:
        groups.setdefault((one.round, one.backend), set()).add(one.test)
    results = [run_tests(*group, sorted(tests)) for group, tests in groups.items()]
    for group, (_, output) in zip(groups, results, strict=True):
        print("without a mutation:", *group, *output.splitlines()[-1:])
    return not any(status for status, _ in results)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a name; default: all")
    parser.add_argument("--list", action="store_true", help="print the list and run nothing")
    parser.add_argument("--unmutated", action="store_true", help="first run all without mutations")
    parser.add_argument("--jobs", type=int, default=1, help="mutations at a time")
    options = parser.parse_args()
    names = options.names or [""]
    chosen = [one for one in read_list() if any(name in one.name for name in names)]
    if not chosen:
        parser.error(f"no mutation is named {' or '.join(map(repr, names))}: --list shows all")
    if options.list:
        print(*(one.row() for one in chosen), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="kbert-mutations-") as caches:
        os.environ |= {FOLDER: caches, "JAX_COMPILATION_CACHE_DIR": caches}
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        try:
            if options.unmutated and not pass_without(chosen):
                return 1
            with ThreadPoolExecutor(options.jobs) as threads:
                caught = list(threads.map(is_caught, chosen))
        except ValueError as error:
            sys.exit(str(error))
    print(f"{sum(caught)} of {len(caught)} mutations are caught")
    return 0 if caught and all(caught) else 1


if __name__ == "__main__":
    sys.exit(main())
