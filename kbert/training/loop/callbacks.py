"""Keras's callbacks in kbert's training loop: which are refused, and the model that they see.

`fit` hands callbacks a compiled model. So does this loop: before each call the model has an
optimizer with the current learning rate and iterations, a loss, metrics with their names, and
weights that include what adapters add to them.
"""

import contextlib
from collections.abc import Sequence

import keras

from kbert.data.training_batch import TrainingBatch
from kbert.model.lora import merge_adapters
from kbert.training import loss as objectives
from kbert.training import optimizers

HARMFUL = {
    "LearningRateScheduler": "the schedule sets the rate: choose learning_rate, warmup_steps and "
    "schedule",
    "ReduceLROnPlateau": "the schedule sets the rate: choose learning_rate, warmup_steps and "
    "schedule",
    "BackupAndRestore": "it restores neither the data's position nor the dropout: the run's folder "
    "does",
    "SwapEMAWeights": "no averages of the weights are kept",
}
_BATCH_EVENTS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")


def refuse_harmful(callbacks, adapted: bool = False, evaluated: bool = True) -> None:
    """Raise a ValueError for what is no callback, or would do nothing or harm.

    Args:
        callbacks: the run's.
        adapted: whether the run trains adapters beside the model's own weights.
        evaluated: whether the run has dev data.
    """
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise ValueError(f"callbacks must be Keras callbacks, got {callback!r}")
        for base in type(callback).__mro__:
            if base.__name__ in HARMFUL and base.__module__.startswith("keras."):
                raise ValueError(f"{base.__name__} cannot be used here: {HARMFUL[base.__name__]}")
        if adapted and getattr(callback, "restore_best_weights", False):
            raise ValueError(
                "restore_best_weights cannot be used with lora_rank, which leaves the model's own "
                "weights as they are: leave it out, keep_best restores the best adapters"
            )
        if not evaluated and _needs_dev(callback):
            raise ValueError(
                f"{type(callback).__name__} monitors {callback.monitor}, and there is no dev data: "
                "give dev, or leave the callback out"
            )


def _needs_dev(callback) -> bool:
    """Return whether a callback of Keras needs a metric of the dev data to do anything."""
    saves_best = isinstance(callback, keras.callbacks.ModelCheckpoint) and callback.save_best_only
    waits = isinstance(callback, keras.callbacks.EarlyStopping) or saves_best
    return waits and callback.monitor.startswith("val_")


def watch_batches(callbacks) -> bool:
    """Return whether any of them acts on each batch.

    A callback may do so by its class, or by its instance, as a LambdaCallback does.
    """
    plain = [getattr(keras.callbacks.Callback, name) for name in _BATCH_EVENTS]
    return any(
        getattr(getattr(callback, name), "__func__", None) is not default
        for callback in callbacks
        for name, default in zip(_BATCH_EVENTS, plain, strict=True)
    )


class Callbacks:
    """The callbacks of a run, and the compiled model that they see.

    Args:
        callbacks: Keras's.
        engine: trains the model.
        batch: any batch of the run; its labels say which loss and which metrics outputs have.
        params: as Keras's CallbackList takes them.
    """

    def __init__(
        self,
        callbacks: Sequence[keras.callbacks.Callback],
        engine,
        batch: TrainingBatch,
        **params,
    ):
        self._engine = engine
        self._outputs = [name for name in batch.labels if name in engine.output_names]
        self._watched = watch_batches(callbacks)
        # Several hosts may differ in their callbacks: variables of a strategy need them all.
        with engine.backend.scope() if engine.backend.processes == 1 else contextlib.nullcontext():
            self._compile(batch)
        for callback in callbacks:
            _infer_mode(callback)
        model = engine.model
        self._list = keras.callbacks.CallbackList(
            list(callbacks), add_history=True, model=model, **params
        )

    def tell(self, event: str, *arguments) -> None:
        """Call one of the callbacks' methods; a dict among its arguments is the logs.

        Raises:
            ValueError: a callback has set the learning rate, which the run's schedule sets.
        """
        if event in _BATCH_EVENTS and not self._watched:
            return
        given = [self._keras_logs(one) if isinstance(one, dict) else one for one in arguments]
        with merge_adapters(self._engine.model):
            self._set_optimizer()
            getattr(self._list, event)(*given)
        self._refuse_other_rate()

    def _compile(self, batch: TrainingBatch) -> None:
        settings, model = self._engine.settings, self._engine.model
        self._rate = float(settings.learning_rate)
        if isinstance(settings.name, str):
            kind = keras.optimizers.Lamb if settings.name == "lamb" else keras.optimizers.AdamW
            names = ("weight_decay", "beta_1", "beta_2", "epsilon")
            options = {name: getattr(settings, name) for name in names}
            optimizer = kind(self._rate, global_clipnorm=self._engine.step.clip_norm, **options)
        else:
            optimizer = keras.saving.deserialize_keras_object(settings.name)
        losses, metrics = {}, {}
        for name in self._outputs:
            losses[name], metrics[name] = _loss_and_metric(batch.labels[name])
        # the engine scales the loss, where it is to be scaled
        model.compile(
            optimizer, losses or None, weighted_metrics=metrics or None, auto_scale_loss=False
        )

    def _set_optimizer(self) -> None:
        """Give the optimizer the iterations so far and the rate that follows them, as `fit`."""
        optimizer, done = self._engine.model.optimizer, self._engine.state.iterations
        optimizer.iterations.assign(done)
        optimizer.learning_rate = optimizers.learning_rate(self._engine.settings, done)
        self._rate = _rate_of(optimizer)

    def _refuse_other_rate(self) -> None:
        if _rate_of(self._engine.model.optimizer) != self._rate:
            raise ValueError(
                "a callback set the learning rate, which the run's schedule sets: leave the "
                "callback out, and choose learning_rate, warmup and schedule"
            )

    def _keras_logs(self, values: dict) -> dict:
        """Values as logs: a single output's also have Keras's names, without the output's."""
        if len(self._outputs) != 1:
            return values
        prefix = f"{self._outputs[0]}_"
        return {
            name.removeprefix(prefix): value
            for name, value in values.items()
            if name.startswith(prefix)
        } | values


def _rate_of(optimizer) -> float:
    return float(keras.ops.convert_to_numpy(optimizer.learning_rate))


def _loss_and_metric(labels) -> tuple[keras.losses.Loss, keras.metrics.Metric]:
    """Keras's own loss and metric of labels, as `kbert.training.loss.measured` has them."""
    mean = {"reduction": "mean_with_sample_weight"}
    if objectives.is_class(labels):
        return (
            keras.losses.SparseCategoricalCrossentropy(from_logits=True, **mean),
            keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
        )
    if labels.ndim > 1:
        return (
            keras.losses.BinaryCrossentropy(from_logits=True, **mean),
            keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0),
        )
    return (
        keras.losses.MeanSquaredError(**mean),
        keras.metrics.MeanAbsoluteError(name="absolute_error"),
    )


def _infer_mode(callback) -> None:
    """Tell a callback that monitors a metric of kbert's whether higher is better.

    Keras knows this of its own metrics alone, once they are built.
    """
    monitor = getattr(callback, "monitor", None)
    if getattr(callback, "mode", None) != "auto" or not isinstance(monitor, str):
        return
    if monitor.endswith(("loss", "error")):
        callback.mode = "min"
    elif monitor.startswith("val_") or monitor.endswith("accuracy"):
        callback.mode = "max"
