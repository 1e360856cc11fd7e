"""The runner of every run: it reads, plans, builds, trains, and writes the result.

    start(request) or resume(request)  →  read  →  plan  →  build  →  train  →  RunResult

What is trained is the plan's (`kbert.training.run_plan`), how one step is done the engine's.
"""

import contextlib
import dataclasses
import errno
import gc
import logging
import os
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.adapters import peft_folder
from kbert.checkpoints.bert import Bert, load
from kbert.data.pretraining.ramped_batches import MOST_TOGETHER
from kbert.hub.model_card import make_card
from kbert.io.remote_files import is_remote
from kbert.training.determinism import make_deterministic, seed_weights
from kbert.training.loop.best_weights import BestWeights
from kbert.training.loop.history import History, LoopPlan
from kbert.training.loop.throughput import Speed, measure_peak, measure_step
from kbert.training.run.live_report import LiveReport
from kbert.training.run.run_folder import RunFolder, refuse_used
from kbert.training.run_plan import Device, Request, RunPlan
from kbert.training.settings.run_settings import RunOptions
from kbert.training.settings.setting_rules import read_profile
from kbert.training.stopping import StopFlags
from kbert.training.time_budget import MOST_STEPS, TimeBudget

if TYPE_CHECKING:
    from kbert.training.engine import Engine

_logger = logging.getLogger("kbert")
_models: weakref.WeakSet = weakref.WeakSet()  # of this process's runs, as long as they are there


class RunResult(NamedTuple):
    """The result of a run: its model, its history, what result.json has, and its folder."""

    bert: Bert
    history: History
    json: dict[str, Any]
    folder: Path | None


def start(request: Request, output: str | os.PathLike | None, options: RunOptions) -> RunResult:
    """Do a new run in an unused folder, or without one."""
    if output is not None:
        refuse_used(output)
    elif options.profile is not None:
        raise ValueError(
            f"profile must go with output, the folder of the run, got {options.profile} alone: "
            "give both"
        )
    backend, plan = _plan(request, options)
    _refuse_processes(backend, output)
    # it raises before there is a folder
    engine, base_digest = _build(backend, plan, options, begin=True)
    if plan.hours is not None:
        plan = _plan_budget(engine, plan)
    run = None
    if output is not None:
        run = _create_folder(engine, plan, output, base_digest, options)
        if plan.plan_steps is not None:  # each process has measured another time
            plan = plan.plan_steps(plan, run.settings["steps"])
    with _hold(backend, run):
        return train(engine, plan, run, options)


def resume(request: Request, options: RunOptions) -> RunResult:
    """Go on with a run that is not finished; a ValueError says how data or settings differ."""
    run = request.run
    assert run is not None
    backend, plan = _plan(request, options)
    _refuse_processes(backend, run.location)
    run.chief = backend.process == 0
    run.check(plan.fingerprint, run.settings | plan.recorded)

    with _hold(backend, run):
        state = run.states.last()
        engine, base_digest = _build(backend, plan, options, begin=state is None)
        if plan.hours is not None:
            measure_step(engine, plan.batches)  # it compiles, which is no part of the budget
        if state is not None:
            engine.state.restore(state.arrays)
            _logger.warning(
                "%s: training continues after step %s of %s",
                run.location,
                f"{state.step:,}",
                f"{plan.steps:,}",
            )
            return train(engine, plan, run, options, done=state.step)

        run.check_base(base_digest, plan.base, plan.base_may_move)
        _logger.warning(
            "%s has no usable training state: training starts from the beginning", run.location
        )
        return train(engine, plan, run, options)


def _refuse_processes(backend, output: str | os.PathLike | None) -> None:
    """Raise a ValueError for a folder in a bucket that several processes would have copies of."""
    if output is not None and is_remote(output) and backend.processes > 1:
        raise ValueError(
            f"{output} must be a folder that all {backend.processes} processes share, got one in a "
            "bucket: give a path on a shared disk, and copy it when it is finished"
        )


def open_finished(run: RunFolder, result: dict[str, Any]) -> RunResult:
    """Open a finished run of any version, whose settings may have other names."""
    run.tidy()  # it may have been killed before
    _logger.warning(
        "%s is finished already, after %s step%s: nothing is trained",
        run.location,
        f"{result['steps']:,}",
        "s" if result["steps"] > 1 else "",
    )
    if run.bucket is not None:
        run.bucket.fetch()
    bert = load(run.path / "model.keras")
    if bert.adapter is None and (run.path / "adapter").is_dir():
        adapter = peft_folder.read(run.path / "adapter")
        bert = dataclasses.replace(bert, adapter=adapter)
    history = History(run.read_records())
    return RunResult(bert, history, result, run.location)


