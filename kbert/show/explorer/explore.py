"""The explorer: a self-contained page of a configuration, a checkpoint or a model."""

import html
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbert.graph.accounting import account
from kbert.graph.aliases import answer_old_names
from kbert.graph.config import BertConfig, require_positive
from kbert.graph.presets import PRESETS, is_preset
from kbert.graph.spec import GraphSpec
from kbert.hub import hugging_face
from kbert.hub.names import ModelName
from kbert.io import pages, printable
from kbert.io.atomic_write import atomic_file, check_new_file, write_atomically
from kbert.show.explorer.counting import counting_data, graphs, list_formulas, list_variables
from kbert.show.explorer.figure import figure_data
from kbert.show.explorer.writing import notes_data, write_page

if TYPE_CHECKING:
    import keras

    from kbert.checkpoints.bert import Bert
    from kbert.show.explorer.live.attention_weights import AttentionWeights
    from kbert.show.explorer.live.contents import LiveModel
    from kbert.show.explorer.live.live_part import LivePart
    from kbert.show.explorer.live.packing import PackedWeights
    from kbert.show.explorer.live.tracing import Tracer
    from kbert.show.explorer.live.weight_options import WeightOptions
    from kbert.show.explorer.weights import MakeLive

ENDINGS = (".html", ".htm")
_NOTE = (
    "The sentences of this page are recorded. To type your own: kbert.explore(source, "
    "weights='int8') shows a page with the weights inside, kbert.explore(source, 'page.html') "
    "writes one."
)


@dataclass(frozen=True)
class Explorer:
    """An explorer page. A notebook shows it in a frame.

    Attributes:
        title: the page's title.
        html: the whole page.
        path: the file that was written; None if none was.
        note: what a notebook says below the page.
    """

    title: str
    html: str
    path: Path | None = None
    note: str = ""

    def __repr__(self) -> str:
        path = f", {self.path}" if self.path else ""
        return f"Explorer({self.title!r}, {len(self.html.encode()):,} bytes{path})"

    def _repr_html_(self) -> str:
        frame = pages.write_frame(self.html, self.title, "760px", 'loading="lazy" allowfullscreen')
        return frame + (f"<p>{html.escape(self.note)}</p>" if self.note else "")


@printable.escape_errors()
@answer_old_names
def explore(
    source: "keras.Model | Bert | GraphSpec | BertConfig | AttentionWeights | str | os.PathLike" = (
        "base"
    ),
    output: str | os.PathLike | None = None,
    *,
    batch_size: int = 1,
    sentences: Sequence[str | Sequence[str]] | None = None,
    title: str | None = None,
    weights: str | None = None,
    beside: bool = False,
    start: str = "",
) -> Explorer:
    """Make one self-contained interactive page of a model's graph.

    Args:
        source: one of the following.
            A preset's name, a path to a configuration's JSON file, a `BertConfig` or a `GraphSpec`:
            drawn from the closed forms, without Keras.
            A checkpoint's path or name: with statistics of every tensor.
            A `Bert` or a functional `keras.Model`: with statistics of its weights. A model that is
            not a kbert graph is drawn layer by layer, without formulas.
            An `AttentionMap`, or a list of them: with the tensors that they hold.
        output: the page to write, .html; None: no file.
        batch_size: the initial number of sequences in a batch; it can be changed in the page.
        sentences: texts for the page of a checkpoint or a `Bert`, each a str, or a pair of two. A
            page with weights offers them as examples. A page without weights has recordings: kbert
            computes every tensor of these sentences, and the page keeps them in half precision.
            None: no sentence; in a notebook (without `output`) one that kbert chooses.
        title: the page's title; None: the source's name.
        weights: the format of the weights in the page of a checkpoint or a `Bert`, with which it
            computes the sentences that you type: "int8" (in groups of 32), "float16" or "float32".
            None: "int8" in a file, if the model has at most 40 million parameters; in a notebook
            none.
        beside: whether the weights are written into a file next to the page, PAGE.weights.js.
            Keep both together.
        start: what the page shows first: the part of its address behind the #, such as
            "Encoder-3-MultiHeadSelfAttention/head-5".

    Returns:
        An `Explorer`, which a notebook shows.

    Raises:
        ValueError: a path that does not end in .html; an unknown preset; a checkpoint that does not
            fit its configuration; a model that is not functional or too large; a sentence without a
            token or with too many, or sentences for something without a tokenizer; an unknown
            format of weights, or weights of a model that a page cannot compute.
        OSError: no such checkpoint, or no file can be written at `output`.
        ImportError: Graphviz, which lays out the figure, is not installed.
    """
    _require_types(start, title, beside)
    path = None if output is None else check_path(output)
    batch_size = require_positive("batch_size", batch_size)
    maps = _read_maps(source)
    if maps:
        if sentences or weights or beside:
            raise ValueError("sentences, weights and beside go with a model, got an AttentionMap")
        return _explore_maps(maps, path, title, start)

    options = _choose_weights(source, path, weights, beside)
    name, spec, facts, live = _read_source(source, _choose_live(options, sentences))
    if sentences is not None and live is None:
        shown = f"{source!r:.60}"
        if isinstance(source, (str, os.PathLike)):
            shown = os.fspath(source)
        raise ValueError(
            f"sentences need a checkpoint or a kbert.Bert, with its tokenizer, got {shown}"
        )

    name = title or name
    facts = facts | {"start": start}
    packed = None
    if beside and live is not None and path is not None:
        live_data, packed = live
        live_data.update(_describe_file(path, packed))
    if spec is None:
        page = _explore_generic(name, facts)
    else:
        page = _explore_spec(spec, batch_size, name, facts, live)
    if path is not None:
        _write(path, page, packed.data if packed else None)
        page = replace(page, path=path)
    return page


