"""Reading of a BERT's configuration from the config.json of a .keras, without Keras.

Every layer's class, connections and settings are compared with what kbert builds for that
configuration, so another graph is never taken for a BERT.
"""

from collections.abc import Mapping

from kbert.graph import closed_form, names
from kbert.graph.config import ACTIVATIONS, BertConfig
from kbert.graph.spec import GraphSpec
from kbert.heads import find_head
from kbert.heads.head import Head
from kbert.io import json_schema as js


def _is_history(value) -> bool:
    if not js.LIST.fits(value):
        return False
    types = [type(item) for item in value]
    return types == [str, int, int]


def _is_batch_shape(value) -> bool:
    if not js.LIST.fits(value) or len(value) != 2:
        return False
    return _LENGTH.fits(value[1])


_SHOWN = 3  # differences in one error
_MODEL_CONFIG = js.fields({"layers": js.list_of(js.OBJECT)})
_MODEL = js.fields({"config": _MODEL_CONFIG})
_LAYER = js.fields(
    {
        "class_name": js.TEXT,
        "config": js.OBJECT,
        "inbound_nodes": js.list_of(js.fields({"args": js.LIST})),
    },
    {"name": js.TEXT},
)
_LAYERS_CONFIG = js.fields({"layers": js.list_of(_LAYER)})
_LAYERS = js.fields({"config": _LAYERS_CONFIG})
_HISTORY = js.Kind("a layer's name and two numbers", _is_history)
_TENSOR_CONFIG = js.fields({"keras_history": _HISTORY})
_TENSOR = js.fields({"config": _TENSOR_CONFIG})
_POLICY_CONFIG = js.fields({"name": js.TEXT})
_POLICY = js.fields({"config": _POLICY_CONFIG})
_INITIALIZER_CONFIG = js.fields({"stddev": js.ANYTHING})
_INITIALIZER = js.fields({"config": _INITIALIZER_CONFIG})
_LENGTH = js.or_null(js.whole(1))
_SHAPE = js.Kind("a batch of a number of positions or of any", _is_batch_shape)
_ATTENTION = names.encoder(1, names.ATTENTION)
_FEED_FORWARD = names.encoder(1, names.FEED_FORWARD)
SETTINGS = {  # where a configuration's values are: the layer, and its setting
    "vocab_size": (names.TOKEN_EMBEDDING, "input_dim"),
    "hidden_size": (names.TOKEN_EMBEDDING, "output_dim"),
    "pad_token_id": (names.TOKEN_EMBEDDING, "pad_token_id"),
    "type_vocab_size": (names.SEGMENT_EMBEDDING, "input_dim"),
    "max_position_embeddings": (names.POSITION_EMBEDDING, "input_dim"),
    "hidden_dropout_prob": (names.EMBEDDING_DROPOUT, "rate"),
    "layer_norm_eps": (names.EMBEDDING_NORM, "epsilon"),
    "num_attention_heads": (_ATTENTION, "num_heads"),
    "attention_probs_dropout_prob": (_ATTENTION, "dropout"),
    "intermediate_size": (_FEED_FORWARD, "units"),
    "hidden_act": (_FEED_FORWARD, "hidden_act"),
    "qa_dropout": (names.SPAN_DROPOUT, "rate"),
}


def read_graph(values: dict, source: str, config: BertConfig | None = None) -> GraphSpec:
    """Return the graph of a config.json, which errors call `source`.

    `config` is the configuration, where it is known; None: as the layers tell. A graph that kbert
    does not build raises a ValueError: what it is, or which layers differ.
    """
    layers = _read_layers(values, source)
    settings = {name: layer["config"] for name, layer in layers.items()}
    length = _read_length(names.TOKEN_IDS, settings, source)
    predictions = _read_length(names.MASKED_POSITIONS, settings, source)
    head = find_head(layers, values["config"].get("name"))
    try:
        spec = GraphSpec(
            config or read_config(settings),
            head.name,
            seq_len=length,
            max_predictions=predictions,
            num_labels=_read_num_labels(head, settings),
            selected_positions=any(name.endswith(f"-{names.QUERIES}") for name in layers),
            packed=names.PACKED_TEXTS in layers,
            dtype=_read_dtype(layers),
        )
    except ValueError as error:
        raise ValueError(f"{source}: config.json: {error}") from None

    differences = _compare(layers, spec)
    if differences:
        more = f" (and {len(differences) - _SHOWN} more)" if len(differences) > _SHOWN else ""
        raise ValueError(
            f"{source} must hold a graph that kbert builds with head {spec.head}, got another: "
            f"{'; '.join(differences[:_SHOWN])}{more}"
        )
    return spec


