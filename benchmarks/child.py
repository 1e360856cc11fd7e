"""The process of one contender: `python -m benchmarks.child MODULE:FUNCTION`, lines of JSON.

{"options": {…}} makes the work and does it once: {"made": seconds, "first": seconds}.
{"count": n} does it n times: {"seconds": of the clock, for one}.
Both say "processor", the seconds of all cores for one, and "memory", the MiB that the process has
held at most, libraries and all; its own processes, once they ended, are counted in. Where the work
returns a dict, that is in the answer as "found".
"""

import importlib
import json
import os
import resource
import sys
import time

from benchmarks import packages


def main(make: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    packages.hide(**json.loads(os.environ[packages.HIDDEN]))
    module, function = make.split(":")
    for line in sys.stdin:
        asked = json.loads(line)
        if "options" in asked:
            start = time.perf_counter()
            work = getattr(importlib.import_module(module), function)(**asked["options"])
            made = time.perf_counter() - start
            answer = timed(work, 1)
            answer = {"made": made, "first": answer.pop("seconds")} | answer
            answer["processor"] = processor()  # of all that was before too
        else:
            answer = timed(work, asked["count"])
        print(json.dumps(answer), file=answers, flush=True)


def timed(work, count: int) -> dict:
    before, start = processor(), time.perf_counter()
    found = work(count)
    seconds, used = time.perf_counter() - start, processor() - before
    answer = {"seconds": seconds / count, "processor": used / count, "memory": peak()}
    return answer | ({"found": found} if isinstance(found, dict) else {})


def processor() -> float:
    """Seconds of all cores since the start, with the processes that ended."""
    return sum(found.ru_utime + found.ru_stime for found in usages())


def peak() -> float:
    """MiB that the process, or one of its own that ended, has had at most."""
    return max(found.ru_maxrss for found in usages()) / 1024


def usages() -> list:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return [resource.getrusage(kind) for kind in kinds]


if __name__ == "__main__":
    main(sys.argv[1])
