"""The kept measurements of benchmarks/records.jsonl, as a table."""

import json
from pathlib import Path

from from_code.table import table

RECORDS = Path(__file__).parents[2] / "benchmarks" / "records.jsonl"


def page() -> str:
    """A line per row and processor."""
    records = map(json.loads, RECORDS.read_text(encoding="utf-8").splitlines())
    header = "row, work, metric, peer / kbert, ratio, quartiles, required, aim, verdict, processor"
    return table([*header.split(", "), "date", "commit"], map(_cells, records))


def _cells(record: dict) -> list:
    low, high = record["quartiles"]
    return [
        *(record["row"], record["title"], record["figure"]),
        f"{record['peer']} / {record['ours']}",
        "–" if record["noisy"] else f"{record['ratio']:.2f}",
        *(f"{low:.2f} … {high:.2f}", str(record["at_least"]), str(record["aim"])),
        record.get("verdict", "too noisy"),
        *(record["processor"], record["about"]["date"], record["about"]["commit"]),
    ]
