"""The page: one HTML file with its styles, its scripts, its data, and a font in case of none."""

import base64
import html
import json
from collections.abc import Iterable
from dataclasses import asdict
from importlib.resources import files

from kbert.graph.reference import document_004
from kbert.graph.reference.errata import errata
from kbert.io import printable
from kbert.io.row_formats import read_package_table
from kbert.show.explorer import formula_code

STYLES = ("style.css", "dark.css", "figure.css", "print.css")
COUNTING = ("counting.js", "rules.js", "graph.js")
SCRIPTS = (
    "dom.js",
    "state.js",
    "edges.js",
    "drawn.js",
    "view.js",
    "panel.js",
    "weights.js",
    "fields.js",
    "totals.js",
    "search.js",
    "table.js",
    "downloads.js",
    "main.js",
)
NOTES = ("does", "document")  # columns of notes.tsv
FONT = "dejavu.woff"  # what is drawn where the machine has no fonts: Latin letters and the signs


def page(title: str, data: dict, formulas: Iterable[str]) -> str:
    """Return the page's HTML.

    Args:
        title: what the page is of.
        data: what the scripts read as DATA.
        formulas: those that they compute as FORMULAS and show as MATHML.
    """
    formulas = list(formulas)
    values = {
        "TITLE": html.escape(printable.line(title)),
        "STYLE": "\n".join(map(_text, STYLES)),
        "FONT": font(),
        "SCRIPT": script(data, formulas),
    }
    text = _text("page.html")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def script(data: dict, formulas: list[str]) -> str:
    """Return all of the page's JavaScript, in a function of its own."""
    mathml = {formula: formula_code.mathml(formula) for formula in formulas if formula}
    scripts = [
        f"const MATHML = {_json(mathml)};",
        counting_script(data, formulas),
        *map(_text, SCRIPTS),
    ]
    return '(() => {\n"use strict";\n' + "\n".join(scripts) + "\n})();"


def counting_script(data: dict, formulas: list[str]) -> str:
    """Return the part that needs no browser: what counts, and what refuses a configuration."""
    scripts = [
        f"const DATA = {_json(data)};",
        f"const FORMULAS = {formula_code.functions(formulas)};",
        *map(_text, COUNTING),
    ]
    return "\n".join(scripts)


def font() -> str:
    """Return the font as a data URL."""
    data = files(__package__).joinpath("page", FONT).read_bytes()
    return f"data:font/woff;base64,{base64.b64encode(data).decode()}"


def _text(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8").rstrip()


def _json(value) -> str:
    """JSON that ends no script and no line of one."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def notes_data() -> dict:
    """By layer, a block's as those of block {n}: notes (notes.tsv), the document's row, errata."""
    lines = read_package_table(__package__, "notes.tsv")
    return {
        "notes": {layer: dict(zip(NOTES, cells, strict=True)) for layer, *cells in lines},
        "document": {
            row.layer.replace("Encoder-1-", "Encoder-{n}-"): [row.output_shape, row.params]
            for row in document_004()
            if not row.layer.startswith("Encoder-") or row.layer.startswith("Encoder-1-")
        },
        "errata": [{**asdict(one), "source_says": one.source_says} for one in errata()],
    }
