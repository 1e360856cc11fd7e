"""Weights that a page shows, a checkpoint's or a model's; models that kbert did not build."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from kbert.checkpoints import fitting, formats
from kbert.checkpoints.bert import Bert
from kbert.checkpoints.checkpoint import Checkpoint
from kbert.checkpoints.weight_names import Entry
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.graph.accounting import DTYPES
from kbert.graph.closed_form import Row, sources
from kbert.graph.spec import GraphSpec
from kbert.show.diagrams import kind_of
from kbert.show.explorer.drawing import Drawing, geometries
from kbert.show.explorer.live.contents import LiveModel, model_of_bert, put_outputs_first
from kbert.show.explorer.live.live_part import LivePart

MakeLive = Callable[[LiveModel], LivePart | None]
BINS = 32
MOST_LAYERS = 2000  # what Graphviz lays out within seconds, and a browser scrolls through
_AT_ONCE = 1 << 20  # numbers that fit the caches
_HEIGHT, _WIDEST = 46, 420  # points, of a box
_AS_IT_IS = (
    "This model is not a graph that kbert builds: its layers are drawn as they are, without "
    "formulas, costs or another configuration."
)


def read_checkpoint(
    source: str | os.PathLike, make_live: MakeLive | None = None
) -> tuple[GraphSpec | None, dict, LivePart | None]:
    """Return a checkpoint's graph, statistics of its tensors by "layer/variable", its live part.

    `make_live` makes the last of these of its model while its files are open; None: there is none.
    """
    with formats.open_checkpoint(source) as checkpoint:
        fit = fitting.fit(checkpoint, checkpoint.spec)
        fit.check(checkpoint.source)
        readers, missing = {}, []
        for entry in fit.entries:
            path = f"{entry.layer}/{entry.variable}"
            if entry.name in fit.tensors:
                readers[path] = fit.tensors[entry.name].read
            else:
                missing.append(path)
        class_name = f", {checkpoint.architecture}" if checkpoint.architecture else ""
        facts = {
            "origin": f"a checkpoint, format {checkpoint.format}{class_name}",
            "tensors": _describe_all(readers),
            "missing": [*missing, *fit.nameless],
        }
        live = None if make_live is None else make_live(_read_live_model(checkpoint, fit))
    return checkpoint.spec, facts, live


def open_model(source: str | os.PathLike) -> LiveModel:
    """Return a checkpoint's model with its weights in memory, for the server of its page."""
    with formats.open_checkpoint(source) as checkpoint:
        fit = fitting.fit(checkpoint, checkpoint.spec)
        fit.check(checkpoint.source)
        model = _read_live_model(checkpoint, fit)
        arrays = {name: read() for name, read in model.readers.items()}
    readers = {name: (lambda array=array: array) for name, array in arrays.items()}
    return dataclasses.replace(model, readers=readers)


def _read_live_model(checkpoint: Checkpoint, fit: fitting.Fit) -> LiveModel:
    tokenizer = None
    if checkpoint.vocabulary is not None:
        tokenizer = Tokenizer.load(checkpoint.vocabulary, **dict(checkpoint.rules))
        checkpoint = checkpoint.replace_pad_id(tokenizer.pad_id)

    def read(entry: Entry) -> np.ndarray:
        return put_outputs_first(fit.tensors[entry.name].read(), entry)

    readers = {}
    for entry in fit.entries:
        if entry.name in fit.tensors:
            readers[f"{entry.layer}/{entry.variable}"] = functools.partial(read, entry)
    return LiveModel(
        checkpoint.spec,
        tokenizer,
        readers,
        checkpoint.labels,
        checkpoint.sentence,
        checkpoint.problem_type,
    )


def read_bert(
    bert: Bert, make_live: MakeLive | None = None
) -> tuple[GraphSpec | None, dict, LivePart | None]:
    """Return what `read_checkpoint` does, of a loaded or built model."""
    live = None if make_live is None else make_live(model_of_bert(bert))
    return *read_model(bert), live


def read_model(model) -> tuple[GraphSpec | None, dict]:
    """Return the graph of a `Bert` or a model, None: not kbert's, and its variables' data."""
    spec: GraphSpec | None = getattr(model, "spec", None)
    model = model.model if isinstance(model, Bert) else model
    if not hasattr(model, "layers"):
        raise ValueError(
            "explore needs a preset's name, a path, a BertConfig, a GraphSpec, a Bert or a "
            f"functional keras.Model, got {type(model).__name__}"
        )
    facts = {"name": model.name, "origin": f"a built model, {model.name}", "missing": []}
    if spec is None:
        from kbert.model.summary import model_rows

        facts |= describe_layers(model_rows(model))
    import keras

    readers = {}
    for layer in model.layers:
        for weight in layer.weights:
            _, _, name = weight.path.rpartition(f"{layer.name}/")
            read = functools.partial(keras.ops.convert_to_numpy, weight)
            readers[f"{layer.name}/{name}"] = read
    if spec is None:
        facts["variables"] = list_own_variables(readers)
    return spec, facts | {"tensors": _describe_all(readers)}