def _read_length(name: str, settings: Mapping[str, Mapping], source: str) -> int | None:
    """Return the number of positions of an input; None: any, or there is no such input."""
    settings_of_input = settings.get(name, {})
    shape = settings_of_input.get("batch_shape", [None, None])
    return js.check(shape, _SHAPE, f"{source}: {name}")[1]


def _read_num_labels(head: Head, settings: Mapping[str, Mapping]):
    if not head.has_labels:
        return 2
    head_settings = [settings[name] for name in head.layers if name in settings]
    units = [setting.get("units") for setting in head_settings]
    return units[-1] if units else 2


def _read_dtype(layers: Mapping[str, dict]) -> str | None:
    """Return the dtype policy that all layers have; None: they differ, or have no plain one."""
    dtypes = set()
    for layer in layers.values():
        if layer["class_name"] != "InputLayer":
            policy = layer["config"].get("dtype")
            is_policy = js.matches(policy, _POLICY)
            dtypes.add(policy["config"]["name"] if is_policy else None)
    return dtypes.pop() if len(dtypes) == 1 else None


def read_config(settings: Mapping[str, Mapping]) -> BertConfig:
    """Return the configuration of a model from its layers' settings, by the layers' names.

    Values that no layer has are BERT base's.
    """
    values = {
        key: settings[layer][name]
        for key, (layer, name) in SETTINGS.items()
        if name in settings.get(layer, {})
    }
    blocks = sum(name.endswith(f"-{names.ATTENTION}") for name in settings)
    values["num_hidden_layers"] = blocks or 1

    positions = settings.get(names.POSITION_EMBEDDING, {})
    if names.SEGMENT_EMBEDDING not in settings and positions:
        values |= {"model_type": "distilbert", "type_vocab_size": 1}
    elif positions.get("first"):
        values["model_type"] = "roberta"

    for name in settings:
        if _has_classifier_rate(name):
            rate = settings[name].get("rate")
            if rate not in (None, values.get("hidden_dropout_prob")):
                values["classifier_dropout"] = rate

    initializer = settings[names.TOKEN_EMBEDDING].get("embeddings_initializer", {})
    if js.matches(initializer, _INITIALIZER):
        values["initializer_range"] = initializer["config"]["stddev"]
    return BertConfig(**values)


def _read_layers(values: dict, source: str) -> dict[str, dict]:
    """Return the layers by name; a ValueError that says what the model is, if it is no BERT."""
    kind = values.get("class_name")
    if not js.matches(values, _MODEL):
        raise ValueError(f"{source} must hold a graph that kbert builds, got a {kind}")
    layers = values["config"]["layers"]
    by_name = {}
    for layer in layers:
        has_config = js.OBJECT.fits(layer.get("config"))
        config = layer["config"] if has_config else {}
        name = layer.get("name", config.get("name"))
        by_name[str(name)] = layer
    if names.TOKEN_EMBEDDING not in by_name:
        raise ValueError(
            f"{source} must hold a graph that kbert builds, got a {kind} {_describe(by_name)}"
        )
    js.check(values, _LAYERS, f"{source}: config.json")
    return by_name


def _describe(layers: dict[str, dict]) -> str:
    """Say which layers a model has that is no BERT, or which of them is one."""
    for name, layer in layers.items():
        if layer.get("class_name") == "BertModel":
            return f"around one: save that one, model.get_layer({name!r}).save(…)"
    text = ", ".join(f"{name} ({layer.get('class_name')})" for name, layer in layers.items())
    return f"with the layers {text[:200]}{' …' if len(text) > 200 else ''}"


def _compare(layers: dict[str, dict], spec: GraphSpec) -> list[str]:
    """Return every layer that is missing, added, connected or set otherwise than kbert's."""
    expected = {row.layer: row for row in closed_form.rows(spec)}
    differences = [f"no {name}" for name in expected if name not in layers]
    for name, layer in layers.items():
        if name not in expected:
            differences.append(f"{name} ({layer['class_name']}) added")
            continue

        row = expected[name]
        connected = _list_connections(layer)
        if layer["class_name"] != row.type:
            differences.append(f"{name} is a {layer['class_name']}, not a {row.type}")
        elif connected != row.connected_to:
            differences.append(f"{name} is connected to {connected}, not to {row.connected_to}")
        else:
            differences += _list_changed_settings(name, layer, spec)
    return differences


