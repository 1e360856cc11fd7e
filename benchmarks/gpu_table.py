"""The rows of benchmarks/gpu.py: what is measured, its FLOPs and figures, and their table."""

import itertools
from dataclasses import dataclass

from benchmarks.figures import middle, quartiles


@dataclass(frozen=True)
class Part:
    """A size and a length.

    Attributes:
        size: a preset's name.
        length: tokens of a sequence.
        batches: sequences, the largest first.
        first: sequences in a first run, as in the table of docs/how_to/gpu.md.
        aim: what share of the datasheet's peak kbert's update is to reach; None: not said.
    """

    size: str
    length: int
    batches: tuple[int, ...]
    first: int
    aim: float | None = None


PARTS = {
    "base-128": Part("base", 128, (1024, 512, 256, 128, 64, 32, 16), 64),
    "base-512": Part("base", 512, (256, 128, 64, 32, 16, 8, 4), 16, 0.40),
    "large-128": Part("large", 128, (512, 256, 128, 64, 32, 16, 8), 64),
    "large-512": Part("large", 512, (96, 64, 32, 16, 8, 4, 2), 16, 0.45),
}
TOY = {"toy-32": Part("tiny", 32, (3,), 3)}
WORKS = (  # who, which work, the function, what it needs, what it computes that kbert does not
    ("kbert", "update", "kbert", (), ""),
    ("kbert", "inference", "kbert", (), ""),
    ("products", "products", "products", (), "matrix products alone, no library's work"),
    ("KerasHub", "update", "keras_hub", ("keras_hub",), "no next sentences, unread rows"),
    ("KerasHub", "inference", "keras_hub", ("keras_hub",), ""),
    ("transformers", "update", "transformers", ("torch", "transformers"), "all logits and rows"),
    ("transformers", "inference", "transformers", ("torch", "transformers"), ""),
)
PEERS = tuple(dict.fromkeys(who for who, *_ in WORKS))
KINDS = tuple(dict.fromkeys(work for _, work, *_ in WORKS))


def rows_of(parts: dict[str, Part]) -> list[dict]:
    """A row for each part, peer and work, not measured yet; FLOPs of a batch of 1."""
    return [
        {
            "part": name,
            "size": part.size,
            "length": part.length,
            "work": work,
            "who": who,
            "computes": computes,
            "flops": flops(part, work),
            "aim": part.aim if (who, work) == ("kbert", "update") else None,
            "status": "not measured",
            "why": "not run",
            "batch": None,
            "tried": {},
            "turns": [],
        }
        for name, part in parts.items()
        for who, work, *_, computes in WORKS
    ]


def flops(part: Part, work: str) -> int:
    """Of matrix products, a sequence; of an update those that a loss needs."""
    from kbert.graph.accounting import account

    if work == "products":
        return 3 * sum(2 * part.length * inner * outer for inner, outer in shapes(part.size))
    if work == "inference":
        return account(part.size, part.length, head="encoder").flops
    predicted = predictions(part.length)
    options = {"max_predictions": predicted, "selected_positions": True}
    return account(part.size, part.length, **options).training_flops_per_sequence


def shapes(size: str) -> list[tuple[int, int]]:
    """Kernels of an encoder block: queries, keys, values, output, feed-forward there and back."""
    from kbert.graph.presets import get_config

    config = get_config(size)
    hidden, feed_forward = config.hidden_size, config.intermediate_size
    return [(hidden, hidden)] * 4 + [(hidden, feed_forward), (feed_forward, hidden)]


def predictions(length: int) -> int:
    from kbert.graph.accounting import default_predictions

    return default_predictions(length)


def figures(results: dict) -> None:
    """Puts into the rows what their turns come to."""
    measured, rates = [row for row in results["rows"] if row["turns"]], {}
    for row in measured:
        row |= figures_of(row, results["about"])
        if row["work"] == "products":
            rates[row["part"]] = row["flops_per_second"]
    for row in measured:
        if row["part"] in rates:
            row["of_products"] = row["flops_per_second"] / rates[row["part"]]


