"""Weights that a page shows: a checkpoint's tensors or a model's variables."""

import os

from kbert.checkpoints import fitting, formats
from kbert.checkpoints.bert import Bert
from kbert.checkpoints.checkpoint import Checkpoint
from kbert.graph.spec import GraphSpec
from kbert.show.explorer.generic import generic_data
from kbert.show.explorer.tensors import tensor_data


def of_checkpoint(source: str | os.PathLike) -> tuple[GraphSpec, dict]:
    """Return the graph of a checkpoint, and of its tensors, by "layer/variable", what is in them.

    Raises:
        FileNotFoundError, ValueError: as `kbert.load`.
    """
    with formats.open_checkpoint(source) as checkpoint:
        fit = fitting.fit(checkpoint, checkpoint.spec)
        if fit.problems:
            raise ValueError(
                f"{checkpoint.source} does not fit the model of its configuration: "
                + fitting.summarize(fit.problems)
            )
        present = [entry for entry in fit.entries if entry.name in fit.tensors]
        places = {entry.name: f"{entry.layer}/{entry.variable}" for entry in fit.entries}
        arrays = {places[entry.name]: fit.tensors[entry.name].read for entry in present}
        missing = [place for name, place in places.items() if name not in fit.tensors]
        facts = {
            "origin": _origin(checkpoint),
            "tensors": tensor_data(arrays),
            "missing": [*missing, *fit.nameless],
        }
    return checkpoint.spec, facts


def of_model(model) -> tuple[GraphSpec | None, dict]:
    """Return the graph of a `Bert` or a model, None if it is not kbert's, and its variables' data.

    Raises:
        ValueError: no functional `keras.Model`, or one of too many layers to draw.
    """
    spec: GraphSpec | None = getattr(model, "spec", None)
    model = model.model if isinstance(model, Bert) else model
    if not hasattr(model, "layers"):
        raise ValueError(
            "explore needs a preset's name, a path, a BertConfig, a GraphSpec, a Bert or a "
            f"functional keras.Model, got {type(model).__name__}"
        )
    facts = {"name": model.name, "origin": f"a built model, {model.name}"}
    if spec is None:
        from kbert.model.summary import model_rows

        facts |= {"generic": generic_data(model_rows(model))}
    return spec, facts | {"tensors": tensor_data(_arrays(model)), "missing": []}


def _origin(checkpoint: Checkpoint) -> str:
    architecture = f", {checkpoint.architecture}" if checkpoint.architecture else ""
    return f"a checkpoint, format {checkpoint.format}{architecture}"


def _arrays(model) -> dict:
    import keras

    return {
        f"{layer.name}/{_path(layer.name, weight)}": (
            lambda weight=weight: keras.ops.convert_to_numpy(weight)
        )
        for layer in model.layers
        for weight in layer.weights
    }


def _path(layer: str, weight) -> str:
    return weight.path.rpartition(f"{layer}/")[2]
