"""`dtype=` of the builders does what Keras's global policy does, and leaves that as it is."""

import keras
import numpy as np
import pytest
from helpers.backends import full_on, nightly_on
from helpers.errors import raises
from helpers.run_shards import CONFIG, SETTINGS, make_shards

import kbert
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS
from kbert.model.builder import build

CASES = [("pretraining", "mixed_bfloat16")]
OTHERS = [(head, "mixed_bfloat16") for head in HEADS if head != "pretraining"]
OTHERS += [("pretraining", policy) for policy in ("mixed_float16", "bfloat16", "float32")]
CASES += [pytest.param(*case, marks=[pytest.mark.full, nightly_on("jax")]) for case in OTHERS]


@pytest.fixture(autouse=True)
def untouched():
    """The very policy that was set before every test is set after it."""
    before = keras.config.dtype_policy()
    yield
    after = keras.config.dtype_policy()
    keras.config.set_dtype_policy(before)
    assert after is before


def built_under(policy: str, spec: GraphSpec):
    """What Keras's own setting gives."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(7)
    try:
        return build(spec)
    finally:
        keras.config.set_dtype_policy(before)


def layers_of(model) -> list[tuple]:
    """Every layer, those within layers too, with its types; Keras numbers the names of these."""
    return [
        (layer.name.rstrip("_0123456789"), layer.compute_dtype, layer.variable_dtype)
        for layer in model._flatten_layers()
        if not isinstance(layer, keras.layers.InputLayer)  # integers under any policy
    ]


def arrays_of(tensors) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(keras.ops.cast(one, "float32")) for one in tensors]


def test_float64_is_near_float32(small, backend):
    """With padding, whose mask has numbers that float32 does not have."""
    if backend == "jax":
        pytest.skip("JAX has no float64 by default")
    ids = np.random.default_rng(3).integers(1, 99, (5, 7)).astype("int32")
    ids[:, 5:] = 0
    models = [kbert.build_encoder(small, seq_len=7, dtype=one) for one in ("float64", "float32")]
    models[1].set_weights(models[0].get_weights())
    found, expected = (one([ids, 0 * ids])[0] for one in models)
    assert keras.backend.standardize_dtype(found.dtype) == "float64"
    np.testing.assert_allclose(*arrays_of([found, expected]), atol=1e-5)
    assert np.isfinite(arrays_of(models[0]([ids, 0 * ids], training=True))[0]).all()


@full_on("jax")
@pytest.mark.parametrize(("head", "policy"), CASES)
def test_dtype_argument_equals_keras_policy(small, head, policy):
    expected = built_under(policy, GraphSpec(small, head, seq_len=7))
    keras.utils.set_random_seed(7)
    model = build(GraphSpec(small, head, seq_len=7, dtype=policy))
    assert model.spec == expected.spec and model.spec.dtype == policy
    assert layers_of(model) == layers_of(expected)
    assert model.get_config() == expected.get_config()
    weights = [(one.path, one.dtype, one.shape) for one in model.weights]
    assert weights == [(one.path, one.dtype, one.shape) for one in expected.weights]
    np.testing.assert_equal(arrays_of(model.weights), arrays_of(expected.weights))
    ids = np.random.default_rng(3).integers(1, small.vocab_size, (13, 7)).astype("int32")
    inputs = [ids] + [np.zeros_like(ids)] * (len(model.inputs) - 1)
    outputs, wanted = (keras.tree.flatten(one(inputs)) for one in (model, expected))
    assert [str(one.dtype) for one in outputs] == [str(one.dtype) for one in wanted]
    np.testing.assert_equal(arrays_of(outputs), arrays_of(wanted))


@pytest.mark.full
@pytest.mark.parametrize(
    "build_one",
    [
        kbert.build_bert,
        kbert.build_encoder,
        kbert.build_classifier,
        kbert.build_token_classifier,
        kbert.build_question_answering,
    ],
)
def test_every_builder_takes_dtype(small, build_one):
    model = build_one(small, seq_len=7, dtype="mixed_bfloat16")
    assert model.spec.dtype == "mixed_bfloat16" and model.dtype_policy.name == "mixed_bfloat16"
    assert build_one(small, seq_len=7).spec.dtype == keras.config.dtype_policy().name


@pytest.mark.parametrize("dtype", ["float17", "int32", "int8_from_float32", "", 7, ["float32"]])
def test_dtype_that_is_no_float_policy_is_refused(small, dtype):
    with raises(ValueError, "dtype", repr(dtype)) as caught:
        kbert.build_encoder(small, dtype=dtype)
    assert "\n" not in str(caught.value)


def test_failed_build_leaves_the_keras_policy(small, monkeypatch):
    monkeypatch.setattr(keras.layers.Dense, "build", lambda self, input_shape: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        kbert.build_bert(small, dtype="mixed_bfloat16")


class Watcher(keras.callbacks.Callback):
    """Notes the policy during a run, and what its model computes in; raises if it is to."""

    def __init__(self, fails: bool):
        super().__init__()
        self.fails, self.seen = fails, set()

    def on_train_batch_end(self, batch, logs=None):
        self.seen.add(keras.config.dtype_policy().name)
        if self.fails:
            raise RuntimeError("on purpose")


@pytest.mark.full
@pytest.mark.parametrize("fails", [False, pytest.param(True, marks=nightly_on("jax"))])
def test_run_in_another_precision_leaves_the_keras_policy(tmp_path, fails):
    watcher = Watcher(fails)
    options = SETTINGS | {"steps": 2, "precision": "mixed_bfloat16", "evaluate_every": 2}

    def run():
        shards, config = make_shards(tmp_path), kbert.BertConfig(**CONFIG)
        quiet = {"progress": False, "peak_flops": 1e9, "callbacks": [watcher]}
        return kbert.pretrain(shards, config, output=tmp_path / "run", **quiet, **options)

    if fails:
        with raises(RuntimeError, "on purpose"):
            run()
    else:
        assert run().bert.model.spec.dtype == keras.config.dtype_policy().name
    assert watcher.seen == {keras.config.dtype_policy().name}
