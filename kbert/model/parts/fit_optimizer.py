"""Keras's own Adam and AdamW in Keras's own `fit`, on TensorFlow on a CPU: the same numbers, and
each weight's update is two XLA programs where Keras has some fifteen operations, a pass over memory
each.
"""

import contextlib
import functools
from collections.abc import Iterator
from weakref import WeakKeyDictionary

import keras

from kbert.model.keras_internals import adam_state, moved_by
from kbert.model.parts import in_fit

_ELSE = ("amsgrad", "use_ema", "gradient_accumulation_steps", "clipnorm", "clipvalue")
# An optimizer's own: a program knows the variables that it was traced with.
_programs_of: WeakKeyDictionary = WeakKeyDictionary()


@contextlib.contextmanager
def as_programs(model) -> Iterator[None]:
    """Within it the model's optimizer, where it is one of these, is traced so.

    Args:
        model: a `BertModel` that was `compile`d.
    """
    with contextlib.ExitStack() as stack:
        if _is_known(model.optimizer) and _is_worth_it(model):
            stack.enter_context(moved_by(model.optimizer, _move))
        yield


def _is_known(optimizer) -> bool:
    """Whether it is what `_move` computes: no class of one's own, and no setting besides."""
    known = type(optimizer) in (keras.optimizers.Adam, keras.optimizers.AdamW)
    return known and not any(getattr(optimizer, name) for name in _ELSE)


def _is_worth_it(model) -> bool:
    import tensorflow as tf

    if model.jit_compile or model.run_eagerly or tf.distribute.has_strategy():
        return False
    floats = all(weight.dtype == "float32" for weight in model.trainable_weights)
    return floats and in_fit.is_large_on_cpu(model)


def _move(optimizer, gradients, weights) -> None:
    """Weights and moments, to where Keras moves them.

    Args:
        gradients: of each weight, float32.
        weights: Keras's variables.
    """
    import tensorflow as tf

    from kbert.model.parts import joined_weights

    if optimizer not in _programs_of:
        _programs_of[optimizer] = _Programs(optimizer)
    programs = _programs_of[optimizer]
    clip = tf.constant(1.0)
    if optimizer.global_clipnorm:
        norm = tf.linalg.global_norm(gradients)
        clip = tf.minimum(optimizer.global_clipnorm / norm, 1.0) + (norm - norm)  # NaN of infinity
        gradients = [tf.convert_to_tensor(one) for one in gradients]
    rate = tf.cast(optimizer.learning_rate, "float32")
    step = tf.cast(optimizer.iterations + 1, "float32")
    one, two = (1 - tf.pow(beta, step) for beta in (optimizer.beta_1, optimizer.beta_2))
    pace = rate * tf.sqrt(two) / one
    joined: dict[bool, list] = {True: [], False: []}  # of those that are decayed, and the others
    for gradient, weight in zip(gradients, weights, strict=True):
        state = adam_state(optimizer, weight)
        left = 1 - rate * optimizer.weight_decay if state.decayed else tf.constant(1.0)
        values = weight.value, state.first.value, state.second.value
        if isinstance(gradient, tf.IndexedSlices):  # each of which Keras squares on its own
            weight.assign(weight * left)
            optimizer.update_step(gradient, weight.value, rate)
        elif joined_weights.is_small(weight):
            joined[state.decayed].append((left, *values, gradient))
        else:
            programs.move_moments(*values[1:], gradient, clip)
            programs.move_weight(*values, left, pace)
    for given in filter(None, joined.values()):
        (left, *_), *states, of_these = zip(*given, strict=True)
        joined_weights.move(
            states,
            of_these,
            functools.partial(programs.moments, clip=clip),
            functools.partial(programs.weight, left=left, pace=pace),
        )


class _Programs:
    """An optimizer's: two, as one for both moments and weight would keep a copy of the old moments.

    Attributes:
        moments, weight: of tensors.
        move_moments, move_weight: of variables, which are given new values in their places.
    """

    def __init__(self, optimizer):
        import tensorflow as tf

        compiled = functools.partial(tf.function, jit_compile=True, autograph=False)
        rates = 1 - optimizer.beta_1, 1 - optimizer.beta_2
        epsilon = optimizer.epsilon

        def moments(first, second, gradient, clip):
            gradient = gradient * clip
            second_new = second + (gradient * gradient - second) * rates[1]
            return first + (gradient - first) * rates[0], second_new

        def weight(weight, first, second, left, pace):
            return weight * left - pace * first / (tf.sqrt(second) + epsilon)

        def move_moments(first, second, gradient, clip):
            new = moments(first.read_value(), second.read_value(), gradient, clip)
            first.assign(new[0], read_value=False)
            second.assign(new[1], read_value=False)

        def move_weight(moved, first, second, left, pace):
            moments = first.read_value(), second.read_value()
            moved.assign(weight(moved.read_value(), *moments, left, pace), read_value=False)

        self.moments, self.weight = compiled(moments), compiled(weight)
        self.move_moments, self.move_weight = compiled(move_moments), compiled(move_weight)
