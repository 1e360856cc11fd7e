"""Distillation: a student's batches with a teacher's outputs, and the losses that compare them."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from kbert.tasks.common.checks import load_of_casing, require_tokenizer
from kbert.tasks.common.running import compile_model
from kbert.training.losses.loss import Loss
from kbert.training.losses.table import HIDDEN_STATE_LOSSES, make_loss
from kbert.training.run_plan import RunPlan


@dataclass(frozen=True, eq=False)
class DistilledBatches(Batches):
    """A student's batches, with a teacher's outputs among their labels.

    A batch still depends on its step alone: the teacher has no dropout, and does not change. It
    runs where batches are made, in their thread: the student's program has none of its weights.

    Attributes:
        batches: the student's.
        alpha: weight of the teacher in the loss of the outputs; the labels have the rest.
        outputs: losses of the student's outputs that the teacher has too, by name.
        states: the teacher's block for each block of the student whose states are compared.
        state_weight: weight of the loss of each of these.
        compute: returns the teacher's outputs for a batch's inputs, float32 by the layer's name.
        pad_id: the padding token.
        order: index of each of the student's labels among the teacher's; None: the same order.
    """

    batches: Any  # a `Batches`
    alpha: float
    outputs: Mapping[str, Loss]
    states: Mapping[int, int]
    state_weight: float
    compute: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
    pad_id: int
    order: Sequence[int] | None = None

    @property
    def batch_size(self) -> int:  # type: ignore[override]  # of a frozen dataclass
        """Number of examples in a step."""
        return self.batches.batch_size

    @property
    def fingerprint(self) -> dict:  # type: ignore[override]
        """See `Batches`."""
        return self.batches.fingerprint

    @property
    def steps_per_epoch(self) -> int | None:
        """Number of steps of an epoch, for the progress line; None: there are no epochs."""
        return getattr(self.batches, "steps_per_epoch", None)

    def batch(self, step: int, part: slice = slice(None)) -> TrainingBatch:
        """See `Batches`."""
        if self.states:
            batch = self.batches.batch(step)  # a token's weight depends on all of the step's
            token_weights = self._weigh_tokens(batch)[part]
            batch = batch.select(part)
        else:
            batch = self.batches.batch(step, part)

        labels: dict[str, np.ndarray] = {}
        weights: dict[str, np.ndarray] = {}
        if self.alpha < 1:
            labels |= batch.labels
            for name in batch.labels:
                weights[name] = (1 - self.alpha) * batch.weights[name]

        computed = self.compute(batch.inputs)
        for name, loss in self.outputs.items():
            target = f"{names.TEACHER}{name}"
            labels[target] = self._select_labels(computed[name], loss)
            weights[target] = self.alpha * batch.weights[name]
        for block, layer in self.states.items():
            target = names.hidden_target(block)
            output = names.encoder_output(layer)
            labels[target] = computed[output]
            weights[target] = self.state_weight * token_weights

        weights = {name: array.astype(np.float32) for name, array in weights.items()}
        return TrainingBatch(batch.inputs, labels, weights)

    def _select_labels(self, logits: np.ndarray, loss: Loss) -> np.ndarray:
        """Return the teacher's logits in the order of the student's labels; or its numbers."""
        if loss.teacher == "squared_error":
            logits = logits[:, 0]
        return logits if self.order is None else logits[..., self.order]

    def _weigh_tokens(self, batch: TrainingBatch) -> np.ndarray:
        """Return the weights of a step's tokens, float32 (B, S), which sum to 1.

        Padding, and rows without a label, weigh 0.
        """
        total = np.zeros(len(batch))
        for array in batch.weights.values():
            by_row = array.reshape(len(batch), -1)
            total += by_row.sum(1)
        has_label = total > 0

        is_real = batch.inputs[names.TOKEN_IDS] != self.pad_id
        is_real &= has_label[:, None]
        return is_real.astype(np.float32) / max(is_real.sum(), 1)


def plan_distillation(
    plan: RunPlan,
    teacher: Bert,
    order: Sequence[int] | None = None,
    outputs: Sequence[str] | None = None,
) -> RunPlan:
    """Plan a run with a teacher, of the plan of the run without it.

    Args:
        teacher: from `open_teacher`.
        order: index of each of the student's labels among the teacher's; None: the same order.
        outputs: the student's outputs that learn of the teacher's; None: all.
    """
    settings, spec = plan.settings, plan.model.spec
    compared = {name: plan.losses[name] for name in outputs or plan.losses}
    if not settings.alpha:
        compared = {}
    states = _pair_states(settings, spec, teacher)

    losses = dict(plan.losses)
    for name, loss in compared.items():
        assert loss.teacher is not None
        # the logits of classes are divided by the temperature; numbers have none
        is_number = loss.teacher == "squared_error"
        options = {} if is_number else {"temperature": settings.temperature}
        losses[f"{names.TEACHER}{name}"] = make_loss(loss.teacher, name, **options)
    for block in states:
        losses[names.hidden_target(block)] = HIDDEN_STATE_LOSSES[str(settings.hidden_loss)]

    teacher_blocks = sorted(set(states.values()))
    needed = list(compared)
    for block in teacher_blocks:
        needed.append(names.encoder_output(block))
    predictions = plan.model.training_spec.max_predictions
    batches = DistilledBatches(
        plan.batches,
        settings.alpha,
        compared,
        states,
        settings.hidden_loss_weight,
        compile_teacher(teacher, needed, predictions, settings.precision),
        spec.config.pad_token_id,
        order,
    )
    width = teacher.config.hidden_size
    return dataclasses.replace(
        plan,
        batches=batches,
        losses=losses,
        fingerprint={**plan.fingerprint, "teacher": weights_digest(teacher)},
        extend_model=functools.partial(add_state_outputs, blocks=list(states), width=width)
        if states
        else None,
    )


def _pair_states(settings, spec: GraphSpec, teacher: Bert) -> dict[int, int]:
    """Return the teacher's block for each block of the student whose hidden states it learns."""
    if settings.hidden_loss is None:
        return {}
    pairs = map_layers(spec.config.num_hidden_layers, teacher.config.num_hidden_layers)
    return dict(pairs if settings.hidden_loss == "mse" else pairs[-1:])


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


def compile_teacher(
    teacher: Bert, layers: Sequence[str], max_predictions: int | None, precision: str
) -> Callable:
    """Return a function of a batch's inputs that returns float32 outputs by the layer's name.

    `max_predictions` are the student's, for a teacher that predicts tokens.
    """
    import keras

    predictions = max_predictions if HEADS[teacher.head].predicts_tokens else None
    spec = dataclasses.replace(
        teacher.spec, seq_len=None, max_predictions=predictions, dtype=precision
    )
    whole = build_with(spec, layers_of(teacher.model))
    outputs = [whole.get_layer(name).output for name in layers]
    model = keras.Model(whole.inputs, outputs)
    function = compile_model(model)

    def compute(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        arrays = function(*(batch[tensor.name] for tensor in model.inputs))
        arrays = (np.asarray(array, np.float32) for array in arrays)
        return dict(zip(layers, arrays, strict=True))

    return compute