def train(
    engine, plan: RunPlan, run: RunFolder | None, options: RunOptions, done: int = 0
) -> RunResult:
    """Do the steps of a plan that are left, write the result, and return it."""
    from kbert.training.loop import loop

    peak = options.peak_flops
    peak_source = "given"
    if peak is None:
        replicas = engine.backend.replicas
        peak, peak_source = measure_peak(plan.settings.precision, replicas)
    if run is not None:
        run.write_environment(engine, peak_flops=peak, peak_flops_source=peak_source)

    best = BestWeights(engine, plan.evaluate, plan.score, plan.keep_best, run)
    report = LiveReport(run, plan, lambda: best.predictions)
    loop_plan = _make_loop_plan(plan, best, run, options)
    if options.profile is not None and loop_plan.profile.start < done:
        _logger.warning("no profile of the steps %s: %d are done", options.profile, done)
    history = loop.train(
        engine,
        plan.batches,
        loop_plan,
        run=run,
        start=done,
        callbacks=options.callbacks,
        progress=options.progress,
        speed=Speed(plan.flops, peak),
        report=report,
    )

    steps = history.updates[-1]["step"]
    result = {"steps": steps, "asked": plan.steps, "stopped": history.stopped}
    # This gives the engine the chosen weights, and returns what is to say of them.
    result |= plan.choose_weights(best, history)
    bert = _make_bert(engine, plan, result)
    if run is not None:
        # The report is written before the file that marks the run as finished.
        run.finish(bert, result, lambda: report.finish(bert, history.updates, result))
        engine.barrier()  # `tidy` removes states: the other processes must have read the best
        run.tidy()
    path = None if run is None else run.location
    return RunResult(bert, history, result, path)


def _plan(request: Request, options: RunOptions) -> tuple[Any, RunPlan]:
    """Return the backend, on the devices and hosts that there are, and the plan of the data."""
    from kbert.training import backends

    data = request.read(request)
    if _models:  # layers and the engine's functions refer to each other: they outlive their run
        gc.collect()
    # Sums in one order, before anything is computed: threads add up in another at each start, and a
    # run that was stopped would end with other last bits than one that was not.
    make_deterministic()
    _check_profile(options, getattr(request.settings, "steps", None) or MOST_STEPS)
    backend = backends.start(options.devices)
    jit = request.settings.jit
    compiled = backend.default_jit if jit is None else jit
    device = Device(compiled, backend.shape_cost)
    plan = request.plan(request, data, device)
    if plan.hours is None:
        _check_profile(options, plan.steps)
    return backend, plan


def _check_profile(options: RunOptions, steps: int) -> None:
    """Raise a ValueError if steps after the run's last one are to be profiled."""
    if read_profile(options.profile).stop > steps:
        raise ValueError(
            f"profile must end at the run's last step, {steps}, or before it, got {options.profile}"
        )


def _build(backend, plan: RunPlan, options: RunOptions, begin: bool) -> tuple["Engine", str | None]:
    """Return the engine of a new model; refuse callbacks that would do harm.

    To `begin` a run, the model has its first weights, and their hash is returned too; else a state
    has them.
    """
    from kbert.model.deferred import build_with
    from kbert.model.lora import adapters_of
    from kbert.training.engine import Engine
    from kbert.training.loop.callbacks import refuse_harmful
    from kbert.training.optimization.optimizers import warn_of_slow_average
    from kbert.training.step.trained_weights import select_trained

    settings = plan.settings
    layers: Mapping[str, Any] = {}
    digest = None
    with seed_weights(settings.seed):
        if begin:
            layers, digest = plan.model.initialize()
        spec = dataclasses.replace(plan.model.training_spec, dtype=settings.precision)
        with backend.scope():
            model = plan.model.select_trained_part(build_with(spec, layers))
            trained = select_trained(model, plan.model.trained, plan.model.adapter, settings)
            if plan.extend_model is not None:
                model = plan.extend_model(model)
                trained = trained and trained.add_new_weights(model)

    _models.add(model)
    warn_of_slow_average(plan.optimizer)
    engine = Engine(
        backend,
        model,
        plan.optimizer,
        trained,
        losses=plan.losses,
        embedding_loss=plan.embedding_loss,
        clip_norm=settings.clip_norm,
        accumulation_steps=settings.accumulation_steps,
        gradient_checkpointing=settings.gradient_checkpointing,
        seed=settings.seed,
        jit=settings.jit,
        steps_per_execution=options.steps_per_execution,
        micro_batch_size=plan.micro_batch_size,
        own_names=options.profile is not None,
    )

    if plan.hours is not None and plan.micro_batch_size is not None:
        together = engine.steps_per_execution
        if together > MOST_TOGETHER:
            raise ValueError(
                f"steps_per_execution must be at most {MOST_TOGETHER} with ramp_from and hours, "
                f"got {together}: the size of a batch follows the time of earlier steps"
            )
    # refuses what replicas and micro-batches do not divide
    engine.slice_examples(plan.batches.batch_size)
    is_adapted = bool(adapters_of(model))
    is_evaluated = plan.evaluate is not None
    refuse_harmful(options.callbacks, is_adapted, is_evaluated)
    return engine, digest


