"""A model's `.h5` file, its own or a callback's, opens in Keras and in kbert."""

import keras
import numpy as np
import pytest
from helpers.errors import raises
from numpy.testing import assert_allclose, assert_array_equal, assert_equal

import kbert

IDS = [np.array([[2, 7, 5, 3, 0]]), np.array([[0, 0, 1, 1, 0]])]


def outputs_of(model):
    given = IDS + [np.ones_like(IDS[0])] * (len(model.inputs) - 2)
    return [keras.ops.convert_to_numpy(one) for one in keras.tree.flatten(model(given))]


@pytest.mark.full
@pytest.mark.parametrize("head", ["encoder", "pretraining", "qa"])
def test_a_h5_file_opens_in_keras_and_in_kbert(berts, tmp_path, head):
    model = berts[head].model
    model.save(tmp_path / "m.h5")
    again, bert = keras.saving.load_model(tmp_path / "m.h5"), kbert.load(tmp_path / "m.h5")
    assert type(again) is type(model)
    assert (bert.head, bert.config, bert.tokenizer) == (head, berts[head].config, None)
    assert bert.report.initialized == bert.report.ignored == ()
    for mine, keras_s, kbert_s in zip(
        outputs_of(model), outputs_of(again), outputs_of(bert.model), strict=True
    ):
        assert_array_equal(mine, keras_s)
        assert_allclose(mine, kbert_s, atol=1e-6)


@pytest.mark.full
def test_model_checkpoint_callbacks_file_opens(berts, tmp_path):
    model = keras.models.clone_model(berts["classifier"].model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, run_eagerly=True)
    file = tmp_path / "best.h5"
    save = keras.callbacks.ModelCheckpoint(str(file), monitor="loss", save_best_only=True)
    model.fit(IDS, np.array([1]), verbose=0, callbacks=[save])
    bert = kbert.load(file)
    assert_equal(model.get_weights(), bert.model.get_weights())
    again = keras.saving.load_model(file)
    assert again.optimizer.iterations == 1
    assert kbert.inspect(file).left_out  # the optimizer's variables


def test_h5_file_of_another_graph_is_refused(berts, tmp_path):
    encoder = berts["encoder"].model
    output = keras.layers.Dense(3, name="Mine")(encoder.outputs[1])
    keras.Model(encoder.inputs, output).save(tmp_path / "m.h5")
    with raises(ValueError, "Mine (Dense) added"):
        kbert.load(tmp_path / "m.h5")
