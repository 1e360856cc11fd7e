"""The parts of one start of a pretraining run: model and step, the loop, the result."""

import numpy as np

from kbert.checkpoints.bert import Bert, load
from kbert.graph.config import BertConfig
from kbert.training.determinism import drawn_from
from kbert.training.run.run_folder import RunFolder


def prepare(engine, settings: dict, places: dict, train) -> None:
    """Builds the model, with the weights of `init` if one is asked for, and the step."""
    from kbert.model.builder import build_bert
    from kbert.training.optimizers import Optimizer

    config = BertConfig.from_dict(settings["config"])
    sizes = {"seq_len": train.seq_len, "max_predictions": train.max_predictions}
    with drawn_from(settings["seed"]):
        with engine.scope():
            model = build_bert(config, **sizes, dtype=settings["precision"])
        if places.get("init"):
            _begin_with(places["init"], train.shards, model)
    names = ("learning_rate", "warmup_steps", "schedule", "weight_decay")
    optimizer = Optimizer(
        name=settings["optimizer"],
        total_steps=settings["steps"],
        **{name: settings[name] for name in names},
    )
    engine.prepare(
        model,
        optimizer,
        clip_norm=settings["clip_norm"],
        accumulation=settings["accumulation"],
        jit=settings["jit"],
        rematerialize=settings["rematerialize"],
        seed=settings["seed"],
    )
    engine.rows(train.batch_size)  # refuses what replicas and micro-batches do not divide


def _begin_with(init: str, shards, model) -> None:
    """Copies a checkpoint's weights; its vocabulary must be the shards'."""
    bert = load(init, head="pretraining")
    if bert.tokenizer is not None and bert.tokenizer.tokens != shards.tokenizer.tokens:
        raise ValueError(
            f"{init} must have the vocabulary of the shards, got another: prepare with this one"
        )
    copy_weights(bert.model, model)


def train_on(engine, run: RunFolder, data: tuple, surroundings, start: int):
    """The loop, with the run's settings; returns its history."""
    from kbert.graph.accounting import account
    from kbert.training.loop.loop import train as train_loop

    (train, held_out), settings = data, run.settings
    peak, how = surroundings.peak(settings["precision"], engine.replicas)
    run.warn_of_another_environment(engine)
    run.write_environment(engine, peak_flops=peak, peak_flops_source=how)
    sizes = {"seq_len": train.seq_len, "max_predictions": train.max_predictions}
    config = BertConfig.from_dict(settings["config"])
    flops = account(config, **sizes).training_flops_per_sequence * train.batch_size
    return train_loop(
        engine,
        train,
        settings["steps"],
        run=run,
        start=start,
        evaluate=held_out and HeldOutEvaluation(engine, held_out, settings["evaluation_batches"]),
        evaluate_every=settings["evaluate_every"],
        save_every=settings["save_every"],
        log_every=settings["log_every"],
        callbacks=surroundings.callbacks,
        show=surroundings.show,
        flops=flops,
        peak=peak,
    )


class HeldOutEvaluation:
    """Losses and accuracies on held-out batches: the same examples and masks every time.

    Args:
        engine: whose weights are evaluated.
        batches: the held-out ones.
        most: how many at most; one pass has as many as there are whole ones, at least one.
    """

    def __init__(self, engine, batches, most: int):
        self._engine, self._batches = engine, batches
        self._count = min(most, max(1, batches.examples_per_epoch(0) // batches.batch_size))

    def __call__(self) -> dict[str, float]:
        """Each output's loss and accuracy over all the batches, and the losses' sum."""
        part = self._engine.rows(self._batches.batch_size)
        sums: dict[str, np.ndarray] = {}
        for step in range(self._count):
            found = self._engine.evaluate(self._batches.batch(step, part))
            for name, pair in found.items():
                sums[name] = sums.get(name, 0.0) + np.array(pair)
        figures = {name: float(total / weight) for name, (total, weight) in sums.items() if weight}
        losses = [value for name, value in figures.items() if name.endswith("_loss")]
        return {"loss": sum(losses)} | figures


def trained_bert(engine, settings: dict, train) -> Bert:
    """The trained weights in a model of any length."""
    from kbert.model.builder import build_bert

    config = BertConfig.from_dict(settings["config"])
    model = build_bert(config, seq_len=None)
    copy_weights(engine.model, model)
    return Bert(config, "pretraining", model, train.shards.tokenizer)


def copy_weights(source, target) -> None:
    """Copies every layer's weights to the layer of the same name."""
    layers = {layer.name: layer for layer in source.layers}
    for layer in target.layers:
        if layer.weights:
            layer.set_weights(layers[layer.name].get_weights())


def described(data: tuple, steps: int) -> dict[str, str]:
    """How much was trained on, in words by name, for the report."""
    (train, held_out), size = data, data[0].batch_size
    vocabulary = f"; a vocabulary of {train.shards.vocab_size:,}"
    found = {"Data": _amount(train.shards) + vocabulary}
    if held_out is not None:
        found["Dev data"] = _amount(held_out.shards)
    seen, epoch = steps * size, train.examples_per_epoch(0)
    found["Seen"] = f"{seen:,} examples of {train.seq_len} tokens: {seen / epoch:.2f} epochs"
    return found


def _amount(shards) -> str:
    return f"{shards.documents:,} documents of {int(shards.document_tokens.sum()):,} tokens"


def result(history, settings: dict) -> dict:
    """What the run came to, for result.json and the report."""
    last = history.updates[-1]
    figures = {name: value for name, value in last.items() if name not in ("step", "skipped")}
    return {"steps": last["step"], "asked": settings["steps"], "stopped": history.stopped} | figures
