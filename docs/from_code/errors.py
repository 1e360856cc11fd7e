"""Every message that kbert raises, with its cause and a way out."""

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import kbert
from from_code.causes import KINDS, Kind
from from_code.commands import plain
from from_code.table import table

PACKAGE = Path(kbert.__file__).parent
_VERBS = (
    "add break build call choose compare cut delete divide draw end fill fine-tune free get git "
    "give hide install kbert lay leave lift load lower make merge name open pad pip prepare put "
    "raise rename report run save say see set shorten split start take unset use wait write"
)
# How a clause begins that says what to do; also a roundabout one, "for labels there is kbert.…".
_DOING = re.compile(
    r"(?:(?:in Python|for [\w ]+?|of [\w' ]+?) )?(?:it is |there is |is )?"
    rf"(?:`?(?:{_VERBS.replace(' ', '|')}|go on|tf|keras|client)\b"
    r"|.*(?:goes into|is made several by))"
)
_ASKED = (  # what a message wants, and how one says that to do
    (r"^(give .*?)(?:, got\b|$)", "{}"),
    (r"\bmust be (?:.* or )?left out\b", "leave it out"),
    (r"\bmust be given\b", "give it"),
    (r"\bmust be ((?:with)?in .*?)(?:, got\b|$)", "give one {}"),
    (r"\bmust (?:be|have|hold) (.*?)(?:, got\b|; got\b|: …|$)", "give {}"),
    (r"\bmust (name|say|leave|number|match) (.*?)(?:, got\b|$)", "{} {}"),
    (r"\bmust both be (.*?)(?:, got\b|$)", "give {}"),
    (r"\bmust end (in|with) (.*?)(?:, got\b|$)", "end it {} {}"),
    (r"\bgoes? with (.*?)(?:, got\b|$)", "use it with {}"),
    (r"\bdraws (.*?)(?:, got\b|$)", "give {}"),
    (r"\bneeds (.*?)(?:, got\b|$)", "give {}"),
    (r"^expected (.*?)(?:, got\b|$)", "give {}"),
    (r"^(?:….*?: )?(.+?) expected\b", "give {}"),
)


@dataclass(frozen=True)
class Message:
    """A message: "what was wrong: what to do", or "what must be what, got what".

    Attributes:
        kind: the exception's class.
        text: with … for what is put in.
        module: where it is raised.
    """

    kind: str
    text: str
    module: str

    @property
    def why(self) -> str:
        """Why it comes, by its kind."""
        return self._of_kind.why

    @property
    def way_out(self) -> str:
        """What the message says to do, else what its kind does, else to give what it wants."""
        return _said(self._told or self._of_kind.do or self._asked)

    @property
    def where(self) -> str:
        """The exception, if its name is for others, and the module."""
        named = re.fullmatch(r"[A-Z]\w+", self.kind)
        return f"{self.kind}, `{self.module}`" if named else f"`{self.module}`"

    @property
    def _of_kind(self) -> Kind:
        """A message of no kind fails a test; till then the page says no more than the message."""
        found = (kind for kind in KINDS if re.search(kind.pattern, f"{self.module}: {self.text}"))
        return next(found, Kind("", "", "see the message"))

    @property
    def _told(self) -> str:
        """The last clause that says what to do, with what follows it."""
        clauses = re.split(r"(?<=[:;]) ", self.text)
        for place in range(len(clauses) - 1, 0, -1):
            if _DOING.match(clauses[place]):
                return " ".join(clauses[place:]).strip("`")
        return ""

    @property
    def _asked(self) -> str:
        for pattern, to_do in _ASKED:
            if found := re.search(pattern, self.text):
                return to_do.format(*found.groups())
        return "give …"


def _said(way_out: str) -> str:
    """What is put in only when it runs, the message says."""
    way_out = re.sub(r"\bone of …$", "one of those that it lists", way_out)
    return "give what the message says" if way_out == "give …" else way_out


def page() -> str:
    """A table for each folder of kbert; cards, where there is no room for one."""
    by_folder: dict[str, list[Message]] = {}
    for message in messages():
        by_folder.setdefault(".".join(message.module.split(".")[:2]), []).append(message)
    parts = []
    for folder, found in sorted(by_folder.items()):
        lines = [
            (f"**{plain(one.text)}** {one.where}", plain(one.why), plain(one.way_out))
            for one in sorted(found, key=lambda one: one.text.lower())
        ]
        told = table(("message", "why it comes", "what to do"), lines)
        parts.append(f"## {folder}\n\n:::{{div}} cards errors\n{told}:::\n")
    return "\n".join(parts)


@functools.cache
def messages() -> tuple[Message, ...]:
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
    return tuple(found.values())


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
