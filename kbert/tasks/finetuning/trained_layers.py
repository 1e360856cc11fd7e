"""Choice of the parts of a model that a fine-tuning trains."""

from collections.abc import Mapping

from kbert.checkpoints.adapters.adapter import LoraAdapter, Pair
from kbert.checkpoints.bert import Bert
from kbert.graph.layer_table import layers as graph_layers
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import TrainedParts, trained_parts
from kbert.tasks.finetuning.continued_adapter import check_blocks
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.training.trained_weights import TrainedWeights, select_weights


def choose_trained(
    settings: FinetuningSettings, spec: GraphSpec, source: Bert, adapter: LoraAdapter | None = None
) -> TrainedParts:
    """Return the trained parts of a graph. With LoRA, newly initialized layers are trained too.

    So are the layers that a continued adapter has trained as a whole.

    Raises:
        ValueError: see `kbert.graph.trained_parts.trained_parts`.
    """
    there = {layer.name for layer in source.model.layers}
    new = {layer.name for layer in graph_layers(spec)} - there
    if adapter is not None:
        new |= adapter.layers(spec.config)
    lora = (settings.lora_rank, settings.lora_targets, settings.lora_alpha)
    trained = trained_parts(spec, settings.freeze, *lora, also=new)
    if adapter is not None:
        check_blocks(adapter, trained)
    return trained


def select_trained(
    model,
    trained: TrainedParts,
    settings: FinetuningSettings,
    pairs: Mapping[tuple[int, str], Pair] | None = None,
) -> TrainedWeights | None:
    """Return a model's variables that are trained; None: all, at one rate.

    `pairs` are the adapters to continue.
    """
    rate = settings.head_learning_rate
    if not trained.frozen and settings.layer_decay is None and rate is None:
        return None
    share = 1.0 if rate is None else rate / settings.learning_rate
    dropout = settings.lora_dropout
    return select_weights(
        model, trained, settings.seed, settings.layer_decay, share, dropout, pairs
    )
