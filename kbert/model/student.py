"""Graph of a student in training, with hidden states as wide as the teacher's."""

import keras

from kbert.graph import names
from kbert.model.bert_model import BertModel


def layer_map(student: int, teacher: int) -> list[tuple[int, int]]:
    """Map each hidden state of a student to one of the teacher: TinyBERT's uniform map.

    g(m) = m · N/M (Jiao et al. 2020, section 3.2), from the embeddings' output, 0, which maps to
    the embeddings' output, to the last; rounded where M does not divide N.

    Args:
        student, teacher: numbers of encoder blocks, M and N.

    Returns:
        (student's state, teacher's state), M + 1 pairs.
    """
    return [(m, (2 * m * teacher + student) // (2 * student)) for m in range(student + 1)]


def with_states(model: keras.Model, blocks: list[int], width: int) -> BertModel:
    """Return the model with hidden states as outputs after its own, as wide as a teacher's.

    Where the widths differ each goes through a learned projection of its own, which ends with the
    training: the model's own layers are shared.

    Args:
        model: one that kbert built.
        blocks: which: 0 is the embeddings' output, L the last block's.
        width: H of the teacher.

    Returns:
        A model whose outputs after its own are float (B, S, width), named by
        `kbert.graph.names.taught_state`.
    """
    states = []
    for block in blocks:
        layer = model.get_layer(names.encoder_output(block))
        options = {"name": names.taught_state(block), "dtype": layer.dtype_policy}
        as_wide = layer.output.shape[-1] == width
        new = keras.layers.Identity(**options) if as_wide else keras.layers.Dense(width, **options)
        states.append(new(layer.output))
    return BertModel(model.inputs, [*model.outputs, *states], name=model.name, spec=None)