def _require_types(start: object, title: object, beside: object) -> None:
    """Raise a ValueError for options of another type."""
    if not isinstance(start, str):
        raise ValueError(f"start must be a str, got {start!r:.60}")
    if not isinstance(title, str | None):
        raise ValueError(f"title must be a str, got {title!r:.60}")
    if not isinstance(beside, bool):
        raise ValueError(f"beside must be True or False, got {beside!r:.60}")


def _read_source(
    source: Any, make_live: "MakeLive"
) -> "tuple[str, GraphSpec | None, dict, LivePart | None]":
    """Return the name of a source, its graph, what its page says of its weights, its live part."""
    if isinstance(source, GraphSpec):
        return "a GraphSpec", source, {}, None
    if isinstance(source, BertConfig):
        return "a BertConfig", GraphSpec.of(source), {}, None
    is_path = isinstance(source, (str, os.PathLike))
    if is_path and not is_checkpoint(source):
        return os.fspath(source), create_spec(source), {}, None

    from kbert.show.explorer.weights import read_bert, read_checkpoint, read_model

    if is_path:
        return _name_checkpoint(Path(source)), *read_checkpoint(source, make_live)
    if hasattr(source, "tokenizer"):
        spec, facts, live = read_bert(source, make_live)
        return facts["name"], spec, facts, live
    spec, facts = read_model(source)
    return facts["name"], spec, facts, None


def _choose_weights(
    source: Any, path: Path | None, weights: str | None, beside: bool
) -> "WeightOptions | None":
    """Return what is asked for; None: no weights, of a configuration or in a notebook."""
    if beside and path is None:
        raise ValueError("beside=True needs output, the page that the weights lie beside")
    is_configuration = isinstance(source, (GraphSpec, BertConfig)) or (
        isinstance(source, (str, os.PathLike)) and not is_checkpoint(source)
    )
    if (weights or beside) and is_configuration:
        raise ValueError(f"weights need a checkpoint or a kbert.Bert, got {source!r:.60}")
    if is_configuration or (path is None and weights is None):
        return None
    from kbert.show.explorer.live import weight_options

    if beside and path is not None:
        check_new_file(weight_options.name_file(path), what="the path of the weights")
    return weight_options.WeightOptions(weights, beside)


