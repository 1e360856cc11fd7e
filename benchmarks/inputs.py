"""Batches that pretraining is fed with, made on the host, beside an update of a tiny model on one.

Each of them is 32 examples of 128 tokens; the batches have to be made faster than any model
that is worth training learns from them. The shards are those of `benchmarks.corpora`'s text.
"""

import itertools

from benchmarks.contenders import TENSORFLOW, Contender
from benchmarks.work import Work

BATCH, LENGTH = 32, 128
MODES = {
    "pairs": {},
    "pairs, whole words": {"whole_word": True},
    "packed, MLM only": {"mlm_only": True},
}


def shards(folder: str, megabytes: float):
    from benchmarks import corpora
    from kbert.data.corpus.preparing import prepare

    corpora.text(folder, megabytes)
    return lambda count: prepare(f"{folder}/text.txt", f"{folder}/vocabulary", f"{folder}/shards")


def batches(folder: str, **mode):
    from kbert.data.corpus.shards import open_shards
    from kbert.data.pretraining.pretraining_batches import PretrainingBatches

    opened = open_shards(f"{folder}/shards")
    source = PretrainingBatches(opened, batch_size=BATCH, seq_len=LENGTH, **mode)
    steps = itertools.count()

    def run(count):
        for _ in range(count):
            source.batch(next(steps))

    return run


def update(folder: str):
    from benchmarks.updates import kbert_engine

    return kbert_engine("pretraining", "tiny", BATCH, LENGTH, "float32")


def works(megabytes: float = 5) -> list[Work]:
    made = [
        Contender(name, "benchmarks.inputs:batches", mode, (), TENSORFLOW)
        for name, mode in MODES.items()
    ]
    return [
        Work(
            "inputs",
            f"batches of {BATCH} × {LENGTH}, and an update of tiny",
            (*made, Contender("an update of tiny", "benchmarks.inputs:update", {}, (), TENSORFLOW)),
            count=20,
            memory=1200,
            amount=BATCH,
            unit="examples",
            files=Contender(
                "files", "benchmarks.inputs:shards", {"megabytes": megabytes}, (), TENSORFLOW
            ),
        )
    ]
