"""One training step: (values, batch) -> (values, metrics).

Each device computes the gradients of its part of the batch, one micro-batch after the other. They
are summed over all devices and hosts, together with the losses and the stop flags: the only
exchange of a step. Each device then computes the same new weights from the same sums.

What is summed are sums, not means: a label's weight is already divided by the totals of the whole
step (`TrainingBatch`), so every way to split a batch gives the same update.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from keras import name_scope, ops

from kbert.graph.names import SEQUENCE_MASK
from kbert.model.stateless import call_stateless, flatten_sequences
from kbert.training.losses.embedding_losses import MASKED, sum_products
from kbert.training.losses.embedding_objective import EMBEDDINGS, EmbeddingLoss
from kbert.training.losses.loss import Loss, compute_objective, sum_metrics
from kbert.training.optimization import optimizers
from kbert.training.optimization.optimizers import Optimizer
from kbert.training.step.segmented_model import SegmentedModel, has_blocks
from kbert.training.step.state import MOST_SKIPPED, Counts, Values, needs_scale, next_scale
from kbert.training.step.trained_weights import TrainedWeights

LOSS, OPTIMIZER = "loss", "optimizer"  # parts of a compiled step, for profiles
BUDGET_SHARE = "budget_share"  # a metric: the share of the time budget at which the step began
# What a batch's examples have beside their labels, see `Engine.split`: FLAGS, (B, 3), are the share
# of the budget and the stop flags. USED, (B,), is 1 for an example, and 0 for the rest of the
# arrays, where a step has fewer examples than its arrays have places.
FLAGS, USED = "flags", "used"


class Decision(NamedTuple):
    """What a step does with its gradients: scalars of the device."""

    applied: Any  # whether anything changes
    factor: Any  # of the gradients, for clipping and for removing the loss scale
    rate: Any  # the learning rate
    iteration: Any  # number of earlier steps

    def scale_rate(self, share: float) -> "Decision":
        """Return the same at a share of the learning rate."""
        if share == 1:
            return self
        return self._replace(rate=self.rate * share)


@dataclass(eq=False)
class TrainingStep:
    """The functions of a step, in tensors of one device."""

    backend: Any  # a `kbert.training.backends.backend.Backend`
    model: Any  # a functional model
    trained: TrainedWeights
    seed_states: Sequence  # the variables of its dropout seeds
    optimizer: Optimizer
    rules: Sequence  # the rule of each weight, see `kbert.training.optimization.optimizers.rules`
    clip_norm: float | None = 1.0  # maximum global norm of the gradients; None: no clipping
    accumulation_steps: int = 1  # micro-batches
    # Whether the backward pass recomputes each encoder block instead of keeping its activations:
    # less memory, more time, the same numbers.
    gradient_checkpointing: bool = False
    own_names: bool = False  # of each block's layers, see `SegmentedModel`
    ramped: bool = False  # whether a step may have fewer micro-batches, the first of its arrays
    losses: Mapping[str, Loss] = field(default_factory=dict)  # by the name of the labels
    embedding_loss: EmbeddingLoss | None = None  # in place of `losses`

    def __post_init__(self):
        if self.embedding_loss:
            loss = dataclasses.replace(
                self.embedding_loss.loss, sum_losses=self._sum_embedding_losses
            )
            self.losses = {EMBEDDINGS: loss}
        self.segments = None
        if has_blocks(self.model):  # an engine trains other models too
            self.segments = SegmentedModel(self.model, self.backend.trace, self.own_names)
        self.scaled = needs_scale(self.model)
        self.dropouts = len(self.seed_states)
        self.decayed = [optimizers.is_decayed(weight.path) for weight in self.trained.variables]

    def update(self, values: Values, frozen, batch, seeds) -> tuple[Values, dict]:
        """Run a step; return the new values, and the metrics that `metric_names` lists.

        `batch` has this device's inputs, labels, weights of labels, and flags, by name, each
        (micro-batches, B, …); `seeds` are int32 (micro-batches, dropouts, 2).
        """
        gradients, sums = self.gradients(values, frozen, batch, seeds)
        with name_scope(OPTIMIZER):
            norm = self.backend.global_norm(gradients)
            labels = batch[1]
            decision, counts, metrics = self.decide(labels, values.counts, sums, norm)
            new = self.backend.apply(self, decision, values, gradients, counts)
            return new, metrics

    def gradients(self, values: Values, frozen, batch, seeds) -> tuple[list, Any]:
        """Return gradients, scaled and not clipped, and losses' sums, over all devices."""
        function = self.backend.sum_over_devices(self.gradients_of_device)
        scale = values.counts.loss_scale
        return function(values.weights, scale, frozen, batch, seeds)

    def each_weight(self, decision: Decision, values: Values, gradients):
        """Return the arguments of `update_weight` for each weight."""
        decisions = [decision.scale_rate(share) for share in self.trained.rates]
        return zip(
            decisions,
            self.rules,
            self.decayed,
            values.weights,
            values.slots,
            gradients,
            strict=True,
        )

    def update_weight(
        self, decision: Decision, rule, decayed: bool, weight, slots: dict, gradient
    ) -> tuple:
        """Return a weight's new value and slots; unchanged if the step is not applied."""
        applied, factor, rate, iteration = decision
        scaled = gradient * factor
        new, new_slots = rule.update(weight, slots, scaled, rate, iteration, decayed)
        new = ops.where(applied, new, weight)
        changed = {}
        for name, slot in slots.items():
            changed[name] = ops.where(applied, new_slots[name], slot)
        return new, changed

    def outputs(self, weights, frozen, inputs: Mapping, seeds=None) -> dict:
        """Return the model's outputs by name; with a loss of embeddings, the embeddings.

        `seeds`: of dropout, int32 (dropouts, 2); None: no dropout.
        """
        training = seeds is not None
        if not training:
            seeds = np.zeros((self.dropouts, 2), "int32")
        values = self._list_values(weights, frozen, seeds)
        sequences = flatten_sequences(inputs)
        ordered = [sequences[name] for name in self.model.input_names]

        if self.segments is None:
            outputs = call_stateless(self.model, values, ordered, training)
        else:
            recomputes = training and self.gradient_checkpointing
            checkpoint = self.backend.checkpoint if recomputes else None
            outputs = self.segments.outputs(values, ordered, training, checkpoint)
        if self.embedding_loss:
            embeddings = self.embedding_loss.pool(outputs[0], inputs)
            return {EMBEDDINGS: embeddings}
        if SEQUENCE_MASK in inputs:
            outputs = [_join_sequences(logits, inputs[SEQUENCE_MASK]) for logits in outputs]
        return dict(zip(self.model.output_names, outputs, strict=True))

    def _list_values(self, weights, frozen, seeds) -> dict:
        """Return the values of the model's variables, by their ids."""
        variables = [*self.trained.variables, *self.trained.frozen, *self.seed_states]
        seeds_of_layers = [seeds[index] for index in range(self.dropouts)]
        arrays = [*weights, *frozen, *seeds_of_layers]
        values = {}
        for variable, array in zip(variables, arrays, strict=True):
            values[id(variable)] = array
        return values

    def measure(self, weights, frozen, batch):
        """Return the sums of each output's loss, float32 (outputs, 3), without dropout."""
        inputs, labels, label_weights = batch
        outputs = self.outputs(weights, frozen, inputs)
        _, sums = compute_objective(outputs, labels, label_weights, self.losses)
        return sums

    def metric_names(self, labels: Mapping) -> list[str]:
        """Return the names of a step's metrics; "finite": whether the step was applied."""
        names = ["loss"]
        for label in labels:
            metric = self.losses[label].metric
            names += [f"{label}_loss", f"{label}_{metric}"]
        names += ["gradient_norm", "learning_rate", "finite"]
        names += self._flag_columns()
        if self.scaled:
            names.append("loss_scale")
        return names

    def _flag_columns(self) -> dict[str, int]:
        """Return the columns of FLAGS that are metrics, by their names."""
        columns = {"callback": 1, "signal": 2}
        if self.optimizer.follows_budget:
            columns[BUDGET_SHARE] = 0
        return columns

    def gradients_of_device(self, weights, scale, frozen, batch, seeds) -> tuple:
        """Sum over the micro-batches, which need the memory of one."""
        if self.embedding_loss is not None and self.accumulation_steps > 1:
            return self._cached_gradients(weights, scale, frozen, batch, seeds)
        return self._sum_gradients(weights, scale, frozen, batch, seeds, self.losses)

    def _sum_gradients(self, weights, scale, frozen, batch, seeds, losses) -> tuple:
        def compute_micro_batch(micro_batch, seeds):
            inputs, labels, label_weights, flags = micro_batch

            def compute_loss(weights) -> tuple:
                outputs = self.outputs(weights, frozen, inputs, seeds)
                with name_scope(LOSS):
                    total, sums = compute_objective(outputs, labels, label_weights, losses)
                stops = ops.sum(flags[FLAGS], 0, keepdims=True)
                all_sums = ops.concatenate([sums, stops])
                # The scale comes before the gradients, so that none is too small for float16.
                return total * scale, all_sums

            return self.backend.differentiate(compute_loss, weights)

        def make_zeros() -> tuple:
            gradients = [ops.zeros(weight.shape, weight.dtype) for weight in weights]
            num_labels = len(batch[1])
            sums = ops.zeros((num_labels + 1, 3))  # the last row is of the stop flags
            return gradients, sums

        count = None
        if self.ramped:
            *_, flags = batch
            count = ops.cast(ops.sum(flags[USED][:, 0]), "int32")
        return self.backend.sum_over_micro_batches(
            compute_micro_batch, make_zeros, batch, seeds, count
        )

    def _cached_gradients(self, weights, scale, frozen, batch, seeds) -> tuple:
        """Compute the gradients of a loss over the whole batch, in the memory of a micro-batch.

        GradCache (Gao et al. 2021, arXiv 2101.06983, section 3.2): all embeddings without
        gradients; their loss and its gradient; then each micro-batch again, with the same dropout
        and the loss Σ embeddings × that gradient.
        """
        assert self.embedding_loss is not None
        inputs, labels, label_weights, flags = batch
        shape = (-1, self.embedding_loss.columns, self.embedding_loss.width)

        all_labels = _join_micro_batches(labels[EMBEDDINGS])
        all_weights = _join_micro_batches(label_weights[EMBEDDINGS])

        def embed(inputs, seeds):
            outputs = self.outputs(weights, frozen, inputs, seeds)
            return outputs[EMBEDDINGS]

        def compute_loss(arrays) -> tuple:
            (embeddings,) = arrays
            sums = self._sum_embedding_losses(embeddings, all_labels, all_weights)
            return sums[0], sums

        embeddings = self.backend.map_micro_batches(embed, inputs, seeds)
        embeddings = ops.reshape(embeddings, shape)
        (gradient,), sums = self.backend.differentiate(compute_loss, [embeddings])

        gradient = ops.reshape(gradient, (self.accumulation_steps, *shape))
        second = inputs, {EMBEDDINGS: gradient}, label_weights, flags
        losses = {EMBEDDINGS: Loss("dot_product", sum_products)}
        gradients, all_sums = self._sum_gradients(weights, scale, frozen, second, seeds, losses)
        stops = all_sums[1:]
        sums = ops.expand_dims(sums, 0)
        return gradients, ops.concatenate([sums, stops])

    def _sum_embedding_losses(self, embeddings, labels, weights):
        """Return `EmbeddingLoss.sum_losses`, over the batch of all devices if it needs it."""
        assert self.embedding_loss is not None
        devices = self.backend.replicas
        if devices == 1 or not self.embedding_loss.loss.needs_whole_batch:
            return self.embedding_loss.sum_losses(embeddings, labels, weights)

        # Each device receives the others' embeddings and computes the loss of the whole batch. Only
        # its own embeddings have gradients, which are those of one device with all of them.
        gathered = self._gather_examples([embeddings, labels, weights])
        sums = self.embedding_loss.sum_losses(*gathered)
        value = ops.stop_gradient(sums)  # every device has it, and it counts once
        return value / devices + (sums - value)

    def _gather_examples(self, arrays: list) -> list:
        """Return arrays (B, …) of all devices, (devices · B, …); gradients go to this one's."""
        devices = self.backend.replicas
        numbers = ops.arange(devices, dtype="int32")
        is_here = ops.equal(numbers, self.backend.device_index())
        without_gradients = [ops.stop_gradient(array) for array in arrays]
        sent = self.backend.all_gather(without_gradients)
        gathered = []
        for array, everywhere in zip(arrays, sent, strict=True):
            ones = [1] * len(array.shape)
            here = ops.reshape(is_here, (devices, *ones))
            own_examples = ops.expand_dims(array, 0)
            whole = ops.where(here, own_examples, everywhere)
            shape_of_example = ops.shape(array)[1:]
            gathered.append(ops.reshape(whole, (-1, *shape_of_example)))
        return gathered

    def decide(self, labels: Mapping, counts: Counts, sums, norm) -> tuple[Decision, Counts, dict]:
        """Return the decision on the gradients, the new counts and the metrics."""
        tensors = [ops.convert_to_tensor(count) for count in counts]
        counts = Counts(*tensors)
        if self.scaled:  # the norm is that of the gradients themselves
            norm = norm / counts.loss_scale

        decision, finite = self._check_gradients(counts, sums, norm)
        metrics = self._compute_metrics(labels, counts, sums, norm, decision)
        new_counts = self._update_counts(counts, decision, finite)
        return decision, new_counts, metrics

    def _check_gradients(self, counts: Counts, sums, norm) -> tuple[Decision, Any]:
        """Return the decision on the gradients, and whether all numbers are finite."""
        # Where anything is not finite, no number changes but the loss scale. Where that ends the
        # run, the next step changes none either: it may have been sent before the metrics of
        # this one were read, and the weights are to be those that the bad step began with.
        rate = optimizers.learning_rate(self.optimizer, counts.iteration, sums[-1, 0])
        loss = ops.sum(sums[:-1, 0])
        norm_is_finite = ops.isfinite(norm)
        loss_is_finite = ops.isfinite(loss)
        finite = ops.logical_and(norm_is_finite, loss_is_finite)
        if isinstance(self.optimizer.schedule, dict):  # of Keras's or the user's
            finite = ops.logical_and(finite, ops.isfinite(rate))
        ended = self._has_ended(counts)
        applied = ops.logical_and(finite, ops.logical_not(ended))

        # Clipped after the sum: gradients that are clipped one by one have another direction.
        factor = optimizers.clip_factor(norm, self.clip_norm)
        if self.scaled:
            factor = factor / counts.loss_scale
        return Decision(applied, factor, rate, counts.iteration), finite

    def _has_ended(self, counts: Counts):
        """Return whether the steps before were bad too often for the run to continue."""
        return counts.bad_updates > (MOST_SKIPPED if self.scaled else 0)

    def _compute_metrics(
        self, labels: Mapping, counts: Counts, sums, norm, decision: Decision
    ) -> dict:
        """Return the metrics that `metric_names` lists; a mean without labels is 0."""
        metrics = {"loss": ops.sum(sums[:-1, 0])}
        sums_by_name = sum_metrics(self.losses, labels, sums)
        for name, (value, weight) in sums_by_name.items():
            metrics[name] = value / ops.maximum(weight, 1e-30)
        metrics["gradient_norm"] = norm
        metrics["learning_rate"] = decision.rate
        metrics["finite"] = decision.applied
        for name, column in self._flag_columns().items():
            metrics[name] = sums[-1, column]
        if self.scaled:
            metrics["loss_scale"] = counts.loss_scale * 1.0  # torch assigns in place
        return metrics

    def _update_counts(self, counts: Counts, decision: Decision, finite) -> Counts:
        """Return the counts after a step, and the loss scale of the next one."""
        _, scale, good, bad = counts
        done = counts.iteration + ops.cast(decision.applied, "float32")
        if self.scaled:
            ended = self._has_ended(counts)
            new_scale, new_good = next_scale(scale, good, finite)
            scale = ops.where(ended, scale, new_scale)
            good = ops.where(ended, good, new_good)
        zero = ops.zeros_like(bad)
        bad = ops.where(decision.applied, zero, bad + 1)
        return Counts(done, scale, good, bad)


def _join_sequences(logits, mask):
    """Return the logits of sequences, (B · C, 1), as those of their examples' classes, (B, C).

    `mask` is 0 for a sequence that an example does not have.
    """
    logits = ops.cast(logits, "float32")
    classes = ops.reshape(logits, ops.shape(mask))
    return ops.where(mask > 0, classes, MASKED)


def _join_micro_batches(array):
    """Return an array (micro-batches, B, …) as (micro-batches · B, …)."""
    shape_of_example = ops.shape(array)[2:]
    return ops.reshape(array, (-1, *shape_of_example))
