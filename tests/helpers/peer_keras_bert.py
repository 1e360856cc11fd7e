"""keras_bert on tf-keras: its .h5 files, and what it computes with Google's checkpoints."""

import json
import os
from pathlib import Path

import numpy as np

from helpers.peer_models import draw_array

BATCH, LENGTH = 5, 7
SIZES = {
    "token_num": 31,
    "pos_num": 19,
    "embed_dim": 12,
    "transformer_num": 2,
    "head_num": 3,
    "feed_forward_dim": 17,
}
LEGACY = {"TF_USE_LEGACY_KERAS": "1", "TF_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}


def run(out: Path, *folders: str) -> None:
    """Write OUT/<folder's name>.npz, what keras_bert computes with Google's checkpoint in each.

    Without folders, OUT/<name>.h5 for each of its kinds of model and OUT/google, a checkpoint in
    Google's format, with OUT/<name>.npz: what it computes with the inputs of OUT/ids.npz.
    """
    os.environ |= LEGACY
    import keras_bert

    random = np.random.default_rng(7)
    token_ids = random.integers(1, SIZES["token_num"], (BATCH, LENGTH))
    token_ids[1::2, 4:] = 0
    segment_ids = random.integers(0, 2, token_ids.shape)
    np.savez(out / "ids.npz", token_ids=token_ids, segment_ids=segment_ids)
    inputs = [token_ids, segment_ids]
    if not folders:
        write_whole_models(keras_bert, out, inputs)
        folders = [write_google(out / "google")]
    for folder in map(Path, folders):
        paths = str(folder / "bert_config.json"), str(folder / "bert_model.ckpt")
        load = keras_bert.load_trained_model_from_checkpoint
        both = load(*paths, training=True, seq_len=LENGTH)
        encoder = load(*paths, seq_len=LENGTH)
        mlm, nsp = both([*inputs, token_ids])
        features = encoder(inputs)
        np.savez(out / f"{folder.name}.npz", MLM=mlm, NSP=nsp, features=features)


def write_google(folder: Path) -> Path:
    """A checkpoint under the names that Google released, as TensorFlow 1's Saver wrote it."""
    from helpers.google_release import MLM, NSP, released, write_release

    config = {
        "vocab_size": SIZES["token_num"],
        "hidden_size": SIZES["embed_dim"],
        "num_hidden_layers": SIZES["transformer_num"],
        "num_attention_heads": SIZES["head_num"],
        "intermediate_size": SIZES["feed_forward_dim"],
        "max_position_embeddings": SIZES["pos_num"],
        "type_vocab_size": 2,
        "hidden_act": "gelu",
    }
    random = np.random.default_rng(5)
    shapes = released(config, MLM, NSP)
    write_release(folder, {name: draw_array(random, name, shape) for name, shape in shapes.items()})
    (folder / "bert_config.json").write_text(json.dumps(config))
    (folder / "bert_model.ckpt.meta").unlink()
    return folder


def write_whole_models(keras_bert, out: Path, inputs: list) -> None:
    from tensorflow import keras

    for name, options in {
        "both": {},
        "relu": {"feed_forward_activation": "relu", "dropout_rate": 0.3},
        "encoder": {"training": False, "output_layer_num": 1},
        "several": {"training": False, "output_layer_num": 2},
        "task": {"use_task_embed": True},
        "tanh": {"attention_activation": "tanh"},
    }.items():
        model = built(keras_bert, **options)
        if name == "both":
            model.compile("adam")  # the file holds an optimizer's weights too
            model.optimizer.build(model.trainable_variables)
            model.save_weights(out / "weights.h5")
        save(model, inputs, out / name)
    base = built(keras_bert)
    pooled = base.get_layer("NSP-Dense").output
    classes = keras.layers.Dense(5, activation="softmax", name="Mine")(pooled)
    fine_tuned = keras.models.Model(base.inputs[:2], classes)
    save(with_weights(fine_tuned), inputs, out / "fine_tuned")
    nested = built(keras_bert, training=False)
    first = keras.layers.Lambda(lambda x: x[:, 0])(nested(nested.inputs))
    classes = keras.layers.Dense(5, activation="softmax", name="Mine")(first)
    nested_model = with_weights(keras.models.Model(nested.inputs, classes))
    save(nested_model, inputs, out / "nested", nested)
    other = keras.Sequential([keras.layers.Dense(3, name="alone", input_shape=(4,))])
    with_weights(other).save(out / "other.h5")


def built(keras_bert, **options):
    from tensorflow import keras

    model = keras_bert.get_model(**SIZES, seq_len=LENGTH, **options)
    if isinstance(model, tuple):
        model = keras.models.Model(*model)
    return with_weights(model)


def with_weights(model):
    """The model with weights far from the first ones, so that every one of them shows."""
    random = np.random.default_rng(3)
    for weight in model.weights:
        weight.assign(draw_array(random, weight.name, weight.shape))
    return model


def save(model, inputs: list, path: Path, features=None) -> None:
    model.save(path.with_suffix(".h5"))
    if len(model.inputs) > 3:  # a task's number, which kbert has no input for
        return
    inputs = [*inputs, inputs[0]][: len(model.inputs)]
    outputs = (features or model)(inputs)
    np.savez(path, *(outputs if isinstance(outputs, list) else [outputs]))
