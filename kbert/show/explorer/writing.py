"""The page: one HTML file with its styles, its scripts, its data, and a font in case of none."""

import base64
import html
import re
from dataclasses import asdict
from importlib.resources import files

from kbert.graph.reference import document_004
from kbert.graph.reference.errata import errata
from kbert.io import pages, palette, printable
from kbert.io.row_formats import read_package_table
from kbert.show.explorer import formula_code, scripts

FOLDER = files(__package__) / "page"
_COMPACT = (",", ":")  # JSON without blanks
_COMMENT = re.compile(r"\s*(//.*|/\*((?!\*/).)*\*/)\s*")
_SOURCE = "// Written by kbert, whose sources have comments: kbert/show/explorer/page"
_FONT = "dejavu.woff"  # what is drawn where the machine has no fonts: Latin letters and the signs


def write_page(title: str, data: dict, formulas: list[str], weights: bytes = b"") -> str:
    """Return the page's HTML, with the weights of its live part, if it has one.

    Its scripts read `data` as DATA and compute the formulas by FORMULAS. The page has them without
    their comments, which stay in the package.
    """
    font = base64.b64encode((FOLDER / _FONT).read_bytes()).decode()
    live = data.get("live")
    code = [counting_script(data, formulas)]
    if live:
        code += live_scripts(live)
    code.append(_read_code(*scripts.list_scripts(data)))
    slots = {
        "TITLE": html.escape(printable.line(title)),
        "STYLE": f"{palette.write_css()}\n{_read_code(*scripts.list_styles(live))}",
        "FONT": f"data:font/woff;base64,{font}",
        "TOKENS": pages.read_files(FOLDER, "sentence/tokens.html") if live else "",
        "STAGE": pages.read_files(FOLDER, "sentence/stage.html") if live else "",
        "WEIGHTS": _write_weights(weights),
        "SCRIPT": f'{_SOURCE}\n(() => {{\n"use strict";\n' + "\n".join(code) + "\n})();",
    }
    return pages.fill_page(FOLDER, slots)


def _read_code(*names: str) -> str:
    """Return scripts or styles of the page, without their comments."""
    return drop_comments(pages.read_files(FOLDER, *names))


def drop_comments(code: str) -> str:
    """Return JavaScript or CSS without comments: lines of their own, // … or /* … */, and "  // …".

    Lines of a template literal stay: backticks that open one have no partner in their line.
    """
    lines, is_literal = [], False
    for line in code.split("\n"):
        if is_literal or not _COMMENT.fullmatch(line):
            lines.append(line if is_literal else _drop_ending(line))
            is_literal ^= line.count("`") % 2 == 1
    return "\n".join(lines)


def _drop_ending(line: str) -> str:
    """Return a line without the comment at its end, which two blanks divide from the code."""
    code, mark, comment = line.partition("  // ")
    is_within_text = any(code.count(quote) % 2 for quote in "\"'`") or "`" in comment
    return line if not mark or is_within_text else code.rstrip()


def _write_weights(weights: bytes) -> str:
    if not weights:
        return ""
    text = base64.b64encode(weights).decode()
    return f'<script type="text/plain" id="weights">{text}</script>'


def live_scripts(live: dict) -> list[str]:
    """Return the scripts by which a page gets its numbers, for its DATA.live."""
    return [engine_script(live), _read_code(*scripts.list_live_scripts(live))]


def engine_script(live: dict) -> str:
    """Return the function that makes the engine: a worker runs its text, the page the function."""
    code = _read_code(*scripts.list_engine_scripts(live))
    if scripts.computes(live):
        binary = (FOLDER / "live" / "products.wasm").read_bytes()
        module = base64.b64encode(binary).decode()
        code = f'const PRODUCTS_WASM = "{module}";\n{code}'
    names = ", ".join(scripts.list_engine_functions(live))
    return f"function makeEngine() {{\n{code}\nreturn {{ {names} }};\n}}"


def counting_script(data: dict, formulas: list[str]) -> str:
    """Return the part that needs no browser: what counts, and what refuses a configuration."""
    functions = ",\n".join(
        f'"{text}": {formula_code.javascript(text)}' for text in sorted(set(formulas))
    )
    return (
        f"const DATA = {pages.to_script(data, _COMPACT)};\n"
        f"const FORMULAS = {{\n{functions}\n}};\n"
        f"{_read_code(*scripts.COUNTING)}"
    )


def _read_document() -> dict[str, list]:
    """Return the document's shapes and parameters; of its blocks the first, as block {n}."""
    facts = {}
    for row in document_004():
        is_later_block = row.layer.startswith("Encoder-") and not row.layer.startswith("Encoder-1-")
        if not is_later_block:
            layer = row.layer.replace("Encoder-1-", "Encoder-{n}-")
            facts[layer] = [row.output_shape, row.params]
    return facts


def notes_data(model_type: str = "bert") -> dict:
    """By layer, a block's as those of block {n}: notes (notes.tsv), the document's row, errata.

    The document and the errata are of BERT alone.
    """
    lines = read_package_table(__package__, "notes.tsv")
    if model_type != "bert":
        notes = {layer: {"does": does, "document": ""} for layer, does, _ in lines}
        return {"notes": notes, "document": {}, "errata": []}

    notes = {layer: {"does": does, "document": text} for layer, does, text in lines}
    corrections = []
    for erratum in errata():
        correction = asdict(erratum)
        correction["source_says"] = erratum.source_says
        corrections.append(correction)
    return {
        "notes": notes,
        "document": _read_document(),
        "errata": corrections,
    }
