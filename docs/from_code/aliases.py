"""Names of other libraries, and what they mean to kbert: aliases.tsv, by meaning.

At the end are the names of older releases.
"""

import kbert
from from_code.table import table
from kbert.cli.command import Option
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
    lines = []
    for name in sorted(kbert.__all__):
        function = getattr(kbert, name)
        old_names = getattr(function, "old_names", {}) | getattr(function, "old_settings", {})
        for old, new in old_names.items():
            lines.append((f"`kbert.{name}(…, {old}=)`", f"`{new}=`"))
    for name in sorted(cli.commands):
        for param in cli.commands[name].params:
            if isinstance(param, Option) and param.old is not None:
                lines.append((f"`kbert {name} {param.old}`", f"`{max(param.opts, key=len)}`"))
    return table(("old name", "new name"), lines)


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
