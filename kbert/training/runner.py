"""Runner of every recipe: it starts a run, or resumes it; trains; writes the result.

    pretrain, finetune  →  start or resume  →  _train  →  kbert.training.loop.loop.train

What is trained is the recipe's (`kbert.training.recipe`), how one step is done the engine's.
"""

import contextlib
import dataclasses
import errno
import gc
import logging
import os
import random
import weakref
from collections.abc import Iterator

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.adapters import peft_folder
from kbert.checkpoints.bert import Bert, load
from kbert.checkpoints.hub.model_card import Training, make_card
from kbert.ops.keras_internals import check_seeds_are_pythons
from kbert.training.best_weights import BestWeights
from kbert.training.loop.history import History, Plan
from kbert.training.recipe import Recipe, recreate, select_trained
from kbert.training.run.run_folder import RunFolder, refuse_used
from kbert.training.run_settings import RunOptions
from kbert.training.setting_rules import read_settings
from kbert.training.stopping import StopFlags
from kbert.training.user_objects import refuse_missing_functions

_logger = logging.getLogger("kbert")
_models: weakref.WeakSet = weakref.WeakSet()  # of this process's runs, as long as they are there


def start(recipe: Recipe, output: str | os.PathLike | None, run_options: RunOptions):
    """Do a new run in an unused folder, or without one; return the recipe's outcome."""
    if output is not None:
        refuse_used(output)
    engine = _engine(recipe, run_options)
    _prepare(engine, recipe, run_options, begin=True)  # raises before there is a folder
    run = None
    if output is not None:
        chief = engine.backend.process == 0
        if chief:  # one process makes it, all open it
            options: dict = {"task": recipe.command, "data_paths": recipe.data_paths()}
            options["summary"] = recipe.summarize()
            options["keep_checkpoints"] = bool(run_options.keep_checkpoints)
            options["base_digest"] = recipe.base_digest
            RunFolder.create(output, recipe.collect_settings(), recipe.fingerprint, **options)
        engine.barrier()
        run = RunFolder.open(output, chief=chief)
    with _hold(engine, run):
        return _train(engine, recipe, run, run_options)


@contextlib.contextmanager
def _hold(engine, run: RunFolder | None) -> Iterator[None]:
    """Hold the run's folder; if another process has it, each process of this start raises."""
    with contextlib.ExitStack() as stack:
        error: Exception | None = None
        try:
            if run is not None:
                stack.enter_context(run.hold())
        except (OSError, ValueError) as raised:
            error = raised
        if engine.backend.any_process(StopFlags(callback=error is not None, signal=False)).callback:
            raise error or BlockingIOError(errno.EWOULDBLOCK, "the first process was refused")
        yield


def resume(kind: type[Recipe], run: RunFolder, moved: dict, options: dict, run_options: RunOptions):
    """Go on with a run, or open a finished one; return the outcome of `kind`, its recipe's class.

    `moved` has the new paths of data, by the argument's name; None: they have not moved. `options`
    are settings, which must be the run's own.
    """
    options = read_settings(options)
    if run_options.keep_checkpoints is not None:
        run.keep_checkpoints = run_options.keep_checkpoints
    if (result := run.result) is not None:  # of any version: its settings may have other names
        run.check(run.fingerprint, run.settings | options)
        run.tidy()  # it may have been killed before
        _logger.warning(
            "%s is finished already, after %s step%s: nothing is trained",
            *(run.path, f"{result['steps']:,}", "s" if result["steps"] > 1 else ""),
        )
        history = History(run.read_records())
        bert = load(run.path / "model.keras")
        if bert.adapter is None and (run.path / "adapter").is_dir():
            bert = dataclasses.replace(bert, adapter=peft_folder.read(run.path / "adapter"))
        return kind.make_result(bert, history, result, run.path)
    run.check_computation()
    settings = kind.settings_type.from_run(run)
    # with the functions of the user, which settings.json only names
    settings = kind.settings_type.from_options(settings.as_dict() | options)
    run.check(run.fingerprint, run.settings | options)
    refuse_missing_functions(run.path, settings.as_dict())
    recipe = recreate(kind, run, settings, moved)
    engine = _engine(recipe, run_options)
    run.chief = engine.backend.process == 0
    run.check(recipe.fingerprint, run.settings | recipe.collect_settings())
    with _hold(engine, run):
        state = run.states.last()
        _prepare(engine, recipe, run_options, begin=state is None)
        if state is not None:
            engine.state.restore(state.arrays)
            return _train(engine, recipe, run, run_options, done=state.step)
        run.check_base(recipe.base_digest, recipe.base, recipe.base in recipe.may_move)
        _logger.warning(
            "%s has no usable training state: training starts from the beginning", run.path
        )
        return _train(engine, recipe, run, run_options)


def _engine(recipe: Recipe, run_options: RunOptions):
    """Return the backend's engine, and the recipe's data: read before it, opened after it."""
    from kbert.training.engine import Engine

    recipe.read()
    if _models:  # layers and the engine's functions refer to each other: they outlive their run
        gc.collect()
        gc.collect()  # the graphs, which gradients held that went with the engine
    # Sums in one order, before anything is computed: threads add up in another at each start, and a
    # run that was stopped would end with other last bits than one that was not.
    make_deterministic()
    engine = Engine(devices=run_options.devices)
    jit = recipe.settings.jit
    recipe.open(engine.backend.default_jit if jit is None else jit, engine.backend.shape_cost)
    return engine