def _name_checkpoint(path: Path) -> str:
    """Return the last name of a path; RUN/model, as a run names its folder, has the run's too."""
    if path.name != "model":
        return path.name
    last_names = path.absolute().parts[-2:]
    return "/".join(last_names)


def _describe_file(path: Path, packed: "PackedWeights | None") -> dict:
    """Return what a page must know of the weights beside it."""
    from kbert.show.explorer.live import weight_options

    if packed is None:
        return {}
    digest = weight_options.compute_digest(packed.data)
    return {
        "place": "beside",
        "file": weight_options.name_file(path).name,
        "digest": digest,
    }


def _write(path: Path, page: Explorer, weights: bytes | None) -> None:
    """Write a page, and the weights beside it if there are any.

    Both are complete before either takes its place, one right after the other.
    """
    if weights is None:
        write_atomically(path, page.html.encode())
        return
    from kbert.show.explorer.live import weight_options

    with atomic_file(path) as page_part, atomic_file(weight_options.name_file(path)) as script:
        page_part.write_bytes(page.html.encode())
        with script.open("wb") as file:
            file.writelines(weight_options.write_script(weights))


def explore_recorded(
    bert: "Bert",
    sentences: Sequence[str | Sequence[str]],
    path: Path,
    *,
    title: str,
    start: str = "",
    **data,
) -> Explorer:
    """Write the page of a loaded model with recordings of sentences, as its tasks read them.

    The sentences have no prompt, and are truncated to the positions of the model. `data` are
    further entries of DATA.live, `start` is as for `explore`.
    """
    from kbert.show.explorer.live import recording
    from kbert.show.explorer.weights import read_bert

    def make_live(model: "LiveModel") -> "LivePart":
        plain, most = read_plainly(model), recording.MOST_VIEW_BYTES
        return recording.record_model(plain, sentences, most, for_view=True) | data, None

    spec, facts, live = read_bert(bert, make_live)
    assert spec is not None
    page = _explore_spec(spec, 1, title, facts | {"start": start}, live)
    _write(path, page, None)
    return replace(page, path=path)


def read_plainly(model: "LiveModel") -> "LiveModel":
    """Return a model that reads texts as they are, not as its sentence embeddings need them."""
    if model.sentence is None:
        return model
    sentence = replace(model.sentence, max_length=None, lowercase=False, default_prompt_name=None)
    return replace(model, sentence=sentence)


def _read_maps(source: Any) -> "list[AttentionWeights]":
    """Return attention maps as a list; an empty list: the source is something else."""
    if isinstance(source, str | os.PathLike | BertConfig | GraphSpec):
        return []  # without NumPy, which a page of a configuration does not need
    from kbert.show.explorer.live.attention_weights import AttentionWeights

    items = source if isinstance(source, list) else [source]
    is_maps = all(isinstance(item, AttentionWeights) for item in items)
    return items if is_maps else []


def _explore_maps(
    maps: "list[AttentionWeights]", path: Path | None, title: str | None, start: str
) -> Explorer:
    """Make the page of attention maps: their model's figure, if it is known, and their weights."""
    from kbert.show.explorer.live import attention_weights
    from kbert.show.explorer.live.contents import LiveModel, describe_model

    attention_weights.check_maps(maps)
    known = maps[0].spec
    spec = known or GraphSpec(attention_weights.find_config(maps[0]), "encoder")
    live = describe_model(LiveModel(spec, None, {}))
    live |= attention_weights.record_maps(maps)
    live["isSized"] = known is not None
    facts = {"start": start}
    page = _explore_spec(spec, 1, title or "attention", facts, (live, None))
    tokens = f"{len(maps[0].tokens)} tokens" if len(maps) == 1 else f"{len(maps)} texts"
    page = replace(page, title=f"Attention of {tokens}", note="")
    if path is not None:
        _write(path, page, None)
        page = replace(page, path=path)
    return page


