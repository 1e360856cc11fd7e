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
from kbert.show.explorer import formula_code

FOLDER = files(__package__) / "page"
_STYLES = ("style.css", "figure.css", "small.css", "tour/tour.css")
_SENTENCE_STYLES = ("sentence/sentence.css", "stage/stage.css", "attention/attention.css")
_COUNTING = ("counting.js", "rules.js", "graph.js")
_SCRIPTS = (
    *("dom.js", "state.js", "edges.js", "drawn.js", "view.js", "panel.js", "weights.js"),
    *("fields.js", "totals.js", "scale.js", "search.js", "table.js", "downloads.js"),
    *("sheet.js", "list.js", "tour/chapters.js", "tour/tour.js"),
)
_SENTENCE = (
    *("attention/address.js", "attention/lines.js", "attention/all_heads.js"),
    *("attribution/attribution.js", "sentence/address.js", "sentence/colours.js"),
    *("sentence/columns.js", "sentence/strips.js"),
    *("sentence/stack.js", "sentence/heat.js", "sentence/running.js", "sentence/tokens.js"),
    *("sentence/outputs.js", "sentence/changes.js", "sentence/sentence.js"),
    *("stage/numbers.js", "stage/formulas.js", "stage/heat.js", "stage/plots.js"),
    *("stage/embeddings.js", "stage/head_kinds.js", "stage/cell.js", "stage/attention.js"),
    *("stage/feed_forward.js", "stage/norm.js", "stage/residual.js"),
    *("stage/tensor.js", "stage/stage.js"),
)
_ENGINE = (
    *("tokenizer.js", "weights.js", "activations.js", "products.js", "plain_products.js"),
    *("forward.js", "heads.js", "engine.js", "recorded.js", "packed_attention.js"),
)
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
    is_live = "live" in data
    styles = (*_STYLES, *(_SENTENCE_STYLES if is_live else ()), "print.css")
    scripts = [
        counting_script(data, formulas),
        *(live_scripts() if is_live else []),
        _read_code(*_SCRIPTS, *(_SENTENCE if is_live else ()), "main.js"),
    ]
    slots = {
        "TITLE": html.escape(printable.line(title)),
        "STYLE": f"{palette.write_css()}\n{_read_code(*styles)}",
        "FONT": f"data:font/woff;base64,{font}",
        "WEIGHTS": _write_weights(weights),
        "SCRIPT": f'{_SOURCE}\n(() => {{\n"use strict";\n' + "\n".join(scripts) + "\n})();",
    }
    return pages.fill_page(FOLDER, slots)


def _read_code(*names: str) -> str:
    """Return scripts or styles of the page, without their comments."""
    return drop_comments(pages.read_files(FOLDER, *names))


def drop_comments(code: str) -> str:
    """Return JavaScript or CSS without the lines that hold only a comment, // … or /* … */.

    Lines of a template literal stay: backticks that open one have no partner in their line.
    """
    lines, is_literal = [], False
    for line in code.split("\n"):
        if is_literal or not _COMMENT.fullmatch(line):
            lines.append(line)
            is_literal ^= line.count("`") % 2 == 1
    return "\n".join(lines)


def _write_weights(weights: bytes) -> str:
    if not weights:
        return ""
    text = base64.b64encode(weights).decode()
    return f'<script type="text/plain" id="weights">{text}</script>'


def live_scripts() -> list[str]:
    """Return the scripts of a page's live part, wherever its model computes."""
    return [engine_script(), _read_code("live/served.js", "live/client.js")]


def engine_script() -> str:
    """Return the function that makes the engine: a worker runs its text, the page the function."""
    scripts = _read_code(*(f"live/{name}" for name in _ENGINE))
    code = base64.b64encode((FOLDER / "live" / "products.wasm").read_bytes()).decode()
    names = "openEngine, serveRequests, makeTokenizer, decodeBase64, findRecording, readTrace"
    return (
        f'function makeEngine() {{\nconst PRODUCTS_WASM = "{code}";\n'
        f"{scripts}\nreturn {{ {names} }};\n}}"
    )


def counting_script(data: dict, formulas: list[str]) -> str:
    """Return the part that needs no browser: what counts, and what refuses a configuration."""
    functions = ",\n".join(
        f'"{text}": {formula_code.javascript(text)}' for text in sorted(set(formulas))
    )
    return (
        f"const DATA = {pages.to_script(data, _COMPACT)};\n"
        f"const FORMULAS = {{\n{functions}\n}};\n"
        f"{_read_code(*_COUNTING)}"
    )


def notes_data(model_type: str = "bert") -> dict:
    """By layer, a block's as those of block {n}: notes (notes.tsv), the document's row, errata.

    The document and the errata are of BERT alone.
    """
    lines = read_package_table(__package__, "notes.tsv")
    if model_type != "bert":
        notes = {layer: {"does": does, "document": ""} for layer, does, _ in lines}
        return {"notes": notes, "document": {}, "errata": []}
    return {
        "notes": {layer: {"does": does, "document": text} for layer, does, text in lines},
        "document": {
            row.layer.replace("Encoder-1-", "Encoder-{n}-"): [row.output_shape, row.params]
            for row in document_004()
            if not row.layer.startswith("Encoder-") or row.layer.startswith("Encoder-1-")
        },
        "errata": [asdict(one) | {"source_says": one.source_says} for one in errata()],
    }
