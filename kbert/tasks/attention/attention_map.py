"""The attention weights of one text, and what one sees of them: a picture, a page."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kbert.io.atomic_write import atomic_file, write_atomically
from kbert.tasks.attention import SPECIAL
from kbert.tasks.attention.attention_data import AttentionData
from kbert.tasks.attention.files import NUMBERS, PAGE, PICTURES, check_path


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMap(AttentionData):
    """The attention weights of one text or pair; a notebook shows them as the page of `save`.

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
        """Draw `mean(layer, head)` as a heat map: a row for each token that attends.

        Args:
            path: of the picture, .png, .svg or .pdf; written whole or not at all.
            layer, head: as for `mean`.
            special: [CLS] and [SEP] draw most of the attention. "clipped": the colours are those of
                the other tokens' weights among themselves, and what is above is grey; "hidden":
                only those tokens are drawn; "whole": the colours reach up to the largest weight.

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
        """Write the page that one looks at the attention on, or the numbers.

        The page is one file with everything in it: lines between the tokens, every head as a
        thumbnail, one as a heat map, its queries and keys, a table of `statistics()`. Up to 2^20
        weights are on it whole, to 1/65,535; else of each row the 16 largest. Of queries and keys
        it has up to 2^21 numbers, or none. It says what it lacks. Base with 512 tokens: 8 MB.

        Args:
            path: .html for the page; .npz for `tokens`, `weights`, `layers`, `heads`, `special`,
                `segments` and, where there are any, `queries` and `keys`, as NumPy's arrays.
                Written whole or not at all.
            layer, head: which the page shows first, from 1. None: the page chooses a head where
                words attend most to words that are not beside them.
            special: whether the page shows [CLS] and [SEP] at first: not if "hidden".

        Returns:
            The path.

        Raises:
            ValueError: another ending; a layer or head that is not in the map; for a page, a weight
                that is not finite.
            OSError: it cannot be written.
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
        raise ValueError(f"special must be one of {', '.join(SPECIAL)}, got {special!r}")
