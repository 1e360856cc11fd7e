"""Opening a checkpoint: `kbert.load` beside safetensors' `load_file`, which makes no model of it.

base_uncased with both heads and random weights, one model.safetensors of 440 MB, in the system's
cache. Every turn is a process of its own: what counts is the first call, after the libraries are
imported and, in kbert's and transformers' case, a tiny model has been built. For all of them the
host of a virtual machine has brought the memory that they will ask for (`machine.bring_memory`).
"""

import functools

from benchmarks import machine
from benchmarks.claims import Claim
from benchmarks.contenders import Contender
from benchmarks.work import Work

TENSORFLOW = {"KERAS_BACKEND": "tensorflow"}
MEMORY = 1536  # MiB
TINY = {"hidden_size": 24, "num_attention_heads": 4, "intermediate_size": 96}


def checkpoint(folder: str, size: str, **replaced):
    """Writes it."""
    import kbert

    config = kbert.get_config(size).replace(**replaced)
    bert = kbert.Bert(config, "pretraining", kbert.build_bert(config))
    return lambda count: kbert.save(bert, folder)


def _with_memory(make):
    """What a contender's `make` gives, once there is memory for it."""

    @functools.wraps(make)
    def making(folder: str):
        run = make(folder)
        machine.bring_memory(MEMORY)
        return run

    return making


@_with_memory
def kbert(folder: str):
    from kbert import build_encoder, load  # kbert imports a module when it is asked for its name

    build_encoder("tiny")

    def run(count):
        for _ in range(count):
            load(folder)

    return run


@_with_memory
def safetensors(folder: str):
    from safetensors.numpy import load_file

    def run(count):
        for _ in range(count):
            load_file(f"{folder}/model.safetensors")

    return run


@_with_memory
def transformers(folder: str):
    import transformers as peer

    peer.BertForPreTraining(peer.BertConfig(**TINY))

    def run(count):
        for _ in range(count):
            peer.BertForPreTraining.from_pretrained(folder)

    return run


@_with_memory
def reading(folder: str):
    def run(count):
        for _ in range(count):
            with open(f"{folder}/model.safetensors", "rb") as file:
                file.read()

    return run


def works(name: str = "load", size: str = "base_uncased", **replaced) -> list[Work]:
    """One; `replaced` are values of its configuration."""

    def contender(name, function, needs=(), environment=None):
        make = f"benchmarks.loading:{function}"
        return Contender(name, make, {}, needs, environment or {}, fresh=True)

    contenders = (
        contender("kbert.load", "kbert", (), TENSORFLOW),
        contender("safetensors.load_file", "safetensors", ("safetensors",)),
        contender("transformers", "transformers", ("torch", "transformers")),
        contender("reading the file", "reading"),
    )
    options = {"size": size} | replaced
    return [
        Work(
            name,
            f"a checkpoint of {size} from the system's cache",
            contenders,
            [Claim("15", "kbert.load", ("safetensors.load_file",), 0.8, 1.0, "first")],
            count=1,
            memory=2500,
            files=Contender("files", "benchmarks.loading:checkpoint", options, (), TENSORFLOW),
        )
    ]
