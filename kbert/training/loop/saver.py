"""Writing of states in the background: the device waits only for the copy of its numbers."""

import contextlib
import errno
from concurrent.futures import Future, ThreadPoolExecutor

from kbert.training.run.run_folder import RunFolder

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Saver:
    """A thread that writes an engine's states to a run, if any; `saved` is the last one's step."""

    def __init__(self, engine, run: RunFolder | None, saved: int | None):
        self._engine = engine
        self._run = run
        self.saved = saved
        self._begun: tuple[int, Future] | None = None
        self._thread = ThreadPoolExecutor(1, "kbert-states")

    def save(
        self, done: int, score: tuple[float, float] | None, *, beside=False, alone=False
    ) -> None:
        """Save the state after `done` steps, with its `LoopPlan.score_of`, if no call began that.

        Without `beside`, this waits until the state is on the disk. All hosts call it, and each
        waits for the chief's write, unless this host saves `alone`. An OSError, of this state or
        of the previous one, says how to resume.
        """
        if self._run is None:
            return
        last = self._begun[0] if self._begun else self.saved
        with self.explain_errors():
            if done != last:
                self._finish()  # one at a time: no more than one copy in memory
                # complete before the next update, which writes to the weights' own memory
                arrays = self._engine.state.all() if self._run.chief else {}
                written = self._thread.submit(self._run.save_state, arrays, done, score=score)
                self._begun = done, written
            if not beside:
                self._finish()
        if not beside and not alone:
            self._engine.barrier()  # no host goes on before the chief's state is on the disk

    def check(self) -> None:
        """Raise the error of a write that has ended; do not wait for one."""
        if self._begun and self._begun[1].done():
            with self.explain_errors():
                self._finish()

    def close(self) -> None:
        """Finish the current write, end the thread, and close the run's files."""
        self._thread.shutdown()
        if self._run is not None:
            self._run.close()

    def last_good(self) -> str:
        """Return in words the state that the run can be resumed from."""
        if self._run is None:
            return "Nothing is saved without a run folder"
        with contextlib.suppress(OSError):
            self._finish()
        path = self._run.current_location
        if path is None:
            return "The folder was moved or removed, and its states with it"
        return f"The last good state is from step {self.saved:,} in {path}"

    def _finish(self) -> None:
        if self._begun is None:
            return
        done, written = self._begun
        self._begun = None
        written.result()
        self.saved = done

    @contextlib.contextmanager
    def explain_errors(self):
        """Add to an error of the disk how to resume."""
        assert self._run is not None
        try:
            try:
                yield
            except OSError:
                self._run.check_not_moved()  # the cause, where it was moved within a write
                raise
        except OSError as error:
            good = "" if self.saved is None else f"{self.last_good()}. "
            how = "Free space, then resume: " if error.errno in _FULL else "To resume: "
            text = f"{error.strerror or error}. {good}{how}{self._run.resume_command}"
            raise OSError(error.errno, text, error.filename) from None
