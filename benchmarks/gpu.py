"""kbert on one GPU, beside KerasHub and transformers: speed, utilization, memory of the device.

    python benchmarks/gpu.py --first
    python benchmarks/gpu.py [--backend jax] [--only base-128 …] [--minutes 8]

Runs from a bare checkout, with Keras on JAX, torch or TensorFlow. Measured are an update of
pretraining (15 % predicted positions) and the forward pass of encoder and pooler, compiled, its
outputs left on the device. Utilization is the FLOPs that the work needs by its time, whatever a
peer computes beside them, of the datasheet's peak and of the rate of BERT's bare products. Needed
are the accounting's; of an update without the last block's rows that no head reads.

Everyone's turn is a process of its own, which has the whole device: start, warm-up, samples. The
first turn finds the largest batch that fits. After every turn OUTPUT.json and OUTPUT.md are
written, so that a command which is killed keeps what it had. `--first` fills the updates' rows of
every size, length, backend and peer in ten minutes, with the batches of docs/how_to/gpu.md. On JAX
a profile of kbert's update then says how far the count of `kbert.compile_plan` is off for each kind
of kernel. `--table FILE.json …` makes one table of several. docs/contributing/accelerators.md says
what to run, and in which order; gpu_works.py has what a process does, gpu_table.py the rows and the
table.
"""

import argparse
import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # kbert and benchmarks, not installed

from benchmarks import machine
from benchmarks.contenders import Contender, Failed
from benchmarks.gpu_table import (
    KINDS,
    PARTS,
    PEERS,
    TOY,
    WORKS,
    figures,
    kernel_table,
    planned,
    rows_of,
    table,
)
from benchmarks.gpu_works import FULL

ROOT = Path(__file__).resolve().parents[1]
BACKENDS = ("jax", "torch", "tensorflow")
PRECISIONS = ("mixed_bfloat16", "mixed_float16", "float32")
SAMPLES, SECONDS, MOST = 3, 2.0, 50  # samples of a turn, seconds of one, units of work in one
TOY_SECONDS, FIRST_SECONDS, FIRST_MINUTES = 0.01, 0.5, 10
PROFILED = 5  # updates whose kernels are measured
# The kernels that kbert.compile_plan counts, one launched after the other
COUNTED = {"XLA_FLAGS": "--xla_gpu_enable_triton_gemm=false --xla_gpu_enable_command_buffer="}
HOPEFUL = 1.5  # of the memory: the plan of a batch that is tried; a compiler keeps less than that


class Refused(Exception):
    """What is wrong with the command line or the machine, in a line."""


def main(line: list[str] | None = None) -> int:
    try:
        settings = parsed(line)
        if settings.table is not None:
            print(table([opened(path) for path in settings.table]))
            return 0
        devices = found(settings)
    except Refused as refused:
        print(f"gpu.py: {refused}", file=sys.stderr)
        return 2
    ends = time.monotonic() + 60 * (settings.minutes or float("inf"))
    many = []
    for place, (backend, device) in enumerate(devices):
        own = of_backend(settings, backend)
        own.minutes = (ends - time.monotonic()) / 60 / (len(devices) - place)
        parts = PARTS | (TOY if settings.toy else {})
        results = {"about": described(own, backend, device), "rows": rows_of(parts)}
        print(json.dumps(results["about"]), flush=True)
        print(f"peak: {results['about']['peak']['source']}", flush=True)
        with tempfile.TemporaryDirectory() as cache:
            measure(results, own, cache)
        print(f"kept in {own.output}.json and {own.output}.md\n", flush=True)
        many.append(results)
    print("\n\n".join(filter(None, [table(many, cpu=True), *map(kernel_table, many)])))
    return 0


def of_backend(settings, backend: str) -> argparse.Namespace:
    """The settings of a backend's own part of a first run; else all of them."""
    own = argparse.Namespace(**vars(settings))
    if settings.first:
        own.output = f"{settings.output}-{backend}"
        if backend != "torch":  # transformers is the same on all
            own.peers = [who for who in settings.peers or PEERS if who != "transformers"]
    return own


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(message)


