"""Writes slow_tests.txt: which tests are not in the quick round, from a run of all of them.

pytest --junitxml=report.xml && python -m helpers.list_slow report.xml

A test is slow if one of its cases took more than a second, with the fixtures that it was the first
to need.
"""

import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

LIST = Path(__file__).with_name("slow_tests.txt")
MOST_S = 1.0


def main(report: str) -> None:
    longest: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        test = (
            case.get("classname").replace(".", "/") + ".py::" + case.get("name").partition("[")[0]
        )
        longest[test] = max(longest[test], float(case.get("time")))
    slow = sorted(test for test, seconds in longest.items() if seconds > MOST_S)
    LIST.write_text("\n".join(slow) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
