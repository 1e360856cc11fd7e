"""Folder of a run of any task: its settings, its state, its result.

RUN/settings.json        what the run was asked for, what its data are, and their fingerprint
    environment.json     versions, devices
    metrics.jsonl        one line per step          tensorboard/   the same for TensorBoard
    budget.jsonl         of a run with a time budget: the share of it at which each step began
    checkpoints/step-00000120.safetensors          the last two, and the best where there is one;
                         gone once the run is finished, unless all is kept
    model.keras, model/  the result, in kbert's and in transformers' format
    adapter/             of a run with LoRA, what was trained alone, as PEFT writes it
    report.html          its page, from the first step on
    profile/             traces of the steps that were profiled, one per start
    result.json          written last: it is finished
"""

import contextlib
import errno
import importlib
import json
import logging
import os
import platform
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbert.io import bounds, printable
from kbert.io import json_schema as js
from kbert.io.atomic_write import clear_locked, refuse_links, write_atomically
from kbert.io.bucket_folder import BucketFolder
from kbert.io.folders import refuse_file_name
from kbert.io.json_differences import differences
from kbert.io.json_values import as_json
from kbert.io.remote_files import is_remote
from kbert.io.wording import first_few, hint_of_path, is_command_running, way_to_resume
from kbert.training.run.records import EventFile, RecordFile, read_records
from kbert.training.run.state_files import States, write_state
from kbert.training.settings.user_objects import write_resume_call
from kbert.training.time_budget import MOST_STEPS
from kbert.version import __version__

try:
    import fcntl
except ImportError:  # Windows: no lock
    fcntl = None  # type: ignore[assignment]

_logger = logging.getLogger("kbert")
_LOCK = ".lock"
_LOCK_MARK = b"kbert\n"  # in a lock that kbert made; another one stays in the folder
_MODELS = {"model": "transformers", "model.keras": "keras", "adapter": "peft"}  # formats by name
_BUDGET_FILE = "budget.jsonl"
_FOLDERS = ("checkpoints", "tensorboard", "model", "adapter", "profile")
_FILES = (
    "settings.json",
    "environment.json",
    "metrics.jsonl",
    _BUDGET_FILE,
    "report.html",
    "result.json",
)
_LOCKED = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag

# Version of the computation: a higher number when the same settings give other steps, for example
# by other dropout masks, or when settings.json has other keys. A run resumes only with the version
# that it began with.
COMPUTATION = 7

_SETTINGS_FILE = js.fields(
    {
        "task": js.one_of("pretrain", "finetune"),
        "run": js.TEXT,
        "settings": js.OBJECT,
        "fingerprint": js.OBJECT,
    },
    {
        "derived": js.list_of(js.TEXT),
        "computation": js.whole(1, 2**31),
        "places": js.mapping_of(js.or_null(js.TEXT), "paths by name"),
        "keep_checkpoints": js.FLAG,
        "report_examples": js.FLAG,
        "data": js.OBJECT,
        "base": js.or_null(js.TEXT),
    },
)
_STEPS = js.whole(0, 2**62)
_RESULT = js.fields({"steps": _STEPS}, {"metrics": js.OBJECT})


# Data and models of a run by its task: those that each run has, and those that its fingerprint
# has if they were given. The dev data of pretraining may be a part of the shards.
_SOURCES = {
    "finetune": (("source", "train"), ("dev", "teacher")),
    "pretrain": (("shards",), ("teacher",)),
}


