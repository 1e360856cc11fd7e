"""The teacher of a distillation: its requirements, and its outputs for a batch."""

import dataclasses
import os
from collections.abc import Sequence

import keras
import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.graph import names
from kbert.model.deferred import build_with, layers_of
from kbert.tasks.checks import load_of_casing, require_tokenizer
from kbert.tasks.running import compile_model

Source = Bert | str | os.PathLike


def open_teacher(
    source: Source, tokenizer: Tokenizer, tokens: int, pairs: bool, head: str | None = None
) -> Bert:
    """Return the teacher, which must read what the student reads.

    Args:
        source: a `Bert`, or a checkpoint of any format.
        tokenizer: the student's.
        tokens: the length of its longest sequences.
        pairs: whether they have second texts.
        head: to load a checkpoint with; None: its own.

    Raises:
        ValueError: another vocabulary, too few positions or segments.
    """
    teacher = source if isinstance(source, Bert) else load_of_casing(source, tokenizer, head)
    vocabulary, config = require_tokenizer(teacher, "a teacher").tokens, teacher.config
    if vocabulary != tokenizer.tokens:
        raise ValueError(
            f"teacher must have the student's vocabulary of {len(tokenizer.tokens):,} tokens, got "
            f"another, of {len(vocabulary):,}: take a teacher that reads the same ids"
        )
    if config.positions < tokens:
        raise ValueError(
            f"teacher must have a position for each of {tokens} tokens, got "
            f"{config.positions}: cut the student's texts (max_length, seq_len)"
        )
    if pairs and config.type_vocab_size < 2:
        raise ValueError(
            f"teacher must have two segments for pairs of texts, got {config.type_vocab_size}"
        )
    return teacher


class Teacher:
    """A teacher's outputs for a batch: without dropout, and without gradients.

    They are computed where batches are made, in their thread, by a separate function: the student's
    program has none of the teacher's weights, and the outputs are part of the batch, like labels.

    Args:
        bert: the teacher.
        outputs: names of outputs with logits to return.
        states: hidden states to return; 0 is the output of the embeddings.
        max_predictions: predicted positions of the student's MLM head; None: it has none.
        precision: the run's precision.
    """

    def __init__(
        self,
        bert: Bert,
        outputs: Sequence[str],
        states: Sequence[int],
        *,
        max_predictions: int | None = None,
        precision: str = "float32",
    ):
        predictions = max_predictions if bert.head == "pretraining" else None
        spec = dataclasses.replace(
            bert.spec, seq_len=None, max_predictions=predictions, dtype=precision
        )
        model = build_with(spec, layers_of(bert.model))
        self._names = [*outputs, *map(names.encoder_output, states)]
        outputs = [model.get_layer(name).output for name in self._names]
        self._model = keras.Model(model.inputs, outputs)
        self._inputs = [tensor.name for tensor in model.inputs]
        self._function = compile_model(self._model)

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return logits and hidden states for a batch's inputs, float32, by the layer's name."""
        outputs = self._function(*(inputs[name] for name in self._inputs))
        arrays = (np.asarray(array, np.float32) for array in outputs)
        return dict(zip(self._names, arrays, strict=True))
