"""The labelled sample that ships with kbert."""

from collections import Counter

from kbert.data import samples


def examples(path):
    return [tuple(line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()]


def test_sample_has_48_and_16_different_reviews_half_of_them_positive():
    train, dev = examples(samples.TRAIN), examples(samples.DEV)
    assert Counter(label for _, label in train) == {"positive": 24, "negative": 24}
    assert Counter(label for _, label in dev) == {"positive": 8, "negative": 8}
    assert len({text for text, _ in train + dev}) == 64