class RunFolder:
    """The folder of a run, with what settings.json says; from `create` or `open`."""

    def __init__(
        self,
        path: str | os.PathLike,
        json: dict,
        chief: bool = True,
        bucket: BucketFolder | None = None,
    ):
        self.path = Path(path)
        self.bucket = bucket  # what the path is the local copy of
        self.task = json["task"]
        self._id = json["run"]
        self.settings = json["settings"]  # all that the result depends on
        # names of the settings that were not asked for; an older kbert did not write them
        self.derived = json.get("derived", ["labels"])
        self.fingerprint = json["fingerprint"]  # all that its batches depend on
        self._computation = json.get("computation", 1)
        # the paths of its data when it began: they may change, the data may not
        self.data_paths = json.get("places", {})
        self._has_paths = "places" in json  # an older kbert did not write them
        self.summary = json.get("data", {})  # what it learns, for people; see `RunPlan.summary`
        # whether a finished run keeps its training states; it may change
        self.keep_checkpoints = json.get("keep_checkpoints", True)
        # whether the page has texts of the dev data; it may change
        self.report_examples = json.get("report_examples", True)
        # of the weights that it began from; None: unknown, as in a run of an older kbert
        self._base_digest = json.get("base")
        self.chief = chief  # whether this process writes; only one process does, all read
        self.states = States(self.path / "checkpoints", self._id, self.check)
        self._records: tuple[RecordFile, EventFile] | tuple[()] = ()  # open, the chief's
        self._budget_file: RecordFile | None = None  # of a time budget, open, the chief's
        self._lock: int | None = None  # its file

    @classmethod
    def create(
        cls,
        path: str | os.PathLike,
        settings: Mapping,
        fingerprint: Mapping,
        *,
        derived: Sequence[str] = (),
        task: str = "pretrain",
        data_paths: Mapping | None = None,
        summary: Mapping | None = None,
        keep_checkpoints: bool = False,
        report_examples: bool = True,
        base_digest: str | None = None,
    ) -> "RunFolder":
        """Create a new run's folder, which all processes `open`; refuse one that is used."""
        refuse_used(path)
        bucket = BucketFolder(path) if is_remote(path) else None
        path = bucket.path if bucket else Path(path)
        path.mkdir(parents=True, exist_ok=True)

        values = {
            "task": task,
            "run": uuid.uuid4().hex,
            "computation": COMPUTATION,
            "places": data_paths or {},
            "keep_checkpoints": keep_checkpoints,
            "report_examples": report_examples,
            "data": as_json(summary or {}),
            "base": base_digest,
            "settings": as_json(settings),
            "derived": list(derived),
            "fingerprint": as_json(fingerprint),
        }
        with lock_folder(path):
            refuse_used(path)  # by another process that started in it just now
            # the first file: if the process is killed before, the folder still counts as empty
            _write_json(path / "settings.json", values)
        if bucket is not None:
            bucket.claim()
            bucket.push()
        return cls(path, values, bucket=bucket)

    @classmethod
    @printable.escape_errors()
    def open(cls, path: str | os.PathLike, *, chief: bool = True) -> "RunFolder":
        """Open the folder of a run; a ValueError says that its settings.json is damaged."""
        bucket = None
        if is_remote(path):
            bucket = BucketFolder(path)
            if "settings.json" not in bucket.list_files():
                raise FileNotFoundError(f"{bucket.address} has no run: there is no settings.json")
            bucket.fetch(r"[^/]*\.(json|jsonl|html)")
        path = bucket.path if bucket else Path(path)
        file = path / "settings.json"
        if not path.exists():
            near = hint_of_path(path, lambda one: os.path.isfile(os.path.join(one, file.name)))
            way = f": {near}" if near else ". Give the folder of a run"
            raise FileNotFoundError(f"{path}: no such folder{way}")
        if not file.is_file():
            raise FileNotFoundError(
                f"{path} has no run: there is no settings.json in it. Give the folder of a run"
            )
        return cls(path, js.read(file, _SETTINGS_FILE), chief, bucket)

    @classmethod
    def from_json(cls, values: dict, file: Path) -> "RunFolder":
        """Return the run of the values in a settings.json; raise a ValueError if they are not."""
        values = js.check(values, _SETTINGS_FILE, str(file))
        return cls(file.parent, values, chief=False)

    @property
    def result(self) -> dict | None:
        """Result of the run, if it is finished; else None."""
        file = self.path / "result.json"
        return js.read(file, _RESULT) if file.is_file() else None

    @property
    def current_path(self) -> Path | None:
        """Find the folder again after somebody moved it; None where it cannot be found."""
        if self._lock is None:
            return self.path
        paths = [self.path / _LOCK]
        with contextlib.suppress(OSError):  # Linux knows
            paths.append(Path(os.readlink(f"/proc/self/fd/{self._lock}")))
        for path in paths:
            with contextlib.suppress(OSError):
                status_of_lock = os.fstat(self._lock)
                if os.path.samestat(path.stat(), status_of_lock):
                    return path.parent
        return None

    @property
    def location(self):
        """Path of the folder for its user, also where that is in a bucket."""
        return self.bucket.remote if self.bucket else self.path

    @property
    def current_location(self) -> str | Path | None:
        """The same after somebody moved it; None where it cannot be found."""
        return self.bucket.address if self.bucket else self.current_path

    @property
    def name(self) -> str:
        """Name of the folder; also that of "." and of "..", which are not names."""
        if self.path.name in ("", ".."):
            return self.path.resolve().name
        return self.path.name

    @property
    def resume_command(self) -> str:
        """Command, or call in Python, that resumes it."""
        return self.write_resume_command(self.current_location or "FOLDER")

    def write_resume_command(self, folder: str | os.PathLike) -> str:
        """Return the command, or call in Python, that resumes the run in a folder of this name."""
        call = write_resume_call(folder, self.settings, self.list_in_memory())
        return call or way_to_resume(self.task, folder)

    def list_in_memory(self) -> list[str]:
        """Return the arguments of data and models that were no files: a resumed run needs them."""
        if not self._has_paths:
            return []
        always, optional = _SOURCES.get(self.task, ((), ()))
        used = list(always)
        used += [name for name in optional if self.fingerprint.get(name) is not None]
        return [name for name in used if self.data_paths.get(name) is None]

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other processes from training this run; a BlockingIOError if one does already."""
        if not self.chief:
            yield
            return
        with lock_folder(self.path) as self._lock:
            try:
                if self.bucket is not None:
                    self.bucket.claim()
                    self.bucket.fetch()
                self.refuse_links()
                self._check_destinations()
                yield
                if self.result is not None and self.current_path is not None:
                    lock = self.current_path / _LOCK
                    if lock.exists() and lock.read_bytes() == _LOCK_MARK:
                        lock.unlink()
            finally:
                self._lock = None

    def refuse_links(self) -> None:
        """Raise a ValueError if a file or folder that the run writes or removes is a link."""
        refuse_links(self.path, (*_FILES, *_FOLDERS, "model.keras"))
        for folder in ("checkpoints", "tensorboard"):
            if (self.path / folder).is_dir():
                path = self.path / folder
                refuse_links(path, os.listdir(path))

    def _check_destinations(self) -> None:
        """Raise before the run trains, if its model cannot be written when it is finished."""
        from kbert.checkpoints import formats

        if self.result is None:
            for name, form in _MODELS.items():
                formats.check_destination(self.path / name, form)

    def check_not_moved(self) -> None:
        """Raise a FileNotFoundError if the folder was moved or removed: write nothing elsewhere."""
        if self.current_path != self.path:
            text = "the folder was moved or removed while the run trained"
            raise FileNotFoundError(errno.ENOENT, text, str(self.path))

    def check_computation(self) -> None:
        """Raise a ValueError if the run began with another version of the computation."""
        if self._computation != COMPUTATION:
            raise ValueError(
                f"{self.path} must have version {COMPUTATION} of the computation to be resumed, "
                f"got {self._computation}: another version of kbert started it, and its steps are "
                "not those of this one. Start a new run, or resume it with that version "
                f"({self.path / 'environment.json'} names it)"
            )

    def check_base(self, digest: str | None, name: str, may_move: bool) -> None:
        """Raise a ValueError if the run, without a usable state, would begin from other weights."""
        if self._base_digest in (None, digest):
            return
        path = self.data_paths.get(name)
        where = f" in {path}" if path else ""
        way = f"give a copy of the old ones as {name}" if may_move else "put the old ones back"
        raise ValueError(
            f"{name} must have the weights that {self.path} began from, since the run has no "
            f"usable training state, got others{where}: {way}, or start a new run"
        )

    def check(self, fingerprint: Mapping, settings: Mapping | None = None) -> None:
        """Raise a ValueError that names the differences between the run and the present data."""
        wanted = as_json(settings or self.settings)
        different = differences(self.settings, wanted, "")
        different += differences(self.fingerprint, as_json(fingerprint), "data")
        if different:
            first = first_few(different, 3, "; ")
            raise ValueError(
                f"{self.path} was made with other data or settings: {first}: use the same ones, "
                f"or start a new run{self._way_to_train_longer(different)}"
            )

    def _way_to_train_longer(self, different: Sequence[str]) -> str:
        """Say how to train a run's model longer, where its length is what differs; else ""."""
        if not any(text.startswith(("epochs", "steps")) for text in different):
            return ""
        is_finetuning = self.task == "finetune"
        if is_command_running():
            way = "kbert finetune {}" if is_finetuning else "kbert pretrain SHARDS --init {}"
        else:
            way = "kbert.finetune({!r}, …)" if is_finetuning else "kbert.pretrain(…, init={!r})"
        return f" from its model when it is finished: {way.format(str(self.path))}"

    def begin(self, step: int) -> list[dict]:
        """Open the records, return those up to `step`, and set later states aside (`….refused`)."""
        if not self.chief:
            return [line for line in self.read_records() if line["step"] <= step]
        self.close()
        clear_locked(self.path)
        clear_locked(self.states.folder)
        self.states.set_aside_after(step)
        lines = RecordFile(self.path / "metrics.jsonl", step)
        self._records = lines, EventFile(self.path / "tensorboard", step)
        if self.settings.get("hours") is not None:
            # those of later steps too, which are computed again by the same shares
            self._budget_file = RecordFile(self.path / _BUDGET_FILE, MOST_STEPS)
        return self.read_records()

    def log(self, step: int, values: dict[str, float]) -> None:
        """Record one step: a line of metrics.jsonl and TensorBoard's scalars."""
        for file in self._records:
            file.add(step, values)

    def record_share(self, step: int, share: float) -> None:
        """Record the share of the time budget at which a step, counted from 0, begins."""
        if self._budget_file is not None:
            self._budget_file.add(step + 1, {"budget_share": share})

    def read_fractions(self) -> list[float]:
        """Return the recorded shares of the steps, in order."""
        fractions: list[float] = []
        for line in read_records(self.path / _BUDGET_FILE):
            if line["step"] != len(fractions) + 1 or "budget_share" not in line:
                break
            fractions.append(line["budget_share"])
        return fractions

    def save_state(self, arrays: dict, step: int, *, score=None) -> None:
        """Write a state with its score (and what breaks ties), and remove superseded ones."""
        if not self.chief:
            return
        self.check_not_moved()
        if self._records:
            self._records[0].flush()  # a state never outlives the lines up to it
        if self._budget_file is not None:
            self._budget_file.flush()

        value, tie = score or (None, None)
        facts = {
            "step": step,
            "score": value,
            "tie": tie,
            "run": self._id,
            "settings": self.settings,
            "fingerprint": self.fingerprint,
        }
        self.states.folder.mkdir(exist_ok=True)
        write_state(self.states.path(step), arrays, facts)
        self.states.remove_superseded(step)
        self._push()

    def _push(self) -> None:
        if self.bucket is not None:
            self.bucket.push()

    def finish(self, bert, result: dict, write_report: Callable[[], None]) -> None:
        """Write the final model in both formats and the report, and last that it is finished."""
        from kbert.checkpoints.bert import replace

        if not self.chief:
            return
        self.check_not_moved()
        self.close()
        # an earlier end of this run, killed before its result, may have left them
        for name, form in _MODELS.items():
            if form != "peft" or bert.adapter is not None:
                replace(bert, self.path / name, form)
        write_report()
        _write_json(self.path / "result.json", result)
        self._push()

    def tidy(self) -> None:
        """Remove the states of a finished run, unless it keeps them; no process may read them."""
        if not self.chief or self.keep_checkpoints or self.result is None:
            return
        if self.states.folder.exists():  # else nothing changes, and links are read as files are
            self.refuse_links()
            self.states.remove_all()
            self._push()

    def write_environment(self, engine, **more) -> None:
        """Write environment.json; warn where another one makes results equal only to rounding.

        It has versions, devices, processes and the date; no names of folders, hosts or people.
        """
        file = self.path / "environment.json"
        before = {}
        if file.is_file():
            before = js.read(file, js.OBJECT)
        now = _describe_environment(engine)
        today = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        now["started"] = before.get("started") or today

        for name in ("backend", "replicas", "devices"):
            if name in before and before[name] != now[name]:
                _logger.warning(
                    "%s was started with %s %s, now it is %s: results are equal up to rounding",
                    self.path,
                    name,
                    before[name],
                    now[name],
                )
        if self.chief:
            _write_json(file, now | more)

    def read_records(self) -> list[dict]:
        return read_records(self.path / "metrics.jsonl")

    def close(self) -> None:
        for file in self._records:
            file.close()
        self._records = ()
        if self._budget_file is not None:
            self._budget_file.close()
            self._budget_file = None


