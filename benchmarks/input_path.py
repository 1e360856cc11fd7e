"""Examples a second that the batches alone make, beside those that a tiny model trains on.

    python benchmarks/input_path.py TEXT [TEXT …] [--config tiny] [--seq-len 128] [--batch-size 32]

The texts (WikiText-2, say) are prepared with a vocabulary of 8,000 of their own. Training is
Keras's compiled `train_on_batch` on one batch that is there already, so the ratio says how much
faster than the model the input path is. Medians of `--rounds` turns, with minimum and maximum;
batches and training take turns.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

MODES = {
    "pairs": {},
    "pairs, whole words": {"whole_word": True},
    "packed, MLM only": {"mlm_only": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--config", default="tiny")
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shards = prepared(arguments.texts, Path(folder))
        sizes = {"batch_size": arguments.batch_size, "seq_len": arguments.seq_len}
        measure(shards, sizes, arguments.config, arguments.rounds)


def prepared(texts: list[str], folder: Path):
    from kbert.data.corpus.preparing import prepare
    from kbert.data.corpus.vocab_training import train_vocab

    train_vocab(texts, 8000, folder / "vocabulary")
    return prepare(texts, folder / "vocabulary", folder / "shards")


def measure(shards, sizes: dict, config: str, rounds: int) -> None:
    from kbert.data.pretraining.pretraining_batches import PretrainingBatches

    sources = {name: PretrainingBatches(shards, **sizes, **mode) for name, mode in MODES.items()}
    calls = {name: (source.batch, 50) for name, source in sources.items()}
    calls["training"] = training(sources["pairs"], shards.vocab_size, config), 5
    speeds = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, (call, steps) in calls.items():
            start = time.perf_counter()
            for step in range(turn * steps, (turn + 1) * steps):
                call(step)
            if turn:  # the first compiles and plans
                seconds = time.perf_counter() - start
                speeds[name].append(steps * sizes["batch_size"] / seconds)
    print(f"{config}, {sizes}, {shards}")
    for name, values in speeds.items():
        show(f"{name}, examples/s", values)
    for name in sources:
        pairs = zip(speeds[name], speeds["training"], strict=True)
        show(f"{name} / training", [ours / theirs for ours, theirs in pairs])


def training(source, vocab_size: int, name: str):
    """One compiled update on a batch that is there already."""
    import dataclasses

    import keras

    import kbert

    config = dataclasses.replace(kbert.get_config(name), vocab_size=vocab_size)
    model = kbert.build_bert(config, seq_len=source.seq_len, max_predictions=source.max_predictions)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    model.compile("adamw", [loss, loss])
    batch = source.batch(0)
    labels = [batch.labels[name] for name in ("MLM", "NSP")]
    weights = [batch.weights[name] for name in ("MLM", "NSP")]
    return lambda step: model.train_on_batch(batch.inputs, labels, weights)


def show(name: str, values: list[float]) -> None:
    middle, low, high = statistics.median(values), min(values), max(values)
    print(f"{name:<32}{middle:10.1f}  ({low:.1f} to {high:.1f})", flush=True)


if __name__ == "__main__":
    main()
