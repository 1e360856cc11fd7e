"""A model's outputs as a function of its encoder's hidden states."""

from collections.abc import Callable

import keras


def made_of(states: list, outputs: list) -> Callable:
    """Return a function from hidden states and their mask to outputs made of them.

    An output may also be one of the hidden states.

    Args:
        states: hidden states of a graph, the embeddings' first.
        outputs: outputs of the same graph.
    """
    places = {id(state): place for place, state in enumerate(states)}
    made = [output for output in outputs if id(output) not in places]  # Keras passes no input on
    model = keras.Model(states, made) if made else None

    def call(found, mask):
        new = model.call(found, mask=[mask] * len(found), training=False) if model else ()
        rest = iter(keras.tree.flatten(new))
        return [found[places[id(one)]] if id(one) in places else next(rest) for one in outputs]

    return call
