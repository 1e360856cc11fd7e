"""Names of other libraries, and what they mean to kbert: aliases.tsv, by meaning."""

from from_code.table import table
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
    return "\n".join(
        f"## {title}\n\n{_table(kind, aliases.table()[kind])}" for kind, title in _TITLES.items()
    )


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
