"""The page: one HTML file with its styles, its scripts, its data, and a font in case of none."""

import base64
import html
from dataclasses import asdict
from importlib.resources import files

from kbert.graph.reference import document_004
from kbert.graph.reference.errata import errata
from kbert.io import pages, palette, printable
from kbert.io.row_formats import read_package_table
from kbert.show.explorer import formula_code

FOLDER = files(__package__) / "page"
_STYLES = ("style.css", "figure.css", "print.css")
_COUNTING = ("counting.js", "rules.js", "graph.js")
_SCRIPTS = (
    *("dom.js", "state.js", "edges.js", "drawn.js", "view.js", "panel.js", "weights.js"),
    *("fields.js", "totals.js", "search.js", "table.js", "downloads.js", "main.js"),
)
_COMPACT = (",", ":")  # JSON without blanks
_FONT = "dejavu.woff"  # what is drawn where the machine has no fonts: Latin letters and the signs


def write_page(title: str, data: dict, formulas: list[str]) -> str:
    """Return the page's HTML.

    Its scripts read `data` as DATA; they compute the formulas as FORMULAS and show them as MATHML.
    """
    font = base64.b64encode((FOLDER / _FONT).read_bytes()).decode()
    mathml = {formula: formula_code.mathml(formula) for formula in formulas if formula}
    scripts = [
        f"const MATHML = {pages.to_script(mathml, _COMPACT)};",
        counting_script(data, formulas),
        pages.read_files(FOLDER, *_SCRIPTS),
    ]
    slots = {
        "TITLE": html.escape(printable.line(title)),
        "STYLE": f"{palette.write_css()}\n{pages.read_files(FOLDER, *_STYLES)}",
        "FONT": f"data:font/woff;base64,{font}",
        "SCRIPT": '(() => {\n"use strict";\n' + "\n".join(scripts) + "\n})();",
    }
    return pages.fill_page(FOLDER, slots)


def counting_script(data: dict, formulas: list[str]) -> str:
    """Return the part that needs no browser: what counts, and what refuses a configuration."""
    functions = ",\n".join(
        f'"{text}": {formula_code.javascript(text)}' for text in sorted(set(formulas))
    )
    return (
        f"const DATA = {pages.to_script(data, _COMPACT)};\n"
        f"const FORMULAS = {{\n{functions}\n}};\n"
        f"{pages.read_files(FOLDER, *_COUNTING)}"
    )


def notes_data() -> dict:
    """By layer, a block's as those of block {n}: notes (notes.tsv), the document's row, errata."""
    lines = read_package_table(__package__, "notes.tsv")
    return {
        "notes": {layer: {"does": does, "document": text} for layer, does, text in lines},
        "document": {
            row.layer.replace("Encoder-1-", "Encoder-{n}-"): [row.output_shape, row.params]
            for row in document_004()
            if not row.layer.startswith("Encoder-") or row.layer.startswith("Encoder-1-")
        },
        "errata": [asdict(one) | {"source_says": one.source_says} for one in errata()],
    }
