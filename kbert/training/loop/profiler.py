"""A profile of some steps, which the backend's own profiler takes."""

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack

from kbert.training.run.run_folder import RunFolder

_logger = logging.getLogger("kbert")


class Profiler:
    """Writes a trace of the steps between `start` and `stop` to a folder of its own.

    Process 0 writes it. An error costs the profile and not the run: the log says so.

    Args:
        backend: of the run, a `kbert.training.backends.backend.Backend`.
        run: the run's folder; None: there is no profile.
    """

    def __init__(self, backend, run: RunFolder | None):
        self._backend = backend
        self._run = run
        self._profile = ExitStack()  # entered while a profile is taken

    def start(self) -> None:
        """Start the profile; no step may be in flight."""
        if self._run is not None and self._run.chief:
            folder = self._run.path / "profile" / time.strftime("%Y_%m_%d_%H_%M_%S")
            self._attempt(self._profile.enter_context, self._backend.profile(folder))

    def stop(self) -> None:
        """Write the trace, if a profile is being taken."""
        self._attempt(self._profile.close)

    def _attempt(self, function: Callable, *arguments) -> None:
        try:
            function(*arguments)
        except Exception as error:
            _logger.warning("profile: %s", str(error).partition("\n")[0])
