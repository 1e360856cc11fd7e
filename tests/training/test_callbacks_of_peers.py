"""W&B and MLflow log a run by their Keras callbacks; unsuitable callbacks are refused."""

import keras
import pytest
from helpers.run_shards import CONFIG

import kbert

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(24))]
ROWS = [(f"w{n} w{n + 1}", "xyz"[n % 3]) for n in range(15)]
PEAK = 3e-3


def tune(callbacks, **options):
    """Two epochs of 3 steps."""
    config = kbert.BertConfig(**CONFIG | {"vocab_size": len(TOKENS)})
    tokenizer = kbert.Tokenizer.from_vocab(TOKENS, lowercase=True)
    bert = kbert.Bert(config, "encoder", kbert.build_encoder(config, seq_len=None), tokenizer)
    settings = {"epochs": 2, "batch_size": 5, "learning_rate": PEAK, "warmup_ratio": 0.0}
    settings |= {"progress": False, "peak_flops": 1e9, "dev": ROWS[:7]} | options
    return kbert.finetune(bert, "classify", train=ROWS, callbacks=callbacks, **settings)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # W&B's and MLflow's own
def test_wandb_logs_learning_rate_and_metrics(tmp_path, monkeypatch):
    pytest.importorskip("tensorflow", reason="W&B's callback imports it")
    wandb = pytest.importorskip("wandb", reason="pip install wandb")
    for name, value in (("MODE", "offline"), ("SILENT", "true"), ("DIR", str(tmp_path))):
        monkeypatch.setenv(f"WANDB_{name}", value)
    from wandb.integration.keras import WandbMetricsLogger

    lines = []
    with wandb.init(project="tests") as run:
        logger = WandbMetricsLogger()
        monkeypatch.setattr(wandb, "log", lines.append)
        tuned = tune([logger])
    assert run.settings.mode == "offline"
    rates = [line["epoch/learning_rate"] for line in lines]
    assert rates == pytest.approx([PEAK / 2, 0.0])  # linear, after 3 and 6 of 6 steps
    accuracies = [line["epoch/val_accuracy"] for line in lines]
    assert accuracies == [line["val_accuracy"] for line in tuned.history.evaluations]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_mlflow_logs_settings_and_metrics(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="pip install mlflow-skinny")
    callback = pytest.importorskip("mlflow.keras.callback", reason="pip install mlflow-skinny")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a local file, without a database
    mlflow.set_tracking_uri(tmp_path.as_uri())
    mlflow.set_experiment("tests")
    with mlflow.start_run() as run:
        tuned = tune([callback.MlflowCallback()])
    mlflow.flush_async_logging()
    found = mlflow.get_run(run.info.run_id).data
    assert float(found.params["optimizer_weight_decay"]) == pytest.approx(0.01)
    assert found.metrics["val_accuracy"] == tuned.history.evaluations[-1]["val_accuracy"]


def test_callback_that_sets_learning_rate_is_refused():
    class Sets(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.model.optimizer.learning_rate = 1.0

    with pytest.raises(ValueError, match="a callback set the learning rate, which the run's sch"):
        tune([Sets()])
    stopping = keras.callbacks.EarlyStopping("val_loss", restore_best_weights=True)
    with pytest.raises(ValueError, match="restore_best_weights cannot be used with lora_rank"):
        tune([stopping], lora_rank=2)


@pytest.mark.full
def test_callback_that_monitors_dev_needs_dev_data(tmp_path):
    """The three forms are those of Keras's own `fit`."""
    stopping = keras.callbacks.EarlyStopping("val_accuracy", min_delta=2.0)  # never better
    assert tune(stopping, epochs=3).history.evaluations[-1]["step"] == 6
    tune(None, epochs=1)
    best = keras.callbacks.ModelCheckpoint(tmp_path / "b.keras", "val_loss", save_best_only=True)
    for name, callback in (("EarlyStopping", stopping), ("ModelCheckpoint", best)):
        with pytest.raises(ValueError, match=f"{name} monitors val_.*: give dev"):
            tune(callback, dev=None, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
