"""The state of a training run: every number that the next step depends on."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from kbert.io.wording import first_few
from kbert.model.lora import is_adapter
from kbert.training.optimization.optimizers import AVERAGE
from kbert.training.step.trained_weights import TrainedWeights

FIRST_SCALE = 2.0**15
GROWTH = 2_000  # good updates after which the loss scale is doubled
MOST_SKIPPED = 30  # updates in a row: any loss scale has then fallen below 1


class Counts(NamedTuple):
    """Float32 scalars, exact to 2²⁴."""

    iteration: Any  # steps that were applied
    loss_scale: Any  # factor of the loss; 1 except in float16
    good_updates: Any  # finite steps since the loss scale changed
    bad_updates: Any  # steps in a row that were not applied


class Values(NamedTuple):
    """Tensors or variables that a step changes."""

    weights: list  # those that are trained
    slots: list[dict[str, Any]]  # the optimizer's state of each weight, by the optimizer's names
    counts: Counts

    def result_weights(self) -> list:
        """Return the weights that are evaluated and saved: the averages, where there are any."""
        pairs = zip(self.weights, self.slots, strict=True)
        return [slots.get(AVERAGE, weight) for weight, slots in pairs]


class TrainingState:
    """The variables of a trained model and of its optimizer, saved and restored by name."""

    def __init__(self, model, trained: TrainedWeights, rules, seed_states: Sequence, to_numpy):
        self._model = model
        self._seed_states = seed_states
        self._to_numpy = to_numpy
        self.frozen = trained.frozen

        slots = []
        for rule, weight in zip(rules, trained.variables, strict=True):
            first_values = rule.init(weight)
            variables = {name: _variable(value, name) for name, value in first_values.items()}
            slots.append(variables)
        counts = Counts(
            iteration=_variable(0.0, "iteration"),
            loss_scale=_variable(FIRST_SCALE if needs_scale(model) else 1.0, "loss_scale"),
            good_updates=_variable(0.0, "good_updates"),
            bad_updates=_variable(0.0, "bad_updates"),
        )
        # the trained weights, the optimizer's slots and the counts
        self.variables = Values(list(trained.variables), slots, counts)

    def values(self) -> Values:
        """Return the values of `variables`: the backend's tensors."""
        return keras.tree.map_structure(lambda variable: variable.value, self.variables)

    @property
    def iterations(self) -> int:
        """Number of steps that changed the weights so far; waits for those under way."""
        tensor = self.variables.counts.iteration.value
        (iteration,) = self._to_numpy([tensor])
        return int(iteration)

    def all(self) -> dict[str, np.ndarray]:
        """Copy every number that the next step depends on, by name."""
        return self._copy(self._all_variables())

    def weights(self) -> dict[str, np.ndarray]:
        """Copy the model's part of `all`, adapters included, with the averages of the weights."""
        return self._copy(self._model_variables() | self._averages())

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Set all of it, bit for bit; a ValueError, and nothing, if names or shapes differ."""
        _restore(self._all_variables(), state)
        self.variables.counts.bad_updates.assign(np.float32(0))

    def restore_weights(self, weights: dict[str, np.ndarray]) -> None:
        """Set what `weights` gave, and leave the optimizer's state as it is."""
        _restore(self._model_variables(), weights)
        self.reset_averages()

    def use_averages(self) -> None:
        """Give the model the averages of its weights, where there are any."""
        averages = self._copy(self._averages())
        _restore(self._averaged(), averages)

    def reset_averages(self) -> None:
        """Set the averages, where there are any, to the weights as they are."""
        weights = self._copy(self._averaged())
        _restore(self._averages(), weights)

    @contextlib.contextmanager
    def with_averages(self) -> Iterator[None]:
        """Exchange the weights and their averages within the context."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        weights, averages = self._averaged(), self._averages()
        values = self._copy(weights)
        _restore(weights, self._copy(averages))
        _restore(averages, values)

    def _averages(self) -> dict:
        """Return the variables of averages by the names of their weights; none without `ema`."""
        averages = {}
        for weight, slots in zip(self.variables.weights, self.variables.slots, strict=True):
            if AVERAGE in slots:
                averages[_name_weight(weight.path)] = slots[AVERAGE]
        return averages

    def _averaged(self) -> dict:
        """Return the variables of the weights that have averages, by their names."""
        averaged = {}
        for weight, slots in zip(self.variables.weights, self.variables.slots, strict=True):
            if AVERAGE in slots:
                averaged[_name_weight(weight.path)] = weight
        return averaged

    def _all_variables(self) -> dict:
        """Return every variable of the state by its name."""
        named = self._model_variables()
        weights, slots, counts = self.variables
        for weight, slots_of_weight in zip(weights, slots, strict=True):
            name = _name_weight(weight.path).partition("/")[2]
            for slot, variable in slots_of_weight.items():
                named[f"optimizer/{slot}/{name}"] = variable
        for name in Counts._fields[:-1]:  # without bad_updates: what is saved is good
            named[f"optimizer/{name}"] = getattr(counts, name)
        return named

    def _model_variables(self) -> dict:
        # seeds without their paths, which count what the process built before
        named = {f"model/seed/{n}": state for n, state in enumerate(self._seed_states)}
        named |= {_name_weight(weight.path): weight for weight in self._model.weights}
        if len(named) != len(self._seed_states) + len(self._model.weights):
            raise ValueError("two weights of the model have one path: give its layers other names")
        return named

    def _copy(self, variables: dict) -> dict[str, np.ndarray]:
        tensors = [variable.value for variable in variables.values()]
        arrays = self._to_numpy(tensors)
        # the next step writes to a CPU's memory, which the array may be
        copies = [np.array(array, order="C") for array in arrays]
        return dict(zip(variables, copies, strict=True))


def find_seed_states(model) -> list:
    """Return the states of the model's seed generators, one at least for each dropout layer."""
    weights = {id(weight) for weight in model.weights}
    states = [variable for variable in model.variables if id(variable) not in weights]
    drawing = sum(_has_dropout(layer) for layer in model.layers)
    if len(states) < drawing:  # a layer without a seed would draw the same mask at each step
        raise RuntimeError(
            f"Keras {keras.__version__} has {len(states)} seeds among the model's variables for "
            f"{drawing} layers with dropout, which need one each: use Keras 3.15, or dropout 0"
        )
    return states


