"""What of a model a fine-tuning trains."""

from kbert.checkpoints.bert import Bert
from kbert.graph.layer_table import layers as graph_layers
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import TrainedParts, trained_parts
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
    dropout = settings.lora_dropout
    return weights_of(model, parts, settings.seed, settings.layer_decay, share, dropout)
