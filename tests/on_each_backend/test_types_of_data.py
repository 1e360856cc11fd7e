"""Plain compile and fit: what counts in loss and metrics, for data of every type and carrier.

Of MLM only the marked positions count, or the predicted ones; of tokens those without padding.
"""

import importlib.util

import keras
import ml_dtypes
import numpy as np
import pytest
from helpers.backends import full_on, nightly_on
from helpers.marks import full

import kbert
from kbert.model.layers.encoder import Embedding
from kbert.model.layers.heads import Gather

BATCH, LENGTH, LABELS = 13, 7, 5
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
TYPES = ["bool", *INTEGERS, "float16", ml_dtypes.bfloat16, "float32", "float64"]
if keras.backend.backend() == "torch":
    TYPES.remove("uint64")  # Keras refuses it by name: "Unsupported dtype for PyTorch: uint64"


@pytest.fixture(scope="module")
def tiny(small):
    return small.replace(
        num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )


def cross_entropy(logits, labels):
    """−log softmax(logits)[label], in float64."""
    logits = np.asarray(logits, "float64")
    shifted = logits - logits.max(-1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return -np.take_along_axis(log_probs, labels[..., None], -1)[..., 0]


def with_larger_weights(model):
    """First weights are so small that every position has the same loss."""
    random = np.random.default_rng(8)
    for weight in model.weights:
        weight.assign(random.normal(0, 0.5, weight.shape).astype("float32"))
    return model


@pytest.fixture(scope="module")
def models(tiny):
    """A model of each kind of third input, and their outputs' names."""
    return {
        "marks": with_larger_weights(kbert.build_bert(tiny, seq_len=LENGTH)),
        "positions": with_larger_weights(
            kbert.build_bert(tiny, seq_len=LENGTH, max_predictions=LENGTH)
        ),
        "tokens": with_larger_weights(
            kbert.build_token_classifier(tiny, num_labels=LABELS, seq_len=LENGTH)
        ),
    }


def drawn(kind: str):
    """Inputs, labels and weights of each label, int64 all."""
    random = np.random.default_rng(12)
    inputs = [random.integers(1, 99, (BATCH, LENGTH)), random.integers(0, 3, (BATCH, LENGTH))]
    inputs[0][:4, 5:] = 0  # padding
    if kind == "tokens":
        labels = [random.integers(0, LABELS, (BATCH, LENGTH))]
    else:
        inputs.append(random.integers(0, 3, (BATCH, LENGTH)))  # marks, or positions to predict
        labels = [random.integers(0, 99, (BATCH, LENGTH)), random.integers(0, 2, BATCH)]
    return inputs, labels, [random.integers(0, 5, label.shape) for label in labels]


def compiled(model):
    def loss():
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def accuracy():
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    count = len(model.outputs)
    model.compile(
        keras.optimizers.SGD(0.0),
        [loss() for _ in range(count)],
        metrics=[accuracy() for _ in range(count)],
        run_eagerly=True,  # a trace for each type would take most of the time
    )
    return model


def by_hand(model, inputs, labels, weights=None) -> dict[str, float]:
    """Losses and accuracies from the logits, in NumPy: what counts, and the mean over it."""
    inputs = [array.astype("int32") for array in inputs]
    labels = [array.astype("int64") for array in labels]
    outputs = list(kbert.predict(model, *inputs).values())
    if "Input-Positions" in model.input_names:
        counted = inputs[2] != 0
    else:
        counted = inputs[0] != 0
        if len(inputs) == 3:
            counted &= inputs[2] != 0
    names = ["MLM_", "NSP_"] if len(outputs) == 2 else [""]
    found = {"loss": 0.0}
    for place, (name, logits, answer) in enumerate(zip(names, outputs, labels, strict=True)):
        which = counted if answer.ndim == 2 else np.ones(len(answer), bool)
        losses = cross_entropy(logits, answer)
        if weights is not None:
            losses = losses * weights[place].astype("float64")
        mean = losses[which].mean()
        found[f"{name}loss"] = mean + (found["loss"] if not name else 0)
        found["loss"] += mean if name else 0
        found[f"{name}accuracy"] = (logits.argmax(-1) == answer)[which].mean()
    return found


def assert_same(found: dict, wanted: dict) -> None:
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=2e-5)


@pytest.mark.full
@nightly_on("jax")
@pytest.mark.parametrize(
    ("kind", "dtypes"),
    [
        ("marks", ["bool", ml_dtypes.bfloat16]),
        full("marks", TYPES),
        ("positions", ["uint8", "float32"]),
        ("tokens", ["bool", "int64"]),
    ],
)
def test_every_type_of_ids_masks_labels_and_weights(models, kind, dtypes):
    model = compiled(models[kind])
    for dtype in dtypes:
        inputs, labels, weights = ([array.astype(dtype) for array in p] for p in drawn(kind))
        found = model.evaluate(
            inputs,
            labels if len(labels) > 1 else labels[0],
            sample_weight=weights if len(weights) > 1 else weights[0],
            batch_size=BATCH,
            verbose=0,
            return_dict=True,
        )
        assert_same(found, by_hand(model, inputs, labels, weights))