def figures_of(row: dict, about: dict) -> dict:
    """What the turns of a row come to; bytes, seconds of one unit of work."""
    samples = [sample for turn in row["turns"] for sample in turn["samples"]]
    rate = row["flops"] * row["batch"] / middle(samples)
    peak, update = about["peak"]["flops"], row["work"] == "update"
    return {
        "seconds": middle(samples),
        "quartiles": quartiles(samples),
        "first": row["turns"][0]["first"],
        "sequences_per_second": row["batch"] / middle(samples),
        "flops_per_second": rate,
        "of_datasheet": rate / peak if peak else None,
        "of_products": None,
        "device_memory": row["turns"][-1]["device_memory"],
        "planned_memory": planned(row, row["batch"], about["precision"]) if update else None,
    }


def planned(row: dict, batch: int, precision: str) -> int:
    """Bytes of `kbert.plan`, which are the same whatever the chip."""
    from kbert.planning.plan import plan

    options = {"gpu": "H100", "seq_len": row["length"], "batch_size": batch, "precision": precision}
    return plan(row["size"], **options).memory.total


HEADER = (
    *("part", "work", "who", "on", "batch", "ms (quartiles)", "sequences/s", "TFLOP/s"),
    *("of datasheet", "of products", "aim", "GiB", "GiB planned", ""),
)


def table(many: list[dict], cpu: bool = False) -> str:
    """A Markdown table of every part, "not measured" where no GPU has filled a row.

    Args:
        many: results.
        cpu: whether a CPU's figures are shown too.
    """
    rows = {key(row): row for row in rows_of(PARTS)}
    lines: dict[tuple, list] = {one: [] for one in rows}
    whys: dict[tuple, str] = {}
    for results in many:
        on_cpu = results["about"]["device"]["kind"] == "CPU"
        for row in results["rows"]:
            measured = lines.setdefault(key(row), [])
            rows.setdefault(key(row), row)
            if row["turns"] and (cpu or not on_cpu):
                measured.append(cells(row, results["about"]))
            elif row["turns"] or row["why"] != "not run":
                whys[key(row)] = "run on a CPU" if row["turns"] else row["why"]
    for one, measured in lines.items():
        if not measured:
            blank = ["–"] * 2 + ["not measured"] + ["–"] * 4
            measured.append([*one, *blank, aim(rows[one]), "–", "–", whys.get(one, "")])
    every = [HEADER, ["---"] * len(HEADER), *itertools.chain(*lines.values())]
    return "\n".join(f"| {' | '.join(line)} |" for line in every)


def key(row: dict) -> tuple:
    return row["part"], row["work"], row["who"]


def cells(row: dict, about: dict) -> list[str]:
    low, high = row["quartiles"]
    backend = "torch" if row["who"] == "transformers" else about["backend"]
    products = row["work"] == "products"
    return [
        *key(row),
        f"{about['device']['name']}, {backend}, {about['precision']}",
        str(row["batch"]),
        f"{row['seconds'] * 1e3:.1f} ({low * 1e3:.1f}, {high * 1e3:.1f})",
        "–" if products else f"{row['sequences_per_second']:,.1f}",
        f"{row['flops_per_second'] / 1e12:.2f}",
        shown(row["of_datasheet"], ".1%"),
        shown(row["of_products"], ".1%"),
        aim(row),
        *(shown(row[name], ".2f", 2**30) for name in ("device_memory", "planned_memory")),
        "; ".join(filter(None, [row["computes"], row["why"]])),
    ]


def shown(value: float | None, form: str, unit: int = 1) -> str:
    return "–" if value is None else format(value / unit, form)


def aim(row: dict) -> str:
    return "–" if row["aim"] is None else f"aim {row['aim']:.0%} of datasheet"


def kernel_table(results: dict) -> str:
    """A Markdown table for each row whose kernels were counted and measured; "" for none."""
    tables = []
    for row in results["rows"]:
        if not (kinds := row.get("kernels")):
            continue
        total = [sum(column) for column in zip(*kinds.values(), strict=True)]
        lines = [("kernels", "number", "estimate, ms", "measured, ms", "measured ÷ estimate")]
        lines.append(("---",) * 5)
        largest = sorted(kinds.items(), key=lambda one: -one[1][2])
        for kind, (count, estimate, measured) in [*largest, ("all", total)]:
            ratio = shown(measured / estimate if estimate else None, ".2f")
            times = (f"{seconds * 1e3:.3f}" for seconds in (estimate, measured))
            lines.append((kind, f"{count:,}", *times, ratio))
        tables.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        tables[-1] = f"{row['part']}, {row['batch']} sequences, kbert on JAX\n\n{tables[-1]}"
    return "\n\n".join(tables)