def parsed(line: list[str] | None) -> argparse.Namespace:
    """The command line.

    Raises:
        Refused: a value that there is not, or a file that is there.
    """
    parser = Parser(prog="gpu.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--backend", help="of Keras; else the first that sees a GPU")
    add("--only", nargs="+", metavar="PART", help=f"some of {', '.join(PARTS)}")
    add("--peers", nargs="+", metavar="WHO", help=f"some of {', '.join(PEERS)}")
    add("--works", nargs="+", metavar="WORK", help=f"some of {', '.join(KINDS)}")
    add("--batch", type=int, help="sequences; else the largest batch that fits")
    add("--precision", help="mixed_bfloat16; mixed_float16 where the GPU has no bfloat16")
    add("--peak", type=float, metavar="TFLOPS", help="of a GPU that the table has not")
    add("--rounds", type=int, default=3, help="turns of everyone; 3")
    add("--minutes", type=float, help="no turn begins that would end after them")
    add("--cpu", action="store_true", help="measure on the CPU")
    add("--first", action="store_true", help="updates on every backend, in 10 minutes")
    add("--toy", action="store_true", help="one tiny part, which shows that everything runs")
    add("--output", help="name of the results, to which .json and .md are added")
    add("--commit", help="where there is no git to ask")
    add("--table", nargs="*", metavar="FILE", help="print one table of results, measure nothing")
    settings = parser.parse_args(line)
    words = sys.argv[1:] if line is None else line
    settings.command = " ".join(["python benchmarks/gpu.py", *words])
    settings.parts = TOY if settings.toy else PARTS
    settings.output = settings.output or f"gpu-{datetime.now():%Y-%m-%d-%H%M%S}"
    check(settings)
    settings.only = settings.only or list(settings.parts)
    if settings.first:
        settings.rounds, settings.works = 1, settings.works or ["update"]
        settings.minutes = settings.minutes or FIRST_MINUTES
    settings.peers, settings.works = settings.peers or PEERS, settings.works or KINDS
    return settings


def check(settings) -> None:
    choices = {"backend": BACKENDS, "precision": PRECISIONS, "only": settings.parts}
    choices |= {"peers": PEERS, "works": KINDS}
    for option, known in choices.items():
        values = getattr(settings, option) or []
        for value in [values] if isinstance(values, str) else values:
            if value not in known:
                raise Refused(f"--{option} must be of {', '.join(known)}, got {value}")
    for option in ("batch", "peak", "rounds", "minutes"):
        value = getattr(settings, option)
        if value is not None and not value > 0:
            raise Refused(f"--{option} must be above 0, got {value}")
    for backend in BACKENDS if settings.first else BACKENDS[:1]:
        place = Path(f"{of_backend(settings, backend).output}.json")
        if place.exists() or not place.parent.is_dir():
            raise Refused(f"--output must be a new name in a folder that is there, got {place}")


