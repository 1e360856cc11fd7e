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

torch = pytest.importorskip("torch")
functional = torch.nn.functional


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
    return [functional.mse_loss(states[0][m][real], states[1][n][real]) for m, n in pairs]


@full_on("jax", "tensorflow")
def test_first_distillation_step_has_the_loss_of_the_formula(small, tmp_path):
    """Labels, logits and hidden states, of 3 layers by 2, with torch's own functions."""
    write_texts(tmp_path / "train.tsv", 13, 1)
    student = bert_of(small, "classifier", 1, num_hidden_layers=2)
    teacher = bert_of(small, "classifier", 2, num_hidden_layers=3, num_attention_heads=3)
    before = weights_digest(teacher)
    tuned = kbert.finetune(
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
    logs = functional.log_softmax(logits[0] / 3, -1), functional.softmax(logits[1] / 3, -1)
    soft = 9 * float(functional.kl_div(*logs, reduction="batchmean"))
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
