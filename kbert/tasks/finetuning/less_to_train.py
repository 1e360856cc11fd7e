"""What of a model a fine-tuning trains, and what comes of its adapters."""

import dataclasses

from kbert.checkpoints import transfer, weight_names
from kbert.checkpoints.adapters.adapter import LoraAdapter, Pair
from kbert.checkpoints.bert import Bert, adapted
from kbert.graph.layer_table import layers as graph_layers
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import TrainedParts, part_of, trained_parts
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.training.trained_weights import TrainedWeights, weights_of


def parts_of(settings: FinetuningSettings, spec: GraphSpec, source: Bert) -> TrainedParts:
    """What of a graph is trained; what the source lacks begins anew, and is trained with LoRA too.

    Raises:
        ValueError: see `kbert.graph.trained_parts.trained_parts`.
    """
    there = {layer.name for layer in source.model.layers}
    new = {layer.name for layer in graph_layers(spec)} - there
    lora = (settings.lora, settings.lora_on, settings.lora_alpha)
    return trained_parts(spec, settings.freeze, *lora, also=new)


def trained_weights(
    model, parts: TrainedParts, settings: FinetuningSettings
) -> TrainedWeights | None:
    """A model's variables that are trained; None: all, at one rate."""
    rate = settings.head_learning_rate
    if not parts.frozen and settings.layer_decay is None and rate is None:
        return None
    share = 1.0 if rate is None else rate / settings.learning_rate
    return weights_of(model, parts, settings.seed, settings.layer_decay, share)


def with_adapters(bert: Bert, trained: TrainedWeights, base_path: str | None) -> Bert:
    """A model with the base's weights and the trained head, and the adapters added to them.

    Args:
        bert: the result, whose matrices are still the base's.
        trained: the engine's.
        base_path: where the base lies, for those who open the adapter.
    """
    import keras

    pairs = {}
    for one in trained.adapters:
        a, b = (keras.ops.convert_to_numpy(half.value) for half in (one.a, one.b))
        pairs[one.matrix.block, one.matrix.name] = Pair(a.copy(), b.copy(), one.scale)
    adapter = LoraAdapter(
        pairs,
        _saved(bert, trained),
        column=weight_names.column_of(bert.config),
        head=bert.head,
        labels=bert.labels,
        problem_type=bert.problem_type,
        base_path=base_path,
    )
    return adapted(bert, adapter, "the adapter", "the model")


def amount_trained(parts: TrainedParts) -> str:
    """How much of the graph is trained, in words."""
    from kbert.graph.accounting import account

    spec = parts.spec
    counted = account(spec.config, 1, head=spec.head, num_labels=spec.num_labels)
    counted = dataclasses.replace(counted, trained=parts)
    adapters = f", {parts.adapter_params:,} of them in adapters" if parts.adapted else ""
    share = counted.trainable_params / counted.params
    return f"{counted.trainable_params:,} of {counted.params:,} parameters ({share:.2%}){adapters}"


def _saved(bert: Bert, trained: TrainedWeights) -> dict:
    """The head's weights, and others that were trained whole, by transformers' names."""
    whole = {variable.path.split("/")[0] for variable in trained.variables}
    heads = {layer.name for layer in graph_layers(bert.spec) if part_of(layer.group) == "head"}
    column = weight_names.column_of(bert.config)
    entries = [
        entry
        for entry in weight_names.entries_of(bert.spec, column)
        if entry.layer in whole | heads
    ]
    return transfer.arrays_of(bert.model, entries)
