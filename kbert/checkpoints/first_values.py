"""Whether a layer still has its first weights: a digest of them, taken when a model is loaded."""

import hashlib
from collections.abc import Collection, Mapping


def digests(model, layers: Collection[str]) -> dict[str, str]:
    """A digest of the weights of each layer, by the layer's name."""
    import keras

    found = {}
    for layer in model.layers:
        if layer.name in layers:
            digest = hashlib.blake2b(digest_size=16)
            for weight in layer.weights:
                digest.update(keras.ops.convert_to_numpy(weight).tobytes())
            found[layer.name] = digest.hexdigest()
    return found


def changed(model, first: Mapping[str, str]) -> set[str]:
    """The layers whose weights are others than those that the digests `first` were taken of."""
    now = digests(model, first)
    return {layer for layer, digest in first.items() if now.get(layer) != digest}
