"""`lora_dropout` gives PEFT's gradients under the same masks."""

import importlib.util

import numpy as np
import pytest
from helpers.small_berts import small_bert
from helpers.training_batches import LENGTH, arrays, batch_of

import kbert
from kbert import ops as kops
from kbert.graph import names
from kbert.graph.trained_parts import trained_parts
from kbert.model.builder import build
from kbert.model.lora import adapters_of
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer
from kbert.training.step.trained_weights import select_weights

for package in ("transformers", "peft"):
    if importlib.util.find_spec(package) is None:
        pytest.skip("the peer: pip install --no-deps peft accelerate", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore")  # of the peer's

RATE, BATCH = 0.4, 13
MODULES = {
    "query": "attention.self.query",
    "value": "attention.self.value",
    "attention_output": "attention.output.dense",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
}
TARGETS = {"lora_targets": ",".join(MODULES)}


def mask_of(shape) -> np.ndarray:
    """What the test drops: by the place of a number alone."""
    count = int(np.prod(shape))
    kept = np.random.default_rng(count).random(count) >= RATE
    return (kept / (1 - RATE)).reshape(shape).astype("float32")


@pytest.mark.full
def test_gradients_are_pefts_under_its_masks(small, tmp_path, monkeypatch):
    def by_mask(x, rate, seed):
        """The last block computes the first token's row alone: the first of PEFT's."""
        assert rate == RATE
        batch, rows, width = x.shape
        return x * mask_of((batch, LENGTH, width))[:, :rows]

    monkeypatch.setitem(vars(kops), "dropout", by_mask)
    config = small.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    bert = small_bert(config, "classifier")
    kbert.save(bert, tmp_path / "base")
    backend = backends.start()
    model = build(bert.spec)
    model.set_weights(bert.model.get_weights())
    parts = trained_parts(bert.spec, None, 4, ",".join(MODULES), 6.0)
    engine = Engine(backend, model, Optimizer(), select_weights(model, parts, 1, dropout=RATE))
    random = np.random.default_rng(3)
    for one in adapters_of(engine.model):
        one.b.assign(random.normal(0, 0.2, one.b.shape).astype("float32"))
    batch = batch_of(arrays("classifier", 1, BATCH), 0)
    found = engine.gradients(batch, 0)
    expected, counts = pefts(tmp_path / "base", engine, batch)
    for name in ("kernel", "bias"):
        path = next(path for path in found if path.endswith(f"Classifier/{name}"))
        np.testing.assert_allclose(found[path], expected[name], atol=2e-6, rtol=1e-3)
    assert len(found) == 2 + 2 * len(adapters_of(engine.model))
    account = kbert.account(config, head="classifier", num_labels=5, lora_rank=4, **TARGETS)
    # PEFT keeps the head that was there beside the one that it trains
    head = 5 * 24 + 5
    assert counts == (
        account.trainable_params,
        account.params + account.trained.adapter_params + head,
    )
    for one in adapters_of(engine.model):
        for half, variable in (("A", one.a), ("B", one.b)):
            wanted = expected[one.matrix.block, one.matrix.name, half]
            assert np.abs(wanted).max() > 1e-5
            np.testing.assert_allclose(
                found[variable.path], wanted, atol=2e-6, rtol=1e-3, err_msg=variable.path
            )


def pefts(base, engine, batch) -> tuple[dict, tuple[int, int]]:
    """PEFT's gradients, by block, matrix and half, and its counts of parameters."""
    import peft
    import torch
    import transformers

    class Masked(torch.nn.Module):
        def forward(self, x):
            return x * torch.tensor(mask_of(tuple(x.shape)))

    theirs = transformers.BertForSequenceClassification.from_pretrained(base)
    targets = [f"{n}.{module}" for n in range(3) for module in MODULES.values()]
    options = {"r": 4, "lora_alpha": 6, "lora_dropout": RATE, "target_modules": targets}
    model = peft.get_peft_model(theirs, peft.LoraConfig(task_type="SEQ_CLS", **options)).train()
    layers = {name: one for name, one in model.named_modules() if hasattr(one, "lora_dropout")}
    places = {}
    for adapter in adapters_of(engine.model):
        ending = f"layer.{adapter.matrix.block - 1}.{MODULES[adapter.matrix.name]}"
        (layer,) = (one for name, one in layers.items() if name.endswith(ending))
        layer.lora_dropout["default"] = Masked()
        for half, variable in (("A", adapter.a), ("B", adapter.b)):
            weight = getattr(layer, f"lora_{half}")["default"].weight
            weight.data = torch.tensor(np.asarray(variable.value))
            places[adapter.matrix.block, adapter.matrix.name, half] = weight
    tokens, segments = (
        torch.tensor(batch.inputs[name], dtype=torch.long)
        for name in (names.TOKEN_IDS, names.SEGMENT_IDS)
    )
    labels = torch.tensor(batch.labels[names.CLASSIFIER], dtype=torch.long)
    inputs = {"input_ids": tokens, "token_type_ids": segments, "labels": labels}
    model(**inputs, attention_mask=(tokens != 0).long()).loss.backward()
    gradients = {place: weight.grad.numpy() for place, weight in places.items()}
    head = model.base_model.model.classifier.modules_to_save["default"]
    gradients |= {"kernel": head.weight.grad.numpy().T, "bias": head.bias.grad.numpy()}
    return gradients, model.get_nb_trainable_parameters()
