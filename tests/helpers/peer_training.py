"""transformers' BERT, trained in torch: what the engines' updates are compared with."""

from pathlib import Path

import numpy as np

from helpers.peer_models import draw_weights


def train(out: Path, settings: dict) -> None:
    """Train a model of each kind: "pretraining" and "classifier", with its settings.

    OUT/<kind> has batches.npz, an array for each name and a row for each update. Written into it
    are first/ and last/, the checkpoints before and after, and figures.npz: of each update the
    loss, the gradients' norm before the clip, and the rate.
    """
    for kind, values in settings.items():
        train_one(kind, out / kind, values)


def train_one(kind: str, folder: Path, settings: dict) -> None:
    import torch
    import transformers

    config = transformers.BertConfig(**settings["sizes"], num_labels=3)
    classes = {
        "pretraining": transformers.BertForPreTraining,
        "classifier": transformers.BertForSequenceClassification,
    }
    model = classes[kind](config)
    draw_weights(model, 5)
    model.save_pretrained(folder / "first")
    model.train()
    plain = ("bias", "LayerNorm.weight")
    groups = [
        {
            "params": [p for n, p in model.named_parameters() if n.endswith(plain) is undecayed],
            "weight_decay": 0.0 if undecayed else settings["weight_decay"],
        }
        for undecayed in (False, True)
    ]
    rate = settings["learning_rate"]
    optimizer = torch.optim.AdamW(groups, lr=rate, eps=settings["epsilon"])
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, settings["warmup_steps"], settings["total_steps"]
    )
    figures = {"loss": [], "gradient_norm": [], "learning_rate": []}
    batches = dict(np.load(folder / "batches.npz"))
    for step in range(len(batches["tokens"])):
        batch = {name: torch.from_numpy(array[step]).long() for name, array in batches.items()}
        loss = model(**arguments(kind, batch)).loss
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip_norm"])
        figures["learning_rate"].append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
        figures["loss"].append(loss.item())
        figures["gradient_norm"].append(norm.item())
    model.save_pretrained(folder / "last")
    np.savez(folder / "figures.npz", **figures)


def arguments(kind: str, batch: dict) -> dict:
    """The call of transformers that means the same batch."""
    import torch

    tokens = batch["tokens"]
    found = {
        "input_ids": tokens,
        "attention_mask": (tokens != 0).long(),
        "token_type_ids": batch["segments"],
    }
    if kind == "classifier":
        return found | {"labels": batch["labels"]}
    marked = torch.full_like(tokens, -100)  # -100: not predicted
    rows, columns = torch.nonzero(batch["positions"], as_tuple=True)
    marked[rows, batch["positions"][rows, columns]] = batch["labels"][rows, columns]
    return found | {"labels": marked, "next_sentence_label": batch["nsp"]}
