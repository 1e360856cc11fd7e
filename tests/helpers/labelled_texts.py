"""Made-up texts with labels: whether a text has a cat or a dog in it."""

import numpy as np

WORDS = ["sun", "moon", "red", "big", "tree", "."]


def write_texts(path, count: int, seed: int) -> None:
    """Texts with a cat are good, those with a dog are bad: `text TAB label`, a line each."""
    random, lines = np.random.default_rng(seed), []
    for n in range(count):
        words = list(random.choice(WORDS, random.integers(2, 9)))
        words.insert(random.integers(len(words)), ("cat", "dog")[n % 2])
        lines.append(" ".join(words) + "\t" + ("good", "bad")[n % 2])
    path.write_text("\n".join(lines) + "\n")


def read_texts(path) -> tuple[list[str], list[str]]:
    """The texts and the labels of such a file."""
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    return [text for text, _ in rows], [label for _, label in rows]
