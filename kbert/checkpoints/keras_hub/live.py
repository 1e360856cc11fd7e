"""Conversion of a `Bert` to a live model of keras_nlp, KerasHub's former name."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kbert.checkpoints.bert import Bert, require_bert
from kbert.checkpoints.keras_hub import writer
from kbert.heads import HEADS
from kbert.io import extras

if TYPE_CHECKING:
    import keras


def to_keras_nlp(bert: Bert) -> "keras.Model":
    """Convert a model to keras_nlp, with its preprocessor; `kbert.load` converts it back.

    Args:
        bert: from `kbert.load`, with the head "encoder", "pretraining" or "classifier".

    Returns:
        A `keras_nlp.models.BertBackbone`, `BertMaskedLM` or `BertTextClassifier`; the last two with
        their preprocessor if there is a tokenizer. The new model has its own copy of the weights.
        The log names what keras_nlp computes differently (it always uses tanh GELU, whatever
        hidden_act is) and what it cannot hold (next-sentence prediction); docs/how_to/keras_nlp.md
        has the size of the differences.

    Raises:
        ImportError: keras-nlp is not installed.
        ValueError: a head that keras_nlp's BERT does not have; an activation that is not a GELU; a
            model of another family (RoBERTa, DistilBERT …); a tokenizer that is not WordPiece.
    """
    require_bert(bert, "to_keras_nlp")
    extras.require("to_keras_nlp", "keras-nlp", "keras_nlp")
    with tempfile.TemporaryDirectory(prefix="kbert-") as folder:
        preset = Path(folder) / "preset"
        writer.write(bert, preset)
        import keras_nlp

        kind = getattr(keras_nlp.models, HEADS[bert.head].keras_hub[0])
        return kind.from_preset(os.fspath(preset))