def _prepare(engine, recipe: Recipe, run_options: RunOptions, begin: bool) -> None:
    """Build the model, newly initialized, and compile the step; refuse callbacks."""
    from kbert.model.deferred import build_with
    from kbert.model.lora import adapters_of
    from kbert.training.loop.callbacks import refuse_harmful
    from kbert.training.optimizers import Optimizer

    settings = recipe.settings
    with seed_weights(settings.seed):
        layers = recipe.first_layers() if begin else {}
        spec = dataclasses.replace(recipe.training_spec, dtype=settings.precision)
        with engine.backend.scope():
            model = recipe.select_trained_part(build_with(spec, layers))
            trained = select_trained(recipe, model)
            if recipe.distillation:
                model = recipe.distillation.add_outputs(model)
                trained = trained and trained.add_new_weights(model)
    optimizer = Optimizer(
        name=settings.optimizer,
        learning_rate=settings.learning_rate,
        total_steps=recipe.steps,
        warmup_steps=recipe.warmup_steps,
        schedule=settings.schedule,
        weight_decay=settings.weight_decay,
    )
    names = ("clip_norm", "accumulation_steps", "jit", "gradient_checkpointing", "seed")
    options = {name: getattr(settings, name) for name in names}
    targets = recipe.distillation.losses if recipe.distillation else {}
    options |= {"losses": {**recipe.losses, **targets}, "embedding_loss": recipe.embedding_loss}
    options["steps_per_execution"] = run_options.steps_per_execution
    _models.add(model)
    engine.prepare(model, optimizer, trained, **options)
    # refuses what replicas and micro-batches do not divide
    engine.slice_examples(recipe.batches.batch_size)
    evaluated = recipe.fingerprint["dev"] is not None
    refuse_harmful(run_options.callbacks, bool(adapters_of(model)), evaluated)


@contextlib.contextmanager
def seed_weights(seed: int):
    """Draw initial weights from a seed: Keras's initializers ask Python's generator for theirs."""
    check_seeds_are_pythons()
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


def make_deterministic() -> None:
    """Ask the backend for operations whose results are the same bits every time.

    Threads and atomics would add up in another order at each start, and round differently. It holds
    for the process. JAX obeys only before it uses the GPU; torch warns of operations without such a
    form.
    """
    import keras

    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        if tf.config.list_physical_devices("GPU"):  # a CPU's are such; Keras uses less XLA then
            tf.config.experimental.enable_op_determinism()
    elif backend == "torch":
        import torch

        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # PyTorch, "Reproducibility"
        torch.use_deterministic_algorithms(True, warn_only=True)
        # it is for operations that read memory which nobody wrote to: kbert uses none
        torch.utils.deterministic.fill_uninitialized_memory = False
    else:
        flags = os.environ.get("XLA_FLAGS", "")
        if "xla_gpu_deterministic_ops" not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} --xla_gpu_deterministic_ops=true".strip()


def _train(engine, recipe: Recipe, run: RunFolder | None, run_options: RunOptions, done=0):
    """Do the steps that are left; write the result, and return it as the user gets it."""
    from kbert.training.loop.loop import train
    from kbert.training.loop.throughput import Speed, measure_peak

    settings, peak, how = recipe.settings, run_options.peak_flops, "given"
    if peak is None:
        peak, how = measure_peak(settings.precision, engine.backend.replicas)
    if run is not None:
        run.write_environment(engine, peak_flops=peak, peak_flops_source=how)

    def report(done: int, records: list[dict]) -> None:
        if run is not None:
            run.write_report(records, {"steps": done, "asked": recipe.steps}, recipe)

    evaluate = recipe.evaluate if recipe.fingerprint["dev"] is not None else None
    best = BestWeights(engine, evaluate, recipe.score, recipe.keep_best, run)
    plan = Plan(
        recipe.steps,
        best.evaluate if evaluate else None,
        evaluate_every=recipe.evaluate_every,
        save_every=settings.save_every,
        score=recipe.score,
        patience=settings.patience,
        log_every=settings.log_every,
    )
    history = train(
        engine,
        recipe.distillation or recipe.batches,
        plan,
        run=run,
        start=done,
        callbacks=run_options.callbacks,
        progress=run_options.progress,
        speed=Speed(recipe.flops, peak),
        report=report,
    )
    steps = history.updates[-1]["step"]
    result = {"steps": steps, "asked": recipe.steps, "stopped": history.stopped}
    result |= recipe.choose_weights(best, history)
    bert = _make_bert(engine, recipe, result)
    if run is not None:
        run.finish(bert, result, recipe)
        engine.barrier()  # the others have read the best state
        run.tidy()
    return recipe.make_result(bert, history, result, None if run is None else run.path)


def _make_bert(engine, recipe: Recipe, result: dict) -> Bert:
    """Return the run's model: the engine's weights, its untrained layers, its adapter, its card."""
    from kbert.model.deferred import layers_of
    from kbert.training.trained_weights import with_adapters

    bert = recipe.make_bert(layers_of(engine.model))
    bert = untrained_weights.record_untrained(bert, recipe.find_untrained())
    if recipe.trained.adapted:
        paths = recipe.data_paths()
        base = recipe.adapter.base_path if recipe.adapter else paths.get(recipe.base)
        bert = with_adapters(bert, engine, base)
    evaluated = {name[4:]: value for name, value in result.items() if name.startswith("val_")}
    training = Training(
        verb=recipe.verb,
        base=recipe.base_address,
        facts=recipe.describe_training(result["steps"]),
        dev=recipe.dev_name,
        metrics=result.get("metrics", evaluated),
        settings=recipe.settings.as_hyperparameters(),
        intervals=result.get("intervals", {}),
        pairs=recipe.classifies_pairs,
    )
    return dataclasses.replace(bert, card=make_card(bert, training=training))
