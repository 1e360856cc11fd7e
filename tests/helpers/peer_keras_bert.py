"""keras_bert on tf-keras, in a process of its own: it writes .h5 files, it reads Google's folders.

    python -m helpers.peer_keras_bert SIZES_AS_JSON OUT FOLDER ...

writes OUT/<name>.h5 for each of its kinds of model and OUT/<name>.npz with what it computes, the
inputs being OUT/ids.npz; and, for each folder, OUT/<folder's name>.npz with what it computes with
Google's checkpoint there. Needs keras-bert and tf-keras.
"""

import json
import os
import sys
from pathlib import Path

os.environ |= {"TF_USE_LEGACY_KERAS": "1", "TF_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}

import numpy as np

BATCH, LENGTH = 13, 11


def main(sizes: dict, out: Path, folders: list[Path]) -> None:
    import keras_bert

    random = np.random.default_rng(7)
    token_ids = random.integers(1, sizes["token_num"], (BATCH, LENGTH))
    token_ids[1::2, 7:] = 0
    segment_ids = random.integers(0, 2, token_ids.shape)
    np.savez(out / "ids.npz", token_ids=token_ids, segment_ids=segment_ids)
    inputs = [token_ids, segment_ids]
    write_whole_models(keras_bert, sizes, out, inputs)
    for folder in folders:
        paths = str(folder / "bert_config.json"), str(folder / "bert_model.ckpt")
        load = keras_bert.load_trained_model_from_checkpoint
        both = load(*paths, training=True, seq_len=LENGTH)
        encoder = load(*paths, seq_len=LENGTH)
        mlm, nsp = both([*inputs, token_ids])
        features = encoder(inputs)
        np.savez(out / f"{folder.name}.npz", MLM=mlm, NSP=nsp, features=features)


def write_whole_models(keras_bert, sizes: dict, out: Path, inputs: list) -> None:
    from tensorflow import keras

    for name, options in {
        "both": {},
        "relu": {"feed_forward_activation": "relu", "dropout_rate": 0.3},
        "encoder": {"training": False, "output_layer_num": 1},
        "several": {"training": False, "output_layer_num": 2},
        "task": {"use_task_embed": True},
        "tanh": {"attention_activation": "tanh"},
    }.items():
        model = built(keras_bert, sizes, **options)
        if name == "both":
            model.compile("adam")  # the file holds an optimizer's weights too
            model.optimizer.build(model.trainable_variables)
            model.save_weights(out / "weights.h5")
        save(model, inputs, out / name)
    base = built(keras_bert, sizes)
    pooled = base.get_layer("NSP-Dense").output
    classes = keras.layers.Dense(5, activation="softmax", name="Mine")(pooled)
    save(keras.models.Model(base.inputs[:2], classes), inputs, out / "fine_tuned")
    nested = built(keras_bert, sizes, training=False)
    first = keras.layers.Lambda(lambda x: x[:, 0])(nested(nested.inputs))
    classes = keras.layers.Dense(5, activation="softmax", name="Mine")(first)
    save(keras.models.Model(nested.inputs, classes), inputs, out / "nested", nested)
    other = keras.Sequential([keras.layers.Dense(3, name="alone", input_shape=(4,))])
    other.save(out / "other.h5")


def built(keras_bert, sizes: dict, **options):
    """A model with weights far from the first ones, so that every one of them shows."""
    from tensorflow import keras

    model = keras_bert.get_model(**sizes, seq_len=LENGTH, **options)
    if isinstance(model, tuple):
        model = keras.models.Model(*model)
    random = np.random.default_rng(3)
    for layer in model.layers:
        layer.set_weights(
            [w + random.normal(0, 0.2, w.shape).astype("float32") for w in layer.get_weights()]
        )
    return model


def save(model, inputs: list, path: Path, features=None) -> None:
    model.save(path.with_suffix(".h5"))
    if len(model.inputs) > 3:  # a task's number, which kbert has no input for
        return
    inputs = [*inputs, inputs[0]][: len(model.inputs)]
    outputs = (features or model)(inputs)
    np.savez(path, *(outputs if isinstance(outputs, list) else [outputs]))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