def _describe_environment(engine) -> dict[str, Any]:
    """Return the versions, devices and processes that an engine runs on."""
    import keras

    from kbert.ops.devices import device_names

    backend = keras.backend.backend()
    packages = ["keras", "numpy", "tokenizers", "safetensors", backend]
    if backend == "jax":
        packages.append("jaxlib")
    return {
        "kbert": __version__,
        "python": platform.python_version(),
        "packages": {name: str(importlib.import_module(name).__version__) for name in packages},
        "backend": backend,
        "system": f"{platform.system()} {platform.machine()}",
        "cpu_cores": os.cpu_count(),
        "devices": device_names(),
        "replicas": engine.backend.replicas,
        "processes": engine.backend.processes,
    }


def refuse_used(path: str | os.PathLike) -> None:
    """Raise a FileExistsError for a folder that holds a run, or anything else."""
    if is_remote(path):
        bucket = BucketFolder(path)
        names = bucket.list_files()
        if "settings.json" in names and "result.json" not in names:
            way = RunFolder.open(path).resume_command
            raise FileExistsError(f"{bucket.address} holds a run: resume it with {way}")
        if names:
            raise FileExistsError(f"{bucket.address} must be new or empty, has files")
        return
    bounds.refuse_url(path, to_write=True)
    path = Path(path)
    refuse_file_name(path)

    if (path / "settings.json").exists():
        if (path / "result.json").exists():
            raise FileExistsError(f"{path} holds a finished run: choose another folder")
        way = RunFolder.open(path).resume_command
        raise FileExistsError(f"{path} holds a run: resume it with {way}, or choose another folder")
    if path.exists() and not _is_empty_folder(path):
        raise FileExistsError(f"{path} must be a new or an empty folder")


