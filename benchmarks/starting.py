"""How long it takes until the first update is done, from nothing: a whole process.

Import, build, trace, compile, an update of pretraining at 8 × 128. Beside it the build alone, with
the first weights, in a process that has imported its library.
"""

from benchmarks.claims import Claim
from benchmarks.contenders import Contender
from benchmarks.work import Work

TENSORFLOW = {"KERAS_BACKEND": "tensorflow"}


def kbert(size: str):
    import kbert as library

    library.build_bert("tiny")

    def run(count):
        for _ in range(count):
            library.build_bert(size)

    return run


def keras_hub(size: str):
    """The encoder with the MLM head, the nearest that it has to document 004's graph."""
    import keras_hub as peer

    from benchmarks.updates import config_of

    def build(size):
        config = config_of(size, None)
        backbone = peer.models.BertBackbone(
            vocabulary_size=config.vocab_size,
            num_layers=config.num_hidden_layers,
            num_heads=config.num_attention_heads,
            hidden_dim=config.hidden_size,
            intermediate_dim=config.intermediate_size,
        )
        return peer.models.BertMaskedLM(backbone=backbone, preprocessor=None)

    build("tiny")

    def run(count):
        for _ in range(count):
            build(size)

    return run


def works(size: str = "base", batch: int = 8, length: int = 128) -> list[Work]:
    shape = {"head": "pretraining", "size": size, "batch": batch, "length": length}
    options = shape | {"precision": "float32"}

    def first(name, function, needs=(), computes="", **more):
        make = f"benchmarks.updates:{function}"
        given = (make, options | more, needs, TENSORFLOW, computes)
        return Contender(name, *given, fresh=True)

    no_pairs = "no next sentences"
    contenders = (
        first("kbert", "kbert_engine"),
        first("KerasHub", "keras_hub", ("keras_hub",), no_pairs, jit=False),
        first("KerasHub, XLA", "keras_hub", ("keras_hub",), no_pairs, jit=True),
    )
    built = (
        Contender("kbert", "benchmarks.starting:kbert", {"size": size}, (), TENSORFLOW),
        Contender(
            "KerasHub", "benchmarks.starting:keras_hub", {"size": size}, ("keras_hub",), TENSORFLOW
        ),
    )
    return [
        Work(
            "start",
            f"the first update from nothing, {size}, {batch} × {length}, float32",
            contenders,
            [Claim("18", "kbert", ("KerasHub", "KerasHub, XLA"), 1.0, 1.5)],
            count=1,
            memory=5000,
        ),
        Work("build", f"building {size}, with first weights", built, count=1, memory=3000),
    ]
