"""Results of a run's adapters: a model with the adapters merged, and the adapters alone."""

import dataclasses

import keras

from kbert.checkpoints import transfer, weight_names
from kbert.checkpoints.adapters.adapter import LoraAdapter, Pair
from kbert.checkpoints.bert import Bert, adapted
from kbert.graph.accounting import account
from kbert.graph.layer_table import layers as graph_layers
from kbert.graph.trained_parts import TrainedParts, part_of
from kbert.model.lora import adapters_of
from kbert.model.lora import is_adapter


def with_adapters(bert: Bert, engine, base_path: str | None) -> Bert:
    """Return a model with the base's weights and the trained head, and the adapters added to them.

    Args:
        bert: the result, whose matrices are still the base's.
        engine: trained the adapters.
        base_path: where the base lies, for those who open the adapter.
    """
    adapters, pairs = adapters_of(engine.model), {}
    for one in adapters:
        a, b = (keras.ops.convert_to_numpy(half.value) for half in (one.a, one.b))
        pairs[one.matrix.block, one.matrix.name] = Pair(a.copy(), b.copy(), one.scale)
    # the head's weights, and others that were trained whole, by transformers' names
    paths = [weight.path for weight in engine.state.variables.weights]
    whole = {path.split("/")[0] for path in paths if not is_adapter(path)}
    whole |= {layer.name for layer in graph_layers(bert.spec) if part_of(layer.group) == "head"}
    column = weight_names.column_of(bert.config)
    entries = weight_names.entries_of(bert.spec, column)
    adapter = LoraAdapter(
        pairs,
        transfer.arrays_of(bert.model, [entry for entry in entries if entry.layer in whole]),
        column=column,
        head=bert.head,
        labels=bert.labels,
        problem_type=bert.problem_type,
        split_punctuation=bert.split_punctuation,
        base_path=base_path,
        dropout=adapters[0].dropout.rate,
    )
    return adapted(bert, adapter, "the adapter", "the model")


def amount_trained(parts: TrainedParts) -> str:
    """Return how much of the graph is trained, in words."""
    spec = parts.spec
    counted = account(spec.config, 1, head=spec.head, num_labels=spec.num_labels)
    counted = dataclasses.replace(counted, trained=parts)
    adapters = f", {parts.adapter_params:,} of them in adapters" if parts.adapted else ""
    share = counted.trainable_params / counted.params
    return f"{counted.trainable_params:,} of {counted.params:,} parameters ({share:.2%}){adapters}"
