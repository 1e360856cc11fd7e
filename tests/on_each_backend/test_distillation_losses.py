"""Distillation on each backend: losses and gradients as torch has them, alone and in a run."""

import dataclasses

import numpy as np
import pytest
from helpers.backends import full_on
from helpers.labelled_texts import write_texts
from helpers.peer_tasks import VOCABULARY

import kbert
from kbert.checkpoints.transfer import weights_digest
from kbert.model.probes import map_layers
from kbert.tasks.finetuning.finetune import finetune
from kbert.training.loss import make_loss

torch = pytest.importorskip("torch")
functional = torch.nn.functional
RANDOM = np.random.default_rng(3)
WEIGHTS = np.array([0.5, 0.0, 2.0, 0.25, 1.0], np.float32)


def of_torch(kind: str, student, teacher, temperature: float):
    """The losses of torch's own functions, one an example or a token."""
    if kind == "classes":
        rows = [row / temperature for row in (student, teacher)]
        logs = functional.log_softmax(rows[0], -1), functional.softmax(rows[1], -1)
        return temperature**2 * functional.kl_div(*logs, reduction="none").sum(-1)
    if kind == "each":
        soft = torch.sigmoid(teacher / temperature)
        options = {"reduction": "none"}
        losses = functional.binary_cross_entropy_with_logits(student / temperature, soft, **options)
        entropy = functional.binary_cross_entropy(soft, soft, **options)
        return temperature**2 * (losses - entropy)
    if kind == "mse":
        return functional.mse_loss(student, teacher, reduction="none").mean(-1)
    each = torch.nn.CosineEmbeddingLoss(reduction="none")
    flat = [rows.reshape(-1, rows.shape[-1]) for rows in (student, teacher)]
    return each(*flat, torch.ones(len(flat[0]))).reshape(student.shape[:-1])


LOSSES = {
    "classes": make_loss("kl_divergence", temperature=2.5),
    "each": make_loss("binary_kl_divergence", temperature=2.5),
    "mse": make_loss("mse"),
    "cosine": make_loss("cosine"),
}


@pytest.mark.parametrize("kind", LOSSES)
def test_distillation_losses_equal_torch(kind):
    from keras import ops

    shape = (5, 7) if kind in ("classes", "each") else (5, 3, 7)
    student, teacher = RANDOM.normal(0, 3, (2, *shape)).astype(np.float32)
    counts = {"each": (5, 7), "classes": (5,)}.get(kind, (5, 3))
    weights = np.broadcast_to(WEIGHTS.reshape(5, *[1] * (len(counts) - 1)), counts).copy()
    student[1] = np.nan  # weighs nothing
    tensors = [ops.convert_to_tensor(array) for array in (student, teacher, weights)]
    found = ops.convert_to_numpy(LOSSES[kind].sum_losses(*tensors))
    student[1] = 0
    losses = of_torch(kind, torch.tensor(student), torch.tensor(teacher), 2.5).numpy()
    assert found[0] == pytest.approx((losses * weights).sum(), rel=1e-5)
    assert found[2] == pytest.approx(weights.sum(), rel=1e-6)


def bert_of(config, head: str, seed: int, **options):
    """A model without dropout, with random weights that matter."""
    build = {"encoder": kbert.build_encoder, "classifier": kbert.build_classifier}[head]
    config = dataclasses.replace(
        config,
        vocab_size=len(VOCABULARY),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **options,
    )
    model, random = build(config, seq_len=None), np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(random.normal(0, 0.3, weight.shape).astype(np.float32))
    tokenizer = kbert.Tokenizer.from_vocab(VOCABULARY, lowercase=True)
    labels = ("bad", "good") if head == "classifier" else None
    return kbert.Bert(config, head, model, tokenizer, labels=labels)


def hidden_losses(student, teacher, ids):
    """torch's squared error of each pair of states, the mean over what is no padding."""
    states = [
        [
            torch.tensor(np.array(state))
            for state in kbert.predict(kbert.build_hidden_states(m), ids).values()
        ]
        for m in (student.model, teacher.model)
    ]
    real = torch.tensor(ids != student.tokenizer.pad_id)
    pairs = map_layers(len(states[0]) - 1, len(states[1]) - 1)
    return [of_torch("mse", states[0][m], states[1][n], 1.0)[real].mean() for m, n in pairs]


@full_on("jax", "tensorflow")
def test_first_distillation_step_has_the_loss_of_the_formula(small, tmp_path):
    """Labels, logits and hidden states, of 3 layers by 2, with torch's own functions."""
    write_texts(tmp_path / "train.tsv", 13, 1)
    student = bert_of(small, "classifier", 1, num_hidden_layers=2)
    teacher = bert_of(small, "classifier", 2, num_hidden_layers=3, num_attention_heads=3)
    before = weights_digest(teacher)
    tuned = finetune(
        student,
        "classify",
        train=tmp_path / "train.tsv",
        teacher=teacher,
        temperature=3.0,
        alpha=0.7,
        hidden_loss="mse",
        hidden_loss_weight=0.25,
        epochs=2,
        batch_size=13,
        accumulation_steps=1,
        peak_flops=1e9,
        progress=False,
    )
    rows = [line.split("\t") for line in (tmp_path / "train.tsv").read_text().splitlines()]
    encoded = student.tokenizer.encode_batch([text for text, _ in rows]).encodings
    length = max(len(one.ids) for one in encoded)
    ids = np.array([one.ids + [0] * (length - len(one.ids)) for one in encoded])
    logits = [torch.tensor(kbert.predict(b.model, ids)["Classifier"]) for b in (student, teacher)]
    gold = torch.tensor([["bad", "good"].index(label) for _, label in rows])
    hard = float(functional.cross_entropy(logits[0], gold))
    soft = float(of_torch("classes", *logits, 3.0).mean())
    hidden = [float(loss) for loss in hidden_losses(student, teacher, ids)]
    first = tuned.history.updates[0]
    assert first["Classifier_loss"] == pytest.approx(hard, rel=1e-4)
    assert first["Teacher-Classifier_loss"] == pytest.approx(soft, rel=1e-4)
    for place, loss in enumerate(hidden):
        assert first[f"Teacher-Hidden-{place}_loss"] == pytest.approx(loss, rel=1e-4)
    whole = 0.3 * hard + 0.7 * soft + 0.25 * sum(hidden)
    assert first["loss"] == pytest.approx(whole, rel=1e-4)
    assert weights_digest(teacher) == before
    names = [layer.name for layer in student.model.layers]
    assert [layer.name for layer in tuned.bert.model.layers] == names


def test_uniform_layer_map_is_tinyberts():
    """Its own: 4 and 6 layers of 12 (the paper, section 4.2); rounded where they do not divide."""
    assert map_layers(4, 12) == [(0, 0), (1, 3), (2, 6), (3, 9), (4, 12)]
    assert map_layers(6, 12)[1:] == [(1, 2), (2, 4), (3, 6), (4, 8), (5, 10), (6, 12)]
    assert map_layers(3, 7) == [(0, 0), (1, 2), (2, 5), (3, 7)]