def _list_connections(layer: dict) -> str:
    """Return the inputs as a summary writes them: name[node][tensor], joined by ", "."""
    tensors = []
    for node in layer["inbound_nodes"]:
        for argument in node["args"]:
            tensors += argument if isinstance(argument, list) else [argument]
    return ", ".join(_name_tensor(tensor) for tensor in tensors)


def _name_tensor(tensor) -> str:
    if not js.matches(tensor, _TENSOR):
        return f"{js.short_repr(tensor)}, which is no layer's output"
    return "{}[{}][{}]".format(*tensor["config"]["keras_history"])


def _list_changed_settings(name: str, layer: dict, spec: GraphSpec) -> list[str]:
    settings = layer["config"]
    if layer["class_name"] == "LayerNormalization" and settings.get("axis") == [2]:
        settings = settings | {"axis": [-1]}  # the same of (B, S, H): what Keras 3.16 saves
    if layer["class_name"] in ("PositionEmbedding", "Gather"):
        settings = {"first": 0} | settings  # which is left out

    dtype = settings.get("dtype")
    kind = dtype.get("class_name") if isinstance(dtype, dict) else "DTypePolicy"
    if kind != "DTypePolicy":
        return [f"{name} has the dtype policy {kind}, not a plain one"]

    changes = []
    for key, value in _expected_settings(name, layer["class_name"], spec).items():
        if key in settings and _plain(settings[key]) != value:
            changes.append(f"{name} has {key} {_plain(settings[key])!r}, not {value!r}")
    return changes


def _expected_settings(name: str, kind: str, spec: GraphSpec) -> dict:
    """Return the settings that decide a layer's output, apart from its weights, by its class."""
    config = spec.config
    attention = {
        "num_heads": config.num_attention_heads,
        "key_dim": config.head_size,
        "value_dim": config.head_size,
        "dropout": config.attention_probs_dropout_prob,
        "use_bias": True,
        "use_gate": False,
        "sliding_window": None,
        "attention_axes": [1],
    }
    norm = {
        "epsilon": config.layer_norm_eps,
        "axis": [-1],
        "center": True,
        "scale": True,
        "rms_scaling": False,
    }
    slice_range: dict[str, int | None] = {"start": 0, "stop": 1}  # the first token
    if name == names.MLM_SLICE:
        slice_range = {"start": 1, "stop": None}
    is_of_answers = "Span" in name  # its two outputs are on the last axis
    by_class: dict[str, dict] = {
        "TokenEmbedding": {"pad_token_id": config.pad_token_id, "mask_zero": False},
        "PositionEmbedding": {"first": config.first_position},
        "Dropout": {"rate": _dropout_rate(name, spec), "noise_shape": None},
        "MultiHeadAttention": attention,
        "FeedForward": {"units": config.intermediate_size, "hidden_act": config.hidden_act},
        "LayerNormalization": norm,
        "Dense": {"activation": _dense_activation(name, spec), "use_bias": True},
        "Gather": {"first": spec.selected_positions and spec.has_pooler},  # the pooler's token
        "Slice": slice_range,
        "Extract": {"index": int(name == names.SPAN_END), "axis": -1 if is_of_answers else 1},
    }
    return by_class.get(kind, {})


def _dropout_rate(name: str, spec: GraphSpec) -> float:
    if name == names.SPAN_DROPOUT:
        return spec.answer_rate
    return spec.classifier_rate if _has_classifier_rate(name) else spec.config.hidden_dropout_prob


def _dense_activation(name: str, spec: GraphSpec) -> str:
    family = spec.config.family
    if name == names.MLM_DENSE:
        return ACTIVATIONS[family.mlm_activation or spec.config.hidden_act]
    if name == names.POOLER:
        is_of_classifier = "first_token" in spec.variant.parts
        return family.pooled_activation if is_of_classifier else "tanh"
    return "linear"


def _has_classifier_rate(name: str) -> bool:
    """Return whether a dropout of that name is a head's, but for the one of `qa_dropout`."""
    return not name.startswith(("Embedding-", "Encoder-", names.SPAN_DROPOUT))


def _plain(value):
    """Return a setting as JSON has it; of a function of kbert's, its name."""
    if isinstance(value, dict) and value.get("class_name") == "function":
        return str(value.get("config")).removeprefix("kbert>")
    return value
