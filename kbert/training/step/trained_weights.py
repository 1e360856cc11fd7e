"""What a run trains: all of a model's variables or some, at their own rates, and adapters."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import keras

from kbert.checkpoints import transfer, weight_names
from kbert.checkpoints.adapters.adapter import LoraAdapter, Pair
from kbert.checkpoints.bert import Bert, merge_adapter
from kbert.graph.closed_form import layers as graph_layers
from kbert.graph.trained_parts import TrainedParts, learning_rate_factors, part_of
from kbert.model.lora import adapters_of, add_adapters, is_adapter


@dataclass(frozen=True)
class TrainedWeights:
    """The weights that an engine trains."""

    variables: list = field(default_factory=list)  # with gradients and moments
    rates: list[float] = field(default_factory=list)  # the factor of each one's learning rate
    frozen: list = field(default_factory=list)  # the model's other weights

    def add_new_weights(self, model) -> "TrainedWeights":
        """Add a model's other unfrozen variables, at the whole rate."""
        known_variables = (*self.variables, *self.frozen)
        known = {id(variable) for variable in known_variables}
        new = [variable for variable in model.trainable_variables if id(variable) not in known]
        rates = self.rates + [1.0] * len(new)
        return TrainedWeights(self.variables + new, rates, self.frozen)


def select_trained(
    model, parts: TrainedParts, adapter: LoraAdapter | None, settings
) -> TrainedWeights | None:
    """Return a model's trained weights, within the engine's scope; None: all, at one rate.

    `settings` are a run's; those of pretraining have no rates of layers. `adapter` is the one that
    the run continues.
    """
    layer_decay = getattr(settings, "layer_decay", None)
    head_rate = getattr(settings, "head_learning_rate", None)
    if not parts.frozen and layer_decay is None and head_rate is None:
        return None

    head_share = 1.0 if head_rate is None else head_rate / settings.learning_rate
    pairs = adapter.pairs if adapter else None
    return select_weights(
        model, parts, settings.seed, layer_decay, head_share, settings.lora_dropout, pairs
    )


def select_weights(
    model,
    selection: TrainedParts,
    seed: int,
    layer_decay: float | None = None,
    head_share: float = 1.0,
    dropout: float = 0.0,
    pairs: Mapping | None = None,
) -> TrainedWeights:
    """Add adapters to a model, within the engine's scope; return the variables that are trained."""
    add_adapters(model, selection, seed, dropout, pairs)
    factors = learning_rate_factors(selection.spec, layer_decay, head_share)
    variables = []
    rates = []
    frozen = []
    for layer in model.layers:
        for weight in layer.trainable_weights:
            if layer.name in selection.frozen and not is_adapter(weight.path):
                frozen.append(weight)
            else:
                variables.append(weight)
                rates.append(factors[layer.name])
    return TrainedWeights(variables, rates, frozen)


def with_adapters(bert: Bert, engine, base_path: str | None) -> Bert:
    """Merge a run's adapters into its result, which has the base's matrices still."""
    layers = adapters_of(engine.model)
    pairs = {}
    for layer in layers:
        a = keras.ops.convert_to_numpy(layer.a.value)
        b = keras.ops.convert_to_numpy(layer.b.value)
        matrix = layer.matrix
        pair = Pair(a.copy(), b.copy(), layer.scale)
        pairs[matrix.block, matrix.name] = pair

    # the head's weights, and others that were trained whole, by transformers' names
    column = weight_names.column_of(bert.config)
    whole = _find_whole_layers(bert, engine)
    entries = weight_names.entries_of(bert.spec, column)
    chosen = [entry for entry in entries if entry.layer in whole]
    adapter = LoraAdapter(
        pairs,
        transfer.arrays_of(bert.model, chosen),
        column=column,
        head=bert.head,
        labels=bert.labels,
        problem_type=bert.problem_type,
        split_punctuation=bert.split_punctuation,
        base_path=base_path,
        dropout=layers[0].dropout.rate,
    )
    return merge_adapter(bert, adapter, "the adapter", "the model")


def _find_whole_layers(bert: Bert, engine) -> set[str]:
    """Return the names of the layers that were trained whole, and of the head's."""
    whole = set()
    for weight in engine.state.variables.weights:
        if not is_adapter(weight.path):
            whole.add(weight.path.split("/")[0])
    for layer in graph_layers(bert.spec):
        if part_of(layer.group) == "head":
            whole.add(layer.name)
    return whole
