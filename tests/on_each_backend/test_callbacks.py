"""What Keras's callbacks find in the model while kbert trains it: what `compile` gives one."""

import dataclasses

import keras
import numpy as np
import pytest
from helpers.backends import full_on, nightly_on
from helpers.run_shards import CONFIG, SETTINGS, make_shards

import kbert
from kbert.graph.names import CLASSIFIER, MASKED_POSITIONS, SEGMENT_IDS, TOKEN_IDS
from kbert.tasks.finetuning.evaluate import LabelledEvaluation
from kbert.training.optimization import optimizers

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(24))]
SMALL = kbert.BertConfig(**CONFIG | {"vocab_size": len(TOKENS)})
ROWS = [(f"w{n} w{n + 1}", "xyz"[n % 3]) for n in range(20)]
QUIET = {"progress": False, "peak_flops": 1e9}
PEAK = 5e-3


def tune(callbacks, **options):
    """Five steps an epoch: four of 5 examples each, as rows have one length."""
    tokenizer = kbert.Tokenizer.from_vocab(TOKENS, lowercase=True)
    bert = kbert.Bert(SMALL, "encoder", kbert.build_encoder(SMALL, seq_len=None), tokenizer)
    settings = {"epochs": 3, "batch_size": 4, "learning_rate": PEAK, "seed": 7} | QUIET
    data = {"train": ROWS, "dev": ROWS[:9]} | settings | options
    return kbert.finetune(bert, "classify", callbacks=callbacks, **data)


def cross_entropy(logits, labels) -> float:
    logits = np.asarray(logits, "float64")
    total = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
    return float(np.mean(total - logits[np.arange(len(labels)), labels]))


class Looks(keras.callbacks.Callback):
    """Reads what `compile` gives, as others' callbacks do: at the end of each epoch."""

    def __init__(self, inputs=None, labels=None):
        super().__init__()
        self.inputs, self.labels, self.found, self.weights = inputs, labels, [], []

    def on_epoch_end(self, epoch, logs=None):
        optimizer = self.model.optimizer
        rate = float(optimizer.learning_rate.numpy().item())  # as W&B's
        seen = {"rate": rate, "done": int(optimizer.iterations.numpy()), "logs": logs}
        if self.inputs:
            seen["outputs"] = self.model.predict(self.inputs, verbose=0)
            measured = self.model.evaluate(self.inputs, self.labels, verbose=0, return_dict=True)
            seen["evaluate"] = measured
        self.found.append(seen)
        self.weights.append(self.model.get_weights())


@pytest.fixture
def scores(monkeypatch):
    """Gives each different dev evaluation an accuracy that a test says; the losses stay."""

    def give(*accuracies):
        real, left, known = LabelledEvaluation.__call__, iter(accuracies), {}

        def call(*given):
            result = real(*given)
            loss = result.metrics["loss"]
            if loss not in known:
                known[loss] = next(left)
            return dataclasses.replace(result, metrics=result.metrics | {"accuracy": known[loss]})

        monkeypatch.setattr(LabelledEvaluation, "__call__", call)

    return give


