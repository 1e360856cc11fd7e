"""Pretraining from shards to a model, and going on with a run that was stopped.

import kbert
trained = kbert.pretrain("shards", "tiny", output="run", steps=10_000)
kbert.fill_mask(trained.bert, "the capital of france is [MASK]")
"""

import dataclasses
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kbert.checkpoints.bert import Bert, load
from kbert.graph.config import BertConfig
from kbert.tasks.pretraining.parts import described, prepare, result, train_on, trained_bert
from kbert.tasks.pretraining.settings import PretrainingSettings, check_fits, configuration
from kbert.training.determinism import make_deterministic
from kbert.training.run.run_folder import RunFolder, refuse_used
from kbert.training.run_settings import Surroundings

_logger = logging.getLogger("kbert")


@dataclass(frozen=True)
class Trained:
    """What a run came to.

    Attributes:
        bert: the model, of any length, with the shards' tokenizer.
        history: a `kbert.training.loop.loop.History`.
        folder: the run's.
    """

    bert: Bert
    history: object
    folder: Path

    def __repr__(self) -> str:
        return f"Trained({self.bert}, {self.history}, {self.folder.name!r})"


def pretrain(
    shards: str | os.PathLike,
    config: BertConfig | str = "tiny",
    *,
    output: str | os.PathLike,
    steps: int,
    init: str | os.PathLike | None = None,
    dev: str | os.PathLike | None = None,
    devices: int | None = None,
    callbacks: Sequence = (),
    show: bool = True,
    peak_flops: float | None = None,
    keep: str | None = None,
    **options,
) -> Trained:
    """Pretrains a BERT: MLM and NSP, or MLM alone.

    Args:
        shards: the folder that `kbert.prepare` wrote.
        config: a preset, which takes the shards' vocabulary size; a `BertConfig` or its file.
        output: the run's folder; new or empty.
        steps: updates.
        init: a checkpoint to begin with, of any format that `kbert.load` opens; its configuration
            is the model's then.
        dev: shards to evaluate with; None: a part of `shards` is held out.
        devices, callbacks, show, peak_flops, keep: see `Surroundings`.
        options: see `kbert.tasks.pretraining.settings.PretrainingSettings`.

    Returns:
        A `Trained`. The run's folder is described in `kbert.training.run.run_folder`.

    Raises:
        ValueError: settings, data and model that do not fit each other.
        FileExistsError: `output` holds something.
        kbert.training.loop.loop.NotFinite: loss or gradients were NaN or infinite.
        kbert.training.loop.stopping.Stopped: Ctrl-C or SIGTERM; the state is saved.
        OSError: a full disk, data that vanished; the last state is whole.
    """
    refuse_used(output, "pretrain")
    surroundings = Surroundings(devices, callbacks, show, peak_flops, keep)
    settings = dataclasses.asdict(PretrainingSettings.of({"steps": steps} | options))
    given = {"shards": shards, "dev": dev, "init": init}
    places = {name: path and str(Path(path).absolute()) for name, path in given.items()}
    train, held_out = _data(places, settings)
    settings["config"] = _config(config, init, train, settings["seq_len"]).to_dict()
    return _run(Path(output), (settings, places), (train, held_out), surroundings, new=True)


