"""The parts of one start of a fine-tuning run: data, model, step, best weights, result."""

import dataclasses
import logging
from collections import Counter
from dataclasses import dataclass

from kbert.checkpoints.bert import Bert
from kbert.data.labelled.length_buckets import BucketedBatches, lengths_up_to
from kbert.graph.spec import GraphSpec
from kbert.tasks.checks import longest, require_tokenizer, require_two_segments
from kbert.tasks.finetuning.evaluate import LabelledEvaluation, known_labels
from kbert.tasks.finetuning.task import Task
from kbert.training.determinism import drawn_from

_logger = logging.getLogger("kbert")


@dataclass(frozen=True)
class Data:
    """What is trained on and evaluated with.

    Attributes:
        task: the task.
        labels: the head's, None where it has none.
        train: the batches.
        dev: an `LabelledEvaluation`, or None.
        fingerprint: of both, as JSON.
    """

    task: Task
    labels: tuple[str, ...] | None
    train: BucketedBatches
    dev: LabelledEvaluation | None
    fingerprint: dict


def encoded(task: Task, bert: Bert, read: dict, labels, settings: dict) -> Data:
    """The records as the model reads them.

    Args:
        task: whose records.
        bert: with the tokenizer.
        read: "train" and "dev": records; dev may be None.
        labels: the training data's.
        settings: the run's.

    Raises:
        ValueError: records that do not fit the model or each other.
    """
    tokenizer = require_tokenizer(bert, "finetune")
    limit, size = longest(bert, settings["max_length"]), settings["batch_size"]
    train, dev = (
        None if read[name] is None else task.encode(read[name], tokenizer, labels, max_length=limit)
        for name in ("train", "dev")
    )
    if any(max(row, default=0) > 0 for row in train.segment_ids):
        require_two_segments(bert, "finetune")
    shapes = {"pad_id": tokenizer.pad_id, "lengths": settings["lengths"]}
    batches = BucketedBatches(train, batch_size=size, seed=settings["seed"], **shapes)
    fingerprint = {"train": batches.fingerprint, "dev": dev and dev.digest()}
    measured = dev and LabelledEvaluation(task, read["dev"], dev, labels, size, **shapes)
    return Data(task, labels, batches, measured, fingerprint)


def with_lengths(settings: dict, bert: Bert, compiled: bool) -> dict:
    """The settings with the lengths that batches may have: a resumed run goes on with them."""
    if settings["lengths"] is not None:
        return settings
    limit = longest(bert, settings["max_length"])
    return settings | {"lengths": list(lengths_up_to(limit, compiled))}


def prepare(engine, bert: Bert, data: Data, settings: dict) -> None:
    """Builds the model, with the source's weights wherever it has them, and the step."""
    from kbert.training.optimizers import Optimizer

    with engine.scope(), drawn_from(settings["seed"]):
        model = _built(bert, data, settings["precision"])
    _begin(bert, model, data)
    steps = settings["epochs"] * data.train.steps_per_epoch
    optimizer = Optimizer(
        name=settings["optimizer"],
        total_steps=steps,
        warmup_steps=round(settings["warmup_share"] * steps),
        **{name: settings[name] for name in ("learning_rate", "schedule", "weight_decay")},
    )
    names = ("clip_norm", "accumulation", "jit", "rematerialize", "seed")
    engine.prepare(model, optimizer, **{name: settings[name] for name in names})
    engine.rows(data.train.batch_size)  # refuses what replicas and micro-batches do not divide


def _built(bert: Bert, data: Data, dtype: str | None = None):
    from kbert.model.builder import build

    return build(dataclasses.replace(_spec(bert, data), dtype=dtype))


def _spec(bert: Bert, data: Data) -> GraphSpec:
    num_labels = len(data.labels) if data.labels else 2
    return GraphSpec(bert.config, data.task.head, seq_len=None, num_labels=num_labels)


