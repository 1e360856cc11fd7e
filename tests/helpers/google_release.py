"""Checkpoints as google-research/bert wrote them: its variables' names, a TensorFlow 1 Saver."""

import json

import numpy as np

from helpers.sizes import SIZES

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = {"T": "vocab_size", "H": "hidden_size", "P": "max_position_embeddings"}
LETTERS |= {"F": "intermediate_size", "G": "type_vocab_size"}
# The variables of google-research/bert, in the words of its modeling.py and run_*.py.
EMBEDDINGS = "word_embeddings TH, position_embeddings PH, token_type_embeddings GH"
BLOCK = (
    "attention/self/query/kernel HH, attention/self/query/bias H, attention/self/key/kernel HH, "
    "attention/self/key/bias H, attention/self/value/kernel HH, attention/self/value/bias H, "
    "attention/output/dense/kernel HH, attention/output/dense/bias H, "
    "attention/output/LayerNorm/gamma H, attention/output/LayerNorm/beta H, "
    "intermediate/dense/kernel HF, intermediate/dense/bias F, output/dense/kernel FH, "
    "output/dense/bias H, output/LayerNorm/gamma H, output/LayerNorm/beta H"
)
POOLER = "bert/pooler/dense/kernel HH, bert/pooler/dense/bias H"
MLM = (
    "cls/predictions/transform/dense/kernel HH, cls/predictions/transform/dense/bias H, "
    "cls/predictions/transform/LayerNorm/gamma H, cls/predictions/transform/LayerNorm/beta H, "
    "cls/predictions/output_bias T"
)
NSP = "cls/seq_relationship/output_weights 2H, cls/seq_relationship/output_bias 2"
CLASSIFIER = "output_weights 5H, output_bias 5"
SQUAD = "cls/squad/output_weights 2H, cls/squad/output_bias 2"


def released(sizes, *heads):
    """Names and shapes of a released model with some heads."""
    rows = [f"bert/embeddings/{row}" for row in f"{EMBEDDINGS}, LayerNorm/gamma H".split(", ")]
    rows += ["bert/embeddings/LayerNorm/beta H"]
    for layer in range(sizes["num_hidden_layers"]):
        rows += [f"bert/encoder/layer_{layer}/{row}" for row in BLOCK.split(", ")]
    for part in (POOLER, *heads):
        rows += part.split(", ")
    shapes = dict(row.split(" ") for row in rows)
    return {
        name: tuple(sizes[LETTERS[x]] if x in LETTERS else int(x) for x in letters)
        for name, letters in shapes.items()
    }


def write_checkpoint(prefix, arrays):
    """As TensorFlow 1 wrote it: a Saver's files, .meta and `checkpoint` among them."""
    import tensorflow as tf

    prefix.parent.mkdir(parents=True, exist_ok=True)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = [
            tf.compat.v1.get_variable(name, initializer=tf.constant(array), use_resource=False)
            for name, array in arrays.items()
        ]
        session.run([variable.initializer for variable in variables])
        tf.compat.v1.train.Saver(variables).save(session, str(prefix))


def random_arrays(shapes, seed=5):
    random = np.random.default_rng(seed)
    return {name: random.normal(size=shape).astype("float32") for name, shape in shapes.items()}


def with_training(arrays):
    """The same with Adam's slots and the step, as optimization.py and tf.train name them."""
    slots = {}
    for name, array in arrays.items():
        slots[f"{name}/adam_m"], slots[f"{name}/adam_v"] = array / 3, array**2
    extra = {
        "bert/pooler/dense/bias/Adam": np.float32([1]),
        "bert/pooler/dense/bias/Adam_1": np.float32([1]),
        "beta1_power": np.float32(0.9),
        "beta2_power": np.float32(0.99),
        "global_step": np.int64(1234),
    }
    return arrays | slots | extra


def write_release(folder, arrays, vocabulary=None, name="bert_model.ckpt"):
    write_checkpoint(folder / name, arrays)
    (folder / "checkpoint").unlink()  # a run has it, a release does not
    config = SIZES | {"hidden_act": "gelu", "directionality": "bidi", "pooler_type": "first_token"}
    (folder / "bert_config.json").write_text(json.dumps(config))
    if vocabulary:
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary))
    return folder
