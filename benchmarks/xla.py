"""One update of the engine beside Keras's `fit` of the same model on TensorFlow, both with XLA.

    python benchmarks/xla.py [--rounds 3] [--updates 8] [--precision mixed_bfloat16] [--without]

Pretraining: 4 layers of base's width, batch 8, length 128, 20 predictions a sequence, dropout 0.1,
AdamW, clip 1.0, the same arrays. Each round runs every contender once, in a process of its own, one
after the other; its figure is the mean over the updates after the first two. Seconds of the
processor count all cores: they say less about what else the machine does than the clock's. Ratios
are to `fit` in the same round. --without runs both without XLA too.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

CONTENDERS = ("fit XLA", "engine XLA")
WITHOUT = ("fit", "engine")
LAYERS, BATCH, LENGTH, PREDICTIONS = 4, 8, 128, 20
FIGURES = ("processor", "clock", "first")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments)))
        return
    names = CONTENDERS + (WITHOUT if arguments.without else ())
    found = {name: [] for name in names}
    for number in range(1, arguments.rounds + 1):
        for name in names:
            found[name].append(measured(name))
            print(f"round {number}: {name} {found[name][-1]}", file=sys.stderr)
    print(f"{arguments.precision}, seconds an update: median (least to most)")
    print(f"{'':12}{'processor':>24}{'ratio':>24}{'clock':>24}{'first':>8}")
    for name, runs in found.items():
        ratios = [
            one["processor"] / other["processor"]
            for one, other in zip(runs, found[CONTENDERS[0]], strict=True)
        ]
        columns = [run["processor"] for run in runs], ratios, [run["clock"] for run in runs]
        first = statistics.median(run["first"] for run in runs)
        print(f"{name:12}{''.join(f'{spread(values):>24}' for values in columns)}{first:8.1f}")


def measured(name: str) -> dict:
    environment = os.environ | {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, *sys.argv, "--child", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def child(arguments) -> dict:
    """Seconds an update of the processor and of the clock, and the first one's of the clock."""
    name, *xla = arguments.child.split()
    run = {"fit": of_keras, "engine": of_engine}[name](arguments, bool(xla))
    start = time.perf_counter()
    run(1)
    first = time.perf_counter() - start
    run(1)
    start, processor = time.perf_counter(), time.process_time()
    loss = run(arguments.updates)
    spent = time.process_time() - processor, time.perf_counter() - start
    seconds = [round(value / arguments.updates, 3) for value in spent]
    return dict(zip(FIGURES, (*seconds, round(first, 1)), strict=True)) | {"loss": loss}


def built(precision: str):
    import kbert

    config = kbert.get_config("base").replace(num_hidden_layers=LAYERS)
    sizes = {"seq_len": LENGTH, "max_predictions": PREDICTIONS}
    return kbert.build_bert(config, **sizes, dtype=precision)


def data(vocab_size: int = 30_000) -> tuple[list, list]:
    """A batch: token ids, segment ids, positions; the tokens there, the pairs' classes."""
    import numpy as np

    random = np.random.default_rng(3)
    tokens = random.integers(1, vocab_size, (BATCH, LENGTH))
    positions = np.sort(random.permuted(np.tile(np.arange(1, LENGTH), (BATCH, 1)), axis=1))
    positions = positions[:, :PREDICTIONS]
    labels = [random.integers(1, vocab_size, positions.shape), random.integers(0, 2, BATCH)]
    inputs = [tokens, np.zeros_like(tokens), positions]
    return [array.astype("int32") for array in inputs], [one.astype("int32") for one in labels]


def of_keras(arguments, xla: bool):
    import keras
    import tensorflow as tf

    model = built(arguments.precision)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0)
    model.compile(optimizer=optimizer, loss=[loss, loss], jit_compile=xla)
    inputs, labels = data()
    batches = tf.data.Dataset.from_tensors((tuple(inputs), tuple(labels))).repeat()
    return lambda count: model.fit(batches, steps_per_epoch=count, verbose=0).history["loss"][0]


def of_engine(arguments, xla: bool):
    import itertools

    import numpy as np

    from kbert.data.training_batch import TrainingBatch
    from kbert.graph import names
    from kbert.training import engines
    from kbert.training.optimizers import Optimizer

    engine = engines.start()
    with engine.scope():
        model = built(arguments.precision)
    engine.prepare(model, Optimizer(total_steps=1000), jit=xla or None)
    inputs, labels = data()
    weights = [np.full(one.shape, 1 / one.size, "float32") for one in labels]
    heads = names.MLM, names.NSP
    groups = (dict(zip(model.input_names, inputs, strict=True)),)
    groups += tuple(dict(zip(heads, arrays, strict=True)) for arrays in (labels, weights))
    batch, steps = TrainingBatch(*groups), itertools.count()

    def run(count: int) -> float:
        losses = [float(engine.update(batch, next(steps))["loss"]) for _ in range(count)]
        return sum(losses) / count  # as fit reports it

    return run


if __name__ == "__main__":
    main()
