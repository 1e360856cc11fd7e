"""Distillation: a student's batches with a teacher's outputs, and the losses that compare them."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.checkpoints.transfer import weights_digest
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.data.training_batch import Batches, TrainingBatch
from kbert.graph import names
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS
from kbert.model.deferred import build_with, layers_of
from kbert.model.probes import add_state_outputs, map_layers
from kbert.tasks.checks import load_of_casing, require_tokenizer
from kbert.tasks.distillation.settings import DistillationSettings
from kbert.tasks.running import compile_model
from kbert.training.loss import LOSSES, Loss, make_loss


class Distillation:
    """A student's batches, with a teacher's outputs among their labels.

    A batch still depends on its step alone: the teacher has no dropout, and does not change. It
    runs where batches are made, in their thread: the student's program has none of its weights.

    Args:
        teacher: from `open_teacher`.
        batches, settings, spec: the student's batches, its run's settings and its graph.
        losses: of the student's outputs, which the teacher has too, by name.
        order: index of each of the student's labels among the teacher's; None: the same order.
    """

    def __init__(
        self,
        teacher: Bert,
        batches: Batches,
        settings: DistillationSettings,
        losses: Mapping[str, Loss],
        spec: GraphSpec,
        order: Sequence[int] | None = None,
    ):
        self._order = order
        self._batches, self._settings, self._pad_id = batches, settings, spec.config.pad_token_id
        self.batch_size, self.fingerprint = batches.batch_size, batches.fingerprint
        self._outputs = dict(losses) if settings.alpha else {}
        pairs = map_layers(spec.config.num_hidden_layers, teacher.config.num_hidden_layers)
        some = {None: [], "mse": pairs, "cosine": pairs[-1:]}[settings.hidden_loss]
        self._states, self._width = dict(some), teacher.config.hidden_size
        losses_of_teacher: dict[str, Loss] = {}
        for name, loss in self._outputs.items():
            assert loss.teacher is not None
            # the logits of classes are divided by the temperature; numbers have none
            is_number = loss.teacher == "squared_error"
            options = {} if is_number else {"temperature": settings.temperature}
            losses_of_teacher[f"{names.TEACHER}{name}"] = make_loss(loss.teacher, name, **options)
        for block in self._states:
            losses_of_teacher[names.hidden_target(block)] = LOSSES[str(settings.hidden_loss)]
        self.losses: Mapping[str, Loss] = losses_of_teacher
        self.digest = weights_digest(teacher)
        states = map(names.encoder_output, sorted(set(self._states.values())))
        self._compute = compile_teacher(teacher, [*self._outputs, *states], spec, settings)

    def add_outputs(self, model):
        """See `kbert.training.recipe.Distillation`."""
        return add_state_outputs(model, list(self._states), self._width) if self._states else model

    def batch(self, step: int, part: slice = slice(None)) -> TrainingBatch:
        """See `Batches`."""
        if self._states:
            batch = self._batches.batch(step)  # a token's weight depends on all of the step's
            counts = sum(array.reshape(len(batch), -1).sum(1) for array in batch.weights.values())
            # (B, S), 0: padding, rows without a label; the weights of a step sum to 1
            real = batch.inputs[names.TOKEN_IDS] != self._pad_id
            real &= np.asarray(counts > 0)[:, None]
            tokens = (real.astype(np.float32) / max(real.sum(), 1))[part]
            batch = batch.select(part)
        else:
            batch = self._batches.batch(step, part)
        alpha, outputs = self._settings.alpha, self._compute(batch.inputs)
        labels = dict(batch.labels) if alpha < 1 else {}
        weights = {name: (1 - alpha) * batch.weights[name] for name in labels}
        for name, loss in self._outputs.items():
            target = f"{names.TEACHER}{name}"
            is_number = loss.teacher == "squared_error"
            labels[target] = outputs[name][:, 0] if is_number else outputs[name]
            if self._order is not None:
                labels[target] = labels[target][..., self._order]
            weights[target] = alpha * batch.weights[name]
        for block, layer in self._states.items():
            labels[names.hidden_target(block)] = outputs[names.encoder_output(layer)]
            weights[names.hidden_target(block)] = self._settings.hidden_loss_weight * tokens
        weights = {name: array.astype(np.float32) for name, array in weights.items()}
        return TrainingBatch(batch.inputs, labels, weights)


def open_teacher(
    source: Bert | str | os.PathLike,
    tokenizer: Tokenizer,
    tokens: int,
    pairs: bool,
    head: str | None = None,
) -> Bert:
    """Open the teacher; a ValueError if it cannot read sequences of so many tokens, or pairs.

    It must have the student's vocabulary. `head` is to load a checkpoint with; None: its own.
    """
    teacher = source if isinstance(source, Bert) else load_of_casing(source, tokenizer, head)
    vocabulary, config = require_tokenizer(teacher, "a teacher").tokens, teacher.config
    if vocabulary != tokenizer.tokens:
        raise ValueError(
            f"teacher must have the student's vocabulary of {len(tokenizer.tokens):,} tokens, got "
            f"another, of {len(vocabulary):,}: take a teacher that reads the same ids"
        )
    if config.positions < tokens:
        raise ValueError(
            f"teacher must have a position for each of {tokens} tokens, got "
            f"{config.positions}: cut the student's texts (max_length, seq_len)"
        )
    if pairs and config.type_vocab_size < 2:
        raise ValueError(
            f"teacher must have two segments for pairs of texts, got {config.type_vocab_size}"
        )
    return teacher


def compile_teacher(teacher: Bert, layers: Sequence[str], student: GraphSpec, settings) -> Callable:
    """Return a function of a batch's inputs that returns float32 outputs by the layer's name."""
    import keras

    predictions = student.max_predictions if HEADS[teacher.head].predicts_tokens else None
    options = {"seq_len": None, "max_predictions": predictions, "dtype": settings.precision}
    whole = build_with(dataclasses.replace(teacher.spec, **options), layers_of(teacher.model))
    model = keras.Model(whole.inputs, [whole.get_layer(name).output for name in layers])
    function = compile_model(model)

    def compute(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        arrays = function(*(batch[tensor.name] for tensor in model.inputs))
        arrays = (np.asarray(array, np.float32) for array in arrays)
        return dict(zip(layers, arrays, strict=True))

    return compute
