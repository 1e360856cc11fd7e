"""Every message that kbert raises, with its cause and the way out that it tells."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import kbert
from from_code.commands import plain
from from_code.table import table

PACKAGE = Path(kbert.__file__).parent
_NEEDED = (
    r"\b(?:must (?:be|have|hold|say|name|equal|end (?:in|with))|goes with|needs) (.*?)(?:, got\b|$)"
)
_EXPECTED = r"^(?:….*?: )?(\w.*?) expected\b"
_DAMAGED = "the file is damaged, or is not what it is called: get it again"
_BY_KIND = {  # where a message says what is there, and no more
    "FileExistsError": "choose a folder that is new or empty",
    "FileNotFoundError": "give the path of one that is there",
    "IsADirectoryError": "give a file",
    "NotADirectoryError": "give a folder",
    "OSError": "see what the system says behind it: often rights, or a full disk",
    "PermissionError": "choose a place where you may write",
    "TimeoutError": "start those that are named, and all of them again",
    "_Said": _DAMAGED,
    "_damaged": _DAMAGED,
}


@dataclass(frozen=True)
class Message:
    """A message: "cause: way out", or "what must be what, got what".

    Attributes:
        kind: the exception's class.
        text: with … for what is put in.
        module: where it is raised.
    """

    kind: str
    text: str
    module: str

    @property
    def cause(self) -> str:
        return self.text.removesuffix(self._told).rstrip(":; ")

    @property
    def way_out(self) -> str:
        """What the message says to do; where it only says what must be: to give that."""
        if self._told:
            return self._told
        must = re.search(_NEEDED, self.text) or re.search(_EXPECTED, self.text)
        return f"give {must[1]}" if must else _BY_KIND.get(self.kind, "as the message says")

    @property
    def where(self) -> str:
        """The exception, if its name is for others, and the module."""
        return f"`{self.module}`" if self.kind[0] == "_" else f"{self.kind}, `{self.module}`"

    @property
    def _told(self) -> str:
        """The clause behind the last colon or semicolon, where it is one for people."""
        found = re.search(r"(?<=[:;] )[a-z][^:;]{4,}$", self.text)
        told = found is not None and found.start() > 12 and not found[0].startswith("got ")
        return found[0] if told else ""


def page() -> str:
    """A table for each folder of kbert."""
    by_folder: dict[str, list[Message]] = {}
    for message in messages():
        by_folder.setdefault(".".join(message.module.split(".")[:2]), []).append(message)
    parts = []
    for folder, found in sorted(by_folder.items()):
        lines = [
            (f"**{plain(one.cause)}**", plain(one.way_out), one.where)
            for one in sorted(found, key=lambda one: one.text.lower())
        ]
        parts.append(f"## {folder}\n\n{table(('message', 'way out', 'where'), lines)}")
    return "\n".join(parts)


def messages() -> list[Message]:
    """Every `raise Name("text")` of the package, each text of a module once."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                kind = ast.unparse(node.exc.func).rpartition(".")[2]
                if text := _longest(node.exc.args):
                    found[module, text] = Message(kind, text, module)
    return list(found.values())


def _longest(arguments: list[ast.expr]) -> str:
    """The message among the arguments: of several texts, or of an errno and a text, the longest."""
    texts = ["".join(_pieces(argument)) for argument in arguments]
    text = max(texts, key=len, default="")
    return re.sub(r"…(?:[ ,]*…)+", "…", text) if re.search("[a-z]{3}", text) else ""


def _pieces(node: ast.expr) -> Iterator[str]:
    """The text of an expression: what is known only when it runs is an ellipsis."""
    if isinstance(node, ast.Constant):
        yield str(node.value) if isinstance(node.value, str) else "…"
    elif isinstance(node, ast.JoinedStr):
        for value in node.values:
            yield from _pieces(value)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _pieces(node.left)
        yield from _pieces(node.right)
    else:
        yield "…"
