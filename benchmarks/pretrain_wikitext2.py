"""Pretrains a mini-sized BERT beside transformers: the same weights, batches and settings.

    python benchmarks/pretrain_wikitext2.py FOLDER [--steps 400] [--output RUN]

FOLDER holds WikiText-2's files. A vocabulary of 8,000 is trained on them and the text is prepared;
then both libraries do the same updates from the same first weights: AdamW 5e-4, a tenth of the
updates warm-up, linear decay, clip 1.0, dropout 0.1 (each library draws its own masks). Printed:
the MLM loss of both over the last tenth of the updates and on held-out batches without dropout,
their ratios, and the seconds of each, start and compilation included. RUN keeps kbert's run, with
the learning curve in its report.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = {"learning_rate": 5e-4, "weight_decay": 0.01, "clip_norm": 1.0}
BATCHES = {"batch_size": 32, "seq_len": 128, "max_predictions": 20, "seed": 0}
HELD_OUT, EVALUATED = 0.1, 20  # share of the documents, batches

KBERT = """
import sys, json, time
start = time.perf_counter()
from kbert.tasks.pretraining.pretrain import pretrain
place, run, asked = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
trained = pretrain(place + "/shards", init=place + "/first", output=run, progress=False, **asked)
updates = trained.history.updates
json.dump({"losses": [line["MLM_loss"] for line in updates],
           "held_out": trained.history.evaluations[-1]["val_MLM_loss"],
           "seconds": time.perf_counter() - start}, open(place + "/kbert.json", "w"))
"""
PEER = """
import json, sys, time
start = time.perf_counter()
import numpy as np, torch, transformers

place, settings = sys.argv[1], json.loads(sys.argv[2])
torch.manual_seed(0)
model = transformers.BertForPreTraining.from_pretrained(place + "/first")
decayed = [p for n, p in model.named_parameters() if "bias" not in n and "LayerNorm" not in n]
others = [p for n, p in model.named_parameters() if "bias" in n or "LayerNorm" in n]
optimizer = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": settings["weight_decay"]},
     {"params": others, "weight_decay": 0.0}],
    lr=settings["learning_rate"], eps=1e-6)
schedule = transformers.get_linear_schedule_with_warmup(
    optimizer, settings["warmup_steps"], settings["steps"])

def losses(batch):
    tokens, segments, positions, labels, nsp = (torch.from_numpy(batch[k]).long() for k in (
        "tokens", "segments", "positions", "labels", "nsp"))
    marked = torch.full_like(tokens, -100)
    rows, columns = torch.nonzero(positions, as_tuple=True)
    marked[rows, positions[rows, columns]] = labels[rows, columns]
    out = model(tokens, attention_mask=(tokens != 0).long(), token_type_ids=segments)
    cross_entropy = torch.nn.functional.cross_entropy
    return (cross_entropy(out.prediction_logits.flatten(0, 1), marked.flatten(), ignore_index=-100),
            cross_entropy(out.seq_relationship_logits, nsp))

def batches(kind, count):
    with np.load(f"{place}/{kind}.npz") as file:
        arrays = dict(file)
    for step in range(count):
        yield {name: array[step] for name, array in arrays.items()}

found = []
model.train()
for batch in batches("train", settings["steps"]):
    mlm, nsp = losses(batch)
    optimizer.zero_grad()
    (mlm + nsp).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip_norm"])
    optimizer.step()
    schedule.step()
    found.append(mlm.item())
model.eval()
with torch.no_grad():
    held_out = [losses(batch)[0].item() for batch in batches("held_out", settings["evaluated"])]
json.dump({"losses": found, "held_out": sum(held_out) / len(held_out),
           "seconds": time.perf_counter() - start}, open(place + "/transformers.json", "w"))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        prepare(arguments.folder, Path(place), arguments.steps)
        warmup = arguments.steps // 10
        asked = SETTINGS | BATCHES | {"steps": arguments.steps, "warmup_steps": warmup}
        ours = {"dev_ratio": HELD_OUT, "evaluation_batches": EVALUATED, "log_every": 1}
        ours["evaluate_every"] = max(1, arguments.steps // 10)
        run = str(arguments.output or Path(place) / "run")
        in_a_process(KBERT, place, run, json.dumps(asked | ours))
        in_a_process(PEER, place, json.dumps(asked | {"evaluated": EVALUATED}))
        kbert, peer = (
            json.loads((Path(place) / f"{name}.json").read_text())
            for name in ("kbert", "transformers")
        )
    last = max(1, arguments.steps // 10)
    compare(f"MLM loss, last {last} updates", *(mean(of["losses"][-last:]) for of in (kbert, peer)))
    compare("MLM loss, held out", kbert["held_out"], peer["held_out"])
    compare("seconds", kbert["seconds"], peer["seconds"])


def prepare(folder: Path, place: Path, steps: int) -> None:
    """Vocabulary, shards, first weights, and the batches of both kinds as arrays."""
    import kbert
    from kbert.data.corpus.preparing import prepare as prepare_shards
    from kbert.data.corpus.vocab_training import train_vocab
    from kbert.data.pretraining.pretraining_batches import PretrainingBatches

    start = time.perf_counter()
    files = sorted(folder.glob("*.txt"))
    train_vocab(files, 8000, place / "vocabulary")
    shards = prepare_shards(files, place / "vocabulary", place / "shards")
    print(f"vocabulary and shards: {time.perf_counter() - start:.1f} s", flush=True)
    config = kbert.get_config("mini").replace(vocab_size=shards.vocab_size)
    bert = kbert.Bert(config, "pretraining", kbert.build_bert(config), shards.tokenizer)
    kbert.save(bert, place / "first")
    train, held_out = shards.split(HELD_OUT)
    for name, part, count in (("train", train, steps), ("held_out", held_out, EVALUATED)):
        batches = PretrainingBatches(part, **BATCHES)
        write(place / f"{name}.npz", [batches.batch(step) for step in range(count)])


def write(path: Path, batches: list) -> None:
    import numpy as np

    from kbert.graph import names

    def stacked(group: str, key: str):
        return np.stack([getattr(batch, group)[key] for batch in batches])

    np.savez(
        path,
        tokens=stacked("inputs", names.TOKEN_IDS),
        segments=stacked("inputs", names.SEGMENT_IDS),
        positions=stacked("inputs", names.MASKED_POSITIONS),
        labels=stacked("labels", names.MLM),
        nsp=stacked("labels", names.NSP),
    )


def in_a_process(code: str, *arguments: str) -> None:
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | quiet,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])


def mean(values: list[float]) -> float:
    return statistics.fmean(values)


def compare(what: str, kbert: float, peer: float) -> None:
    print(f"{what:<32}kbert {kbert:9.4f}   transformers {peer:9.4f}   ratio {kbert / peer:.4f}")


if __name__ == "__main__":
    main()
