"""Runs of three sizes by two recipes under budgets of processor minutes.

`python -m benchmarks.day.runs SHARDS DEV` adds a line to results.jsonl, beside this file, for
each run that is not there yet. A budget is minutes of one thread, without compiling and evaluating:
the time of a micro-batch is measured first, and gives the number of steps. So a run's result does
not depend on what else the machine does.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import machine

RESULTS = Path(__file__).parent / "results.jsonl"
SIZES = ("L2_H128", "L2_H256", "L4_H256")  # presets: tiny, one between, mini
RECIPES = ("original", "cramming")
MINUTES = (2, 4, 8)
# The recipes' batches, 256 and 8192, are for runs of days. Here one has 16 examples, the other one
# grows from 16 to 64.
MICRO_BATCH, MICRO_BATCHES = 16, {"original": 1, "cramming": 4}
# Small models learn with higher rates. Of 3, 10, 30 times the recipe's, and of 1, 3, 10, these had
# the lowest loss after a minute of L2_H128.
RATE_FACTORS = {"original": 10, "cramming": 3}
# With these, four blocks stay where all begin, at the words' frequencies: they take a third.
SHARE_OF_RATE = {"L4_H256": 1 / 3}
MEASURED = 12  # steps whose time is measured, after the first ones
EVALUATIONS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(train(options.shards, options.dev, **json.loads(options.child))))
        return

    done = {(line["size"], line["recipe"], line["minutes"]) for line in read_results()}
    for minutes in MINUTES:
        for size in SIZES:
            for recipe in RECIPES:
                if (size, recipe, minutes) not in done:
                    run = {"size": size, "recipe": recipe, "minutes": minutes}
                    add_result(run | ask_child(options, run))


def read_results() -> list[dict]:
    """The runs that are done."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def add_result(result: dict) -> None:
    """Add a run to results.jsonl, and print it."""
    result["processor"] = machine.described()["processor"]
    line = json.dumps(result)
    with RESULTS.open("a") as file:
        file.write(line + "\n")
    print(line, flush=True)


def ask_child(options, run: dict) -> dict:
    """Train in a process of its own, on one thread."""
    threads = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    environment = os.environ | dict.fromkeys(threads, "1") | {"TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-m", "benchmarks.day.runs", options.shards, options.dev]
    command += ["--child", json.dumps(run)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{run}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def train(shards: Path, dev: Path, size: str, recipe: str, minutes: float) -> dict:
    """Train for a budget of minutes; the losses at each evaluation, with tokens and FLOPs."""
    import kbert
    from kbert.tasks.recipes.recipes import find_recipe

    settings = find_recipe(recipe).read_settings()
    settings |= {
        "learning_rate": settings["learning_rate"]
        * RATE_FACTORS[recipe]
        * SHARE_OF_RATE.get(size, 1),
        "precision": "float32",
        "evaluation_mlm_probability": 0.15,
        "evaluation_batches": 30,
        "progress": False,
    }
    count = MICRO_BATCHES[recipe]
    seconds = measure_micro_batch(shards, size, settings, count)
    micro_batches = 60 * minutes / seconds
    ramp = {"batch_size": MICRO_BATCH * count, "accumulation_steps": count}
    if count > 1:
        ramp["ramp_from"] = MICRO_BATCH
    ratio = settings.get("ramp_ratio")
    per_step = count_examples(1000, 1000, count, ratio) / (1000 * MICRO_BATCH)
    steps = round(micro_batches / per_step)
    every = -(-steps // EVALUATIONS)

    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        trained = kbert.pretrain(
            shards,
            size,
            output=Path(folder, "run"),
            dev=dev,
            steps=steps,
            evaluate_every=every,
            save_every=10**6,
            **settings | ramp,
        )
        used = time.process_time() - started

    config = trained.bert.config
    predictions = 20 if recipe == "original" else 32
    costs = kbert.account(config, 128, max_predictions=predictions)
    points = []
    for line in trained.history.evaluations:
        examples = count_examples(line["step"], steps, count, ratio)
        points.append(
            {
                "step": line["step"],
                "tokens": 128 * examples,
                "flops": costs.training_flops * examples,
                "loss": line["val_MLM_loss"],
                "accuracy": line["val_MLM_accuracy"],
            }
        )
    return {
        "steps": steps,
        "seconds_per_micro_batch": seconds,
        "process_seconds": used,
        "parameters": costs.params - config.vocab_size * config.hidden_size,
        "points": points,
    }


def measure_micro_batch(shards: Path, size: str, settings: dict, count: int) -> float:
    """The processor seconds of a micro-batch, its share of the optimizer's time included."""
    import keras

    import kbert

    times: list[float] = []

    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            times.append(time.process_time())

    options = {name: value for name, value in settings.items() if not name.startswith("ramp")}
    options |= {"batch_size": MICRO_BATCH * count, "accumulation_steps": count}
    with tempfile.TemporaryDirectory() as folder:
        kbert.pretrain(
            shards,
            size,
            output=Path(folder, "run"),
            steps=3 * MEASURED,
            evaluate_every=10**6,
            save_every=10**6,
            callbacks=[Clock()],
            **options,
        )
    durations = [after - before for before, after in itertools.pairwise(times)]
    return statistics.median(durations[-2 * MEASURED :]) / count


def count_examples(step: int, steps: int, count: int, ratio: float | None) -> int:
    """The examples of the first steps of a run, with a batch that grows in micro-batches."""
    if ratio is None:
        return MICRO_BATCH * step
    examples = 0
    for number in range(step):
        share = min(1.0, number / (ratio * steps))
        examples += MICRO_BATCH * min(count, int(1 + (count - 1) * share))
    return examples


if __name__ == "__main__":
    main()
