"""Runs what `benchmarks.works` lists: `python -m benchmarks [--only NAME …] [--rounds 5]`.

Prints a table for each work and what it claims. With --record it writes each claim into
benchmarks/records.jsonl, in place of the last one of the same row and processor.
Installed peers: `pip install ".[benchmarks]"` in the clone.
"""

import argparse
import contextlib
import itertools
import json
import sys
import tempfile
from dataclasses import replace

from benchmarks import machine, report, vectors
from benchmarks.contenders import Contender, Failed, Process
from benchmarks.work import Work
from benchmarks.works import works


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the works")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="some of their claims")
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
    if arguments.rows:
        chosen = [cut for work in chosen if (cut := with_rows(work, arguments.rows)).claims]
        if not chosen:
            parser.error(f"--rows must be of these works, got {', '.join(arguments.rows)}")
    for work in chosen:
        if problem := too_large(work):
            parser.error(problem)
    about = machine.described() | {"command": " ".join(["python -m benchmarks", *sys.argv[1:]])}
    print(json.dumps(about), flush=True)
    found = [run(work, arguments.rounds) for work in chosen]
    if arguments.record:
        report.keep(about, found)
    return 0


def with_rows(work: Work, rows: list[str]) -> Work:
    """The work with the claims of some rows alone, and who takes turns for them."""
    claims = [claim for claim in work.claims if claim.row in rows]
    names = {name for claim in claims for name in claim.names}
    contenders = tuple(one for one in work.contenders if one.name in names)
    return replace(work, claims=claims, contenders=contenders)


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
    claimed = [list(claim.names) for claim in work.claims]
    left = {one.name for one in work.contenders} - {*work.peaks, *itertools.chain(*claimed)}
    first = [names[0] for names in claimed[:1]]
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
    with tempfile.TemporaryDirectory() as folder:
        contenders = {one.name: one for one in those_there(work, folder)}
        peaks = [contenders[name] for name in work.peaks if name in contenders]
        turns: list[dict] = []
        for number, names in enumerate(heats(work, set(contenders)), start=1):
            here = [contenders[name] for name in names if name not in work.peaks]
            turns += in_turns(work, [*here, *peaks], rounds, number)
    figures = {
        "work": work.name,
        "title": work.title,
        "turns": turns,
        "computes": {name: one.computes for name, one in contenders.items() if one.computes},
        "contenders": report.table(work, turns, contenders),
    }
    return figures | {"claims": [report.claimed(claim, turns, work) for claim in work.claims]}


def those_there(work: Work, folder: str) -> list[Contender]:
    """The contenders with all that they need, each with the folder of the work's files."""
    if work.files:
        made = with_folder(work.files, folder)
        if missing := made.missing():
            print(f"  left out, not there: {', '.join(missing)}")
            return []
        with Process(made) as process:
            process.ask(options=made.options)
    found = []
    for contender in work.contenders:
        if missing := contender.missing():
            print(f"  {contender.name}: left out, not installed: {', '.join(missing)}")
        else:
            found.append(with_folder(contender, folder) if work.files else contender)
    return found


def with_folder(contender: Contender, folder: str) -> Contender:
    return replace(contender, options=contender.options | {"folder": folder})


def in_turns(work: Work, contenders: list[Contender], rounds: int, heat: int) -> list[dict]:
    """A record a turn; who fails is left out from there on, by name."""
    turns, processes = [], {}
    who = "; ".join(contender.name for contender in contenders)
    print(f"heat {heat} of {work.name}, {rounds} rounds: {who}", file=sys.stderr, flush=True)
    with contextlib.ExitStack() as stack:
        for contender in contenders:
            process = stack.enter_context(contender.start())
            try:
                started = process.ask(options=contender.options) if not contender.fresh else {}
                if work.warm:
                    process.ask(count=work.count)
            except Failed as failed:
                print(f"  {contender.name}: left out: {failed}", flush=True)
                continue
            processes[contender.name] = process
            if started:
                first = {name: started[name] for name in ("made", "first")}
                turns.append({"contender": contender.name, "heat": heat, "round": 0} | first)
        for number in range(1, rounds + 1):
            for name, process in list(processes.items()):
                try:
                    answer = process.ask(count=work.count)
                except Failed as failed:
                    print(f"  {name}: left out from round {number} on: {failed}", flush=True)
                    del processes[name]
                    continue
                turns.append({"contender": name, "heat": heat, "round": number} | answer)
    return turns


if __name__ == "__main__":
    sys.exit(main())
