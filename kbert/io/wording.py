"""Wording that errors share: the first few of many, the known name closest to an unknown one."""

import contextlib
import difflib
import os
import re
import shlex
from collections.abc import Collection, Iterator, Sequence

from kbert.io import printable

_on_command_line = [False]


@contextlib.contextmanager
def naming_commands() -> Iterator[None]:
    """Name commands in messages within this context, in place of calls in Python."""
    before, _on_command_line[0] = _on_command_line[0], True
    try:
        yield
    finally:
        _on_command_line[0] = before


def is_command_running() -> bool:
    """Return whether messages name commands and options, not calls and arguments in Python."""
    return _on_command_line[0]


def way_to_resume(task: str, folder: str | os.PathLike) -> str:
    """Return what resumes a run of a task: a command where one is running, else a call."""
    if _on_command_line[0]:
        return f"kbert {task} --resume {shlex.quote(os.fspath(folder))}"
    return f"kbert.resume({os.fspath(folder)!r})"


def way_to_overwrite() -> str:
    """Return what lets a writer replace files: an option where a command is running."""
    return "--overwrite" if _on_command_line[0] else "overwrite=True"


def name_call(name: str) -> str:
    """Return the name of one of kbert's commands and calls: as a command where one is running."""
    return f"kbert {name}" if _on_command_line[0] else f"kbert.{name}"


def name_setting(name: str) -> str:
    """Return a setting's name as the user writes it: an option where a command is running."""
    return f"--{name.replace('_', '-')}" if _on_command_line[0] else f"{name}="


def write_settings(**values) -> str:
    """Return settings with their values as the user writes them, but for those that are None.

    These are "--text-column 2 --no-header" where a command is running, else "text_column='2',
    no_header=True".
    """
    chosen = {name: value for name, value in values.items() if value is not None}
    if not _on_command_line[0]:
        return ", ".join(f"{name}={value!r}" for name, value in chosen.items())

    options = []
    for name, value in chosen.items():
        options.append(name_setting(name))
        if value is not True:
            options.append(shlex.quote(str(value)))
    return " ".join(options)


def first_few(texts: Sequence, most: int = 5, between: str = ", ") -> str:
    """Join the first of some texts, each on one line, and say how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    shown = [printable.line(text) for text in texts[:most]]
    return between.join(shown) + more


def data_of(source: str) -> str:
    """Return the data that a record is in: "a.tsv" for "a.tsv, line 3", "train" for "train[2]".

    It is "a.json" for "a.json, question 56be4db0acb8001400a502ec".
    """
    return re.sub(r", line \d+$|, question\b.*$|\[\d+\]$", "", source)


_SIMILAR_STEMS = 0.5  # by difflib: of names without endings, such as train and trian
_SHORTEST_BEGINNING = 3  # characters
_MEANT = {  # other libraries' names that look like none of kbert's, where kbert's is known
    "keras_bert": "google",  # which keras_bert reads
    "tensorflow": "saved_model",
    "tf": "saved_model",
    "h5": "keras",
    "avg": "mean",
    "average": "mean",
    "pool_avg": "mean",
    "pool_max": "max",
}
_SHORT = {  # names of precisions
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
}


def hint(
    name,
    known: Collection[str],
    what: str,
    before: str = "",
    *,
    cutoff: float = 0.6,
    beginnings: bool = False,
) -> str:
    """Suggest the known name that is close to an unknown one, regardless of case.

    If none is close, all are listed after `what`, unless that is "". `before` stands before each
    name, such as "--". `cutoff` is the minimum similarity by difflib, from 0 to 1; `beginnings`: a
    name that begins with the unknown one is closer than all others.
    """
    by_lower = {text.lower(): text for text in reversed(list(known))}
    lower = str(name).lower()
    for short, long in _SHORT.items():
        lower = re.sub(rf"(?<![a-z0-9]){short}$", long, lower)

    close = difflib.get_close_matches(lower, by_lower, n=1, cutoff=cutoff)
    if beginnings and len(lower) >= _SHORTEST_BEGINNING and lower not in by_lower:
        longer = [text for text in reversed(by_lower) if text.startswith(lower)]
        close = longer or close
    if lower.endswith("16") and lower not in by_lower:  # by letters, float16 is nearer to float32
        close = [text for text in by_lower if text.endswith(f"_{lower}")] or close
    meant = _MEANT.get(lower)
    if meant and meant in known:
        close = [meant]

    if close:
        return f"did you mean {before}{by_lower[close[0]]}?"
    return f"{what} {', '.join(known)}" if what else ""


def hint_of_path(path: str | os.PathLike, fits=os.path.exists, names: Collection[str] = ()) -> str:
    """Suggest the file or folder that is close to a missing path; "" if there is none.

    `fits` returns whether a path is a candidate. `names` are other candidates, unless the path is
    in another folder.
    """
    folder, name = os.path.split(os.fspath(path))
    try:
        entries = sorted(os.listdir(folder or "."))
    except OSError:
        return ""
    known = [entry for entry in entries if fits(os.path.join(folder, entry))]
    known += () if folder else names
    known = [entry for entry in known if _have_similar_stems(name, entry)]
    beginning = os.path.join(folder, "")
    return hint(name, known, "", beginning, beginnings=True)


def _have_similar_stems(name: str, other: str) -> bool:
    """Return whether two names of files are similar without their endings, or one begins both."""
    first = os.path.splitext(name)[0].lower()
    second = os.path.splitext(other)[0].lower()
    if other.lower().startswith(name.lower()):
        return True
    return difflib.SequenceMatcher(None, first, second).ratio() >= _SIMILAR_STEMS


def check_choice(value, choices: Collection[str], what: str, way: str | None = None) -> None:
    """Raise a ValueError unless a value is one of some texts; the message suggests the closest.

    Args:
        value, choices: the value, of any type, and what it can be.
        what: the argument's name.
        way: what to do instead, for the end of the message.
    """
    if isinstance(value, str) and value in choices:
        return
    close = hint(value, choices, "", beginnings=True)
    texts = [f"{what} must be one of {', '.join(choices)}, got {value!r:.60}", close, way]
    raise ValueError(": ".join(text for text in texts if text))