def _has_dropout(layer) -> bool:
    if isinstance(layer, keras.layers.Dropout):
        return layer.rate > 0
    return isinstance(layer, keras.layers.MultiHeadAttention) and layer.dropout > 0


def needs_scale(model) -> bool:
    """Return whether a model computes in float16, whose gradients need a loss scale."""
    return any(layer.compute_dtype == "float16" for layer in model.layers)


def next_scale(scale, good, finite):
    """Return the next loss scale and count of good steps: the scale is halved, or later doubled."""
    grown = ops.logical_and(finite, good + 1 >= GROWTH)
    larger = ops.where(grown, scale * 2.0, scale)
    smaller = ops.maximum(scale * 0.5, 2.0**-14)
    scale = ops.where(finite, larger, smaller)
    zero = ops.zeros_like(good)
    steps = ops.where(finite, good + 1, zero)
    steps = ops.where(grown, zero, steps)
    return scale, steps


def _variable(value, name: str) -> keras.Variable:
    if isinstance(value, keras.Variable):
        return value
    value = np.asarray(value, "float32")
    return keras.Variable(value, dtype="float32", trainable=False, name=name, autocast=False)


def _restore(variables: dict, state: dict[str, np.ndarray]) -> None:
    problems = [f"missing: {name}" for name in variables if name not in state]
    problems += [f"unexpected: {name}" for name in state if name not in variables]
    for name, variable in variables.items():
        expected = tuple(variable.shape)
        if name in state and state[name].shape != expected:
            problems.append(f"shape of {name}: expected {expected}, found {state[name].shape}")
    if problems:
        listed = first_few(problems, between="; ")
        raise ValueError(f"the state is not this model's and optimizer's: {listed}")

    for name, variable in variables.items():
        variable.assign(np.array(state[name]))  # JAX may keep the array itself


def _name_weight(path: str) -> str:
    """Return the name of the model's weight at a path: "model/…", or "adapter/…"."""
    return f"adapter/{path.replace('/', '.')}" if is_adapter(path) else f"model/{path}"
