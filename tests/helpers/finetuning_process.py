"""As run_process.py, of `kbert finetune`: FOLDER has the checkpoint, train.tsv and dev.tsv."""

from pathlib import Path

from helpers import run_process

SETTINGS = [
    "--epochs",
    "2",
    "--batch-size",
    "5",
    "--learning-rate",
    "5e-3",
    "--save-every",
    "3",
    "--keep",
    "all",
]


def start(folder: Path, name: str, kill, together: int) -> None:
    from kbert.cli.console import run
    from kbert.cli.main import cli

    if kill:
        run_process.kill_at(*kill)
    output = folder / name
    arguments = ["finetune", str(folder / "source"), "--task", "classify", "-o", str(output)]
    for data in ("train", "dev"):
        arguments += [f"--{data}", str(folder / f"{data}.tsv")]
    if (output / "settings.json").exists():
        arguments, settings = ["finetune", "--resume", str(output)], []
    else:
        settings = SETTINGS
    try:
        run(cli, [*arguments, *settings, "--steps-per-execution", str(together), "--quiet"])
    except SystemExit as done:
        if done.code:
            raise


if __name__ == "__main__":
    run_process.start = start
    run_process.main()
