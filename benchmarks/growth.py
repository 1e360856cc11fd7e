"""Time and memory of an update against length, batch, layers and width, as exponents.

Fitted by least squares of logarithms over the sizes; beside them the exponents over the same sizes
of what `kbert.account` counts: FLOPs, and the bytes of weights, gradients, moments and activations.
What a process holds and does at a model of next to nothing is taken off. A pretraining update of
4 layers of 256, 8 × 128, 20 predicted positions, vocabulary of 30,000, float32, TensorFlow.
"""

from benchmarks.claims import Growth
from benchmarks.contenders import TENSORFLOW, Contender
from benchmarks.work import Work

FLOOR = "next to nothing"
BASE = {"batch": 8, "length": 128, "layers": 4, "width": 256}
SIZES = {
    "length": (128, 256, 384, 512),
    "batch": (4, 8, 16, 32),
    "layers": (2, 4, 8, 16),
    "width": (128, 256, 512, 768),
}
NOTHING = {"batch": 1, "length": 24, "layers": 1, "width": 8, "vocabulary": 99}


def update(batch: int, length: int, **sizes):
    """kbert's engine."""
    from benchmarks.updates import kbert_engine

    return kbert_engine("pretraining", config_of(**sizes), batch, length, "float32")


def config_of(layers: int, width: int, vocabulary: int = 30_000):
    """Heads of 64."""
    import kbert

    return kbert.get_config("base").replace(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=max(width // 64, 1),
        intermediate_size=4 * width,
        vocab_size=vocabulary,
    )


def works(sizes: dict = SIZES, base: dict = BASE) -> list[Work]:
    return [_work(what, values, base) for what, values in sizes.items()]


def _work(what: str, values: tuple[int, ...], base: dict) -> Work:
    import kbert
    from benchmarks.updates import PREDICTIONS, needed_flops

    given = {f"{what} {value}": base | {what: value} for value in values}
    accounts = {}
    for name, one in given.items():
        accounts[name] = kbert.account(
            config_of(one["layers"], one["width"]),
            one["length"],
            one["batch"],
            max_predictions=PREDICTIONS,
        )
    measured = dict(zip(given, values, strict=True))
    counted = {
        "seconds": {
            name: needed_flops(found.config, found.batch_size, found.seq_len)
            for name, found in accounts.items()
        },
        "memory": {name: found.memory.total for name, found in accounts.items()},
    }
    contenders = [
        Contender(name, "benchmarks.growth:update", options, (), TENSORFLOW)
        for name, options in ({FLOOR: NOTHING} | given).items()
    ]
    claims = [
        Growth(f"growth by {what}", what, measured, counted[figure], FLOOR, figure)
        for figure in counted
    ]
    title = f"an update of training against {what}"
    return Work(f"growth-{what}", title, tuple(contenders), claims, count=3, memory=1600)
