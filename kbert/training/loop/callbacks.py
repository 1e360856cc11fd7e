"""Keras's callbacks in kbert's training loop: which are refused, and the model that they see.

`fit` hands callbacks a compiled model. So does this loop: before each call the model has an
optimizer with the current learning rate and iterations, a loss, metrics with their names, and
weights that include what adapters add to them. At the end of an epoch, and of training, the weights
are those that are evaluated: with `ema` their averages.
"""

import contextlib
import inspect
import itertools
from collections.abc import Sequence
from typing import Any

import keras

from kbert.data.training_batch import TrainingBatch
from kbert.model.lora import merge_adapters
from kbert.training.optimization import optimizers

_SETS_RATE = (
    "the schedule sets the rate: choose learning_rate, warmup and schedule, which may be one of "
    "keras.optimizers.schedules"
)
HARMFUL = {
    "LearningRateScheduler": _SETS_RATE,
    "ReduceLROnPlateau": _SETS_RATE,
    "BackupAndRestore": "it restores neither the data's position nor the dropout: the run's folder "
    "does",
    "SwapEMAWeights": "ema=0.999 keeps averages of the weights, and evaluates and saves them",
}
_LOWER_IS_BETTER = ("loss", "error", "mse")  # ends of names of metrics
_BATCH_EVENTS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")


def refuse_harmful(callbacks, adapted: bool = False, evaluated: bool = True) -> None:
    """Refuse callbacks that would do harm, or nothing with adapters or without dev data."""
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
        if not evaluated and _needs_dev_data(callback):
            raise ValueError(
                f"{type(callback).__name__} monitors {callback.monitor}, and there is no dev data: "
                "give dev, or leave the callback out"
            )


def _needs_dev_data(callback) -> bool:
    """Return whether a callback waits for a metric of an evaluation."""
    if isinstance(callback, keras.callbacks.ModelCheckpoint):
        is_waiting = callback.save_best_only
    else:
        is_waiting = isinstance(callback, keras.callbacks.EarlyStopping)
    return is_waiting and callback.monitor.startswith("val_")


def watch_batches(callbacks) -> bool:
    """Return whether any acts on each batch, by its class or its instance, as LambdaCallback's."""
    for callback, name in itertools.product(callbacks, _BATCH_EVENTS):
        method = getattr(callback, name)
        inherited = getattr(keras.callbacks.Callback, name)
        if getattr(method, "__func__", None) is not inherited:
            return True
    return False


class Callbacks:
    """The callbacks of a run, and the compiled model that they see.

    Any `batch` has its labels. `score` is the metric that says what is best; "-" before it: lower
    is better.
    """

    def __init__(
        self, callbacks: Sequence, engine, batch: TrainingBatch, score: str = "", **params
    ):
        self._engine = engine
        self._outputs = [name for name in batch.labels if name in engine.output_names]
        self._watched = watch_batches(callbacks)

        # Several hosts may differ in their callbacks: variables of a strategy need them all.
        is_alone = engine.backend.processes == 1
        with engine.backend.scope() if is_alone else contextlib.nullcontext():
            self._compile()

        for callback in callbacks:
            _set_mode(callback, score)
        options = {"add_history": True, "model": engine.model} | params
        self._list = keras.callbacks.CallbackList(list(callbacks), **options)

    def tell(self, event: str, *arguments) -> None:
        """Call one of the callbacks' methods; a dict among its arguments is the logs."""
        if event in _BATCH_EVENTS and not self._watched:
            return
        converted = [self._keras_logs(x) if isinstance(x, dict) else x for x in arguments]

        with self._evaluated_weights(event), merge_adapters(self._engine.model):
            # the iterations so far and the rate that follows them, as `fit`
            optimizer = self._engine.model.optimizer
            done = self._engine.state.iterations
            optimizer.iterations.assign(done)
            optimizer.learning_rate = optimizers.learning_rate(
                self._engine.settings, done, self._engine.budget_share
            )
            rate = _rate_of(optimizer)
            getattr(self._list, event)(*converted)

        if _rate_of(self._engine.model.optimizer) != rate:
            raise ValueError(
                "a callback set the learning rate, which the run's schedule sets: leave the "
                "callback out, and choose learning_rate, warmup and schedule"
            )

    def _evaluated_weights(self, event: str):
        """Return the context in which the model has the averages of its weights, if it needs one.

        Several hosts may differ in their callbacks, and all hosts have to change a weight: there
        callbacks see the trained weights.
        """
        if event == "on_epoch_end" and self._engine.backend.processes == 1:
            return self._engine.state.with_averages()
        return contextlib.nullcontext()

    def _compile(self) -> None:
        losses: dict[str, Any] = {}
        metrics: dict[str, Any] = {}
        for name in self._outputs:
            loss = self._engine.step.losses[name]
            losses[name], metrics[name] = loss.make_keras()
        # the engine scales the loss, where it is to be scaled
        self._engine.model.compile(
            self._make_optimizer(),
            losses or None,
            weighted_metrics=metrics or None,
            auto_scale_loss=False,
        )

    def _make_optimizer(self) -> keras.optimizers.Optimizer:
        """Return Keras's optimizer with the settings of the run's that it takes."""
        settings = self._engine.settings
        if not isinstance(settings.name, str):
            return keras.saving.deserialize_keras_object(settings.name)

        keras_class = optimizers.OPTIMIZERS[settings.name].keras_class
        parameters = inspect.signature(keras_class).parameters
        names = ("learning_rate", "weight_decay", "beta_1", "beta_2", "epsilon")
        options = {name: getattr(settings, name) for name in names if name in parameters}
        return keras_class(global_clipnorm=self._engine.step.clip_norm, **options)

    def _keras_logs(self, values: dict) -> dict:
        """Values as logs: a single output's also have Keras's names, without the output's."""
        if len(self._outputs) != 1:
            return values
        prefix = f"{self._outputs[0]}_"
        renamed = {
            name.removeprefix(prefix): value
            for name, value in values.items()
            if name.startswith(prefix)
        }
        return renamed | values


def _set_mode(callback, score: str) -> None:
    """Say whether higher is better; Keras knows it of its own metrics alone."""
    monitor = getattr(callback, "monitor", None)
    if getattr(callback, "mode", None) != "auto" or not isinstance(monitor, str):
        return
    is_low_score = score == f"-{monitor.removeprefix('val_')}"
    if is_low_score or monitor.endswith(_LOWER_IS_BETTER):
        callback.mode = "min"
    elif monitor.startswith("val_") or monitor.endswith("accuracy"):
        callback.mode = "max"


def _rate_of(optimizer) -> float:
    return float(keras.ops.convert_to_numpy(optimizer.learning_rate))
