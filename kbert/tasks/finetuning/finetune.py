"""Fine-tuning: a checkpoint and labelled data to a model with a head.

import kbert
tuned = kbert.finetune("checkpoint", "classify", train="train.tsv", dev="dev.tsv", output="run")
kbert.classify(tuned.bert, "a fine film")
"""

import dataclasses
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kbert.checkpoints.bert import Bert, load
from kbert.tasks.finetuning.evaluate import records_of
from kbert.tasks.finetuning.parts import (
    Best,
    Data,
    described,
    encoded,
    flops_of_an_update,
    prepare,
    result,
    trained_bert,
    with_lengths,
)
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.finetuning.task import task_of
from kbert.training.determinism import make_deterministic
from kbert.training.run.run_folder import RunFolder, refuse_used
from kbert.training.run_settings import Surroundings

_logger = logging.getLogger("kbert")


@dataclass(frozen=True)
class Finetuned:
    """What a run came to.

    Attributes:
        bert: the model, of any length, with the source's tokenizer and the data's labels.
        history: a `kbert.training.loop.loop.History`.
        metrics: of these weights on the dev data, by name; empty without dev data.
        folder: the run's; None where nothing was kept.
    """

    bert: Bert
    history: object
    metrics: dict[str, float]
    folder: Path | None

    def __repr__(self) -> str:
        figures = [f"{name} {value:.4g}" for name, value in list(self.metrics.items())[:4]]
        place = self.folder.name if self.folder else None
        return f"Finetuned({self.bert}, {', '.join(figures) or 'no dev data'}, {place!r})"


def finetune(
    source: Bert | str | os.PathLike,
    task: str,
    *,
    train,
    dev=None,
    output: str | os.PathLike | None = None,
    devices: int | None = None,
    callbacks: Sequence = (),
    show: bool = True,
    peak_flops: float | None = None,
    keep: str | None = None,
    **options,
) -> Finetuned:
    """Fine-tunes a BERT; see the paper, section 4.

    Args:
        source: a checkpoint of any format that `kbert.load` opens, or a `Bert`. Its head goes on,
            where it is the task's with the same labels, else a new one begins.
        task: "classify": text, [second text,] label between tabs; "tag": CoNLL, a word and its
            label a line; "qa": SQuAD's JSON.
        train: the file, or rows in memory: a list of them, a pandas or polars DataFrame, a
            `datasets.Dataset`, a tf.data data set, a dict of columns. A row is for "classify"
            (text, label), (text, second text, label) or a dict; for "tag" (words, labels) or a
            dict; for "qa" a dict as `datasets` has SQuAD. See `given_labelled`, `given_tagged` and
            `given_questions` in `kbert.data`'s classification, tagging and squad.
        dev: the same, to evaluate with after each epoch; None: no evaluation.
        output: the run's folder, new or empty; None: nothing is kept.
        devices, callbacks, show, peak_flops, keep: see `Surroundings`.
        options: see `FinetuningSettings`.

    Returns:
        A `Finetuned`.

    Raises:
        ValueError: data, settings and model that do not fit each other; with file and line.
        FileExistsError: `output` holds something.
        kbert.training.loop.loop.NotFinite: loss or gradients were NaN or infinite.
        kbert.training.loop.stopping.Stopped: Ctrl-C or SIGTERM; the state is saved.
        OSError: a file that cannot be read, a full disk.
    """
    surroundings = Surroundings(devices, callbacks, show, peak_flops, keep)
    settings = {"task": task_of(task).name} | dataclasses.asdict(FinetuningSettings.of(options))
    sources = {"source": source, "train": train, "dev": dev}
    folder = None if output is None else Path(output)
    if folder is not None:
        refuse_used(folder, "finetune")
    return _run(folder, settings, sources, surroundings)


