"""How long a save stops the training, at base's size: the copy of weights and moments.

    python -m benchmarks.saving [--size base] [--batch 2] [--saves 4] [--alone] [--json]

A process of its own on Keras's backend does an update, then for each save the copy, the write of
the file by a thread beside, and updates until it is on the disk. `--alone` takes the copies alone,
with no update. Told are the least and the median, and the first save apart.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="saving", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--size", default="base", help="a preset; base")
    parser.add_argument("--batch", type=int, default=2, help="sequences of an update; 2")
    parser.add_argument("--saves", type=int, default=4, help="saves, the first one apart; 4")
    parser.add_argument("--alone", action="store_true", help="the copies alone")
    parser.add_argument("--json", action="store_true", help="as JSON")
    asked = parser.parse_args(words)
    if asked.saves < 2 or asked.batch < 1:
        parser.error("--saves must be 2 or more, --batch 1 or more")
    found = measured(asked.size, asked.batch, asked.saves, asked.alone)
    print(json.dumps(found) if asked.json else text(found))
    return 0


def measured(size: str, batch: int, saves: int, alone: bool = False) -> dict:
    """Seconds of the clock, and for the copies of the processor: {"backend", "MiB", …}."""
    import keras

    engine, update = engine_of(size, batch)
    found: dict[str, list[float]] = {"copy": [], "copy, processor": []}
    if not alone:
        update()
        found["update"] = [timed(update)[0] for _ in range(2)]
        found |= {"update beside a write": [], "write": []}
    state: dict = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(saves):
            state.clear()  # as in a run: nobody holds the numbers of the save before
            both = timed(lambda: state.update(engine.state.all()))
            found["copy"].append(both[0])
            found["copy, processor"].append(both[1])
            if alone:
                continue
            thread, took = writing(Path(folder, f"{number % 2}.safetensors"), dict(state))
            while thread.is_alive():
                found["update beside a write"].append(timed(update)[0])
            found["write"] += took
    size_of = round(sum(array.nbytes for array in state.values()) / 2**20)
    return {"backend": keras.backend.backend(), "MiB": size_of} | found


def engine_of(size: str, batch: int):
    """A prepared engine, and a function that does one update of `batch` × 32 tokens."""
    from benchmarks import updates

    engine, run = updates.engine_and_run("pretraining", size, batch, 32, "float32")
    return engine, lambda: run(1)


def writing(path: Path, state: dict):
    """A thread that writes a state, and the list that its seconds come to."""
    from kbert.training.run.state_files import write_state

    took: list[float] = []
    thread = threading.Thread(target=lambda: took.append(timed(write_state, path, state, {})[0]))
    thread.start()
    return thread, took


def timed(function, *arguments) -> tuple[float, float]:
    """Seconds of the clock and of the processor, of all threads."""
    clock, processor = time.perf_counter(), time.process_time()
    function(*arguments)
    return time.perf_counter() - clock, time.process_time() - processor


def text(found: dict) -> str:
    lines = [f"{found.pop('backend')}, {found.pop('MiB'):,} MiB a state; seconds"]
    for name, values in found.items():
        later = values[1:] if name.startswith("copy") else values
        first = f", first {values[0]:.3f}" if name.startswith("copy") else ""
        least, median = min(later), statistics.median(later)
        lines.append(f"{name:22} {least:8.3f} least {median:8.3f} median{first}")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
