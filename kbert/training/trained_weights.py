"""The variables that an engine trains: all of a model's, or some of them, at their own rates."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kbert.graph.trained_parts import TrainedParts, rate_shares
from kbert.model.lora import add_adapters
from kbert.model.lora import is_adapter


@dataclass(frozen=True)
class TrainedWeights:
    """The weights that an engine trains."""

    variables: list = field(default_factory=list)  # with gradients and moments
    rates: list[float] = field(default_factory=list)  # the factor of each one's learning rate
    frozen: list = field(default_factory=list)  # the model's other weights

    def and_all_new_of(self, model) -> "TrainedWeights":
        """Add a model's other unfrozen variables, at the whole rate."""
        known = {id(one) for one in (*self.variables, *self.frozen)}
        new = [one for one in model.trainable_variables if id(one) not in known]
        return TrainedWeights(self.variables + new, self.rates + [1.0] * len(new), self.frozen)


def weights_of(
    model,
    parts: TrainedParts,
    seed: int,
    layer_decay: float | None = None,
    head_share: float = 1.0,
    dropout: float = 0.0,
    pairs: Mapping | None = None,
) -> TrainedWeights:
    """Add the adapters of trained parts to a model, and return the variables that are trained.

    Args:
        model: of the parts' graph; within the engine's scope.
        parts: of the graph.
        layer_decay, head_share: see `kbert.graph.trained_parts.rate_shares`.
        seed, dropout, pairs: of the adapters, see `kbert.model.lora.add_adapters`.
    """
    add_adapters(model, parts, seed, dropout, pairs)
    shares = rate_shares(parts.spec, layer_decay, head_share)
    variables, rates, frozen = [], [], []
    for layer in model.layers:
        for weight in layer.trainable_weights:
            if layer.name in parts.frozen and not is_adapter(weight.path):
                frozen.append(weight)
            else:
                variables.append(weight)
                rates.append(shares[layer.name])
    return TrainedWeights(variables, rates, frozen)
