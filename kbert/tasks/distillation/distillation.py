"""Distillation targets of a student in every batch, and the losses that compare them."""

from collections.abc import Mapping

import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.checkpoints.transfer import weights_digest
from kbert.data.training_batch import Batches, TrainingBatch
from kbert.graph import names
from kbert.model.probes import add_state_outputs, map_layers
from kbert.tasks.distillation.settings import DistillationSettings
from kbert.tasks.distillation.teacher import Teacher
from kbert.training.loss import LOSSES, Loss, make_loss


class Distillation:
    """The distillation targets that a student gets from a teacher.

    Args:
        bert: the teacher, which can read the student's inputs.
        settings: the run's settings.
        losses: the losses of the student's outputs, which the teacher has too, by name.
        blocks: number of the student's encoder blocks.
        max_predictions, precision: see `Teacher`.
        pad_id: the padding token.

    Attributes:
        losses: see `kbert.training.recipe.DistillationTargets`.
        digest: a digest of the teacher.
    """

    def __init__(
        self,
        bert: Bert,
        settings: DistillationSettings,
        losses: Mapping[str, Loss],
        blocks: int,
        *,
        max_predictions: int | None = None,
        precision: str = "float32",
        pad_id: int = 0,
    ):
        self._pad_id = pad_id
        self._settings, self._outputs = settings, dict(losses) if settings.alpha else {}
        pairs = map_layers(blocks, bert.config.num_hidden_layers)
        some = {None: [], "mse": pairs, "cosine": pairs[-1:]}[settings.hidden_loss]
        self._states, self._width = dict(some), bert.config.hidden_size
        self.losses: Mapping[str, Loss] = {
            names.teacher_output(name): distill_loss(name, loss, settings.temperature)
            for name, loss in self._outputs.items()
        } | {
            names.hidden_target(block): LOSSES[str(settings.hidden_loss)] for block in self._states
        }
        self.digest = weights_digest(bert)
        layers = sorted(set(self._states.values()))
        self._teacher = Teacher(
            bert, list(self._outputs), layers, max_predictions=max_predictions, precision=precision
        )

    def add_outputs(self, model):
        """See `kbert.training.recipe.DistillationTargets`."""
        return add_state_outputs(model, list(self._states), self._width) if self._states else model

    def batches(self, batches: Batches) -> "DistilledBatches":
        """Return the batches with the teacher's outputs among their labels."""
        return DistilledBatches(self, batches)

    def add_targets(self, batches: Batches, step: int, part: slice) -> TrainingBatch:
        """Return the examples `part` of a step's batch, with the teacher's outputs as labels."""
        if not self._states:
            return self._add_targets(batches.batch(step, part), None)
        whole = batches.batch(step)  # a token's weight depends on all of the step's
        return self._add_targets(whole.select(part), self._weigh_tokens(whole)[part])

    def _add_targets(self, batch: TrainingBatch, tokens: np.ndarray | None) -> TrainingBatch:
        """`tokens`: float32 (B, S), the weight of each one's hidden states; None: not distilled."""
        alpha, outputs = self._settings.alpha, self._teacher(batch.inputs)
        labels = dict(batch.labels) if alpha < 1 else {}
        weights = {name: (1 - alpha) * batch.weights[name] for name in labels}
        for name, loss in self._outputs.items():
            target = names.teacher_output(name)
            is_number = loss.name == "squared_error"
            labels[target] = outputs[name][:, 0] if is_number else outputs[name]
            weights[target] = alpha * batch.weights[name]
        for block, layer in self._states.items():
            assert tokens is not None
            labels[names.hidden_target(block)] = outputs[names.encoder_output(layer)]
            weights[names.hidden_target(block)] = self._settings.hidden_loss_weight * tokens
        weights = {name: array.astype(np.float32) for name, array in weights.items()}
        return TrainingBatch(batch.inputs, labels, weights)

    def _weigh_tokens(self, batch: TrainingBatch) -> np.ndarray:
        """Return each token's weight, (B, S), which sum to 1; 0: padding, rows without a label."""
        weights = batch.weights.values()
        counts = sum(array.reshape(len(batch), -1).sum(1) for array in weights) > 0
        tokens = (batch.inputs[names.TOKEN_IDS] != self._pad_id) & np.asarray(counts)[:, None]
        return tokens.astype(np.float32) / max(tokens.sum(), 1)


def distill_loss(output: str, loss: Loss, temperature: float) -> Loss:
    """Return the loss of an output with a teacher's logits as its labels.

    The logits of classes are divided by the temperature; numbers have none.
    """
    assert loss.teacher is not None
    options = {} if loss.teacher == loss.name else {"temperature": temperature}
    return make_loss(loss.teacher, output, **options)


class DistilledBatches:
    """`kbert.data.training_batch.Batches` with a teacher's outputs among the labels.

    A batch still depends on its step alone: the teacher has no dropout, and does not change.
    """

    def __init__(self, distillation: Distillation, batches: Batches):
        self._distillation, self._batches = distillation, batches
        self.batch_size, self.fingerprint = batches.batch_size, batches.fingerprint

    def batch(self, step: int, part: slice = slice(None)) -> TrainingBatch:
        """See `Batches`."""
        return self._distillation.add_targets(self._batches, step, part)
