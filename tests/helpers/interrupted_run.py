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
