"""Made-up texts with labels, whether a text has a cat or a dog in it, and runs that learn them."""

from pathlib import Path

import numpy as np

import kbert

WORDS = ["sun", "moon", "red", "big", "tree", "."]
QUIET = {"progress": False, "peak_flops": 1e9}
SETTINGS = {"epochs": 3, "batch_size": 13, "learning_rate": 5e-3, "seed": 4}


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


def write_source(folder: Path, config, train: int = 39, dev: int = 23, blocks: int = 1) -> Path:
    """Write train.tsv, dev.tsv and a checkpoint of an encoder, source, into a folder."""
    from helpers.small_berts import small_bert

    write_texts(folder / "train.tsv", train, 1)
    write_texts(folder / "dev.tsv", dev, 2)
    bert = small_bert(config.replace(num_hidden_layers=blocks), "encoder")
    kbert.save(bert, folder / "source")
    return folder


def tune(folder: Path, output=None, source="source", **options):
    """Fine-tune to classify the texts of such a folder; options are `kbert.finetune`'s."""
    source = folder / source if source == "source" else source
    data = {"train": folder / "train.tsv", "dev": folder / "dev.tsv", "output": output}
    return kbert.finetune(source, "classify", **data | SETTINGS | QUIET | options)
