"""Runs what `benchmarks.works` lists: `python -m benchmarks [--only NAME …] [--rounds 5]`.

Prints a table for each work and what it claims, and with --record writes
benchmarks/records/DATE-COMMIT.json and a row a claim at the end of benchmarks/RESULTS.md.
Installed peers: `pip install "kbert-keras[benchmarks]"`.
"""

import argparse
import itertools
import json
import statistics
import sys
from pathlib import Path

from benchmarks import machine, vectors
from benchmarks.contenders import Contender, Failed, Process
from benchmarks.works import Claim, Work, works

HERE = Path(__file__).parent
NOISY = 0.15  # of the median: a spread above it, and no ratio is claimed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the works")
    parser.add_argument("--list", action="store_true", help="their names, and no more")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender")
    parser.add_argument("--record", action="store_true", help="keep the figures")
    arguments = parser.parse_args()
    known = {work.name: work for work in works()}
    for line in vectors.missing():
        print(line, file=sys.stderr)
    if arguments.list:
        print("\n".join(f"{name:24}{work.title}" for name, work in known.items()))
        return 0
    if unknown := set(arguments.only or ()) - set(known):
        parser.error(f"--only must be of {', '.join(known)}, got {', '.join(sorted(unknown))}")
    if arguments.rounds < 2:
        parser.error(f"--rounds must be at least 2, or no spread is seen, got {arguments.rounds}")
    chosen = [known[name] for name in arguments.only or known]
    for work in chosen:
        if problem := too_large(work):
            parser.error(problem)
    about = machine.described() | {"command": " ".join(["python -m benchmarks", *sys.argv[1:]])}
    print(json.dumps(about), flush=True)
    found = [run(work, arguments.rounds) for work in chosen]
    if arguments.record:
        keep(about, found)
    return 0


def too_large(work: Work) -> str:
    """Why the machine has too little memory, or ""."""
    needed = max(len(heat) for heat in smallest_heats(work)) * work.memory
    if needed <= machine.free_memory():
        return ""
    return (
        f"{work.name} needs about {needed:,} MiB, the machine has {machine.free_memory():,} free: "
        "leave it out by --only"
    )


def smallest_heats(work: Work) -> list[list[str]]:
    """Who has to be there at once: each claim's; whoever has no claim, beside the first's ours."""
    claimed = [[claim.ours, *claim.peers] for claim in work.claims]
    left = {one.name for one in work.contenders} - {*work.peaks, *itertools.chain(*claimed)}
    first = [claim.ours for claim in work.claims[:1]]
    others = [one.name for one in work.contenders if one.name in left]
    return claimed + [[*first, name] for name in others]


