"""Attention probabilities of one text, and their picture or page."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kbert.io.atomic_write import atomic_file, check_new_file, write_atomically
from kbert.io.wording import unknown_choice
from kbert.tasks.attention import SPECIAL
from kbert.tasks.attention.attention_data import AttentionData

PICTURES = (".png", ".svg", ".pdf")
PAGE, NUMBERS = ".html", ".npz"
ENDINGS = (*PICTURES, PAGE, NUMBERS)


def check_path(path: str | os.PathLike, endings: Sequence[str]) -> Path:
    """Return the path; an error for an ending or a folder that cannot be."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        raise ValueError(f"path must end with one of {', '.join(endings)}, got {path.name!r}")
    check_new_file(path)
    return path


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMap(AttentionData):
    """The attention probabilities of one text or pair. A notebook shows them as the page of `save`.

    Attributes are those of `kbert.tasks.attention.attention_data.AttentionData`.
    """

    def plot(
        self,
        path: str | os.PathLike,
        *,
        layer: int | None = None,
        head: int | None = None,
        special: str = "clipped",
    ) -> Path:
        """Draw `mean(layer, head)` as a heat map: one row per attending token.

        Args:
            path: the picture's path, .png, .svg or .pdf; written atomically.
            layer, head: as for `mean`.
            special: how to show [CLS] and [SEP], which get most of the attention. "clipped": the
                colours cover the range of the other tokens' weights among themselves, and larger
                weights are grey; "hidden": only the other tokens are drawn; "whole": the colours
                cover the range up to the largest weight.

        Returns:
            The path.
        """
        from kbert.tasks.attention.heat_map import draw

        _check_special(special)
        path = check_path(path, PICTURES)
        weights, tokens = self.mean(layer, head), self.tokens
        others = [place for place in range(len(tokens)) if place not in self.special]
        among = weights[np.ix_(others, others)]
        top = float(among.max()) if others and special != "whole" else None
        if others and special == "hidden":
            weights, tokens = among, [tokens[place] for place in others]
        draw(weights, tokens, f"{self.text}\n{self._title(layer, head)}", path, top)
        return path

    def save(
        self,
        path: str | os.PathLike,
        *,
        layer: int | None = None,
        head: int | None = None,
        special: str = "hidden",
    ) -> Path:
        """Write an interactive page of the attention, or the numbers.

        The page is one self-contained file: lines between the tokens, every head as a thumbnail,
        one as a heat map, its queries and keys, a table of `statistics()`. Up to 2^20 weights are
        all on the page, with a precision of 1/65,535; of more, the 16 largest per row. It has up to
        2^21 numbers of queries and keys, or none. It says what was left out. For base with 512
        tokens the file has 8 MB.

        Args:
            path: .html for the page; .npz for `tokens`, `weights`, `layers`, `heads`, `special`,
                `segments` and, if there are any, `queries` and `keys`, as NumPy arrays. Written
                atomically.
            layer, head: the ones that the page shows first, from 1. None: the page chooses a head
                where words attend most to distant words.
            special: whether the page shows [CLS] and [SEP] at first: "hidden" if not.

        Returns:
            The path.

        Raises:
            ValueError: an unknown ending; a layer or head that is not in the map; for a page, a
                weight that is not finite.
            OSError: the file cannot be written.
        """
        _check_special(special)
        path = check_path(path, (PAGE, NUMBERS))
        if path.suffix.lower() == NUMBERS:
            with atomic_file(path) as part, open(part, "wb") as file:
                np.savez(file, **self._arrays())  # type: ignore[arg-type]
        else:
            from kbert.tasks.attention.page.writing import page

            write_atomically(path, page(self, layer, head, special != "hidden").encode())
        return path

    def _arrays(self) -> dict[str, np.ndarray]:
        names = ("tokens", "weights", "layers", "heads", "special", "segments", "queries", "keys")
        values = {name: getattr(self, name) for name in names}
        return {name: np.asarray(value) for name, value in values.items() if value is not None}

    def _title(self, layer, head) -> str:
        layers = self.layers if layer is None else (layer,)
        heads = self.heads if head is None else (head,)
        parts = [
            f"{name} {numbers[0]}" if len(numbers) == 1 else f"mean of {len(numbers)} {name}s"
            for name, numbers in (("layer", layers), ("head", heads))
        ]
        return ", ".join(parts)

    def _repr_html_(self) -> str:
        from kbert.tasks.attention.page.writing import frame, page

        return frame(page(self), f"Attention of {len(self.tokens)} tokens")


def _check_special(special: str) -> None:
    if special not in SPECIAL:
        raise ValueError(unknown_choice("special", SPECIAL, special))