def _begin(bert: Bert, model, data: Data) -> None:
    """Copies the source's weights; a head of other labels, or of another kind, begins anew."""
    goes_on = bert.head == data.task.head and (
        data.labels is None or known_labels(bert) == data.labels
    )
    source = {layer.name: layer for layer in bert.model.layers}
    new, outputs = [], set(model.output_names)
    for layer in model.layers:
        if not layer.weights:
            continue
        if layer.name not in source or (layer.name in outputs and not goes_on):
            new.append(layer.name)
        else:
            layer.set_weights(source[layer.name].get_weights())
    if lost := [name for name in new if name not in outputs and name != "Span"]:
        _logger.warning("the source lacks, and first weights begin in: %s", ", ".join(lost))


def flops_of_an_update(bert: Bert, data: Data) -> float:
    """The mean over an epoch, padding included; an update's own grows with its batch's length."""
    from kbert.graph.accounting import account

    sizes = {"head": data.task.head, "num_labels": _spec(bert, data).num_labels}
    counts = Counter(data.train.lengths_in(0))
    total = sum(
        count * account(bert.config, length, **sizes).training_flops_per_sequence
        for length, count in counts.items()
    )
    return total * data.train.batch_size / counts.total()


class Best:
    """Evaluates the weights as they are, and remembers the best ones where no run folder does."""

    def __init__(self, engine, data: Data, wanted: bool, run):
        self._engine, self._data, self._run = engine, data, run
        self._wanted = wanted and data.dev is not None
        self._score, self._state = float("-inf"), None

    def evaluate(self) -> dict[str, float]:
        """The figures of the dev data."""
        figures = self._figures()
        score = figures[self._data.task.score]
        if self._wanted and self._run is None and score > self._score:
            self._score, self._state = score, self._engine.state()
        return figures

    def _figures(self) -> dict[str, float]:
        return self._data.dev(self._engine.predict, list(self._engine.model.output_names))

    def restore(self, history) -> tuple[int, dict[str, float]]:
        """Gives the engine the weights to keep; returns their update and their figures."""
        step, lines = history.updates[-1]["step"], history.evaluations
        if self._wanted and lines:
            line = max(lines, key=lambda one: one[f"val_{self._data.task.score}"])
            step = self._restore_best(line["step"], step)
        if self._data.dev is None:
            return step, {}
        for line in lines:
            if line["step"] == step:
                return step, {name[4:]: line[name] for name in line if name.startswith("val_")}
        return step, self._figures()

    def _restore_best(self, best: int, last: int) -> int:
        """The update whose weights the engine has now: the best, or the best that is whole."""
        state, found = self._state, best
        if self._run is not None:
            whole = self._run.best_state()
            state, found = (whole.arrays, whole.step) if whole else (None, last)
        if state is not None:
            self._engine.restore(state)
        if found != best:
            _logger.warning(
                "the weights after update %d did best, and no whole state has them: the result has "
                "those after update %d, and their figures",
                best,
                found,
            )
        return found


def trained_bert(engine, bert: Bert, data: Data) -> Bert:
    """The engine's weights in a float32 model of any length."""
    from kbert.tasks.pretraining.parts import copy_weights

    model = _built(bert, data)
    copy_weights(engine.model, model)
    return Bert(bert.config, data.task.head, model, bert.tokenizer, labels=data.labels)


def described(data: Data, steps: int) -> dict[str, str]:
    """How much was trained on, in words by name, for the report."""
    train, labels = data.train, data.labels or ()
    found = {"Data": f"{len(train.examples):,} examples"}
    if labels:
        names = ", ".join(labels[:6]) + (", …" if len(labels) > 6 else "")
        found["Data"] += f", {len(labels)} labels: {names}"
    if data.dev is not None:
        found["Dev data"] = f"{len(data.dev):,} examples"
    found["Seen"] = (
        f"{steps / train.steps_per_epoch:.2f} epochs of {train.steps_per_epoch:,} updates"
    )
    return found


def result(history, kept: tuple[int, dict], data: Data, settings: dict) -> dict:
    """What the run came to, for result.json and the report; `kept` is what `Best.restore` gives."""
    last = history.updates[-1]
    asked = settings["epochs"] * data.train.steps_per_epoch
    done = {"steps": last["step"], "asked": asked, "stopped": history.stopped}
    return done | {"loss": last["loss"], "weights_of_update": kept[0], "metrics": kept[1]}
