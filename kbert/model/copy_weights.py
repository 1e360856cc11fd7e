"""Weights from one model to another, layer by layer."""

from collections.abc import Collection


def copy_weights(source, target, leave: Collection[str] = ()) -> None:
    """Copies the weights of each layer of `target` from the layer of that name in `source`.

    Args:
        source, target: Keras models of one configuration; their lengths and heads may differ.
        leave: names of layers of `target` that stay as they are.

    Raises:
        KeyError: a layer that `source` lacks.
    """
    layers = {layer.name: layer for layer in source.layers}
    for layer in target.layers:
        if layer.weights and layer.name not in leave:
            layer.set_weights(layers[layer.name].get_weights())
