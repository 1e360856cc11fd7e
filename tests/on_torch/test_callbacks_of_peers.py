"""W&B and MLflow log a run by their Keras callbacks; unsuitable callbacks are refused."""

import functools

import keras
import pytest
from helpers.errors import raises
from helpers.labelled_texts import SETTINGS
from helpers.labelled_texts import tune as tune_texts

pytestmark = pytest.mark.full


@pytest.fixture
def tune(labelled):
    """Two epochs of 3 steps."""
    return functools.partial(tune_texts, labelled, epochs=2, warmup_ratio=0.0)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # W&B's and MLflow's own
def test_wandb_logs_learning_rate_and_metrics(tune, tmp_path, monkeypatch):
    pytest.importorskip("tensorflow", reason="W&B's callback imports it")
    wandb = pytest.importorskip("wandb", reason="pip install wandb")
    for name, value in (("MODE", "offline"), ("SILENT", "true"), ("DIR", str(tmp_path))):
        monkeypatch.setenv(f"WANDB_{name}", value)
    from wandb.integration.keras import WandbMetricsLogger

    lines = []
    with wandb.init(project="tests") as run:
        logger = WandbMetricsLogger()
        monkeypatch.setattr(wandb, "log", lines.append)
        tuned = tune(callbacks=[logger])
    assert run.settings.mode == "offline"
    rates = [line["epoch/learning_rate"] for line in lines]
    half = SETTINGS["learning_rate"] / 2
    assert rates == pytest.approx([half, 0.0])  # linear, after 3 and 6 of 6 steps
    accuracies = [line["epoch/val_accuracy"] for line in lines]
    assert accuracies == [line["val_accuracy"] for line in tuned.history.evaluations]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_mlflow_logs_settings_and_metrics(tune, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="pip install mlflow-skinny")
    callback = pytest.importorskip("mlflow.keras.callback", reason="pip install mlflow-skinny")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a local file, without a database
    mlflow.set_tracking_uri(tmp_path.as_uri())
    mlflow.set_experiment("tests")
    with mlflow.start_run() as run:
        tuned = tune(callbacks=[callback.MlflowCallback()])
    mlflow.flush_async_logging()
    found = mlflow.get_run(run.info.run_id).data
    assert float(found.params["optimizer_weight_decay"]) == pytest.approx(0.01)
    assert found.metrics["val_accuracy"] == tuned.history.evaluations[-1]["val_accuracy"]


def test_callback_that_sets_learning_rate_is_refused(tune):
    class Sets(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.model.optimizer.learning_rate = 1.0

    with raises(ValueError, "callback", "learning rate"):
        tune(callbacks=[Sets()])
    stopping = keras.callbacks.EarlyStopping("val_loss", restore_best_weights=True)
    with raises(ValueError, "restore_best_weights", "lora_rank"):
        tune(callbacks=[stopping], lora_rank=2)


@pytest.mark.full
def test_callback_that_monitors_dev_needs_dev_data(tune, tmp_path):
    """The three forms are those of Keras's own `fit`."""
    stopping = keras.callbacks.EarlyStopping("val_accuracy", min_delta=2.0)  # never better
    assert tune(callbacks=stopping, epochs=3).history.evaluations[-1]["step"] == 6
    tune(callbacks=None, epochs=1)
    best = keras.callbacks.ModelCheckpoint(tmp_path / "b.keras", "val_loss", save_best_only=True)
    for name, callback in (("EarlyStopping", stopping), ("ModelCheckpoint", best)):
        with raises(ValueError, name, "val_", "dev"):
            tune(callbacks=callback, dev=None, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
