"""Which weights a page gets: their format, and whether they lie inside the page or beside it."""

import base64
import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kbert.io.file_kinds import WEIGHTS_BEGINNING
from kbert.io.wording import check_choice
from kbert.show.explorer.live.packing import FORMATS, PackedWeights

MOST_INSIDE = 40_000_000  # parameters that a page holds unless more is asked for
_MOST_BYTES = 380 << 20  # of weights: as base64 they must fit the longest string of a browser
_PART = 3 << 22  # bytes of a string in the file beside the page: a multiple of 3, as base64 needs

_logger = logging.getLogger("kbert")


@dataclass(frozen=True)
class WeightOptions:
    """What a user asked for.

    Attributes:
        precision: the format of the weights; None: not said, int8 if they are not too many.
        beside: whether they lie in a file beside the page.
    """

    precision: str | None = None
    beside: bool = False

    def __post_init__(self):
        if self.precision is not None:
            check_choice(self.precision, FORMATS, "weights")

    @property
    def is_requested(self) -> bool:
        """Whether the user wants weights, however large they are."""
        return self.beside or self.precision is not None

    def choose_precision(self, parameters: int, problem: str | None) -> str | None:
        """Return the format of a model's weights; None, with one line that says why: no weights.

        Args:
            parameters: their number.
            problem: why the page cannot compute the model; None: it can.

        Raises:
            ValueError: weights are asked for, and the page cannot compute the model.
        """
        if problem is not None and self.is_requested:
            raise ValueError(f"weights in a page need a model that it computes: {problem}")
        if problem is None and (self.is_requested or parameters <= MOST_INSIDE):
            return self.precision or FORMATS[0]
        if problem is None:
            problem = (
                f"{parameters:,} parameters are more than {MOST_INSIDE:,}. Write them beside the "
                "page with beside=True (--beside), inside it with weights='int8' (--weights int8), "
                "or"
            )
        else:
            problem = f"{problem}."
        _logger.warning(
            "no sentence goes through the page: %s show recordings with sentences=[…] (--sentence "
            "TEXT), or let kbert compute with --serve",
            problem,
        )
        return None


def check_size(packed: PackedWeights, precision: str) -> None:
    """Raise a ValueError for weights that are too large for a browser."""
    if len(packed.data) > _MOST_BYTES:
        smaller = " or ".join(FORMATS[: FORMATS.index(precision)])
        way = f"choose weights={smaller!r}, or " if smaller else ""
        raise ValueError(
            f"the weights of a page must be at most {_MOST_BYTES >> 20} MiB, got "
            f"{len(packed.data) >> 20} as {precision}: {way}let kbert compute with --serve"
        )


def name_file(page: Path) -> Path:
    """Return the path of the weights beside a page."""
    return page.with_name(f"{page.stem}.weights.js")


def compute_digest(data: bytes) -> str:
    """Return the hash by which a page knows its weights."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def write_script(data: bytes) -> Iterator[bytes]:
    """Yield the script that lies beside a page: weights as strings in base64, and their hash."""
    digest = compute_digest(data)
    yield f'{WEIGHTS_BEGINNING}self.kbertWeights = {{digest: "{digest}", parts: [\n'.encode()
    for start in range(0, len(data), _PART):
        yield b'"' + base64.b64encode(data[start : start + _PART]) + b'",\n'
    yield b"]};\n"
