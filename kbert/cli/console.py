"""Around a command: errors as one line, progress, a quiet start of Keras."""

import _thread
import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading

import click

from kbert.cli.command import colour, explain_option
from kbert.io import json_values, printable
from kbert.io import progress as progress_bars
from kbert.io.wording import naming_commands

_called: dict[str, str] = {}  # paths and what messages call them
_A_MOMENT_S = 0.05  # until the callback that swallowed Ctrl-C has ended


def run(command: click.Command, arguments=None) -> None:
    """Runs a command line and exits; a user's mistake is one line on stderr and status 2."""
    _reopen_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without "·" shows "?"

    try:
        _invoke(command, sys.argv[1:] if arguments is None else list(arguments))
        sys.exit(0)
    except BrokenPipeError:  # the reader, `head` say, has had enough
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        sys.exit(0)
    except click.exceptions.Exit as done:  # --help and --version
        sys.exit(done.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True, color=colour())
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        _fail("stopped", 130)
    except click.NoSuchOption as error:
        _fail(explain_option(error))
    except click.ClickException as error:
        _fail(error.format_message())
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}")
    except (ValueError, TypeError, ImportError, RuntimeError) as error:
        if os.environ.get("KBERT_TRACEBACK"):
            raise
        _fail(str(error))
    except Exception as error:
        is_out_of_memory = (
            isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError"
        )
        if not is_out_of_memory:
            raise
        _fail(f"not enough memory for the model: {error}"[:300])


def _invoke(command: click.Command, arguments: list[str]) -> None:
    """Parse a command line and run its command."""
    with naming_commands(), _log_lines(), _interruptible():
        context = command.make_context("kbert", arguments, color=colour())
        with context:
            command.invoke(context)
    sys.stdout.flush()


def _reopen_closed_streams() -> None:
    """So that no file that is opened is taken for a stream that was closed (`<&-`, `>&-`).

    A closed stdout ends the command: what it prints would be lost without a word.
    """
    closed = []
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the first number that is free: this one
            closed.append(number)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if 1 in closed:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        _fail("stdout is closed: leave it open, or send it to /dev/null")


@contextlib.contextmanager
def _log_lines():
    """kbert's log on stderr, a line a warning."""
    logger, handler = logging.getLogger("kbert"), _LineHandler(sys.stderr)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _LineHandler(logging.StreamHandler):
    """A record as one line, in place of a progress bar's, with nothing that acts on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"kbert: {printable.line(_call_paths(record.getMessage()))}"
        if not sys.stderr.isatty():
            return line
        blanks = " " * (progress_bars.columns(sys.stderr) - 1)
        return f"\r{blanks}\r{line}"


def call_in_messages(path: os.PathLike, name: str) -> None:
    """Call a temporary file by a name that the user knows, in errors and in the log."""
    _called[os.fspath(path)] = name


def _call_paths(message: str) -> str:
    """Return a message with the names of temporary files in place of their paths."""
    for path, name in _called.items():
        message = message.replace(path, name)
    return message


def say(text: str = "", *, err: bool = False) -> None:
    """Prints one line that may have texts from files in it: see `kbert.io.printable`."""
    click.echo(printable.line(text), err=err)


def say_json(value) -> None:
    """Prints a result as JSON, see `kbert.io.row_formats.to_json`; see `exit_if_nan` too."""
    from kbert.io import row_formats

    click.echo(row_formats.to_json(value), nl=False)
    exit_if_nan(value)


def exit_if_nan(value) -> None:
    """Ends the command with status 1 where a printed result has NaN, null in JSON, or infinity."""
    if json_values.has_nan(value):
        _fail("the result has NaN or infinity, which is null in JSON", 1)


def say_table(lines, form: str, columns=None) -> None:
    """Prints dataclasses as "csv", "tsv" or "markdown"; `columns` are for Markdown."""
    from kbert.io import row_formats

    if form == "markdown":
        text = row_formats.to_markdown(lines, columns)
    else:
        text = row_formats.to_csv(lines, "\t" if form == "tsv" else ",")
    click.echo(text, nl=False)


@contextlib.contextmanager
def _interruptible():
    """Ctrl-C stops, even where it arrives in what swallows it.

    Python only prints an exception in a callback of the garbage collector, which JAX has, or in a
    `__del__`. Then Ctrl-C is given again, a moment later.
    """
    before = sys.unraisablehook

    def again(unraisable):
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            before(unraisable)
            return
        timer = threading.Timer(_A_MOMENT_S, _interrupt)
        timer.daemon = True
        timer.start()

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


def _interrupt() -> None:
    """Ctrl-C for the main thread; what it waits for is broken off, where the system can do that."""
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()


def _fail(message: str, status: int = 2) -> None:
    name = click.style("kbert:", fg="red", bold=True)
    message = _call_paths(message)
    line = printable.line(" ".join(message.split()))
    click.echo(f"{name} {line}", err=True, color=colour())
    sys.exit(status)


@contextlib.contextmanager
def progress(what: str, file=None):
    """Says what is going on, on stderr, once it has taken two seconds."""
    if not progress_bars.is_shown():
        yield
        return

    def show() -> None:
        print(f"kbert: {printable.line(what)} …", file=file or sys.stderr, flush=True)

    timer = threading.Timer(progress_bars.PROGRESS_DELAY_S, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def starting_keras():
    """Imports Keras without its backend's start-up messages."""
    if "keras" in sys.modules:
        yield
        return
    with starting("Keras"):
        import keras  # noqa: F401

        yield


@contextlib.contextmanager
def starting(what: str):
    """Holds back what is written to stderr while a library starts."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as messages, os.fdopen(terminal, "w") as stderr:
        os.dup2(messages.fileno(), 2)
        try:
            with progress(f"starting {what}", stderr):
                yield
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
