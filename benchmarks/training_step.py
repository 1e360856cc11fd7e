"""One update of kbert's training step beside transformers' and KerasHub's: seconds and memory.

    python benchmarks/training_step.py [--config mini] [--rounds 3] [--updates 10] [--options]

A classifier of two labels, float32, dropout as configured, AdamW, clip 1.0, batches of 32 sequences
of 128 tokens (--batch, --length): what all three can do. Each round runs every contender once, in a
process of its own; its figure is the median update after the first two. Peak memory is the
process's over what it had before the first update. Ratios are to transformers in the same round.
--options compares kbert on TensorFlow with its own options instead: XLA, rematerialization, micro-
batches. What a machine does not have installed is left out, with a line that says so.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

CONTENDERS = (
    "transformers",
    "kbert tensorflow",
    "kbert jax",
    "kbert torch",
    "keras_hub tensorflow",
)
OPTIONS = {
    "default": {},
    "jit": {"jit": True},
    "rematerialize": {"rematerialize": True},
    "accumulation 4": {"accumulation": 4},
    "both": {"rematerialize": True, "accumulation": 4},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="mini", help="a preset of kbert")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--options", action="store_true")
    parser.add_argument("--backend", default="tensorflow", help="of --options")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments)))
        return
    names = list(CONTENDERS)
    if arguments.options:
        names = [f"kbert {arguments.backend} {option}" for option in OPTIONS]
    found = {name: [] for name in names}
    for number in range(1, arguments.rounds + 1):
        for name in list(found):
            if run := measured(name):
                found[name].append(run)
                print(f"round {number}: {name} {run['seconds']:.3f} s", file=sys.stderr)
            else:
                del found[name]
    table(found, names[0])


def measured(name: str) -> dict | None:
    environment = os.environ | {"KERAS_BACKEND": [*name.split(), "tensorflow"][1]}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, *sys.argv, "--child", name]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        print(f"{name}: left out: {done.stderr.splitlines()[-1]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def table(found: dict, first: str) -> None:
    print(f"{'':32}{'seconds (min to max)':>26}{'ratio':>22}{'first':>8}{'MiB':>7}")
    for name, runs in found.items():
        ratios = [
            one["seconds"] / other["seconds"]
            for one, other in zip(runs, found.get(first, runs), strict=True)
        ]
        first_update = statistics.median(run["first"] for run in runs)
        memory = statistics.median(run["memory"] for run in runs)
        shown = spread([run["seconds"] for run in runs]), spread(ratios)
        print(f"{name:32}{shown[0]:>26}{shown[1]:>22}{first_update:8.1f}{memory:7.0f}")


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def child(arguments) -> dict:
    library, *rest = arguments.child.split(" ", 2)
    options = OPTIONS[rest[1]] if len(rest) > 1 else {}
    update = {"kbert": of_kbert, "transformers": of_transformers, "keras_hub": of_keras_hub}[
        library
    ](arguments, **options)
    before, seconds = peak(), []
    for step in range(arguments.updates + 2):
        start = time.perf_counter()
        update(step)
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds[2:])
    return {"seconds": median, "first": seconds[0], "memory": peak() - before}


def peak() -> float:
    """MiB that the process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def data(arguments, step: int, vocab_size: int):
    import numpy as np

    random = np.random.default_rng(step)
    tokens = random.integers(1, vocab_size, (arguments.batch, arguments.length)).astype("int32")
    return tokens, random.integers(0, 2, arguments.batch).astype("int32")


def of_kbert(arguments, **options):
    import numpy as np

    import kbert
    from kbert.data.training_batch import TrainingBatch
    from kbert.graph import names
    from kbert.training import engines
    from kbert.training.optimizers import Optimizer

    config = kbert.get_config(arguments.config)
    engine = engines.start()
    with engine.scope():
        model = kbert.build_classifier(config, seq_len=arguments.length)
    engine.prepare(model, Optimizer(total_steps=1000), **options)

    def update(step):
        tokens, labels = data(arguments, step, config.vocab_size)
        inputs = {names.TOKEN_IDS: tokens, names.SEGMENT_IDS: np.zeros_like(tokens)}
        weights = np.full(len(labels), 1 / len(labels), "float32")
        batch = TrainingBatch(inputs, {names.CLASSIFIER: labels}, {names.CLASSIFIER: weights})
        return float(engine.update(batch, step)["loss"])

    return update


def of_transformers(arguments):
    import torch
    import transformers

    import kbert

    config = transformers.BertConfig(**kbert.get_config(arguments.config).to_dict())
    model = transformers.BertForSequenceClassification(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)

    def update(step):
        tokens, labels = (
            torch.from_numpy(array).long() for array in data(arguments, step, config.vocab_size)
        )
        mask = torch.ones_like(tokens)
        loss = model(input_ids=tokens, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return update


def of_keras_hub(arguments):
    import keras
    import keras_hub
    import numpy as np

    import kbert

    config = kbert.get_config(arguments.config)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        max_sequence_length=config.max_position_embeddings,
    )
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=2, preprocessor=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0)
    model.compile(optimizer=optimizer, loss=loss, jit_compile=False)  # as kbert's

    def update(step):
        tokens, labels = data(arguments, step, config.vocab_size)
        inputs = {"token_ids": tokens, "segment_ids": np.zeros_like(tokens)}
        inputs["padding_mask"] = np.ones_like(tokens)
        return float(model.train_on_batch(inputs, labels, return_dict=True)["loss"])

    return update


if __name__ == "__main__":
    main()
