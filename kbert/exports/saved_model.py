"""Export to a SavedModel, for TensorFlow Serving, tf.saved_model.load and TFSMLayer."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from kbert.data.tokenization.tokenizer import FILES
from kbert.exports import serving
from kbert.io import extras, folders
from kbert.io.interrupted_saves import is_own, open_whole
from kbert.io.wording import first_few

_WHAT = "a SavedModel"
TOKENIZER = "tokenizer"  # the folder within, for a program that has texts
_ENTRIES = {  # of a SavedModel, TensorFlow's and Keras's
    "saved_model.pb",
    "fingerprint.pb",
    "keras_metadata.pb",
    "variables",
    "assets",
    "assets.extra",
    TOKENIZER,
}
# The old files that go. Others are the user's, as in assets.extra, where TensorFlow Serving looks
# for requests to warm up with; kbert writes no assets.
_SUPERSEDED = (
    "saved_model.pb",
    "fingerprint.pb",
    "keras_metadata.pb",
    "variables/variables.index",
    "variables/variables.data-?????-of-?????",
    *(f"{TOKENIZER}/{name}" for name in FILES),
)


def write(bert, path: str | os.PathLike, text: bool = False) -> None:
    """Write the model as a folder; the tokenizer's files go into its folder `tokenizer`.

    The signature `serving_default`, also called `serve`, has the inputs and outputs of `serving`.

    With `text` the signatures take strings: `serving_default` the tensor `texts` (N,); `pairs`, if
    the model takes two texts, `texts` and `pairs`. The graph tokenizes as the model's own tokenizer
    and truncates as `kbert.embed` and `classify`. Bytes that are not UTF-8 are dropped. Opening it
    needs tensorflow_text. The outputs, by the head:

        encoder      sentence_embedding, float32 (N, H): as `kbert.embed`
        classifier   probabilities, float32 (N, labels), and labels, their names (N, labels); of one
                     choice, label, the most likely, (N,); for a regression value, float32 (N,)
        pretraining  the most likely tokens of every [MASK], (N, masks, 5), and their probabilities,
                     float32, padded with "" and 0; for pairs probability, float32 (N,), that the
                     second text is next
    """
    # Keras would write one on JAX too: TensorFlow 2.21 cannot read the StableHLO of JAX 0.10.
    model = serving.serving_model(bert, _WHAT, with_embedding=not text)
    functions = None
    if text:
        functions = _make_text_functions(bert, model)
    else:
        serving.warn_of_untrained(bert, path, model)

    with folders.atomic_folder(path, superseded=_SUPERSEDED) as folder:
        save(model, folder, functions)
        if bert.tokenizer is not None:
            positions = bert.config.positions
            bert.tokenizer.save(folder / TOKENIZER, max_length=positions)


def _make_text_functions(bert, model) -> dict:
    """Return the TensorFlow functions of strings by signature."""
    require_text()
    import tensorflow as tf

    try:
        from kbert.exports import text_answers
    except (ImportError, tf.errors.NotFoundError) as error:  # a symbol that its library lacks
        levels = tf.__version__.split(".")
        version = ".".join(levels[:2])
        raise ImportError(
            f"{_WHAT} with text needs a tensorflow_text that fits TensorFlow "
            f"{tf.__version__}: pip install 'tensorflow-text=={version}.*'"
        ) from error
    return text_answers.make_functions(bert, model)


def check(path: Path) -> None:
    """Raise where a SavedModel cannot be written to a path, or on this backend."""
    serving.check_backend(_WHAT)
    inside = []
    if path.is_dir():
        with open_whole(path) as whole:
            inside = sorted(entry.name for entry in whole.iterdir())

    known = _ENTRIES if "saved_model.pb" in inside else set()  # what else is there would be lost
    unknown = [name for name in inside if name not in known and not is_own(name)]
    is_file = path.exists() and not path.is_dir()
    if unknown or is_file:
        raise ValueError(
            f"{path} must be new, or a SavedModel to replace, got other files: "
            f"{first_few(unknown or ['a file'])}. Choose another folder"
        )


def require_text() -> None:
    """Raise an ImportError, one line, where tensorflow_text is missing."""
    extras.require(f"{_WHAT} with text", "serving", "tensorflow_text")


def save(model, folder: Path, functions: dict | None = None) -> None:
    """Write a model with TensorFlow functions by signature; None: one of the model's inputs."""
    import tensorflow as tf

    class Served(tf.Module):
        """A plain object: a module computes these three, and here they are given."""

        variables: Sequence = ()
        trainable_variables: Sequence = ()
        non_trainable_variables: Sequence = ()

    # As Keras's ExportArchive lays it out, which keras.layers.TFSMLayer expects; but that (Keras
    # 3.15) writes every variable twice. tf.train.Checkpoint would write a counter beside them.
    saved = Served()
    if functions is None:
        functions = {"serving_default": _make_function_of_ids(tf, model)}
    functions = functions | {"serve": functions["serving_default"]}
    for name, function in functions.items():
        if name != "serving_default":
            setattr(saved, name, function)
    saved.trainable_variables = [weight.value for weight in model.trainable_weights]
    saved.non_trainable_variables = [weight.value for weight in model.non_trainable_weights]
    saved.variables = [weight.value for weight in model.weights]

    signatures = {}
    for name, function in functions.items():
        signatures[name] = function.get_concrete_function()
    try:
        tf.saved_model.save(saved, str(folder), signatures)
    except tf.errors.OpError as error:  # a full disk, among others
        raise OSError(errno.EIO, error.message, str(folder)) from None


def _make_function_of_ids(tf, model):
    """Return the TensorFlow function of a model's inputs, by their names as identifiers."""
    specs = {}
    for tensor in model.inputs:
        name = serving.parameter(tensor.name)
        specs[name] = tf.TensorSpec(tensor.shape, "int32", name)

    def serve(inputs):
        return serving.outputs_of(model, [inputs[name] for name in specs])

    return tf.function(serve, [specs], autograph=False)