def resume(
    folder: str | os.PathLike,
    *,
    shards: str | os.PathLike | None = None,
    dev: str | os.PathLike | None = None,
    devices: int | None = None,
    callbacks: Sequence = (),
    show: bool = True,
    peak_flops: float | None = None,
    keep: str | None = None,
    **settings,
) -> Trained:
    """Goes on with a run; its result is that of a run that was never stopped, bit for bit.

    On another number of devices, or another backend, it is equal to rounding, and the log says
    so; dropout then draws other masks.

    Args:
        folder: the run's.
        shards, dev: where the data lie now; None: where they lay.
        devices, callbacks, show, peak_flops, keep: see `Surroundings`.
        settings: what must be the run's own, where it is said again.

    Returns:
        A `Trained`; a finished run is opened, and the log says that it is finished.

    Raises:
        FileNotFoundError: no run there.
        ValueError: data, vocabulary or settings are others than the run's; names the difference.
        and what `pretrain` raises.
    """
    surroundings = Surroundings(devices, callbacks, show, peak_flops, keep)
    run = RunFolder.open(folder)
    if run.task != "pretrain":
        raise ValueError(f"{run.path} is no run of pretrain: go on with {run.way_on}")
    PretrainingSettings.check_kept(run)
    PretrainingSettings.of({"steps": run.settings["steps"]} | settings)
    run.check(run.fingerprint, run.settings | settings)
    run.keep = keep or run.keep
    if run.finished:
        run.tidy()  # it may have been killed before
        from kbert.training.loop.loop import History

        _logger.warning("%s is finished: %s updates", run.path, f"{run.finished['steps']:,}")
        return Trained(load(run.path / "model.keras"), History(run.read_records()), run.path)
    moved = {"shards": shards, "dev": dev}
    places = run.places | {name: str(path) for name, path in moved.items() if path is not None}
    if shards is None and not Path(places["shards"]).exists():
        how = f"no such folder: if it has moved, kbert pretrain SHARDS --resume {run.path}"
        raise FileNotFoundError(2, how, places["shards"])
    data = _data(places, run.settings)
    return _run(run.path, (run.settings, places), data, surroundings, new=False)


def _data(places: dict, settings: dict):
    """The batches to train with, and those to evaluate with or None."""
    from kbert.data.corpus.shards import open_shards
    from kbert.data.pretraining.pretraining_batches import PretrainingBatches, warn_of_long
    from kbert.tasks.pretraining.settings import ENOUGH_DOCUMENTS, HELD_OUT

    shards, held_out = open_shards(places["shards"]), settings["held_out"]
    names = ("batch_size", "seq_len", "max_predictions", "seed", "masked_share", "short_share")
    options = {name: settings[name] for name in (*names, "whole_word", "mlm_only")}
    if places["dev"] is not None and held_out:
        raise ValueError(f"dev and held_out cannot go together: leave one out, got {held_out}")
    if held_out is None:
        enough = places["dev"] is None and shards.documents >= ENOUGH_DOCUMENTS
        held_out = HELD_OUT if enough else 0
    other = None
    if places["dev"] is not None:
        other = open_shards(places["dev"])
        if other.tokenizer.tokens != shards.tokenizer.tokens:
            raise ValueError(f"dev must have the vocabulary of {places['shards']}, got another")
    opened = [shards] if other is None else [shards, other]
    if other is None and held_out:
        shards, other = shards.split(held_out)
    train = PretrainingBatches(shards, **options)
    batches = train, other and PretrainingBatches(other, **options)
    if not settings["mlm_only"]:
        for whole in opened:
            warn_of_long(whole, settings["seq_len"])
    return batches


def _config(config, init, train, seq_len: int) -> BertConfig:
    size = train.shards.vocab_size
    if init is None:
        return configuration(config, size, seq_len)
    from kbert.checkpoints.inspection import inspect

    found = inspect(init).config
    check_fits(found, f"{init}", size, seq_len)
    return found


def _run(folder: Path, asked: tuple, data: tuple, surroundings: Surroundings, new: bool) -> Trained:
    """One start of a run, on this process; `asked` are settings and places."""
    from kbert.training import engines

    (settings, places), (train, held_out) = asked, data
    make_deterministic()  # or a run that was stopped would end with other last bits
    engine = engines.start(devices=surroundings.devices)
    fingerprint = {"train": train.fingerprint, "dev": held_out and held_out.fingerprint}
    state = None
    if new:  # what cannot be is said before there is a folder
        prepare(engine, settings, places, train)
        if engine.process == 0:
            keep = surroundings.keep or "model"
            RunFolder.create(folder, settings, fingerprint, places=places, keep=keep)
        engine.barrier()
    run = RunFolder.open(folder, chief=engine.process == 0)
    run.keep = surroundings.keep or run.keep
    if not new:
        run.check(fingerprint)
        state = run.last_state()
        prepare(engine, settings, {} if state else places, train)
        if state is not None:
            engine.restore(state.arrays)
        else:
            _logger.warning("%s has no state that can be used: it begins again", run.path)
    history = train_on(engine, run, data, surroundings, start=state.step if state else 0)
    bert = trained_bert(engine, settings, train)
    run.finish(bert, result(history, settings), described(data, history.updates[-1]["step"]))
    engine.barrier()
    run.tidy()
    return Trained(bert, history, run.path)
