"""Names of other libraries, and what they mean to kbert: aliases.tsv, by meaning.

At the end are the names of older releases.
"""

import kbert
from from_code.table import table
from kbert.cli.main import cli
from kbert.graph import aliases

_TITLES = {
    "head": "Heads: `head=`, `--head`",
    "task": "Tasks of fine-tuning: `kbert.finetune(…, task)`, `--task`",
    "command": "Commands: `kbert …`",
    "no task": "No tasks of fine-tuning: other functions do them",
    "setting": "Settings of training: `kbert.pretrain(…)`, `kbert.finetune(…)`",
    "kbert": "Functions of the package: `kbert.…`",
    "Bert": "Attributes of a loaded model: `bert.…`",
    "Tokenizer": "Methods of the tokenizer: `bert.tokenizer.…`",
}
_ACCEPTED = ("head", "task", "command")


def page() -> str:
    """A table for each kind of name; a line for each meaning."""
    sections = [
        f"## {title}\n\n{_table(kind, aliases.table()[kind])}" for kind, title in _TITLES.items()
    ]
    return "\n".join([*sections, f"## Names of older releases\n\n{_old_names()}"])


def _old_names() -> str:
    """A line for each old name of a function's argument or a command's option."""
    old_settings = aliases.table()["old setting"]
    lines = []
    for name in sorted(kbert.__all__):
        settings = getattr(getattr(kbert, name), "old_settings", {})
        for old, new in (_of(name, "old name") | settings).items():
            lines.append((f"`kbert.{name}(…, {old}=)`", f"`{new}=`"))
    for name in sorted(cli.commands):
        options = {opt for param in cli.commands[name].params for opt in param.opts}
        for old, new in (_of(name, "old option") | old_settings).items():
            option = f"--{new.replace('_', '-')}"
            if option in options:
                lines.append((f"`kbert {name} --{old.replace('_', '-')}`", f"`{option}`"))
    return table(("old name", "new name"), lines)


def _of(owner: str, noun: str) -> dict[str, str]:
    """The new names by the old ones, of a function's arguments or a command's options."""
    names = {tuple(old.split()): new for old, new in aliases.table()[noun].items()}
    return {old: new for (of, old), new in names.items() if of == owner}


def _table(kind: str, meanings: dict[str, str]) -> str:
    by_meaning: dict[str, list[str]] = {}
    for alias, meaning in meanings.items():
        by_meaning.setdefault(meaning, []).append(f"`{alias}`")
    header = ("alias", "kbert's name") if kind in _ACCEPTED else ("instead of", "use")
    is_name = kind in (*_ACCEPTED, "setting")
    lines = [
        (", ".join(names), f"`{meaning}`" if is_name else meaning)
        for meaning, names in by_meaning.items()
    ]
    return table(header, lines)
