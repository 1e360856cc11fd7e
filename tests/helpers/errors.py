"""Errors and log records by what they name: a file, key, option or value, not by their wording."""

import contextlib
import logging
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def raises(kinds, *things) -> Iterator[pytest.ExceptionInfo]:
    """Expect an error of a type, or one of several, whose message names each of the things."""
    with pytest.raises(kinds) as caught:
        yield caught
    check_named(str(caught.value), *things)


def check_named(text: str, *things) -> None:
    """Check that a text names each of the things."""
    missing = [thing for thing in things if str(thing) not in text]
    assert not missing, f"{missing} not named by: {text}"


@contextlib.contextmanager
def collected_logs(level: int = logging.WARNING) -> Iterator[list[str]]:
    """Collect the messages of kbert's logger, of a level or above."""
    messages: list[str] = []
    handler = logging.Handler(level)
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("kbert")
    previous_level = logger.level
    logger.addHandler(handler)
    logger.setLevel(min(level, logger.getEffectiveLevel()))
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.setLevel(previous_level)


@contextlib.contextmanager
def logged(*things, level: int = logging.WARNING) -> Iterator[list[str]]:
    """Expect a message of kbert's logger that names each of the things."""
    with collected_logs(level) as messages:
        yield messages
    check_logged(messages, *things)


def check_logged(messages: list[str], *things) -> None:
    """Check that one of the messages names each of the things."""
    naming = [text for text in messages if all(str(thing) in text for thing in things)]
    assert naming, f"no message names {things}: {messages}"