def _is_empty_folder(path: Path) -> bool:
    """Return whether a path is a folder with hidden files at most."""
    if not path.is_dir():
        return False
    return all(entry.name.startswith(".") for entry in path.iterdir())


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[int]:
    """Lock the folder until the process ends, killed or not; yield the lock's descriptor."""
    refuse_links(folder, [_LOCK])
    file = _open_lock(folder / _LOCK)
    try:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _LOCKED:
                text = "another process is training this run: wait until it ends, or stop it"
                raise BlockingIOError(f"{folder}: {text}") from None
        yield file
    finally:
        os.close(file)


def _open_lock(path: Path) -> int:
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK
        file = os.open(path, flags, 0o666)
    except FileExistsError:
        return os.open(path, os.O_RDWR | _NO_LINK)
    os.write(file, _LOCK_MARK)
    return file


def describe_sizes(folder: Path) -> str:
    """Return a folder's size and that of its large parts, in megabytes of 10⁶ bytes."""
    sizes = []
    for name in ("model", "model.keras", "checkpoints"):
        path = folder / name
        if path.exists():
            sizes.append(f"{name} {_measure_size(path)}")
    return f"{_measure_size(folder)} ({', '.join(sizes)})"


def _measure_size(path: Path) -> str:
    paths = (path, *path.rglob("*"))
    files = [file for file in paths if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    return f"{size / 1e6:,.1f} MB"


def _write_json(path: Path, values: dict) -> None:
    text = json.dumps(as_json(values), indent=2, ensure_ascii=False)
    text += "\n"
    write_atomically(path, text.encode())
