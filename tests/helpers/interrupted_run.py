"""End a run in the middle, within the process."""

import keras


class Crash(keras.callbacks.Callback):
    """Ends a run after so many updates, as a kill would: nothing is saved."""

    def __init__(self, updates: int):
        super().__init__()
        self.left = updates

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if not self.left:
            raise RuntimeError("crash")


class Beginning(keras.callbacks.Callback):
    """Ends a run before its first update; `weights` are those by layer."""

    def on_train_begin(self, logs=None):
        self.weights = {layer.name: layer.get_weights() for layer in self.model.layers}
        raise RuntimeError("begun")
