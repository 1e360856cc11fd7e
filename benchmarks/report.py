"""What was measured, as tables to read, and kept: a line of records.jsonl per claim."""

import json
from pathlib import Path

from benchmarks.claims import Bound, Claim, Growth
from benchmarks.contenders import Contender
from benchmarks.figures import middle, of, quartiles
from benchmarks.machine import brand
from benchmarks.work import Work

RECORDS = Path(__file__).with_name("records.jsonl")
NOISY = 0.15  # of the median: a spread above it, and no ratio is claimed


def table(work: Work, turns: list[dict], contenders: dict[str, Contender]) -> dict:
    """Prints a line a contender; its figures by name."""
    rates = {
        name: flops / best
        for name, flops in work.peaks.items()
        if (best := middle(of(turns, name)))
    }
    rate = max(rates.values(), default=0)
    last = "of the products" if rate else f"{work.unit}/s" if work.unit else ""
    head = f"{'seconds (quartiles)':>26}{'processor':>11}{'first':>8}{'MiB':>7}{last:>17}"
    print(f"  {'':24}{head}".rstrip())
    found = {}
    for name, contender in contenders.items():
        if not of(turns, name):
            continue
        found[name] = of_one(name, turns)
        seconds = found[name]["seconds"]
        flops = rates[name] * seconds if name in rates else work.flops
        found[name]["of_the_products"] = flops / seconds / rate if rate else None
        shown = f"{flops / seconds / rate:.0%}" if rate else ""
        if work.unit:
            found[name]["rate"] = work.amount / seconds
            shown = f"{work.amount / seconds:,.1f}"
        print(line(name, found[name], shown, contender.computes), flush=True)
    if rate:
        print(f"  matrix products: {rate / 1e9:,.0f} GFLOP/s", flush=True)
    return found


def of_one(name: str, turns: list[dict]) -> dict:
    """A contender's figures over its turns."""
    starts = [turn for turn in turns if turn["contender"] == name and "first" in turn]
    figures = {
        "seconds": middle(of(turns, name)),
        "quartiles": quartiles(of(turns, name)),
        "processor": middle(of(turns, name, "processor")),
        "first": middle([turn["made"] + turn["first"] for turn in starts]),
        "memory": max(of(turns, name, "memory")),
    }
    says = of(turns, name, "found")
    return figures | ({"found": says[-1]} if says else {})


def line(name: str, figures: dict, last: str, computes: str) -> str:
    low, high = figures["quartiles"]
    says = ", ".join(f"{what} {value:.4g}" for what, value in figures.get("found", {}).items())
    return (
        f"  {name:24}{figures['seconds']:>10.3f} ({low:.3f}, {high:.3f})"
        f"{figures['processor']:>10.3f}{figures['first']:>8.2f}{figures['memory']:>7.0f}{last:>17}"
        f"  {says}  {computes}"
    ).rstrip()


def claimed(claim: Claim | Bound | Growth, turns: list[dict], work: Work) -> dict:
    """Prints a claim and what was measured of it."""
    peer, ratios = "", []
    for heat in sorted({turn["heat"] for turn in turns}):
        peer, ratios = claim.measured([turn for turn in turns if turn["heat"] == heat], work)
        if ratios:
            break
    found = {
        "row": claim.row,
        "ours": claim.ours,
        "at_least": claim.at_least,
        "aim": claim.aim,
        "figure": claim.figure,
        "ratio": None,
    }
    said = f"  {claim.row}: {claim.question}: "
    if not ratios:
        print(f"{said}not measured")
        return found
    low, high = quartiles(ratios)
    found |= {"peer": peer, "ratio": middle(ratios), "quartiles": (low, high)}
    found["noisy"] = (high - low) / middle(ratios) > NOISY
    if found["noisy"]:
        print(f"{said}{low:.2f} … {high:.2f}: too noisy a machine, no ratio is claimed")
        return found
    reached = "aim" if middle(ratios) >= claim.aim else "reached"
    reached = reached if middle(ratios) >= claim.at_least else "NOT reached"
    print(
        f"{said}{middle(ratios):.2f} ({low:.2f}, {high:.2f}) beside {peer}, "
        f"at least {claim.at_least}, aim {claim.aim}: {reached}",
        flush=True,
    )
    return found | {"verdict": reached}


def keep(about: dict, found: list[dict]) -> None:
    """Write the latest measurement of each row and processor into records.jsonl.

    A noisy measurement replaces only a noisy one.
    """
    kept = {(one["row"], one["processor"]): one for one in records()}
    about = about | {"processor": brand(about["processor"])}
    for work in found:
        for claim in work["claims"]:
            key = claim["row"], about["processor"]
            if claim["ratio"] is None or (claim["noisy"] and not kept.get(key, claim)["noisy"]):
                continue
            figures = work["contenders"]
            names = [name for name in (claim["peer"], claim["ours"]) if name in figures]
            kept[key] = {
                "row": claim["row"],
                "processor": about["processor"],
                "work": work["work"],
                "title": work["title"],
                **claim,
                "contenders": {name: figures[name] for name in names or figures},
                "about": about,
            }
    lines = [json.dumps(kept[key], ensure_ascii=False) + "\n" for key in sorted(kept)]
    RECORDS.write_text("".join(lines), encoding="utf-8")
    print(f"\nkept in {RECORDS.name}")


def records() -> list[dict]:
    """The kept measurements, sorted by row and processor."""
    text = RECORDS.read_text(encoding="utf-8") if RECORDS.exists() else ""
    return [json.loads(line) for line in text.splitlines()]
