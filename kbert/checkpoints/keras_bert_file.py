"""keras_bert's .h5: a whole model (`model.save`) or its weights (`model.save_weights`).

keras_bert 0.89 and its layers, as the .h5 files of Keras 2 and tf-keras hold them: one group a
layer, one dataset a weight. kbert's layers have keras_bert's names.
"""

import contextlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path

from kbert.checkpoints import fitting, hdf5, weight_names
from kbert.checkpoints.checkpoint import Checkpoint, Tensor
from kbert.graph import names
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec
from kbert.io import json_schema as js
from kbert.io.bounds import damage_in_one_line

_logger = logging.getLogger("kbert")

_MODEL = js.fields({"config": js.either(js.LIST, js.OBJECT)})
_LAYER = js.fields({"config": js.fields(optional={"name": js.TEXT, "layers": js.LIST})})
_BLOCK = re.compile(rf"Encoder-(\d+)-{names.FEED_FORWARD}$")
_ATTENTION = re.compile(rf"Encoder-\d+-{names.ATTENTION}$")
# keras_bert calls the tanh form gelu (keras_transformer/gelu.py).
_ACTIVATIONS = {"gelu": "gelu_new", "leaky_relu": "Keras's leaky_relu"}
# What get_model can add, and kbert's graph has no place for.
_OTHER_LAYERS = {
    "Embedding-Task": "task embeddings (use_task_embed=True)",
    "-Adapter": "adapters (use_adapter=True)",
}


def is_checkpoint(path: Path) -> bool:
    """Return whether it is a .h5 or .hdf5 file of no other format; opening it checks the rest."""
    is_of_transformers = path.name.startswith("tf_model")
    return hdf5.recognize_model(path) == "keras_bert" and not is_of_transformers


@contextlib.contextmanager
def open_checkpoint(path: Path, config: BertConfig | None = None) -> Iterator[Checkpoint]:
    """Open the file's checkpoint.

    A whole model says its sizes, heads, rates, epsilon (1e-14) and activation; keras_bert's "gelu"
    is the tanh form, kbert's "gelu_new". It has no vocabulary. Layers that a user put on top of
    keras_bert's are tensors beside the table, called layer/weight.
    """
    if path.is_dir():
        raise ValueError(f"{path} must be keras_bert's .h5 file, got a folder")
    with hdf5.open_file(path) as file:
        with damage_in_one_line(path, "HDF5"):
            weights = file.get("model_weights", file)
        tensors = _tensors(path, weights)
        layers = _read_layers(path, file)
        _check_is_keras_bert(path, file, weights, tensors, layers)

        if config is None:
            if layers is None:
                raise _make_error_of_sizes(path, tensors)
            config = _config(path, layers)
        with damage_in_one_line(path, "HDF5"):
            of_training = list(file.get("optimizer_weights", ()))
        yield Checkpoint(
            "keras_bert",
            GraphSpec(config, weight_names.find_head(tensors, "keras_bert")),
            tensors,
            left_out=tuple(f"optimizer_weights/{name}" for name in of_training),
        )


def _make_error_of_sizes(path: Path, tensors: dict[str, Tensor]) -> ValueError:
    """Return the error for weights alone, which do not say all of the configuration."""
    sizes = fitting.read_sizes(tensors, "keras_bert").items()
    arguments = ", ".join(f"{key}={size}" for key, size in sizes)
    return ValueError(
        f"{path} holds weights alone, without num_attention_heads and hidden_act "
        f"(keras_bert's gelu is gelu_new): give config=BertConfig({arguments}, …), or "
        "kbert convert --config a JSON file with them"
    )


def _read_layers(path: Path, file) -> dict[str, dict] | None:
    """Return the layers by name, also those within models; None for weights alone."""
    text = hdf5.read_text(path, file, "model_config")
    if not text:
        return None
    source = f"{path}: model_config"
    model = js.parse(text, _MODEL, source)
    return dict(_flat(model, source))


def _tensors(path: Path, weights) -> dict[str, Tensor]:
    """Return every dataset as layer/weight, such as Embedding-Norm/gamma.

    A model within a model keeps its layers one level down. TensorFlow 1 numbered the variables of
    a session's second model, Embedding-Norm_1/gamma: the group has the layer's name.
    """
    tensors = {}
    for path_in_file, tensor in hdf5.list_tensors(path, weights).items():
        group, *inner, weight = path_in_file.split("/")
        is_in_the_table = group.startswith(("Embedding-", "Encoder-", "MLM", "NSP"))
        layer = group if is_in_the_table or not inner else inner[-1]
        tensors[f"{layer}/{weight.removesuffix(':0')}"] = tensor
    return tensors