def _plan_budget(engine, plan: RunPlan) -> RunPlan:
    """Return the plan with the number of steps that its time budget has room for."""
    assert plan.hours is not None and plan.plan_steps is not None
    seconds = measure_step(engine, plan.batches)
    whole_steps = 3600 * plan.hours / seconds
    steps = plan.batches.count_steps(whole_steps)
    _logger.info(
        "%g hours have room for about %s steps of %.3g s", plan.hours, f"{steps:,}", seconds
    )
    return plan.plan_steps(plan, steps)


def _create_folder(
    engine, plan: RunPlan, path, base_digest: str | None, options: RunOptions
) -> RunFolder:
    """Create the folder of a new run: one process makes it, all open it."""
    is_chief = engine.backend.process == 0
    if is_chief:
        RunFolder.create(
            path,
            plan.recorded,
            plan.fingerprint,
            derived=plan.derived,
            task=plan.command,
            data_paths=plan.data_paths,
            summary=plan.summary,
            keep_checkpoints=bool(options.keep_checkpoints),
            report_examples=options.report_examples is not False,
            base_digest=base_digest,
        )
    engine.barrier()
    return RunFolder.open(path, chief=is_chief)


@contextlib.contextmanager
def _hold(backend, run: RunFolder | None) -> Iterator[None]:
    """Hold the run's folder; if another process has it, each process of this start raises."""
    with contextlib.ExitStack() as stack:
        error: Exception | None = None
        try:
            if run is not None:
                stack.enter_context(run.hold())
        except (OSError, ValueError) as raised:
            error = raised
        failed_here = StopFlags(callback=error is not None, signal=False)
        if backend.any_process(failed_here).callback:
            raise error or BlockingIOError(errno.EWOULDBLOCK, "the first process was refused")
        yield


def _make_loop_plan(
    plan: RunPlan, best: BestWeights, run: RunFolder | None, options: RunOptions
) -> LoopPlan:
    settings = plan.settings
    budget = None
    if plan.hours is not None:
        assert run is not None  # pretraining has a folder
        record = run.record_share if run.chief else None
        budget = TimeBudget(plan.hours, run.read_fractions(), record)
        if plan.micro_batch_size is not None:
            plan.batches.fractions = budget.fractions  # the size of a batch follows them
    return LoopPlan(
        plan.steps,
        best.evaluate if plan.evaluate else None,
        evaluate_every=plan.evaluate_every,
        save_every=settings.save_every,
        score=plan.score,
        patience=settings.patience,
        log_every=settings.log_every,
        budget=budget,
        profile=read_profile(options.profile),
    )


def _make_bert(engine, plan: RunPlan, result: dict) -> Bert:
    """Return the run's model: the engine's weights, its untrained layers, its adapter, its card."""
    from kbert.model.deferred import layers_of
    from kbert.training.step.trained_weights import with_adapters

    model = plan.model
    bert = model.make_bert(layers_of(engine.model))
    bert = untrained_weights.record_untrained(bert, model.find_untrained())
    if model.trained.adapted:
        base = model.adapter.base_path if model.adapter else plan.data_paths.get(plan.base)
        bert = with_adapters(bert, engine, base)

    scores = [name for name in result if name.startswith("val_")]
    evaluated = {name.removeprefix("val_"): result[name] for name in scores}
    card = dataclasses.replace(
        plan.card,
        facts=plan.describe_training(result["steps"]),
        metrics=result.get("metrics", evaluated),
        settings=plan.settings.as_hyperparameters(),
        intervals=result.get("intervals", {}),
    )
    return dataclasses.replace(bert, card=make_card(bert, training=card))
