"""A live model of keras_nlp, which KerasHub was called, from a `Bert`."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kbert.checkpoints.bert import Bert, require_bert
from kbert.checkpoints.keras_hub import writer
from kbert.io import extras

if TYPE_CHECKING:
    import keras

_CLASSES = {
    "encoder": "BertBackbone",
    "pretraining": "BertMaskedLM",
    "classifier": "BertTextClassifier",
}


def to_keras_nlp(bert: Bert) -> "keras.Model":
    """The same model as keras_nlp has it, with its preprocessor; `kbert.load` takes it back.

    Args:
        bert: from `kbert.load`, with the head "encoder", "pretraining" or "classifier".

    Returns:
        A `keras_nlp.models.BertBackbone`, `BertMaskedLM` or `BertTextClassifier`; the tasks with
        their preprocessor, where there is a tokenizer. It shares no weight. What keras_nlp computes
        otherwise (tanh GELU, whatever hidden_act says), or has no place for (next sentences), is
        logged, by name; docs/how_to/keras_nlp.md has by how much.

    Raises:
        ImportError: keras-nlp is not installed.
        ValueError: a head that keras_nlp's BERT does not have, an activation that is no GELU;
            another of the family, or another tokenizer than WordPiece.
    """
    require_bert(bert, "to_keras_nlp")
    extras.require("to_keras_nlp", "keras-nlp", "keras_nlp")
    with tempfile.TemporaryDirectory(prefix="kbert-") as folder:
        preset = Path(folder) / "preset"
        writer.write(bert, preset)
        import keras_nlp

        return getattr(keras_nlp.models, _CLASSES[bert.head]).from_preset(os.fspath(preset))
