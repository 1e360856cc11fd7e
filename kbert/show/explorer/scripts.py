"""Which scripts and styles a page has: those that its data can need."""

from collections.abc import Iterator
from typing import Any

COUNTING = ("counting.js", "rules.js", "graph.js")  # what needs no browser
_STYLES = ("style.css", "figure.css", "small.css", "tour/tour.css")
_SENTENCE_STYLES = ("sentence/sentence.css", "stage/stage.css", "attention/attention.css")
_FRAME = (
    "dom.js",
    "state.js",
    "edges.js",
    "drawn.js",
    "view.js",
    "panel.js",
    "weights.js",
    "fields.js",
    "totals.js",
    "scale.js",
    "search.js",
    "table.js",
    "downloads.js",
    "sheet.js",
    "tour/chapters.js",
    "tour/tour.js",
)
_SENTENCE = (
    "attention/lines.js",
    "attention/all_heads.js",
    "sentence/address.js",
    "sentence/colours.js",
    "sentence/columns.js",
    "sentence/strips.js",
    "sentence/stack.js",
    "sentence/heat.js",
    "sentence/running.js",
    "sentence/tokens.js",
    "sentence/outputs.js",
    "sentence/changes.js",
    "sentence/sentence.js",
    "stage/numbers.js",
    "stage/formulas.js",
    "stage/heat.js",
    "stage/plots.js",
    "stage/embeddings.js",
    "stage/head_kinds.js",
    "stage/cell.js",
    "stage/attention.js",
    "stage/feed_forward.js",
    "stage/norm.js",
    "stage/residual.js",
    "stage/tensor.js",
    "stage/stage.js",
)
# By DATA.live.place: the scripts that give the page its numbers.
_NUMBERS = {
    "inside": ("computed.js",),
    "beside": ("computed.js", "beside.js"),
    "recorded": ("recordings.js",),
    "served": ("served.js",),
}
# The engine: what both a page that computes and one that reads traces need, and what either does.
_SHARED = ("weights.js", "activations.js", "products.js", "plain_products.js", "forward.js")
_COMPUTING = ("tokenizer.js", "heads.js", "engine.js")


def list_styles(live: dict[str, Any] | None) -> list[str]:
    """Return the styles of a page with this DATA.live; None: it has no sentence."""
    styles = [*_STYLES]
    if live is None:
        styles += ["zoomed.css", "list.css"]  # with a sentence the figure is one column instead
    else:
        styles += _SENTENCE_STYLES
        styles += _list_attribution(live, "css")
        if not live.get("isSized", True):  # attention maps of a model that is not known
            styles.append("attention/unsized.css")
    return [*styles, "print.css"]


def list_scripts(data: dict[str, Any]) -> list[str]:
    """Return the scripts of a page, without those that count, and without the live part."""
    live = data.get("live")
    scripts = [*_FRAME, *_list_tour(data)]
    if live is None:
        scripts += ["zoomed.js", "list.js"]
    else:
        scripts += _list_attribution(live, "js")
        scripts += _SENTENCE
        scripts += [f"sentence/answers/{output}.js" for output in live["outputs"]]
    return [*scripts, "main.js"]


def _list_tour(data: dict[str, Any]) -> Iterator[str]:
    """Yield what the tour says of the head, and what there is to do."""
    if "head" in data:
        yield f"tour/heads/{data['head']}.js"
    yield f"tour/tasks/{_choose_tasks(data.get('live'))}.js"


def _choose_tasks(live: dict[str, Any] | None) -> str:
    if live is None:
        return "still"
    return "recorded" if live["place"] == "recorded" else "typed"


def _list_attribution(live: dict[str, Any], ending: str) -> list[str]:
    return [f"attribution/attribution.{ending}"] if "attribution" in live else []


def list_live_scripts(live: dict[str, Any]) -> list[str]:
    """Return the scripts by which a page gets its numbers."""
    return [f"live/{name}" for name in ("client.js", *_NUMBERS[live["place"]])]


def list_engine_scripts(live: dict[str, Any]) -> list[str]:
    """Return the scripts of the engine: they compute traces, or read them."""
    return [f"live/{name}" for name in (*_SHARED, *_choose_engine(live))]


def computes(live: dict[str, Any]) -> bool:
    """Return whether the page computes traces itself, with weights."""
    return live["place"] in ("inside", "beside")


def _choose_engine(live: dict[str, Any]) -> Iterator[str]:
    if computes(live):
        yield from _COMPUTING
        yield from (f"heads/{output}.js" for output in live["outputs"])
        return
    yield "recorded.js"
    if any("attention" in recording for recording in live.get("recordings", ())):
        yield "packed_attention.js"


def list_engine_functions(live: dict[str, Any]) -> list[str]:
    """Return the functions that the engine gives the page."""
    if computes(live):
        return ["openEngine", "serveRequests", "decodeBase64"]
    return ["findRecording", "readTrace"]
