"""A SavedModel: what TensorFlow Serving, tf.saved_model.load and keras.layers.TFSMLayer open."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from kbert.checkpoints.exports import serving
from kbert.io import folders

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
    check(Path(path))
    with folders.atomic_folder(path, alone=True) as folder:
        save(model, folder)
        if bert.tokenizer is not None:
            positions = bert.config.positions
            bert.tokenizer.save(folder / TOKENIZER, max_length=positions)


def check(path: Path) -> None:
    """Raises where a SavedModel cannot be written to a path, or on this backend."""
    serving.check_backend("a SavedModel")
    folders.finish(path)
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

    class Served(tf.Module):
        """A plain object: a module computes these three, and here they are given."""

        variables: Sequence = ()
        trainable_variables: Sequence = ()
        non_trainable_variables: Sequence = ()

    # As Keras's ExportArchive lays it out, which keras.layers.TFSMLayer expects; but that (Keras
    # 3.15) writes every variable twice. tf.train.Checkpoint would write a counter beside them.
    saved = Served()
    saved.serve = tf.function(serve, input_signature=[signature], autograph=False)
    saved.trainable_variables = [weight.value for weight in model.trainable_weights]
    saved.non_trainable_variables = [weight.value for weight in model.non_trainable_weights]
    saved.variables = [weight.value for weight in model.weights]
    function = saved.serve.get_concrete_function()
    try:
        tf.saved_model.save(saved, str(folder), {"serving_default": function, "serve": function})
    except tf.errors.OpError as error:  # a full disk, among others
        raise OSError(errno.EIO, error.message, str(folder)) from None


def _may_be_replaced(path: Path) -> bool:
    inside = {entry.name for entry in path.iterdir()} if path.is_dir() else {"a file"}
    return "saved_model.pb" in inside or all(folders.is_own(name) for name in inside)