def _flat(model: dict, source: str) -> Iterator[tuple[str, dict]]:
    """Yield the layers of a model and of models within; a Keras 2 Sequential is a bare list."""
    config = js.check(model, _MODEL, source)["config"]
    layers = config if isinstance(config, list) else config.get("layers", [])
    list_of_layers = js.list_of(_LAYER, "a list of layers")
    js.check(layers, list_of_layers, source, "config.layers")
    for layer in layers:
        if "layers" in layer["config"]:
            yield from _flat(layer, source)
        else:
            named = js.fields({"name": js.TEXT})
            js.check(layer, js.fields({"config": named}), source, "layer")
            yield layer["config"]["name"], layer["config"]


def _check_is_keras_bert(path: Path, file, weights, tensors, layers) -> None:
    with damage_in_one_line(path, "HDF5"):
        attributes = set(weights.attrs)
    if "layer_names" not in attributes and "layer_names0" not in attributes:
        what = "a .weights.h5 of Keras 3 or KerasHub" if "layers" in file else "another HDF5 file"
        raise ValueError(f"{path} must be keras_bert's .h5, got {what}")

    if f"{names.TOKEN_EMBEDDING}/embeddings" not in tensors:
        few = ", ".join(list(weights)[:3])
        if len(weights) > 3:
            few += " …"
        raise ValueError(
            f"{path} must be keras_bert's .h5, with a layer {names.TOKEN_EMBEDDING}, got a Keras "
            f"model with {few or 'no weights'}"
        )
    for part, what in _OTHER_LAYERS.items():
        if any(name.split("/")[0].endswith(part) for name in tensors):
            raise ValueError(f"{path} must be a BERT that kbert builds, got one with {what}")

    for name, layer in (layers or {}).items():
        if _ATTENTION.match(name):
            _check_attention(path, name, layer)
    if "Encoder-Output" in (layers or ()):
        _logger.warning(
            "%s: its output joins several blocks. The model built gives only the last one: use "
            "build_hidden_states for the others",
            path,
        )


def _check_attention(path: Path, name: str, layer: dict) -> None:
    """Raise a ValueError for a layer of another package, or one that is not BERT's attention."""
    if "head_num" not in layer:
        raise ValueError(f"{path}: {name} must be keras_bert's, got one of another package")
    activation = layer.get("activation")
    if layer.get("history_only"):
        raise ValueError(f"{path}: {name} must be BERT's attention, got history_only")
    if activation not in (None, "linear"):
        what = f"the activation {js.short_repr(activation)}"
        raise ValueError(f"{path}: {name} must be BERT's attention, got {what}")


def _config(path: Path, layers: dict[str, dict]) -> BertConfig:
    """Return the configuration that keras_bert's get_model was called with."""

    def setting(name: str, key: str):
        settings = js.fields({key: js.ANYTHING})
        wanted = js.fields({name: settings})
        checked = js.check(layers, wanted, f"{path}: model_config")
        return checked[name][key]

    matches = [_BLOCK.match(name) for name in layers]
    blocks = [int(match[1]) for match in matches if match]
    first = names.encoder(1, names.FEED_FORWARD)
    activation = setting(first, "activation")
    activation = _ACTIVATIONS.get(str(activation), activation)

    try:
        return BertConfig(
            vocab_size=setting(names.TOKEN_EMBEDDING, "input_dim"),
            hidden_size=setting(names.TOKEN_EMBEDDING, "output_dim"),
            num_hidden_layers=max(blocks),
            num_attention_heads=setting(names.encoder(1, names.ATTENTION), "head_num"),
            intermediate_size=setting(first, "units"),
            hidden_act=activation,
            hidden_dropout_prob=layers.get(names.EMBEDDING_DROPOUT, {}).get("rate", 0.0),
            attention_probs_dropout_prob=0.0,  # keras_bert has none there
            max_position_embeddings=setting(names.POSITION_EMBEDDING, "input_dim"),
            type_vocab_size=setting(names.SEGMENT_EMBEDDING, "input_dim"),
            layer_norm_eps=setting(names.EMBEDDING_NORM, "epsilon"),
        )
    except ValueError as error:
        has_path = str(error).startswith(str(path))
        raise ValueError(str(error) if has_path else f"{path}: model_config: {error}") from None
