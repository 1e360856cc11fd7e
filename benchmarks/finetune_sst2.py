"""Fine-tuning on SST-2, kbert beside a plain transformers loop: seconds and test accuracy.

    python benchmarks/finetune_sst2.py CHECKPOINT DATA [--seeds 3] [--only kbert]
        [--epochs 4 --precision mixed_bfloat16 --keep-last]  (kbert's)

CHECKPOINT is a folder of transformers with a vocabulary (MiniLM-L6), DATA holds train.tsv, dev.tsv
and test.tsv: text, tab, label. Both: AdamW 1e-4, decay 0.01, batch 32, at most 64 tokens, clip 1.0,
linear decay with 10 % warm-up. transformers, on torch: 3 epochs, float32, every batch padded to 64
tokens. kbert: the same unless asked otherwise, batches of like lengths, an evaluation of the dev
data after each epoch, the best epoch's weights (--keep-last: the last one's, as the loop has). Each
run is a process of its own, in turns; seconds are those of the whole process: imports, loading,
compilation, test data.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

RATE, BATCH, LENGTH, WARMUP, EPOCHS = 1e-4, 32, 64, 0.1, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of kbert's")
    parser.add_argument("--precision", default="float32", help="of kbert's")
    parser.add_argument("--keep-last", action="store_true", help="kbert: the last epoch's weights")
    parser.add_argument("--only", choices=sorted(CHILDREN))
    parser.add_argument("--child", choices=sorted(CHILDREN), help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(CHILDREN[arguments.child](arguments)))
        return
    found = {name: [] for name in CHILDREN if arguments.only in (None, name)}
    for seed in range(arguments.seeds):
        for name, runs in found.items():
            runs.append(measured(name, seed))
            print(name, f"seed {seed}:", ", ".join(shown(runs[-1])), flush=True)
    for name, runs in found.items():
        test = statistics.mean(run["test"] for run in runs)
        seconds = statistics.median(run["seconds"] for run in runs)
        print(f"{name}: test accuracy {test:.4f} (mean), {seconds:.0f} s (median)")
    if len(found) == 2:
        ratios = [k["seconds"] / t["seconds"] for k, t in zip(*found.values(), strict=True)]
        print(
            f"kbert / transformers: {statistics.median(ratios):.2f} of the time "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


def measured(name: str, seed: int) -> dict:
    """One run in a process of its own."""
    command = [sys.executable, *sys.argv, "--child", name, "--seed", str(seed)]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1]) | {"seconds": time.perf_counter() - start}


def shown(run: dict) -> list[str]:
    figures = [f"{name} {run[name]:.4f}" for name in ("dev", "test")]
    return [*figures, f"{run['seconds']:.0f} s", f"{run['training']:.0f} s of them training"]


def with_kbert(arguments) -> dict:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from kbert.tasks.finetuning.evaluate import evaluate
    from kbert.tasks.finetuning.finetune import finetune

    start = time.perf_counter()
    tuned = finetune(
        arguments.checkpoint,
        "classify",
        train=arguments.data / "train.tsv",
        dev=arguments.data / "dev.tsv",
        epochs=arguments.epochs,
        batch_size=BATCH,
        max_length=LENGTH,
        learning_rate=RATE,
        warmup_share=WARMUP,
        precision=arguments.precision,
        keep_best=not arguments.keep_last,
        seed=arguments.seed,
        show=False,
    )
    training = time.perf_counter() - start
    test = evaluate(tuned.bert, "classify", arguments.data / "test.tsv", max_length=LENGTH)
    return {"dev": tuned.metrics["accuracy"], "test": test["accuracy"], "training": training}


def with_transformers(arguments) -> dict:
    import torch
    import transformers

    torch.manual_seed(arguments.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.checkpoint)
    model = transformers.BertForSequenceClassification.from_pretrained(
        arguments.checkpoint, num_labels=2
    )
    data = {name: read(arguments.data / f"{name}.tsv") for name in ("train", "dev", "test")}
    start = time.perf_counter()
    texts, labels = data["train"]
    inputs, labels = padded(tokenizer, texts), torch.tensor(labels)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    updates = EPOCHS * -(-len(labels) // BATCH)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, round(WARMUP * updates), updates
    )
    model.train()
    for _ in range(EPOCHS):
        for part in torch.randperm(len(labels)).split(BATCH):
            batch = {name: array[part] for name, array in inputs.items()}
            model(**batch, labels=labels[part]).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    training = time.perf_counter() - start
    figures = {name: accuracy(model, tokenizer, *data[name]) for name in ("dev", "test")}
    return figures | {"training": training}


def read(path: Path) -> tuple[list[str], list[int]]:
    rows = [line.split("\t") for line in path.read_text("utf-8").split("\n") if line.strip()]
    return [text for text, _ in rows], [int(label) for _, label in rows]


def padded(tokenizer, texts: list[str]):
    options = {"padding": "max_length", "truncation": True, "max_length": LENGTH}
    return tokenizer(texts, return_tensors="pt", **options)


def accuracy(model, tokenizer, texts, labels) -> float:
    import torch

    model.eval()
    inputs, hits = padded(tokenizer, texts), 0
    with torch.no_grad():
        for part in torch.arange(len(texts)).split(BATCH):
            logits = model(**{name: array[part] for name, array in inputs.items()}).logits
            hits += int((logits.argmax(-1) == torch.tensor(labels)[part]).sum())
    return hits / len(texts)


CHILDREN = {"kbert": with_kbert, "transformers": with_transformers}

if __name__ == "__main__":
    main()
