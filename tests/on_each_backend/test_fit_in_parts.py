"""Keras's own `fit` with the fused parts: the losses and weights that the graph's layers give."""

import keras
import numpy as np
import pytest
from long_on import long_test_on
from sizes import BATCH, SIZES

import kbert
from kbert.graph import names
from kbert.graph.spec import GraphSpec
from kbert.model.builder import build
from kbert.model.parts import cut_model, fused_parts, in_fit
from kbert.model.parts.elementwise import dropped
from kbert.model.probes import build_hidden_states

pytestmark = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="torch's fit calls the graph's layers"
)

LENGTH, EXAMPLES = 11, 3 * BATCH - 2  # the last batch is smaller
HEADS = {
    "pretraining": {},  # the loss of every marked position
    "predictions": {"max_predictions": 5},
    "classifier": {"num_labels": 5},
    "tokens": {"num_labels": 5},
    "qa": {},
}


ON_JAX = ("predictions", "tokens")  # the other heads take the same way, in minutes


def counted(monkeypatch) -> list:
    """The traces of the parts, from now on; a small model is worth it here."""
    calls, outputs = [], in_fit.outputs

    def call(*arguments):
        calls.append(arguments)
        return outputs(*arguments)

    monkeypatch.setattr(in_fit, "_WORTH_COMPILING", 0)
    monkeypatch.setattr(in_fit, "outputs", call)
    return calls


@pytest.fixture(autouse=True)
def parts(monkeypatch):
    """How often the parts were traced."""
    return counted(monkeypatch)


def model_of(head, dtype=None, dropout=0.0, seq_len=LENGTH, layers=1, **options):
    """One block where none need follow another: each takes seconds to be traced and compiled."""
    keras.utils.set_random_seed(5)
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    sizes = SIZES | {"num_hidden_layers": layers, "initializer_range": 0.2}
    config = kbert.BertConfig(**sizes, **rates)
    name = "pretraining" if head == "predictions" else head
    model = build(GraphSpec.of(config, name, seq_len=seq_len, dtype=dtype, **HEADS[head]))
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.SGD(0.05),
        [cross_entropy] * len(model.outputs),
        weighted_metrics=[["accuracy"]] * len(model.outputs),
        **options,
    )
    return model


def data(head):
    """Inputs and labels: tokens of all lengths and padding."""
    random = np.random.default_rng(2)

    def integers(*shape, below):
        return random.integers(0, below, shape).astype("int32")

    tokens = 1 + integers(EXAMPLES, LENGTH, below=SIZES["vocab_size"] - 1)
    lengths = random.integers(6, LENGTH + 1, (EXAMPLES, 1))
    tokens[np.arange(LENGTH) >= lengths] = 0
    inputs = [tokens, integers(EXAMPLES, LENGTH, below=3)]
    nsp = integers(EXAMPLES, below=2)
    if head == "pretraining":
        masked = (random.random(tokens.shape) < 0.4).astype("int32")
        return [*inputs, masked], [integers(EXAMPLES, LENGTH, below=99), nsp]
    if head == "predictions":
        positions = np.sort(random.permuted(np.tile(np.arange(1, 6), (EXAMPLES, 1)), axis=1))
        positions[:, :1] *= integers(EXAMPLES, 1, below=2)  # 0: no prediction
        return [*inputs, positions.astype("int32")], [integers(EXAMPLES, 5, below=99), nsp]
    shapes = {"classifier": [()], "tokens": [(LENGTH,)], "qa": [(), ()]}[head]
    return inputs, [integers(EXAMPLES, *shape, below=5) for shape in shapes]


def fitted(model, head, epochs=2):
    """Losses and metrics of each epoch, and the weights."""
    x, y = data(head)
    history = model.fit(x, y, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0).history
    return history, model.get_weights()


def as_the_graph(monkeypatch):
    monkeypatch.setattr(in_fit, "kit", lambda *_: None)


@pytest.fixture(scope="module")
def of_two_blocks():
    """What `fit` ends with on predictions in float32: by the parts, and by the graph's layers."""
    head = "predictions"
    with pytest.MonkeyPatch.context() as patch:
        calls = counted(patch)
        fused = fitted(model_of(head, layers=2), head)
        assert calls
        as_the_graph(patch)
        return fused, fitted(model_of(head, layers=2), head)


def assert_same(one, other, rtol=2e-5):
    (history, weights), (others, expected) = one, other
    assert list(history) == list(others)
    for name in history:
        np.testing.assert_allclose(history[name], others[name], rtol=rtol, err_msg=name)
    for weight, wanted in zip(weights, expected, strict=True):
        np.testing.assert_allclose(weight, wanted, atol=rtol)


@pytest.mark.parametrize("head", HEADS)
def test_losses_metrics_and_weights_are_the_graphs(head, parts, monkeypatch, backend, request):
    if backend == "jax" and head not in ON_JAX:
        pytest.skip(f"on JAX {' and '.join(ON_JAX)} stand for all heads")
    if head == "predictions":
        return assert_same(*request.getfixturevalue("of_two_blocks"))
    fused = fitted(model_of(head), head)
    assert parts
    as_the_graph(monkeypatch)
    assert_same(fused, fitted(model_of(head), head))