def describe_layers(layers: Sequence[Row]) -> dict:
    """Return the page's data of a model that kbert did not build: rows, and one figure of them.

    It is a graph without blocks. A layer's number of parameters is its formula; the other formulas
    are empty.
    """
    if len(layers) > MOST_LAYERS:
        raise ValueError(
            f"explore draws models of at most {MOST_LAYERS:,} layers, got {len(layers):,}"
        )
    edges = []
    for row in layers:
        for source, tensor in sources(row):
            edges.append((source, row.layer, tensor))
    nodes = {row.layer: (_width(row), _HEIGHT) for row in layers}
    described = [
        {
            "name": row.layer,
            "type": row.type,
            "output_shape": row.output_shape,
            "connected_to": row.connected_to,
            "group": "",
            "params": str(row.params),
            "flops": "",
            "kept": "",
            "kind": kind_of(row.layer, row.type),
        }
        for row in layers
    ]
    drawing = Drawing(nodes, edges, {}, curved=True)
    figure = geometries({"all/closed": drawing})
    graph = {"before": described, "block": [], "after": []}

    return {
        "generic": True,
        "graphs": {"all": graph},
        "figure": figure,
        "values": {"L": 0, "B": 1, "dtype": "float32"},
        "dtypes": DTYPES,
        "notes": {"model": {"does": _AS_IT_IS}},
        **{name: {} for name in ("letters", "presets", "document")},
        **{name: [] for name in ("parts", "variables", "errata")},
        "conventions": ["The variables of every layer, trained or not."],
    }


def list_own_variables(paths: Iterable[str]) -> list[dict]:
    """Return the variables, "layer/variable" each, of a model that kbert did not build."""
    variables = []
    for path in paths:
        layer, _, name = path.partition("/")
        variable = {
            "layer": layer,
            "variable": name,
            "names": {},
            "shapes": {},
        }
        variables.append(variable)
    return variables


def _width(row: Row) -> float:
    """Return the width of a box in points: of its letters, and 36 beside them."""
    facts = len(f"{row.type} {row.output_shape}")
    name = len(row.layer) + len(f"{row.params:,}") + 2
    return min(_WIDEST, max(name * 6.8, facts * 6) + 36)


def _describe_all(readers: Mapping[str, Callable[[], np.ndarray]]) -> dict[str, dict]:
    """Return the statistics of each tensor by name; two tensors are read at a time."""
    with ThreadPoolExecutor(2) as threads:
        results = threads.map(lambda read: describe_tensor(read()), readers.values())
        return dict(zip(readers, results, strict=True))


def describe_tensor(array: np.ndarray) -> dict:
    """Return statistics of the finite numbers of a tensor, computed in float64.

    `histogram` has `BINS` counts of equally wide bins from `min` to `max`, both included;
    `notFinite` is how many numbers are NaN or infinite.
    """
    flat = np.asarray(array).reshape(-1)
    chunks = []
    for start in range(0, flat.size, _AT_ONCE):
        chunk = _finite(flat[start : start + _AT_ONCE])
        if chunk.size:
            chunks.append(chunk)

    count = sum(chunk.size for chunk in chunks)
    statistics: dict[str, Any] = {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "notFinite": int(flat.size - count),
    }
    if not count:
        return statistics

    totals = [float(chunk.sum(dtype="float64")) for chunk in chunks]
    mean = sum(totals) / count
    low = float(min(chunk.min() for chunk in chunks))
    high = float(max(chunk.max() for chunk in chunks))
    ends = low, high if high > low else low + 1
    histogram = np.zeros(BINS, "int64")
    for chunk in chunks:
        histogram += np.histogram(chunk.astype("float64"), BINS, ends)[0]
    return statistics | {
        "mean": mean,
        "std": (_squares(chunks, mean) / count) ** 0.5,
        "norm": _squares(chunks, 0.0) ** 0.5,
        "min": low,
        "max": high,
        "histogram": histogram.tolist(),
    }


def _squares(chunks: list[np.ndarray], middle: float) -> float:
    """Return the sum of the squares of the distances from a number."""
    total = 0.0
    for chunk in chunks:
        distances = np.subtract(chunk, middle, dtype="float64")
        total += float(np.vdot(distances, distances))
    return total


def _finite(chunk: np.ndarray) -> np.ndarray:
    """Return the finite numbers, as float32 where NumPy knows little of the dtype (bfloat16)."""
    if chunk.dtype not in (np.float32, np.float64):
        chunk = chunk.astype("float32")
    finite = np.isfinite(chunk)
    return chunk if finite.all() else chunk[finite]
