"""`kbert …` in this process: as the console script runs it, without starting another Python."""

from typing import NamedTuple

from kbert.cli.main import main


class Done(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str


def kbert(capsys, *arguments) -> Done:
    """Runs a command line; `capsys` is pytest's fixture."""
    capsys.readouterr()
    status = 0
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as exit_:
        status = exit_.code or 0
    out, err = capsys.readouterr()
    return Done(status, out, err)
