"""The one training loop: batches to steps, with callbacks, records, states and a clear end.

Keras's `fit` is not used: CONTRIBUTING.md, "Why training does not use `fit`", says why.
"""

import contextlib
import hashlib
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from kbert.data.training_batch import Batches, TrainingBatch
from kbert.graph import names
from kbert.training.loop import diagnosis
from kbert.training.loop.callbacks import Callbacks, watch_batches
from kbert.training.loop.calls import Call, calls, prefetch
from kbert.training.loop.history import WORST, History, LoopPlan
from kbert.training.loop.profiler import Profiler
from kbert.training.loop.progress_line import Live
from kbert.training.loop.saver import Saver
from kbert.training.loop.throughput import Speed
from kbert.training.run.live_report import LiveReport
from kbert.training.run.run_folder import RunFolder
from kbert.training.step.state import MOST_SKIPPED
from kbert.training.stopping import Agreement, ProcessFailed, StopFlags, Stopped, stop_requests

_logger = logging.getLogger("kbert")
_STARTS = "computing" if keras.backend.backend() == "torch" else "compiling"
_FIRST = f"{_STARTS} the first step …"


class NotFinite(RuntimeError):
    """A step that was not finite, and was not applied; the message says where it began."""


def train(
    engine,
    batches: Batches,
    plan: LoopPlan,
    *,
    run: RunFolder | None = None,
    start: int = 0,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    progress: bool = True,
    speed: Speed | None = None,
    report: LiveReport | None = None,
) -> History:
    """Train the steps of a plan with an engine that has done `start` of them; return the history.

    Args:
        run: the folder for records and states; None: nothing is saved.
        callbacks: Keras's callbacks, whose epochs lie between two evaluations; logs are means over
            one. Their own state is not saved.
        speed: measures how fast the steps are; None: tokens per second alone.
        report: writes the run's page.

    Raises:
        NotFinite: the loss or the gradients were NaN or infinite.
        Stopped: Ctrl-C or SIGTERM.
        ProcessFailed: another process of the run ended, or cannot be reached.
        ValueError: a callback set the learning rate, or the replicas do not divide the batch size.
        OSError: the disk is full, or data vanished; everything done is saved if possible.
    """
    is_alone = engine.backend.processes == 1
    is_first = engine.backend.process == 0
    part = engine.slice_examples(batches.batch_size)
    per_call = engine.steps_per_execution
    ahead = engine.ahead
    if watch_batches(callbacks):  # each is to see its weights, not those of later steps
        per_call, ahead = 1, 0

    live = Live(
        plan.steps,
        progress and is_first,
        _FIRST,
        steps_per_epoch=getattr(batches, "steps_per_epoch", None),
        score=plan.score,
    )
    with (
        live,
        stop_requests(alone=is_alone) as stop_request,
        # Batches are made in a thread, ahead of their steps: the device does not wait for them.
        # Each depends on its number alone, so a resumed run needs no other position in the data.
        prefetch(batches, part, start, plan.most_steps, ahead=per_call) as prefetched,
    ):
        keras_callbacks = None
        if callbacks:
            keras_callbacks = Callbacks(
                callbacks,
                engine,
                batches.batch(start, part),
                score=plan.score,
                epochs=math.ceil(plan.steps / plan.epoch),
                steps=plan.epoch,
                verbose=0,
            )
        trainer = _Trainer(
            engine=engine,
            plan=plan,
            run=run,
            done=start,
            batch_size=batches.batch_size,
            size_of=lambda step: batches.count_examples(step + 1) - batches.count_examples(step),
            callbacks=keras_callbacks,
            ahead=ahead,
            agreement=Agreement(engine, stop_request, plan.budget),
            speed=speed or Speed(),
            live=live,
            report=report,
        )
        trainer.run_to_end(calls(prefetched, per_call, plan.pauses))
    return trainer.history