def explore_served(
    source: str | os.PathLike, sentences: Sequence[str | Sequence[str]]
) -> "tuple[Explorer, Tracer]":
    """Return a checkpoint's page that asks a server for traces, and what computes them.

    `kbert.show.explorer.live.serving` is the server; errors are as in `explore`.
    """
    from kbert.show.explorer.live import recording, tracing
    from kbert.show.explorer.weights import open_model, read_checkpoint

    model = open_model(source)
    examples = sentences or recording.SENTENCES
    for number, sentence in enumerate(sentences):
        tracing.check_sentence(model, recording.make_request(sentence, number))
    live = recording.describe_served(model, examples)
    spec, facts, _ = read_checkpoint(source)
    assert spec is not None
    name = _name_checkpoint(Path(source))
    page = _explore_spec(spec, 1, name, facts, (live, None))
    return page, tracing.Tracer(model)


def check_path(path: str | os.PathLike) -> Path:
    """Return the path if a page can be written there; else raise a ValueError or an OSError."""
    return check_new_file(path, ENDINGS, "a page's path")


def is_checkpoint(source: object) -> bool:
    """Return whether a source is a checkpoint's path or name: no preset's name, no JSON file."""
    if not isinstance(source, (str, os.PathLike)):
        return False
    text = os.fspath(source)
    if text in PRESETS or text.endswith(".json"):
        return False
    if Path(text).exists() or Path(f"{text}.index").is_file():
        return True
    name = ModelName.parse(text)
    if name is not None and is_preset(text):  # bert-base-uncased: its weights, if they are here
        return name.hub == "hf" and hugging_face.find_cached(name) is not None
    return name is not None


def create_spec(source: BertConfig | str | os.PathLike, **options) -> GraphSpec:
    """Create the spec as `GraphSpec.of` does; errors add that a checkpoint was possible too."""
    try:
        return GraphSpec.of(source, **options)
    except ValueError as error:
        if not str(error).startswith("unknown preset"):
            raise
        raise ValueError(f"{error} (and no checkpoint is at that path)") from None
    except FileNotFoundError as error:
        if str(source).endswith(".json"):
            raise
        raise FileNotFoundError(f"{error}, or a checkpoint") from None


def _explore_generic(name: str, facts: dict) -> Explorer:
    """Make the page of a model that is not a graph of kbert's."""
    title = f"{name}: not a graph of kbert's"
    data = facts | {"title": name}
    formulas = [row["params"] for row in data["graphs"]["all"]["before"]]
    return Explorer(title, write_page(title, data, ["", *formulas]))


def _explore_spec(
    spec: GraphSpec,
    batch_size: int,
    name: str,
    facts: dict,
    live: "LivePart | None",
) -> Explorer:
    kinds = graphs(spec)
    total = account(
        spec.config,
        spec.seq_len,
        head=spec.head,
        max_predictions=spec.max_predictions,
        num_labels=spec.num_labels,
    ).params
    family = spec.config.family.title
    title = f"{name}: {family} with head {spec.head}, {total:,} parameters"
    data = {
        "title": name,
        **counting_data(spec, batch_size),
        **notes_data(spec.config.model_type),
        "variables": list_variables(spec),
        "figure": figure_data(kinds),
        **facts,
    }
    weights = b""
    note = ""
    if live is not None:
        live_data, packed = live
        data["live"] = live_data
        if packed and live_data["place"] == "inside":
            weights = packed.data
        if live_data["place"] == "recorded":
            note = _NOTE

    formulas = list_formulas(kinds)
    page = write_page(title, data, formulas, weights)
    return Explorer(title, page, note=note)


def _choose_live(
    options: "WeightOptions | None", sentences: Sequence[str | Sequence[str]] | None
) -> "MakeLive":
    """Return what makes the live part of a page, by what a user asked for."""
    checked = None if sentences is None else _check_sentences(sentences)

    def make_live(model):
        from kbert.show.explorer.live.live_part import make_live_part

        return make_live_part(model, options, checked)

    return make_live


def _check_sentences(sentences: Any) -> list:
    """Return sentences as a list; raise a ValueError for one text, or for none."""
    is_text = isinstance(sentences, (str, bytes))
    if is_text or not isinstance(sentences, Sequence) or not sentences:
        raise ValueError(
            f"sentences must be a list of texts or pairs of texts, got {sentences!r:.60}"
        )
    return list(sentences)