def found(settings) -> list[tuple[str, dict]]:
    """The backend and its device, {"name", "kind"}; of a first run each that sees one.

    Raises:
        Refused: no backend, or none that sees a GPU.
    """
    seen, devices = {}, []
    for backend in [settings.backend] if settings.backend else BACKENDS:
        if devices and not settings.first:
            break
        if not (installed("keras") and installed(backend)):
            seen[backend] = "not installed"
            continue
        if settings.cpu:
            devices.append((backend, {"name": "CPU", "kind": "CPU"}))
            continue
        probing = Contender("probe", "benchmarks.gpu_works:probe", environment=environment(backend))
        try:
            with probing.start() as process:
                device = process.ask(options={})["found"]
        except Failed as failed:
            seen[backend] = str(failed)
            continue
        if device["kind"] != "CPU":
            devices.append((backend, device))
        seen[backend] = "sees none"
    if devices:
        return devices
    said = "; ".join(f"{backend}: {text}" for backend, text in seen.items())
    if set(seen.values()) == {"not installed"}:
        raise Refused(
            f"Keras and its backend must be installed, got {said}: see "
            "docs/contributing/accelerators.md"
        )
    raise Refused(f"Keras's backend must see a GPU, got {said}: --cpu takes the CPU")


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def environment(backend: str, cpu: bool = False, cache: str = "") -> dict[str, str]:
    """Variables of a process: one device, nearly all its memory, what was compiled in a folder."""
    default = {"CUDA_VISIBLE_DEVICES": "0", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.92"}
    if cache:
        default |= {"JAX_COMPILATION_CACHE_DIR": cache, "TORCHINDUCTOR_CACHE_DIR": cache}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    own = {"KERAS_BACKEND": backend, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    if cpu:
        own |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    return {name: value for name, value in default.items() if name not in os.environ} | own


def described(settings, backend: str, device: dict) -> dict:
    """What the results say of the machine and of how they were taken."""
    device = device | ({} if settings.cpu else nvidia_smi())
    row = datasheet(device["name"])
    precision = settings.precision or precision_of(device, row)
    own = {"command": settings.command, "backend": backend, "precision": precision}
    if settings.commit:
        own["commit"] = settings.commit
    peak = peak_of(settings, device, row, precision)
    return machine.described() | own | {"device": device, "peak": peak}


def precision_of(device: dict, row) -> str:
    if device["kind"] == "CPU":
        return "float32"
    old = float(device.get("capability", 8)) < 8 or (row and not row.has_bfloat16)
    return "mixed_float16" if old else "mixed_bfloat16"


def peak_of(settings, device: dict, row, precision: str) -> dict:
    """FLOP/s that utilization is told of, None where it is not, and why."""
    if settings.peak:
        return {"flops": settings.peak * 1e12, "source": "--peak"}
    if row is None:
        said = f"no datasheet's row is known for {device['name']}: --peak TFLOPS gives it"
        return {"flops": None, "source": said}
    if precision == "float32":
        return {"flops": None, "source": f"{row.name}'s datasheet is read for 16 bits alone"}
    return {"flops": row.peak_flops, "source": f"{row.name}: {row.source}"}


def datasheet(name: str):
    """The row of kbert/graph/accelerators.tsv for what a backend calls a device; None: none."""
    from kbert.graph.accelerators import accelerators

    tpus = {"TPU v4": "v4", "TPU v5 lite": "v5e", "TPU v5": "v5p", "TPU v6 lite": "v6e"}
    if name in tpus:
        return accelerators()[tpus[name]]
    if re.search(r"MIG|NVL|H\d00 PCIe|V100-PCIE", name):  # of the same name, with another peak
        return None
    rows = [row for row in accelerators().values() if row.kind == "GPU"]
    return next((row for row in rows if re.search(rf"\b{row.name}\b", name)), None)


def nvidia_smi() -> dict:
    """Driver, MiB and capability of the first GPU; {} where nobody says it."""
    fields = {"driver": "driver_version", "memory_mib": "memory.total", "capability": "compute_cap"}
    if not shutil.which("nvidia-smi"):
        return {}
    asked = ["nvidia-smi", f"--query-gpu={','.join(fields.values())}"]
    asked.append("--format=csv,noheader,nounits")
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()
    values = said[0].split(", ") if said else []
    pairs = zip(fields, values, strict=False)  # a driver may not know a field, or say [N/A]
    return {name: value for name, value in pairs if value[:1].isdigit()}


def measure(results: dict, settings, cache: str) -> None:
    """Everyone's turns, round by round."""
    ends = time.monotonic() + 60 * (settings.minutes or float("inf"))
    chosen = {"part": settings.only, "who": settings.peers, "work": settings.works}
    left = [
        row for row in results["rows"] if all(row[name] in some for name, some in chosen.items())
    ]
    keep(results, settings.output)
    for _, row in itertools.product(range(settings.rounds), left):
        if row["why"] not in ("", "not run"):
            continue
        longest = max((turn["wall"] for turn in row["turns"]), default=0)
        if time.monotonic() + longest > ends:
            row["why"] = "" if row["turns"] else "no time was left"
            continue
        print(f"{row['part']}, {row['work']}: {row['who']}", file=sys.stderr, flush=True)
        try:
            take_turn(row, results, settings, cache)
        except Failed as failed:
            row["why"] = str(failed)
        keep(results, settings.output)
    calibrate(results, left, cache, ends)
    keep(results, settings.output)


def calibrate(results: dict, rows: list[dict], cache: str, ends: float) -> None:
    """Puts into kbert's rows how far the count of kernels is off, where JAX runs on a GPU."""
    about = results["about"]
    if about["backend"] != "jax" or about["device"]["kind"] != "GPU":
        return
    if (device := datasheet(about["device"]["name"])) is None:
        return
    for row in rows:
        ours = (row["who"], row["work"]) == ("kbert", "update") and row["turns"]
        if not ours or time.monotonic() + row["turns"][0]["wall"] > ends:
            continue
        options = {"batch": row["batch"], "precision": about["precision"], "name": device.name}
        options |= {"size": row["size"], "length": row["length"]}
        place = environment("jax", cache=cache) | COUNTED
        contender = Contender("kbert", "benchmarks.gpu_works:kernels", options, environment=place)
        try:
            with contender.start() as process:
                process.ask(options=options)
                process.ask(count=1)  # warm-up
                row["kernels"] = process.ask(count=PROFILED)["found"]
        except Failed as failed:
            row["why"] = f"kernels: {failed}"


def take_turn(row: dict, results: dict, settings, cache: str) -> None:
    """Measures a row once; its first turn finds the batch.

    Raises:
        Failed: a package is not there, no batch fits, or the library's own error.
    """
    batches = [row["batch"]] if row["batch"] else batches_of(row, results, settings)
    for batch in batches:
        contender = contender_of(row, batch, results["about"], cache)
        if missing := contender.missing():
            raise Failed(f"not installed: {', '.join(missing)}")
        try:
            seconds = TOY_SECONDS if settings.toy else FIRST_SECONDS if settings.first else SECONDS
            row["turns"].append(turn(contender, seconds))
        except Failed as failed:
            if not FULL.search(str(failed)):
                raise
            row["tried"][str(batch)] = str(failed)
        else:
            row |= {"batch": batch, "status": "measured", "why": ""}
            return
    raise Failed(f"out of memory at a batch of {', '.join(map(str, batches))}")


def batches_of(row: dict, results: dict, settings) -> list[int]:
    """What to try, largest first."""
    batches = list(settings.parts[row["part"]].batches)
    if settings.batch:
        return [settings.batch]
    if settings.first:
        return [one for one in batches if one <= settings.parts[row["part"]].first]
    if row["work"] == "products":  # of what kbert's update multiplies
        same = [one for one in results["rows"] if one["part"] == row["part"] and one["batch"]]
        return [same[0]["batch"]] if same else batches[len(batches) // 2 :]
    memory = int(results["about"]["device"].get("memory_mib") or 0) * 2**20
    if row["work"] == "inference" or not memory:
        return batches
    precision = results["about"]["precision"]
    hopeful = [one for one in batches if planned(row, one, precision) <= HOPEFUL * memory]
    return hopeful or batches[-1:]


def contender_of(row: dict, batch: int, about: dict, cache: str) -> Contender:
    who = next(one for one in WORKS if one[:2] == (row["who"], row["work"]))
    cpu = about["device"]["kind"] == "CPU"
    options = {"kind": row["work"], "batch": batch, "precision": about["precision"]}
    options |= {"size": row["size"], "length": row["length"]}
    backend = about["backend"]
    if row["who"] == "transformers":
        backend, options["device"] = "torch", "cpu" if cpu else "cuda"
    place = environment(backend, cpu, cache)
    return Contender(row["who"], f"benchmarks.gpu_works:{who[2]}", options, who[3], place)


def turn(contender: Contender, seconds: float) -> dict:
    """A process's figures: seconds of one unit of work in each sample, until the first, in all."""
    start = time.monotonic()
    with contender.start() as process:
        made = process.ask(options=contender.options)
        one = process.ask(count=2)["seconds"]  # warm-up
        count = min(max(round(seconds / one), 1), MOST)
        answers = [process.ask(count=count) for _ in range(SAMPLES)]
    return {
        "samples": [answer["seconds"] for answer in answers],
        "count": count,
        "first": made["made"] + made["first"],
        "wall": time.monotonic() - start,
        "device_memory": answers[-1]["found"]["device_memory"],
    }


def keep(results: dict, output: str) -> None:
    """The results as they are by now, as JSON and as a table."""
    from kbert.io.atomic_write import write_atomically

    figures(results)
    write_atomically(f"{output}.json", (json.dumps(results, indent=1) + "\n").encode())
    tables = filter(None, [table([results]), kernel_table(results)])
    write_atomically(f"{output}.md", ("\n\n".join(tables) + "\n").encode())


def opened(path: str) -> dict:
    """Results of another command.

    Raises:
        Refused: no file, or not one of them.
    """
    try:
        results = json.loads(Path(path).read_text(encoding="utf-8"))
        table([results])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise Refused(f"--table must be of files that gpu.py wrote, got {path} ({said})") from None
    return results


if __name__ == "__main__":
    sys.exit(main())
