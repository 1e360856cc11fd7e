"""The site's settings: `python -m sphinx -W docs build/site` builds it, with no network."""

import html
import re
import shutil
import sys
from pathlib import Path

from sphinx.pycode.parser import VariableCommentPicker

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

import from_code  # noqa: E402
from from_code import accounting  # noqa: E402
from from_code.mermaid import MermaidLexer  # noqa: E402

import kbert  # noqa: E402

project = "kbert"
author = copyright = "The kbert developers"
version = release = kbert.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
nitpicky = True
nitpick_ignore_regex = [  # other projects' names: there is no network to look them up by
    (r"py:.*", r"(?!kbert\b).*"),
]

nb_execution_mode = "off"  # notebooks are committed with what they print, and a test runs them
nb_merge_streams = True
myst_enable_extensions = ["attrs_block", "colon_fence"]
myst_heading_anchors = 4

default_role = "code"  # docstrings have names between single signs
autodoc_typehints = "signature"
python_maximum_signature_line_length = 600  # one argument per line in a longer signature
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

smartquotes = False  # messages, options and code are searched for and copied as they are

# A button copies what a reader types: commands and code, without prompts and what they print.
_COPIED = ("python", "ipython3", "bash", "console")
copybutton_selector = ", ".join(f"div.highlight-{language} pre" for language in _COPIED)
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_title = "kbert"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # would fetch pages, which file:// does not let it


def _link(app, name: str, source: list[str]) -> None:
    source[0] = from_code.with_links_of_the_site(source[0])
    if name == "concepts/steps":
        source[0] = accounting.with_pictures(source[0])
    if name == "contributing/architecture":
        drawn = "![The folders, and who imports whom](/_generated/architecture.svg)\n"
        source[0] = re.sub(r"```mermaid\n.*?```\n", drawn, source[0], flags=re.DOTALL)


def _escape(app, what, name, obj, options, lines: list[str]) -> None:
    """`Label`s and "val_": reStructuredText would take the one for a role, the other for a link."""
    lines[:] = [re.sub(r"(`\w+`)s\b", r"\1\\ s", line).replace('_"', '\\_"') for line in lines]
    lines[:] = [one for line in lines for one in _each_variable(line)]
    types = [place for place, line in enumerate(lines) if line.startswith(":type: ")]
    if what in ("attribute", "property") and types:  # napoleon: what a colon follows is a type
        lines[:] = [f"{lines.pop(types[0]).removeprefix(':type: ')}: {lines[0]}", *lines[1:]]


def _each_variable(line: str) -> list[str]:
    """`start, end: where` of a docstring's `Attributes` is two of them."""
    found = re.fullmatch(r":ivar (\w+(?:, \w+)+): (.*)", line)
    return [f":ivar {one}: {found[2]}" for one in found[1].split(", ")] if found else [line]


def _skip(app, what, name, obj, skip, options) -> bool | None:
    """A named tuple's fields are among its variables: "Alias for field number 0" says nothing."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def _signature(app, what, name, obj, options, signature, returned) -> tuple | None:
    """With `<factory>` a signature cannot be parsed, and its types are no links."""
    return signature and (signature.replace("<factory>", "..."), returned)


ENDS_A_LINE = re.compile(
    r'(?<=.[/_.=(,|:])(?<!\bkbert\.)(?=[^\W_]|["&\[{])|(?<=[a-z])(?=[A-Z][a-z])'
)
# A signature's name behind its modules', and what is within its brackets
BEFORE_A_NAME = re.compile(r'(?=<span class="sig-name)|(?<=<span class="sig-paren">\()(?=</span>)')
TYPE = re.compile(r"(?<=<em>)kbert[.\w]+(?=</em>)")
# Not in a word that is whole anyway; in a text, where what comes next is a tag, not a tag's end
NUMBER = re.compile(
    r'<span class="pre short">.*?</span>|(?<![\w.-])(\d[\d.]*e-\d+)\b(?=[^<>]*<)', re.DOTALL
)


def _mark_words(app, name: str, template: str, context: dict, doctree) -> None:
    """Words of code by their length: a line ends within the long ones alone, see site.css.

    There it ends behind a sign, or where a capital begins a word; a number such as 1e-5 is whole.
    """

    def mark(found: re.Match) -> str:
        length = len(html.unescape(found[1]))
        size = "short" if length <= 20 else "middle" if length <= 30 else "long"
        word = found[1] if size == "short" else ENDS_A_LINE.sub("<wbr>", found[1])
        return f'<span class="pre {size}">{word}</span>{"<wbr>" if word == "[" else ""}'

    def whole(found: re.Match) -> str:
        return f'<span class="number">{found[1]}</span>' if found[1] else found[0]

    if "body" in context:
        body = re.sub(r'<span class="pre">([^<]*)</span>', mark, context["body"])
        body = BEFORE_A_NAME.sub("<wbr>", body)
        body = TYPE.sub(lambda found: ENDS_A_LINE.sub("<wbr>", found[0]), body)
        body = NUMBER.sub(whole, body)
        # Sphinx's own dash behind a parameter's name, which smartquotes would have set
        context["body"] = re.sub(r"(</\w+>|\)) -- ", r"\1 – ", body)


def _copy_explorers(app, error) -> None:
    if error is None:
        for name in ("explorer.html", "live.html"):
            shutil.copy2(DOCS / "_generated" / name, app.outdir)


# Pages with another name in older releases.
MOVED = dict.fromkeys(("how_to/clusters", "how_to/scale_out"), "several_machines.html")


def _write_redirects(app, error) -> None:
    for name, target in MOVED.items() if error is None else ():
        text = f'<meta http-equiv="refresh" content="0; url={target}"><a href="{target}">Moved</a>'
        (Path(app.outdir) / f"{name}.html").write_text(text, encoding="utf-8")


def setup(app) -> None:
    # A function's own signature is shown, with its defaults, instead of its overloads.
    VariableCommentPicker.is_overload = lambda self, decorators: False
    app.add_lexer("mermaid", MermaidLexer)
    app.connect("builder-inited", lambda app: from_code.write(DOCS))
    app.connect("source-read", _link)
    app.connect("autodoc-process-docstring", _escape)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-signature", _signature)
    app.connect("html-page-context", _mark_words)
    app.connect("build-finished", _copy_explorers)
    app.connect("build-finished", _write_redirects)