@pytest.mark.parametrize("head", ["predictions", "tokens"])
def test_with_dropout_too_where_the_graphs_layers_draw_the_same_masks(head, parts, monkeypatch):
    """The graph's state goes on by one with each draw: so must that of the parts. Of the rows that
    are not read the graph draws masks, too, so none is left out here."""
    monkeypatch.setattr(cut_model, "readers", lambda model: [])
    draws = []

    def call(layer, inputs, training=False):
        if not training or not layer.rate:
            return inputs
        draws.append(seed := layer.seed_generator.next())
        return dropped(inputs, keras.ops.cast(seed, "int32"), layer.rate)

    monkeypatch.setattr(keras.layers.Dropout, "call", call)
    layers = 2 if head == "predictions" else 1
    fused = fitted(model_of(head, dropout=0.3, layers=layers), head)
    assert parts
    of_the_head = len(draws)  # which stays one of the graph's layers
    as_the_graph(monkeypatch)
    assert_same(fused, fitted(model_of(head, dropout=0.3, layers=layers), head))
    assert len(draws) > 2 * of_the_head


def test_each_update_has_masks_of_its_own(parts):
    """Without learning, only the masks differ from epoch to epoch."""
    model = model_of("classifier", dropout=0.3)
    model.optimizer.learning_rate = 0.0
    losses = fitted(model, "classifier", epochs=4)[0]["loss"]
    assert len(set(np.round(losses, 6))) == 4


@long_test_on("jax")
def test_in_bfloat16_it_is_no_further_from_float32_than_the_graph_is(
    of_two_blocks, parts, monkeypatch
):
    def losses():
        model = model_of("predictions", "mixed_bfloat16", layers=2)
        return fitted(model, "predictions")[0]["loss"]

    fused, exact = losses(), of_two_blocks[1][0]["loss"]
    assert parts
    as_the_graph(monkeypatch)
    furthest, allowed = (np.abs(np.subtract(found, exact)).max() for found in (fused, losses()))
    assert furthest < max(2 * allowed, 0.01)


def test_nothing_else_is_called_so(parts, backend):
    head = "predictions"
    model = model_of(head)
    x, y = ([array[:BATCH] for array in arrays] for arrays in data(head))
    model.evaluate(x, y, batch_size=BATCH, verbose=0)
    model.predict(x, batch_size=BATCH, verbose=0)
    model(x, training=True)
    model.fit(x, y, batch_size=BATCH, verbose=0)
    assert len({id(found) for found, *_ in parts}) == 1
    traced = len(parts)
    left = [{"run_eagerly": True}, {"jit_compile": True}, {"seq_len": None}]
    for options in left if backend == "tensorflow" else []:  # eagerly JAX takes minutes
        model_of(head, **options).fit(x, y, batch_size=BATCH, verbose=0)
    frozen = model_of(head)
    frozen.get_layer(names.encoder(1, names.ATTENTION)).trainable = False
    frozen.compile(frozen.optimizer, frozen.loss)
    frozen.fit(x, y, batch_size=BATCH, verbose=0)
    assert len(parts) == traced and not fused_parts.fits(frozen)


def test_encoders_views_and_models_around_one_are_left_as_they_are(parts):
    x, _ = data("classifier")
    config = kbert.BertConfig(**SIZES | {"num_hidden_layers": 1})
    for view in (
        kbert.build_encoder(config, seq_len=LENGTH),
        build_hidden_states(kbert.build_classifier(config, seq_len=LENGTH)),
    ):
        view.compile("sgd", ["mse"] * len(view.outputs))
        zeros = [np.zeros((EXAMPLES, *output.shape[1:]), "float32") for output in view.outputs]
        view.fit(x, zeros, batch_size=BATCH, verbose=0)
    wide = np.zeros((EXAMPLES, 2), "float32")
    inner = kbert.build_classifier(config, seq_len=LENGTH)
    around = keras.Model(inner.inputs, inner(inner.inputs) * 2.0)
    around.compile("sgd", "mse")
    around.fit(x, wide, batch_size=BATCH, verbose=0)
    assert not parts


@pytest.mark.parametrize("head", HEADS)
def test_what_was_trained_so_is_saved(head, parts, tmp_path, backend):
    if backend == "jax" and head not in ("predictions", "classifier"):
        pytest.skip("two heads stand for all, on JAX each takes long to trace")
    model, (x, _) = model_of(head), data(head)
    fitted(model, head)
    assert parts
    keras.models.clone_model(model)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    expected = model.predict(x, verbose=0)
    keras.tree.map_structure(np.testing.assert_array_equal, again.predict(x, verbose=0), expected)
    if head == "classifier":
        assert_same(fitted(again, head, 1), fitted(model, head, 1))
