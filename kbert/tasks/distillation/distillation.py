"""Distillation targets of a student in every batch, and its distance from them."""

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
        asked = sorted(set(self._states.values()))
        self._teacher = Teacher(
            bert, list(self._outputs), asked, max_predictions=max_predictions, precision=precision
        )

    def add_outputs(self, model):
        """See `kbert.training.recipe.DistillationTargets`."""
        return add_state_outputs(model, list(self._states), self._width) if self._states else model

    def batches(self, batches: Batches) -> "DistilledBatches":
        """Return the batches with what the teacher says of each."""
        return DistilledBatches(self, batches, self._pad_id)

    def added_to(self, batch: TrainingBatch, tokens: np.ndarray | None) -> TrainingBatch:
        """Return a batch with what the teacher says of it among its labels.

        Args:
            batch: the student's.
            tokens: float32 (B, S), what each one's hidden states count for; None: nothing.
        """
        alpha, said = self._settings.alpha, self._teacher(batch.inputs)
        labels = dict(batch.labels) if alpha < 1 else {}
        weights = {name: (1 - alpha) * batch.weights[name] for name in labels}
        for name, loss in self._outputs.items():
            target = names.teacher_output(name)
            is_number = loss.name == "squared_error"
            labels[target] = said[name][:, 0] if is_number else said[name]
            weights[target] = alpha * batch.weights[name]
        for block, its in self._states.items():
            assert tokens is not None
            labels[names.hidden_target(block)] = said[names.encoder_output(its)]
            weights[names.hidden_target(block)] = self._settings.hidden_loss_weight * tokens
        weights = {name: array.astype(np.float32) for name, array in weights.items()}
        return TrainingBatch(batch.inputs, labels, weights)

    @property
    def has_states(self) -> bool:
        """True if hidden states are distilled."""
        return bool(self._states)


def distill_loss(output: str, loss: Loss, temperature: float) -> Loss:
    """Return the loss of an output with a teacher's logits as its labels.

    The logits of classes are divided by the temperature; numbers have none.
    """
    assert loss.teacher is not None
    options = {} if loss.teacher == loss.name else {"temperature": temperature}
    return make_loss(loss.teacher, output, **options)


class DistilledBatches:
    """`kbert.data.training_batch.Batches` with a teacher's word on each.

    A batch is a pure function of its number still: the teacher draws nothing, and does not change.

    Args:
        distillation: what is learned.
        batches: the student's own.
        pad_id: the padding token.
    """

    def __init__(self, distillation: Distillation, batches: Batches, pad_id: int):
        self._distillation, self._batches, self._pad_id = distillation, batches, pad_id
        self.batch_size, self.fingerprint = batches.batch_size, batches.fingerprint

    def batch(self, step: int, part: slice = slice(None)) -> TrainingBatch:
        """See `Batches`."""
        if not self._distillation.has_states:
            return self._distillation.added_to(self._batches.batch(step, part), None)
        whole = self._batches.batch(step)  # a token counts for one of all of the update's
        tokens = self._tokens(whole)[part]
        return self._distillation.added_to(whole.select(part), tokens)

    def _tokens(self, batch: TrainingBatch) -> np.ndarray:
        """Return each token's weight, (B, S), which sum to 1; 0: padding, rows without a label."""
        weights = batch.weights.values()
        counts = sum(array.reshape(len(batch), -1).sum(1) for array in weights) > 0
        tokens = (batch.inputs[names.TOKEN_IDS] != self._pad_id) & np.asarray(counts)[:, None]
        return tokens.astype(np.float32) / max(tokens.sum(), 1)
