"""End a run in the middle, within the process."""

import shutil
import time
from pathlib import Path

import keras
import numpy as np

from kbert.training.run.state_files import read_state


class Crash(keras.callbacks.Callback):
    """Ends a run after so many updates, as a kill would: nothing is saved."""

    def __init__(self, updates: int):
        super().__init__()
        self.left = updates

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if not self.left:
            raise RuntimeError("crash")


class Copies(keras.callbacks.Callback):
    """Copies a run's folder after some updates, as a kill would leave it.

    The run then goes on: the copy is resumed and compared with it, and no second run is needed.
    """

    def __init__(self, run: Path, to: Path, updates: int, state: int):
        super().__init__()
        self.run, self.to, self.left = run, to, updates
        self.state = f"step-{state:08d}.safetensors"  # the newest of the copy

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if not self.left:
            end = time.monotonic() + 60
            while not (self.run / "checkpoints" / self.state).is_file():
                assert time.monotonic() < end, f"no {self.state}"
                time.sleep(0.01)  # a thread writes it, and then removes older ones
            shutil.copytree(self.run, self.to, ignore=self.older)

    def older(self, folder, names):
        return [name for name in names if name.startswith("step-") and name != self.state]


class Beginning(keras.callbacks.Callback):
    """Ends a run before its first update; `weights` are those by layer."""

    def on_train_begin(self, logs=None):
        self.weights = {layer.name: layer.get_weights() for layer in self.model.layers}
        raise RuntimeError("begun")


def assert_states_equal(one: Path, other: Path, step: int) -> None:
    """Check that two runs' states after a step are equal, bit for bit."""
    name = f"checkpoints/step-{step:08d}.safetensors"
    (arrays, _), (others, _) = (read_state(run / name) for run in (one, other))
    assert set(arrays) == set(others)
    assert not [name for name in arrays if not np.array_equal(arrays[name], others[name])]