def carried(kind: str, inputs: dict, labels: dict):
    """The same batch as each thing that `fit` takes."""
    if kind == "dicts":
        return {"x": inputs, "y": labels}
    if kind == "arrays":
        return {"x": list(inputs.values()), "y": list(labels.values())}
    if kind == "tf.data":
        tf = pytest.importorskip("tensorflow")
        batches = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(BATCH)
        return {"x": batches}
    if kind == "generator":
        return {"x": (batch for batch in [(inputs, labels)]), "steps_per_epoch": 1}
    if kind == "PyDataset":
        return {"x": OneBatch(inputs, labels)}
    from torch.utils.data import DataLoader, TensorDataset

    torch = pytest.importorskip("torch")
    arrays = [*inputs.values(), *labels.values()]
    rows = TensorDataset(*(torch.from_numpy(array) for array in arrays))
    return {"x": DataLoader(rows, batch_size=BATCH, collate_fn=paired)}


class OneBatch(keras.utils.PyDataset):
    """A data set of Keras's kind, of one batch."""

    def __init__(self, inputs, labels):
        super().__init__()
        self.batch = inputs, labels

    def __len__(self):
        return 1

    def __getitem__(self, place):
        return self.batch


def paired(rows):
    """A batch of a DataLoader as `fit` takes it: inputs and labels."""
    import torch

    columns = [torch.stack(column) for column in zip(*rows, strict=True)]
    return tuple(columns[:3]), tuple(columns[3:])


@pytest.mark.full
@nightly_on("jax")
@pytest.mark.parametrize("dtype", ["int64", full("float32")])
@pytest.mark.parametrize("kind", ["arrays", "dicts", "tf.data", "generator", "PyDataset", "torch"])
def test_fit_takes_every_kind_of_data_set(models, kind, dtype):
    if kind == "torch" and not importlib.util.find_spec("torch"):
        pytest.skip("torch is not installed: pip install -e '.[torch]'")
    model = compiled(models["marks"])
    inputs, labels, _ = ([array.astype(dtype) for array in part] for part in drawn("marks"))
    data = carried(
        kind,
        dict(zip(model.input_names, inputs, strict=True)),
        dict(zip(model.output_names, labels, strict=True)),
    )
    if "y" in data:
        data["batch_size"] = BATCH
    history = model.fit(**data, shuffle=False, verbose=0).history
    found = {name: values[0] for name, values in history.items()}
    assert_same(found, by_hand(model, inputs, labels))


@pytest.mark.parametrize("kind", ["marks", *(full(k) for k in ("positions", "tokens"))])
@pytest.mark.full
def test_compiled_fit_evaluate_predict_take_numpy_types(models, kind):
    """int64 and float64, as NumPy makes them, through the functions that Keras compiles."""
    model = compiled(models[kind])
    model.run_eagerly = False
    inputs, labels, _ = drawn(kind)
    inputs[1] = inputs[1].astype("float64")
    wanted = by_hand(model, inputs, labels)
    labels = labels if len(labels) > 1 else labels[0]
    history = model.fit(inputs, labels, batch_size=BATCH, verbose=0).history
    assert_same({name: values[0] for name, values in history.items()}, wanted)
    found = model.evaluate(inputs, labels, batch_size=BATCH, verbose=0, return_dict=True)
    assert_same(found, wanted)
    logits = keras.tree.flatten(model.predict(inputs, verbose=0))
    whole = kbert.predict(model, *(array.astype("int32") for array in inputs))
    for found, wanted in zip(logits, whole.values(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.full
@full_on("jax")
def test_float_ids_are_not_rounded_by_a_half_precision_policy(tiny):
    """bfloat16 holds whole numbers to 256: an id of 997 must reach the table as it is."""
    config = tiny.replace(vocab_size=999)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = with_larger_weights(kbert.build_encoder(config, seq_len=LENGTH))
    finally:
        keras.config.set_dtype_policy("float32")
    ids = np.random.default_rng(1).integers(900, 999, (BATCH, LENGTH))
    whole = model.predict([ids.astype("int32"), np.zeros_like(ids)], verbose=0)
    found = model.predict([ids.astype("float32"), np.zeros_like(ids)], verbose=0)
    for one, other in zip(found, whole, strict=True):
        np.testing.assert_array_equal(np.asarray(one, "float32"), np.asarray(other, "float32"))


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
def test_a_layer_called_alone_takes_ids_of_every_integer_type(dtype):
    if dtype not in TYPES:
        pytest.skip("Keras on torch has no uint64")
    ids = np.random.default_rng(5).integers(0, 99, (3, LENGTH)).astype(dtype)
    table = Embedding(30_522, 5)
    wanted = np.asarray(keras.ops.convert_to_numpy(table(ids.astype("int32"))))
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(table(ids)), wanted)
    vectors = np.random.default_rng(6).normal(size=(3, 200, 5)).astype("float32")
    gathered = Gather()([vectors, ids])
    rows = vectors[np.arange(3)[:, None], ids.astype("int64")]
    np.testing.assert_allclose(keras.ops.convert_to_numpy(gathered), rows, rtol=1e-6)
