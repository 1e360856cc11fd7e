"""Which of Keras's callbacks the loop takes, and how closely they watch."""

import keras

HARMFUL = {
    "LearningRateScheduler": "the schedule sets the rate: choose learning_rate, warmup_steps and "
    "schedule",
    "ReduceLROnPlateau": "the schedule sets the rate: choose learning_rate, warmup_steps and "
    "schedule",
    "BackupAndRestore": "it restores neither the data's position nor the dropout: the run's folder "
    "does",
    "SwapEMAWeights": "no averages of the weights are kept",
}


def refuse_harmful(callbacks) -> None:
    """Raises a ValueError for what is no callback, or would do nothing or harm."""
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise ValueError(f"callbacks must be Keras callbacks, got {callback!r}")
        for base in type(callback).__mro__:
            if base.__name__ in HARMFUL and base.__module__.startswith("keras."):
                raise ValueError(f"{base.__name__} cannot be used here: {HARMFUL[base.__name__]}")


def watch_batches(callbacks) -> bool:
    """Whether any of them does something at each batch: by its class, or by itself alone, as a
    LambdaCallback does."""
    names = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")
    plain = [getattr(keras.callbacks.Callback, name) for name in names]
    return any(
        getattr(getattr(callback, name), "__func__", None) is not default
        for callback in callbacks
        for name, default in zip(names, plain, strict=True)
    )
