"""Every number that the next step depends on: the variables, read as arrays and set to them."""

import keras
import numpy as np

from kbert.io.wording import first_few
from kbert.model.matrices import is_adapter
from kbert.ops.devices import device_names
from kbert.training import precision
from kbert.training.trained_weights import TrainedWeights


class TrainingState:
    """The variables of a model that is trained, and of its optimizer.

    Attributes:
        model: the model.
        weights: its variables that are trained, in Keras's order.
        trained: what they are.
        first, second: the moments of each.
        counts: steps done, loss scale, good steps since it changed, steps in a row that were
            not applied.
        seed_states: of the dropouts.
    """

    model: "keras.Model"
    trained: TrainedWeights
    weights: list
    first: list
    second: list
    counts: list
    seed_states: list
    scaled: bool  # whether the loss is

    def _make_variables(self) -> None:
        """Make the optimizer's variables, for `self.model`."""

        def zeros(variable, name):
            return keras.Variable(
                "zeros", variable.shape, "float32", trainable=False, name=name, autocast=False
            )

        self.first = [zeros(weight, "first_moment") for weight in self.weights]
        self.second = [zeros(weight, "second_moment") for weight in self.weights]
        first_scale = precision.FIRST_SCALE if self.scaled else 1.0
        # float32 is exact to 2²⁴
        self.counts = [
            keras.Variable(
                np.float32(value), dtype="float32", trainable=False, name=name, autocast=False
            )
            for name, value in (
                ("iteration", 0),
                ("loss_scale", first_scale),
                ("good_updates", 0),
                ("bad_updates", 0),
            )
        ]

    @property
    def iterations(self) -> int:
        """Steps that changed the weights so far; waits for those under way."""
        return int(self._on_host([self.counts[0].value])[0])

    def _variables(self) -> dict:
        """Return every variable of the state by its name."""
        # without the seeds' paths: those count what the process made before
        found = {f"model/seed/{place}": state for place, state in enumerate(self.seed_states)}
        found |= {_name_of(weight.path): weight for weight in self.model.weights}
        if len(found) != len(self.seed_states) + len(self.model.weights):
            raise ValueError("two weights of the model have one path: give its layers other names")
        for kind, variables in (("first", self.first), ("second", self.second)):
            for weight, variable in zip(self.weights, variables, strict=True):
                name = _name_of(weight.path).partition("/")[2]
                found[f"optimizer/{kind}/{name}"] = variable
        # without bad_updates: what is saved is good
        return found | {f"optimizer/{variable.name}": variable for variable in self.counts[:-1]}

    def state(self) -> dict[str, np.ndarray]:
        """Return every number that the next step depends on, by name."""
        return self._copied(self._variables())

    def weights_now(self) -> dict[str, np.ndarray]:
        """Return the model's part of the state, adapters included, copied."""
        return self._copied(self._of_model())

    def _copied(self, variables: dict) -> dict[str, np.ndarray]:
        arrays = self._on_host([variable.value for variable in variables.values()])
        named = dict(zip(variables, arrays, strict=True))
        # A CPU's next update writes to this very memory; an accelerator's numbers came by a copy.
        if device_names() != ["CPU"]:
            return named
        return {name: np.array(array, order="C") for name, array in named.items()}

    def _on_host(self, values: list) -> list[np.ndarray]:
        """Return values of variables, copied no more than the backend must."""
        raise NotImplementedError

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Set all of it, bit for bit; nothing, where names or shapes are others.

        Raises:
            ValueError: what is missing, unexpected or of another shape.
        """
        self._restore(self._variables(), state)
        self._set(self.counts[-1], np.array(0, np.float32))

    def restore_weights(self, weights: dict[str, np.ndarray]) -> None:
        """Set what `weights_now` gave, and leave the optimizer's as they are."""
        self._restore(self._of_model(), weights)

    def _of_model(self) -> dict:
        return {
            name: variable
            for name, variable in self._variables().items()
            if not name.startswith("optimizer/")
        }

    def _restore(self, variables: dict, state: dict[str, np.ndarray]) -> None:
        problems = [f"missing: {name}" for name in variables if name not in state]
        problems += [f"unexpected: {name}" for name in state if name not in variables]
        problems += [
            f"shape of {name}: expected {tuple(variable.shape)}, found {state[name].shape}"
            for name, variable in variables.items()
            if name in state and tuple(variable.shape) != state[name].shape
        ]
        if problems:
            listed = first_few(problems, between="; ")
            raise ValueError(f"the state is not this model's and optimizer's: {listed}")
        for name, variable in variables.items():
            self._set(variable, state[name])

    def _set(self, variable, array: np.ndarray) -> None:
        variable.assign(array)

    def _updated(self) -> list:
        """Return the variables that a step changes: weights, moments, counts."""
        return [*self.weights, *self.first, *self.second, *self.counts]

    def _split(self, values: list) -> tuple[list, list, list, list]:
        """Return values in the order of `_updated`, as its four parts."""
        count = len(self.weights)
        weights, first, second = (values[n * count : (n + 1) * count] for n in range(3))
        return weights, first, second, values[3 * count :]


def _name_of(path: str) -> str:
    """Return the name of the model's weight at a path: "model/…", or "adapter/…"."""
    return f"adapter/{path.replace('/', '.')}" if is_adapter(path) else f"model/{path}"
