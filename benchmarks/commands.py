"""kbert's commands that look at a configuration, each a whole process from start to end."""

from benchmarks.claims import Bound
from benchmarks.contenders import Contender
from benchmarks.work import Work

COMMANDS = {
    "summary": (["summary", "base"], 0.3),
    "params": (["params", "base"], 0.3),
    "heads": (["heads", "base"], 0.3),
    "plot": (["plot", "base", "-o", "{folder}/bert.svg"], 0.8),
}


def command(line: list[str]):
    import subprocess
    import sys
    import tempfile

    folder = tempfile.TemporaryDirectory()
    line = [sys.executable, "-m", "kbert", *(part.format(folder=folder.name) for part in line)]

    def run(count):
        for _ in range(count):
            subprocess.run(line, check=True, stdout=subprocess.DEVNULL)

    run.folder = folder  # lives as long as what writes into it
    return run


def works(name: str = "commands", commands: dict | None = None) -> list[Work]:
    commands = commands or COMMANDS
    contenders = tuple(
        Contender(name, "benchmarks.commands:command", {"line": line})
        for name, (line, _) in commands.items()
    )
    claims = [Bound(f"17 {name}", name, most) for name, (_, most) in commands.items()]
    title = "commands of a configuration, whole processes"
    return [Work(name, title, contenders, claims, memory=300)]
