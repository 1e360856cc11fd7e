"""Export to a SavedModel, for TensorFlow Serving, tf.saved_model.load and TFSMLayer."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from kbert.checkpoints.exports import serving
from kbert.io import extras, folders
from kbert.io.wording import first_few

_WHAT = "a SavedModel"
TOKENIZER = "tokenizer"  # the folder within, for a program that has texts
_FILES = {  # of a SavedModel, TensorFlow's and Keras's
    *("saved_model.pb", "fingerprint.pb", "keras_metadata.pb", "variables", "assets"),
    *("assets.extra", TOKENIZER),
}


def write(bert, path: str | os.PathLike, text: bool = False) -> None:
    """Write the model as a folder; the tokenizer's files go into its folder `tokenizer`.

    The signature `serving_default`, also called `serve`, takes int32 tensors of any batch and
    length, up to the configuration's positions: Input_Token, Input_Segment and, where the model has
    one, Input_Masked (B, S) or Input_Positions (B, M). It gives float32 tensors by the names of the
    output layers; those of an encoder and of a sentence vector as in ONNX. An id outside its table
    gives NaN or TensorFlow's own error.

    With `text` the signatures take strings: `serving_default` the tensor `texts` (N,), `pairs`,
    where the model answers to two texts, `texts` and `pairs`. They are cut into the tokens that the
    model's own tokenizer makes of them, and to the length that `kbert.embed` and `classify` cut to.
    Bytes that are not UTF-8 are dropped. What opens it needs tensorflow_text. Given are, by the
    head:

        encoder      sentence_embedding, float32 (N, H): as `kbert.embed`
        classifier   probabilities, float32 (N, labels), and labels, their names (N, labels); where
                     they are of one choice, label, the most likely, (N,); of a regression value,
                     float32 (N,)
        pretraining  of every [MASK] the most likely tokens, (N, masks, 5), and their probabilities,
                     float32, filled up with "" and 0; of pairs probability, float32 (N,), that the
                     second text is next

    Args:
        bert: a `kbert.Bert`.
        path: the folder; an old SavedModel there is replaced once the new one is whole.
        text: whether it takes texts, and not ids.

    Raises:
        ValueError: a backend that is not TensorFlow; a folder with other files than a
            SavedModel's; with `text` a tokenizer that is no WordPiece, the head tokens or qa, a
            head with random weights.
        ImportError: tensorflow_text is needed and not there, or of another TensorFlow.
        OSError: it cannot be written; an old one stays.
    """
    # Keras would write one on JAX too: TensorFlow 2.21 cannot read the StableHLO of JAX 0.10.
    model = serving.serving_model(bert, _WHAT, with_embedding=not text)
    functions = _make_text_functions(bert, model) if text else None
    check(Path(path))
    if not text:
        serving.warn_of_untrained(bert, path, model)
    with folders.atomic_folder(path, alone=True) as folder:
        save(model, folder, functions)
        if bert.tokenizer is not None:
            positions = bert.config.positions
            bert.tokenizer.save(folder / TOKENIZER, max_length=positions)


def check(path: Path) -> None:
    """Raise where a SavedModel cannot be written to a path, or on this backend."""
    serving.check_backend(_WHAT)
    folders.finish(path)
    if path.exists() and (others := _other_files(path)):
        raise ValueError(
            f"{path} must be new, or a SavedModel to replace, got other files: "
            f"{first_few(others)}. Choose another folder"
        )


def require_text() -> None:
    """Raise an ImportError, one line, where tensorflow_text is missing."""
    extras.require(f"{_WHAT} with text", "serving", "tensorflow_text")


def save(model, folder: Path, functions: dict | None = None) -> None:
    """Write a model of any length into a folder.

    Args:
        model: the model.
        folder: the folder.
        functions: TensorFlow functions by their signatures' names, "serving_default" among them,
            which is called `serve` too; None: that of the model's own inputs.

    Raises:
        OSError: it cannot be written.
    """
    import tensorflow as tf

    class Served(tf.Module):
        """A plain object: a module computes these three, and here they are given."""

        variables: Sequence = ()
        trainable_variables: Sequence = ()
        non_trainable_variables: Sequence = ()

    # As Keras's ExportArchive lays it out, which keras.layers.TFSMLayer expects; but that (Keras
    # 3.15) writes every variable twice. tf.train.Checkpoint would write a counter beside them.
    saved = Served()
    functions = functions or {"serving_default": _make_id_function(model)}
    functions = functions | {"serve": functions["serving_default"]}
    for name, function in functions.items():
        if name != "serving_default":
            setattr(saved, name, function)
    saved.trainable_variables = [weight.value for weight in model.trainable_weights]
    saved.non_trainable_variables = [weight.value for weight in model.non_trainable_weights]
    saved.variables = [weight.value for weight in model.weights]
    signatures = {name: function.get_concrete_function() for name, function in functions.items()}
    try:
        tf.saved_model.save(saved, str(folder), signatures)
    except tf.errors.OpError as error:  # a full disk, among others
        raise OSError(errno.EIO, error.message, str(folder)) from None


def _make_text_functions(bert, model) -> dict:
    """Return the functions of strings.

    Raises:
        ImportError: tensorflow_text is missing, or another TensorFlow's.
        ValueError: a model that cannot answer to texts.
    """
    require_text()
    import tensorflow as tf

    try:
        from kbert.checkpoints.exports import text_answers
    except (ImportError, tf.errors.NotFoundError) as error:  # a symbol that its library lacks
        version = ".".join(tf.__version__.split(".")[:2])
        raise ImportError(
            f"{_WHAT} with text needs a tensorflow_text that fits TensorFlow {tf.__version__}: "
            f"pip install 'tensorflow-text=={version}.*'"
        ) from error
    text_answers.check(bert)
    return text_answers.functions(bert, model)


def _make_id_function(model):
    import tensorflow as tf

    names = [tensor.name for tensor in model.inputs]
    parameters = [serving.parameter(name) for name in names]

    def serve(inputs):
        return serving.outputs_of(model, [inputs[parameter] for parameter in parameters])

    signature = {
        parameter: tf.TensorSpec(tensor.shape, "int32", parameter)
        for parameter, tensor in zip(parameters, model.inputs, strict=True)
    }
    return tf.function(serve, input_signature=[signature], autograph=False)


def _other_files(path: Path) -> list[str]:
    """Return what lies at a path that a SavedModel does not have: it would be lost."""
    if not path.is_dir():
        return ["a file"]
    inside = sorted(entry.name for entry in path.iterdir())
    known = _FILES if "saved_model.pb" in inside else set()
    return [name for name in inside if name not in known and not folders.is_own(name)]
