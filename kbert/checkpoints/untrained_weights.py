"""Newly initialized weights: which layers still have them, and the mark that files keep of them.

A digest of each such layer is taken when a model is loaded. A layer is untrained for as long as its
weights have that digest. Files keep the digests, so that training anywhere, in transformers too,
takes the mark off.
"""

import dataclasses
import hashlib
import logging
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from kbert.checkpoints.transfer import TransferReport
from kbert.io import json_schema as js

_logger = logging.getLogger("kbert")

# The key in transformers' config.json: by layer, the digests of its weights.
KEY = "kbert_newly_initialized"
DIGESTS = js.or_null(js.mapping_of(js.list_of(js.TEXT, "a list of digests")))
# Other programs save a model in half precision: the weights are then others, and still untrained.
_PRECISIONS = ("float32", "float16", "bfloat16")


def digests(model, layers: Collection[str], precision: str = "float32") -> dict[str, str]:
    """Compute a digest of each layer's weights, rounded to a precision, by the layer's name."""
    import keras
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if precision == "bfloat16" else precision
    by_layer = {}
    for layer in model.layers:
        if layer.name not in layers:
            continue
        digest = hashlib.blake2b(digest_size=16)
        for weight in layer.weights:
            with np.errstate(over="ignore"):
                rounded = keras.ops.convert_to_numpy(weight).astype(kind)
            digest.update(rounded.astype("float32").tobytes())
        by_layer[layer.name] = digest.hexdigest()
    return by_layer


def find_unchanged(model, known_digests: Mapping[str, Collection[str]]) -> list[str]:
    """Return the layers whose weights have one of the known digests."""
    now = digests(model, known_digests)
    unchanged = [layer for layer, known in known_digests.items() if now.get(layer) in known]
    return unchanged


def find_untrained(bert, layers: Collection[str] | None = None) -> list[str]:
    """Return the layers, of `layers` if given, with new weights that nothing has trained since."""
    if bert.report is None or not bert.report.initialized_layers:
        return []
    first_values = bert.report.first_values
    first = {layer: [digest] for layer, digest in first_values.items()}
    unchanged = find_unchanged(bert.model, first)
    trained = set(first) - set(unchanged)

    untrained = [layer for layer in bert.report.initialized_layers if layer not in trained]
    if layers is None:
        return untrained
    return [layer for layer in untrained if layer in layers]


def record_untrained(bert, layers: Collection[str]):
    """Return a `kbert.Bert` whose report lists the `layers` that training has not reached."""
    names = [layer.name for layer in bert.model.layers]
    names = [name for name in names if name in layers]
    if not names:
        return bert
    first = digests(bert.model, names)
    report = TransferReport((), (), (), (), initialized_layers=tuple(names), first_values=first)
    return dataclasses.replace(bert, report=report)


def make_digests(bert, layers: Collection[str] | None = None) -> dict[str, list[str]]:
    """Return the digests of each untrained layer, one per precision; of `layers` only, if given."""
    untrained = find_untrained(bert, layers)
    by_precision = [digests(bert.model, untrained, precision) for precision in _PRECISIONS]
    by_layer = {}
    for layer in untrained:
        by_layer[layer] = [all_digests[layer] for all_digests in by_precision]
    return by_layer


def warn_of_untrained(
    bert, path, layers: Collection[str] | None = None, outputs: Iterable[str] = ()
) -> None:
    """Log which of a file's `layers` (None: all) are untrained, and which `outputs` use them."""
    untrained = find_untrained(bert, layers)
    if not untrained:
        return
    names = ", ".join(outputs)
    consequence = f", so these outputs mean nothing: {names}" if names else ""
    _logger.warning(
        "%s: the weights of %s are newly initialized and not trained%s: train them first",
        path,
        ", ".join(untrained),
        consequence,
    )