@full_on("jax", "tensorflow")
def test_callbacks_see_compiled_model_and_current_weights(scores, tmp_path):
    inputs = {TOKEN_IDS: np.array([[2, 7, 9, 3], [2, 5, 6, 3], [2, 8, 20, 3]], "int32")}
    inputs[SEGMENT_IDS] = np.zeros((3, 4), "int32")
    labels, best = np.array([2, 0, 2], "int32"), tmp_path / "best.keras"
    looks = Looks(inputs, labels)
    scores(0.25, 0.75, 0.5)  # the second is the best, and the loss does not say so
    callbacks = [
        looks,
        keras.callbacks.EarlyStopping("val_accuracy", patience=1, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint(best, monitor="val_accuracy", save_best_only=True),
    ]
    tuned = tune(callbacks, epochs=5, warmup_ratio=0.2, keep_best=False)
    assert tuned.history.stopped == "a callback stopped it after step 15"

    for epoch, seen in enumerate(looks.found, start=1):
        assert seen["done"] == 5 * epoch
        # as transformers' linear schedule: 5 steps of warm-up, to 0 after 25
        assert seen["rate"] == pytest.approx(PEAK * (25 - 5 * epoch) / 20, rel=1e-5)
        assert seen["logs"]["accuracy"] == seen["logs"][f"{CLASSIFIER}_accuracy"]
        measured, outputs = seen["evaluate"], seen["outputs"]
        assert measured["loss"] == pytest.approx(cross_entropy(outputs, labels), rel=1e-4)
        assert measured["accuracy"] == pytest.approx(np.mean(np.argmax(outputs, -1) == labels))
    assert not np.allclose(looks.found[0]["outputs"], looks.found[1]["outputs"], atol=1e-5)

    saved = keras.models.load_model(best, compile=False).get_weights()
    wanted = looks.weights[1]
    assert all(np.array_equal(one, other) for one, other in zip(saved, wanted, strict=True))
    assert not np.array_equal(looks.weights[2][0], wanted[0])
    assert tuned.metrics["accuracy"] == 0.75  # of the weights that EarlyStopping restored
    assert tuned.metrics["loss"] == looks.found[1]["logs"]["val_loss"]
    ours = tuned.bert.model.get_weights()
    assert all(any(np.array_equal(one, other) for other in wanted) for one in ours)


@pytest.mark.full
@nightly_on("jax")
def test_callback_sees_merged_adapter_weights():
    looks = Looks()
    tuned = tune([looks], lora_rank=2, keep_best=False, epochs=1)
    wanted = looks.weights[-1]
    for one in tuned.bert.model.get_weights():
        assert any(one.shape == w.shape and np.allclose(one, w, atol=1e-6) for w in wanted)


@pytest.mark.full
@nightly_on("jax")
def test_callback_sees_an_optimizer_without_epsilon(monkeypatch):
    monkeypatch.setattr(optimizers.AdamW, "keras_class", keras.optimizers.Lion)
    seen = []
    look = keras.callbacks.LambdaCallback(on_train_end=lambda _: seen.append(look.model.optimizer))
    tune([look], epochs=1)
    assert [isinstance(one, keras.optimizers.Lion) for one in seen] == [True]


@pytest.mark.full
@nightly_on("jax")
def test_pretraining_loss_in_callbacks_is_mlm_plus_nsp(tmp_path):
    """Of a made-up batch: the sum of two means, of the predicted positions alone."""
    shards, found = make_shards(tmp_path), []
    draw = np.random.default_rng(3)
    inputs = {
        TOKEN_IDS: draw.integers(5, 19, (4, 17)).astype("int32"),
        SEGMENT_IDS: np.zeros((4, 17), "int32"),
        MASKED_POSITIONS: np.array([[1, 5, 0], [2, 0, 0], [3, 9, 12], [7, 8, 0]], "int32"),
    }
    labels = {"MLM": draw.integers(5, 19, (4, 3)).astype("int32")}
    labels["NSP"] = np.array([0, 1, 1, 0], "int32")
    counts = (inputs[MASKED_POSITIONS] > 0).astype("float32")
    weights = {"MLM": counts, "NSP": np.ones(4, "float32")}

    class Measures(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            mlm, nsp = self.model.predict(inputs, verbose=0)
            chosen = counts > 0
            expected = cross_entropy(mlm[chosen], labels["MLM"][chosen])
            expected += cross_entropy(nsp, labels["NSP"])
            measured = self.model.evaluate(
                inputs,
                list(labels.values()),
                sample_weight=list(weights.values()),
                verbose=0,
                return_dict=True,
            )
            found.append((measured["loss"], expected, measured["NSP_accuracy"]))

    settings = SETTINGS | {"steps": 3, "evaluate_every": 3, "max_predictions": 3} | QUIET
    config, output = kbert.BertConfig(**CONFIG), tmp_path / "run"
    kbert.pretrain(shards, config, output=output, callbacks=[Measures()], **settings)
    ((loss, expected, accuracy),) = found
    assert loss == pytest.approx(expected, rel=1e-4)
    assert accuracy in (0, 0.25, 0.5, 0.75, 1)
