"""A SavedModel: what TensorFlow Serving, tf.saved_model.load and keras.layers.TFSMLayer open."""

import contextlib
import errno
import glob
import os
from collections.abc import Iterator
from pathlib import Path

from kbert.checkpoints.exports import serving
from kbert.io.leftovers import is_left, part_folder_of

TOKENIZER = "tokenizer"  # the folder within, for a program that has texts


def write(bert, path: str | os.PathLike) -> None:
    """Writes the model as a folder; the tokenizer's files go into its folder `tokenizer`.

    The signature `serving_default`, also called `serve`, takes int32 tensors of any batch and
    length, up to the configuration's positions: Input_Token, Input_Segment and, where the model has
    one, Input_Masked (B, S) or Input_Positions (B, M). It gives float32 tensors by the names of the
    output layers; those of an encoder and of a sentence vector as in ONNX. An id outside its table
    gives NaN or TensorFlow's own error.

    Args:
        bert: a `kbert.Bert`.
        path: the folder; an old SavedModel there is replaced once the new one is whole.

    Raises:
        ValueError: a backend that is not TensorFlow; a folder that is no SavedModel.
        OSError: it cannot be written; an old one stays.
    """
    # Keras would write one on JAX too: TensorFlow 2.21 cannot read the StableHLO of JAX 0.10.
    model = serving.serving_model(bert, "a SavedModel")
    with _replaced(Path(path)) as folder:
        save(model, folder)
        if bert.tokenizer is not None:
            positions = bert.config.max_position_embeddings
            bert.tokenizer.save(folder / TOKENIZER, max_length=positions)


def check(path: Path) -> None:
    """Raises where a SavedModel cannot be written to a path, or on this backend."""
    serving.check_backend("a SavedModel")
    if path.exists() and not _may_be_replaced(path):
        raise ValueError(f"{path} must be new, or a SavedModel to replace, got something else")


def save(model, folder: Path) -> None:
    """Writes a model of any length into a folder.

    Raises:
        OSError: it cannot be written.
    """
    import tensorflow as tf

    names = [tensor.name for tensor in model.inputs]
    parameters = [serving.parameter(name) for name in names]

    def serve(inputs):
        return serving.outputs_of(model, [inputs[parameter] for parameter in parameters])

    signature = {
        parameter: tf.TensorSpec(tensor.shape, "int32", parameter)
        for parameter, tensor in zip(parameters, model.inputs, strict=True)
    }
    # As Keras's ExportArchive lays it out, which keras.layers.TFSMLayer expects; but that (Keras
    # 3.15) writes every variable twice.
    saved = tf.__internal__.tracking.AutoTrackable()
    saved.serve = tf.function(serve, input_signature=[signature], autograph=False)
    saved.trainable_variables = [weight.value for weight in model.trainable_weights]
    saved.non_trainable_variables = [weight.value for weight in model.non_trainable_weights]
    saved.variables = [weight.value for weight in model.weights]
    function = saved.serve.get_concrete_function()
    try:
        tf.saved_model.save(saved, str(folder), {"serving_default": function, "serve": function})
    except tf.errors.OpError as error:  # a full disk, among others
        raise OSError(errno.EIO, error.message, str(folder)) from None


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """A folder to write to, which takes the place of `path` at the end, if all went well."""
    place = Path(os.path.realpath(path))  # a link stays one
    _put_back(place)
    check(place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with part_folder_of(place) as beside:
            (beside / "new").mkdir()  # within mkdtemp's, which is its owner's alone
            yield beside / "new"
            if place.exists():
                os.rename(place, beside / "old")
            try:
                os.rename(beside / "new", place)
            except OSError:
                if (beside / "old").exists():
                    os.rename(beside / "old", place)
                raise
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _put_back(place: Path) -> None:
    """Gives the old folder its name again, where a writer was killed before the new one had it."""
    for part in place.parent.glob(f".{glob.escape(place.name)}.*.part"):
        if is_left(part) and (part / "old").is_dir() and not place.exists():
            with contextlib.suppress(OSError):
                os.rename(part / "old", place)


def _may_be_replaced(path: Path) -> bool:
    return path.is_dir() and ((path / "saved_model.pb").is_file() or not any(path.iterdir()))