@dataclass
class _Trainer:
    """A run under way: `done` steps are sent, the metrics of those in flight are not read yet."""

    engine: Any
    plan: LoopPlan
    run: RunFolder | None
    done: int
    batch_size: int  # of the largest batch
    size_of: Callable[[int], int]  # the number of examples in a step
    callbacks: Callbacks | None
    ahead: int
    agreement: Agreement
    speed: Speed
    live: Live
    report: LiveReport | None

    def __post_init__(self):
        self.in_flight: deque[tuple[int, list[TrainingBatch], Callable]] = deque()
        self.sums: dict[str, list[float]] = {}  # of the epoch
        self.line: dict[str, float] = {}  # the metrics of the last step that was read
        self.in_epoch = False
        self.skipped = 0  # updates in a row that were not finite
        self.score: tuple[float, float] | None = None  # of the weights as they are
        self.engine.model.stop_training = False

        self.history = History()
        if self.run is not None:
            self.history.updates = self.run.begin(self.done)
        self.profiler = Profiler(self.engine.backend, self.run)
        self.saver = Saver(self.engine, self.run, self.done or None)  # a resumed run has a state

        updates = self.history.updates
        evaluations = self.history.evaluations
        seconds_before = updates[-1].get("seconds", 0.0) if updates else 0.0
        self.begin = time.monotonic() - seconds_before
        scores = [self.plan.score_of(line) for line in evaluations]
        self.best = max(scores, default=WORST)
        self.is_finished = self.plan.is_finished(self.done)  # whether the last step is sent
        if not self.is_finished:  # it may have been killed once its patience was at its end
            self.history.stopped = self.plan.why_to_stop(evaluations)

    def run_to_end(self, sent_together: Iterator[Call]) -> None:
        """Do all steps that are left; explain an error to the user, and to the other hosts."""
        backend = self.engine.backend
        self._report(self.done, due=True)

        try:
            self._fit(sent_together)
        except Exception as error:
            self._report(self.done, due=True, interrupted=error)
            if backend.is_process_failure(error):
                raise ProcessFailed(self._explain_failure(error)) from error
            if not isinstance(error, NotFinite):  # which all hosts have
                backend.leave()
            raise
        except BaseException as error:  # Ctrl-C
            self._report(self.done, due=True, interrupted=error)
            raise
        finally:
            self.profiler.stop()
            self.saver.close()

    def _explain_failure(self, error: Exception) -> str:
        """Say that another process is gone, why, and how to start all of them again."""
        lines = [*str(error).splitlines(), type(error).__name__]
        reasons = [line for line in lines if "abort" in line or "fail" in line]
        reason = reasons[0] if reasons else lines[0]
        reason = reason.rpartition("}} ")[2]  # TensorFlow puts a node's name before it
        text = f"another process of this run is gone ({reason}). {self.saver.last_good()}"
        if self.run is not None:
            text += f". Start all of them again: {self.run.resume_command}"
        return text

    def _fit(self, sent_together: Iterator[Call]) -> None:
        if self.saver.saved is None:
            # A run whose first step is not finite, or whose machine fails, can be resumed too.
            self.saver.save(self.done, None)
        self._tell("on_train_begin")

        while not self.is_finished and not self.history.stopped:
            try:
                step, batches = next(sent_together)
            except Exception:
                self._save_alone()
                raise
            if step == self.plan.profile.start:
                self._read(at_most=0)
                self.profiler.start()
            self._begin_call(step, len(batches))
            self._send(step, batches)
            self._read(at_most=self.ahead)
            if self.done == self.plan.profile.stop:
                self._read(at_most=0)  # the device has done them
                self.profiler.stop()
                self.speed.pause()
            self._between_calls()

        self.engine.state.use_averages()  # the last state, which is saved, has both
        self._end_training()

    def _save_alone(self) -> None:
        """Save what is done: this host has no next batch, and the others know nothing of it."""
        with contextlib.suppress(OSError, NotFinite):
            self._read(at_most=0)
            self.saver.save(self.done, self.score, alone=True)
            if self.run is not None and self.run.chief:
                text = "saved after step %d. To resume: %s"
                _logger.warning(text, self.done, self.run.resume_command)

    def _begin_call(self, step: int, count: int) -> None:
        """Tell callbacks that an epoch, and each step of a call, begins."""
        if not self.in_epoch:
            self._tell("on_epoch_begin", step // self.plan.epoch)
            self.in_epoch = True
            self.sums = {}
        for number in range(step, step + count):
            self._tell("on_train_batch_begin", number % self.plan.epoch)

    def _send(self, step: int, batches: list[TrainingBatch]) -> None:
        """Send a call to the device, which does its steps after those in flight."""
        # A call is sent before the metrics of the last one are read: reading waits for the
        # device, which would then idle until the next batch is sent. A step after one that ends
        # the run changes nothing (the engine sees to it), so it is not one too many.
        stop_flags = self.agreement.send()
        fractions = None
        if self.plan.budget is not None and self.engine.backend.process == 0:
            fractions = self.plan.budget.begin_steps(step, len(batches))
        read_metrics = self.engine.updates(batches, step, stop_flags, fractions)
        self.in_flight.append((step, batches, read_metrics))
        self.done = step + len(batches)
        self.score = None
        self._find_end()

    def _find_end(self) -> None:
        """Note whether the last step is sent; all hosts know it before they read that step."""
        is_spent = self.agreement.decide(self.done).budget
        self.is_finished = is_spent or self.done >= self.plan.most_steps

    def _end_training(self) -> None:
        """Tell callbacks that training ends; note whether one of them set other weights."""
        # several hosts may differ in their callbacks
        may_restore = self.callbacks is not None and self.engine.backend.processes == 1
        before = self._digest() if may_restore else b""
        self._tell("on_train_end")
        self.history.restored = may_restore and self._digest() != before
        if self.history.restored:
            self.engine.state.reset_averages()

    def _digest(self) -> bytes:
        digest = hashlib.sha256()
        for weight in self.engine.model.weights:
            digest.update(keras.ops.convert_to_numpy(weight).tobytes())
        return digest.digest()

    def _tell(self, event: str, *arguments) -> None:
        if self.callbacks is not None:
            self.callbacks.tell(event, *arguments)

    def _between_calls(self) -> None:
        """Evaluate, save and stop, where it is time for it."""
        self._find_end()
        events = self.plan.events_after(self.done, self.is_finished)
        if events.ends_epoch or events.saves or any(self.agreement.decide(self.done)):
            self._read(at_most=0)  # what is evaluated or saved is known to be finite
        # All hosts stop after the same step: one alone would leave the others waiting for it in
        # their next sum. So stop flags travel in the step's own sums, and the run ends once the
        # host that is furthest ahead can have read them.
        stop_flags = self.agreement.decide(self.done)

        is_best = False
        if events.evaluates:
            is_best = self._evaluate()
        elif events.ends_epoch or stop_flags.callback:
            self._end_epoch({})
        if events.ends_epoch:  # every host is here, and its callbacks may have stopped it
            stop_flags = self.agreement.agree_now()
        if stop_flags.callback and not (events.records or events.evaluates):
            self._record(self.done, self.line)  # the run's last: the result is made of it

        # A state is written after the records and the evaluation up to it, whose score it has: a
        # run that is resumed from it has them all, and does nothing twice.
        ends_run = events.is_last or any(stop_flags)
        if events.saves or is_best or ends_run:
            self.saver.save(self.done, self.score, beside=not ends_run)
            self._report(self.done, due=not events.is_last)
            self.speed.pause()
        self.saver.check()
        if not events.is_last:
            self._obey(stop_flags)

    def _obey(self, stop_flags: StopFlags) -> None:
        """Raise `Stopped` for a signal; for a callback, let the loop end."""
        if stop_flags.signal:
            text = f"stopped after step {self.done:,} of {self.plan.steps:,}"
            if self.run is None:
                text += ". Nothing is saved without a run folder"
            else:
                text += f" and saved. To resume: {self.run.resume_command}"
            raise Stopped(text, self.agreement.request.signal)
        if stop_flags.callback:
            patience = self.plan.why_to_stop(self.history.evaluations)
            self.history.stopped = patience or f"a callback stopped it after step {self.done:,}"

    def _read(self, at_most: int) -> None:
        """Read the metrics of steps, until so many are in flight."""
        while len(self.in_flight) > at_most:
            step, batches, read_metrics = self.in_flight.popleft()
            metrics = read_metrics()  # waits for the device
            self.agreement.receive(step, metrics)

            # of whole steps, from this process's part of them; with padding
            lengths = [batch.inputs[names.TOKEN_IDS].size / len(batch) for batch in batches]
            sizes = [self.size_of(number) for number in range(step, step + len(batches))]
            tokens = sum(length * size for length, size in zip(lengths, sizes, strict=True))
            rates = self.speed.add(tokens, len(batches), sum(sizes) / self.batch_size)
            updates = zip(batches, metrics, strict=True)
            for number, (batch, values) in enumerate(updates, step):
                self._read_step(number, batch, values, rates)

    def _read_step(
        self, step: int, batch: TrainingBatch, values: dict[str, float], rates: dict[str, float]
    ) -> None:
        """Check, show and record the metrics of a step."""
        self._check_finite(step, batch, values)
        # where it is evaluated, the line is written with the evaluation
        self.line = values = values | rates
        for name, value in values.items():
            self.sums.setdefault(name, []).append(value)

        done = step + 1
        seconds_left = self.speed.seconds_for(self.plan.steps - done)
        if self.plan.budget is not None:
            seconds_left = self.plan.budget.count_seconds_left()
        self.live.update(done, values, seconds_left)
        self._tell("on_train_batch_end", step % self.plan.epoch, values)
        is_last = self.is_finished and done == self.done
        events = self.plan.events_after(done, is_last)
        if events.records and not events.evaluates:
            self._record(done, values)

    def _check_finite(self, step: int, batch: TrainingBatch, values: dict[str, float]) -> None:
        if values.pop("finite", 1.0):
            self.skipped = 0
            return
        self.skipped += 1
        if "loss_scale" in values and self.skipped <= MOST_SKIPPED:
            values["skipped"] = 1.0  # the loss scale was too high, and is halved
            return

        first_row = self.engine.slice_examples(self.batch_size).start or 0
        where = diagnosis.find_first_bad(self.engine, batch, step, first_row)
        again = f" (and of the {self.skipped - 1} before it)" if self.skipped > 1 else ""
        raise NotFinite(
            f"the loss or gradient of step {step + 1}{again} is not finite "
            f"(loss {values['loss']:g}, gradient norm "
            f"{values['gradient_norm']:g}): batch {step}, {where}. {self.saver.last_good()}"
        )

    def _record(self, step: int, values: dict[str, float]) -> None:
        seconds = time.monotonic() - self.begin
        values = values | {"seconds": round(seconds, 3)}
        self.history.updates.append({"step": step} | values)
        if self.run is not None:
            self.run.log(step, values)
        self._report(step)

    def _report(self, done: int, **options) -> None:
        """Write the run's page, if there is one; see `LiveReport.write`."""
        if self.report is not None:
            self.report.write(done, self.history.updates, **options)

    def _evaluate(self) -> bool:
        """Evaluate, and return whether the result is the best so far."""
        assert self.plan.evaluate is not None
        values = self.plan.evaluate()
        metrics = {f"val_{name}": float(value) for name, value in values.items()}
        self._record(self.done, self.line | metrics)
        self._report(self.done, due=True)
        self.live.show_evaluation(self.done, metrics)
        self._end_epoch(metrics)
        self.speed.pause()

        self.score = self.plan.score_of(metrics)
        if self.plan.why_to_stop(self.history.evaluations):
            self.engine.model.stop_training = True
        is_best = self.score > self.best
        self.best = max(self.score, self.best)
        return is_best

    def _end_epoch(self, metrics: dict[str, float]) -> None:
        means = {name: sum(values) / len(values) for name, values in self.sums.items()}
        epoch = (self.done - 1) // self.plan.epoch
        self._tell("on_epoch_end", epoch, means | metrics)
        self.in_epoch = False