def resume(
    folder: str | os.PathLike,
    *,
    source: Bert | str | os.PathLike | None = None,
    train=None,
    dev=None,
    devices: int | None = None,
    callbacks: Sequence = (),
    show: bool = True,
    peak_flops: float | None = None,
    keep: str | None = None,
    **settings,
) -> Finetuned:
    """Goes on with a run; its result is that of a run that was never stopped, bit for bit.

    On another number of devices, or another backend, it is equal to rounding, and the log says
    so.

    Args:
        folder: the run's.
        source, train, dev: where they are now; None: where they were.
        devices, callbacks, show, peak_flops, keep: see `Surroundings`.
        settings: what must be the run's own, where it is said again.

    Returns:
        A `Finetuned`; a finished run is opened, and the log says that it is finished.

    Raises:
        FileNotFoundError: no run there.
        ValueError: data or settings are others than the run's; names the difference.
        and what `finetune` raises.
    """
    surroundings = Surroundings(devices, callbacks, show, peak_flops, keep)
    run = RunFolder.open(folder)
    if run.task != "finetune":
        raise ValueError(f"{run.path} is no run of finetune: go on with {run.way_on}")
    FinetuningSettings.check_kept(run)
    FinetuningSettings.of(settings)
    run.check(run.fingerprint, run.settings | settings)
    run.keep = keep or run.keep
    if run.finished:
        run.tidy()  # it may have been killed before
        from kbert.training.loop.loop import History

        _logger.warning("%s is finished: %s updates", run.path, f"{run.finished['steps']:,}")
        history = History(run.read_records())
        return Finetuned(load(run.path / "model.keras"), history, run.finished["metrics"], run.path)
    given = {"source": source, "train": train, "dev": dev}
    sources = {name: run.places.get(name) if it is None else it for name, it in given.items()}
    for name in ("source", "train"):
        if sources[name] is None:
            raise ValueError(f"{name} must be given to go on: the run began with no file of it")
    return _run(run.path, run.settings, sources, surroundings, new=False)


def _run(
    folder: Path | None, settings: dict, sources: dict, surroundings: Surroundings, new: bool = True
) -> Finetuned:
    """One start of a run, on this process."""
    from kbert.training import engines

    task = task_of(settings["task"])
    read = {
        name: None if sources[name] is None else records_of(task, sources[name], name)
        for name in ("train", "dev")
    }
    labels = task.labels(read["train"])
    make_deterministic()  # or a run that was stopped would end with other last bits
    engine = engines.start(devices=surroundings.devices)
    source = sources["source"]
    bert = source if isinstance(source, Bert) else load(source)
    jit = settings["jit"]
    settings = with_lengths(settings, bert, engine.default_jit() if jit is None else jit)
    data = encoded(task, bert, read, labels, settings)
    prepare(engine, bert, data, settings)  # what cannot be is said before there is a folder
    run = state = None
    if folder is not None:
        asked = settings, sources, surroundings.keep
        run, settings = _folder(folder, engine, asked, data, new)
        state = None if new else run.last_state()
        if not new and state is None:
            _logger.warning("%s has no state that can be used: it begins again", run.path)
    if state is not None:
        engine.restore(state.arrays)
    return _trained(engine, bert, data, settings, run, surroundings, state.step if state else 0)


def _folder(folder: Path, engine, asked: tuple, data: Data, new: bool):
    """The run's folder, checked, and its settings."""
    settings, sources, keep = asked
    settings = settings | {"labels": data.labels and list(data.labels)}
    places = {
        name: str(Path(place).absolute())
        for name, place in sources.items()
        if isinstance(place, (str, os.PathLike))
    }
    chief = engine.process == 0
    if new and chief:
        kept = {"places": places, "keep": keep or "model"}
        RunFolder.create(folder, settings, data.fingerprint, task="finetune", **kept)
    engine.barrier()
    run = RunFolder.open(folder, chief=chief)
    run.keep = keep or run.keep
    run.check(data.fingerprint, settings)
    return run, settings


def _trained(engine, bert, data: Data, settings, run, surroundings, start: int) -> Finetuned:
    from kbert.training.loop.loop import train as train_loop

    peak, how = surroundings.peak(settings["precision"], engine.replicas)
    if run is not None:
        run.warn_of_another_environment(engine)
        run.write_environment(engine, peak_flops=peak, peak_flops_source=how)
    best = Best(engine, data, settings["keep_best"], run)
    history = train_loop(
        engine,
        data.train,
        settings["epochs"] * data.train.steps_per_epoch,
        run=run,
        start=start,
        evaluate=best.evaluate if data.dev else None,
        evaluate_every=settings["evaluate_every"] or data.train.steps_per_epoch,
        save_every=settings["save_every"],
        score=data.task.score,
        log_every=settings["log_every"],
        callbacks=surroundings.callbacks,
        show=surroundings.show,
        flops=flops_of_an_update(bert, data),
        peak=peak,
    )
    kept = best.restore(history)
    tuned = trained_bert(engine, bert, data)
    if run is not None:
        seen = described(data, history.updates[-1]["step"])
        run.finish(tuned, result(history, kept, data, settings), seen)
        engine.barrier()  # the others have read the best state
        run.tidy()
    return Finetuned(tuned, history, kept[1], run and run.path)
