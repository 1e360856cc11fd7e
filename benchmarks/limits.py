"""How close kbert comes to what the machine can multiply: base, all 12 layers, 8 × 128.

FLOPs are the accounting's, matrix products alone: of an update 3 × forward, pretraining with 20
predicted positions; of inference the forward pass of encoder and pooler, ids checked and outputs as
NumPy arrays: by what tasks run with `precision=`, and by `kbert.predict` of the graph. The limit is
the rate of the same layers' bare products.
"""

from benchmarks import matmul
from benchmarks.claims import Share
from benchmarks.contenders import TENSORFLOW, Contender
from benchmarks.work import Work

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
SHARES = {  # at least, aim
    ("update", "float32"): (0.65, 0.8),
    ("forward", "float32"): (0.75, 0.9),
    ("update", "bfloat16"): (0.35, 0.5),
    ("forward", "bfloat16"): (0.5, 0.7),
}


def forward(size: str, batch: int, length: int, precision: str):
    import kbert
    from benchmarks.updates import config_of, data

    config = config_of(size, None)
    model = kbert.build_encoder(config, seq_len=length, dtype=precision)
    arrays = data(config.vocab_size, batch, length)

    def run(count):
        for _ in range(count):
            kbert.predict(model, arrays["tokens"], arrays["segments"])

    return run


def forward_of_tasks(size: str, batch: int, length: int, precision: str):
    """As `embed` and its siblings compute with `precision=`."""
    import numpy as np

    import kbert
    from benchmarks.updates import config_of, data
    from kbert.graph import names
    from kbert.tasks.common import running

    config = config_of(size, None)
    model = kbert.build_encoder(config, seq_len=None)
    random = np.random.default_rng(5)
    for weight in model.weights:  # a checkpoint's biases are not 0, which could be left out
        weight.assign(random.normal(weight.numpy(), 0.02).astype("float32"))
    bert = kbert.Bert(config, "encoder", model)
    outputs = names.encoder_output(config.num_hidden_layers), names.POOLER
    function = running.get_output_function(bert, outputs, precision.removeprefix("mixed_"))
    arrays = data(config.vocab_size, batch, length)
    rows = list(zip(arrays["tokens"].tolist(), arrays["segments"].tolist(), strict=True))

    def run(count):
        for _ in running.run_sequences(bert, function, rows * count, batch):
            pass

    return run


def works(size: str = "base", batch: int = 8, length: int = 128) -> list[Work]:
    return [
        _work(kind, precision, {"size": size, "batch": batch, "length": length})
        for kind, precision in SHARES
    ]


def _work(kind: str, precision: str, shape: dict) -> Work:
    policy = POLICIES[precision]
    rows = {"rows": shape["batch"] * shape["length"], "precision": policy}
    given = shape | {"precision": policy}
    make = "benchmarks.limits:forward_of_tasks"
    graph = [Contender("kbert.predict", "benchmarks.limits:forward", given, (), TENSORFLOW)]
    if kind == "update":
        graph = []
        make, given = "benchmarks.updates:kbert_engine", given | {"head": "pretraining"}
    products = dict.fromkeys(
        ("products, TensorFlow", "products, torch"), matmul.flops(rows["rows"])
    )
    contenders = (
        Contender("kbert", make, given, (), TENSORFLOW),
        *graph,
        Contender("products, TensorFlow", "benchmarks.matmul:tensorflow", rows),
        Contender("products, torch", "benchmarks.matmul:torch", rows, ("torch",)),
    )
    return Work(
        f"limit-{kind}-{precision}",
        f"{kind} of {shape['size']}, {shape['batch']} × {shape['length']}, {policy}",
        contenders,
        [Share(f"9 {kind}, {precision}", "kbert", tuple(products), *SHARES[kind, precision])],
        count=1 if kind == "update" else 4,
        memory=5000,
        flops=_flops(kind, **shape),
        peaks=products,
    )


def _flops(kind: str, size: str, batch: int, length: int) -> int:
    import kbert
    from benchmarks.updates import needed_flops

    if kind == "forward":
        return kbert.account(size, length, batch, head="encoder").flops
    return needed_flops(size, batch, length)