def heats(work: Work, there: set[str]) -> list[list[str]]:
    """Contenders that take turns with each other: as many claims at once as the memory holds."""
    most = max(machine.free_memory() // work.memory, 1)
    merged: list[list[str]] = []
    for names in smallest_heats(work):
        names = [name for name in names if name in there]
        for heat in merged:
            together = list(dict.fromkeys([*heat, *names]))
            if len(together) <= most:
                heat[:] = together
                break
        else:
            merged.append(list(dict.fromkeys(names)))
    return merged


def run(work: Work, rounds: int) -> dict:
    """Measures, prints and returns the figures of one work."""
    print(f"\n{work.name}: {work.title}", flush=True)
    contenders = {}
    for contender in work.contenders:
        if missing := contender.missing():
            print(f"  {contender.name}: left out, not installed: {', '.join(missing)}")
        else:
            contenders[contender.name] = contender
    peaks = [contenders[name] for name in work.peaks if name in contenders]
    turns = []
    for number, names in enumerate(heats(work, set(contenders)), start=1):
        turns += in_turns(work, [*(contenders[name] for name in names), *peaks], rounds, number)
    figures = {
        "work": work.name,
        "title": work.title,
        "turns": turns,
        "computes": {name: one.computes for name, one in contenders.items() if one.computes},
        "contenders": table(work, turns, contenders),
    }
    return figures | {"claims": [claimed(claim, turns) for claim in work.claims]}


def in_turns(work: Work, contenders: list[Contender], rounds: int, heat: int) -> list[dict]:
    """A record a turn; who fails is left out from there on, by name."""
    turns, processes = [], {}
    who = "; ".join(contender.name for contender in contenders)
    print(f"heat {heat} of {work.name}, {rounds} rounds: {who}", file=sys.stderr, flush=True)
    try:
        for contender in contenders:
            process = Process(contender)
            processes[contender.name] = process
            try:
                started = process.ask(options=contender.options)
                process.ask(count=work.count)  # warm
            except Failed as failed:
                print(f"  {contender.name}: left out: {failed}", flush=True)
                processes.pop(contender.name).__exit__()
                continue
            turns.append({"contender": contender.name, "heat": heat, "round": 0} | started)
        for number in range(1, rounds + 1):
            for name, process in processes.items():
                answer = process.ask(count=work.count)
                turns.append({"contender": name, "heat": heat, "round": number} | answer)
    finally:
        for process in processes.values():
            process.__exit__()
    return turns


def table(work: Work, turns: list[dict], contenders: dict[str, Contender]) -> dict:
    """Prints a line a contender; its figures by name."""
    rates = {
        name: flops / best
        for name, flops in work.peaks.items()
        if (best := middle(of(turns, name)))
    }
    rate = max(rates.values(), default=0)
    print(
        f"  {'':24}{'seconds (quartiles)':>26}{'processor':>11}{'first':>8}{'MiB':>7}"
        f"{'of the products':>17}"
    )
    found = {}
    for name in contenders:
        if not (seconds := of(turns, name)):
            continue
        first = middle(
            [
                turn["made"] + turn["first"]
                for turn in turns
                if turn["contender"] == name and "first" in turn
            ]
        )
        flops = rates[name] * middle(seconds) if name in rates else work.flops
        found[name] = {
            "seconds": middle(seconds),
            "quartiles": quartiles(seconds),
            "processor": middle(of(turns, name, "processor")),
            "first": first,
            "memory": max(of(turns, name, "memory")),
            "of_the_products": flops / middle(seconds) / rate if rate else None,
        }
        low, high = found[name]["quartiles"]
        share = f"{found[name]['of_the_products']:.0%}" if rate else ""
        print(
            f"  {name:24}{middle(seconds):>10.3f} ({low:.3f}, {high:.3f})"
            f"{found[name]['processor']:>10.3f}{first:>8.1f}{found[name]['memory']:>7.0f}{share:>17}"
            f"  {contenders[name].computes}".rstrip()
        )
    if rate:
        print(f"  matrix products: {rate / 1e9:,.0f} GFLOP/s", flush=True)
    return found


def claimed(claim: Claim, turns: list[dict]) -> dict:
    """Prints a claim and what was measured of it."""
    ratios = []
    for heat in sorted({turn["heat"] for turn in turns}):
        here = [turn for turn in turns if turn["heat"] == heat]
        names = [name for name in claim.peers if of(here, name, claim.figure)]
        if names and of(here, claim.ours, claim.figure):
            best = min(names, key=lambda name: middle(of(here, name, claim.figure)))
            pairs = zip(
                of(here, best, claim.figure), of(here, claim.ours, claim.figure), strict=False
            )
            ratios += [theirs / ours for theirs, ours in pairs]
            break
    found = {
        "row": claim.row,
        "ours": claim.ours,
        "at_least": claim.at_least,
        "aim": claim.aim,
        "figure": claim.figure,
        "ratio": None,
    }
    said = f"  {claim.row}: {claim.figure}, {' or '.join(claim.peers)} / {claim.ours}: "
    if not ratios:
        print(f"{said}not measured")
        return found
    low, high = quartiles(ratios)
    found |= {"peer": best, "ratio": middle(ratios), "quartiles": (low, high)}
    found["noisy"] = (high - low) / middle(ratios) > NOISY
    if found["noisy"]:
        print(f"{said}{low:.2f} … {high:.2f}: too noisy a machine, no ratio is claimed")
        return found
    reached = "aim" if middle(ratios) >= claim.aim else "reached"
    reached = reached if middle(ratios) >= claim.at_least else "NOT reached"
    print(
        f"{said}{middle(ratios):.2f} ({low:.2f}, {high:.2f}) beside {best}, "
        f"at least {claim.at_least}, aim {claim.aim}: {reached}",
        flush=True,
    )
    return found | {"verdict": reached}


def of(turns: list[dict], name: str, figure: str = "seconds") -> list[float]:
    return [turn[figure] for turn in turns if turn["contender"] == name and figure in turn]


def middle(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0


def quartiles(values: list[float]) -> tuple[float, float]:
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def keep(about: dict, found: list[dict]) -> None:
    """The record as JSON, and a row a claim in RESULTS.md."""
    folder = HERE / "records"
    folder.mkdir(exist_ok=True)
    name = f"{about['date']}-{about['commit']}"
    place = folder / f"{name}.json"
    number = 1
    while place.exists():
        number += 1
        place = folder / f"{name}-{number}.json"
    place.write_text(json.dumps({"about": about, "works": found}, indent=1) + "\n")
    lines = []
    for work in found:
        for claim in work["claims"]:
            if claim["ratio"] is None:
                continue
            low, high = claim["quartiles"]
            verdict = "too noisy" if claim["noisy"] else claim["verdict"]
            shown = "–" if claim["noisy"] else f"{claim['ratio']:.2f}"
            lines.append(
                f"| {about['date']} | {about['commit']} | {claim['row']} | {work['title']} | "
                f"{claim['figure']} | {claim['peer']} / {claim['ours']} | {shown} | "
                f"{low:.2f} … {high:.2f} | {claim['at_least']}, {claim['aim']} | {verdict} |"
            )
    with (HERE / "RESULTS.md").open("a", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))
    print(f"\nkept in {place.name} and RESULTS.md")


if __name__ == "__main__":
    sys.exit(main())
