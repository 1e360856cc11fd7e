"""The process of one contender: `python -m benchmarks.child MODULE:FUNCTION`, lines of JSON.

{"options": {…}} makes the work and does it once: {"made": seconds, "first": seconds}.
{"count": n} does it n times: {"seconds": of the clock, "processor": of all cores, both for one;
"memory": MiB that the process has held at most, libraries and all}.
"""

import importlib
import json
import os
import resource
import sys
import time


def main(make: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    module, function = make.split(":")
    for line in sys.stdin:
        asked = json.loads(line)
        if "options" in asked:
            start = time.perf_counter()
            work = getattr(importlib.import_module(module), function)(**asked["options"])
            made = time.perf_counter()
            work(1)
            answer = {"made": made - start, "first": time.perf_counter() - made}
        else:
            answer = timed(work, asked["count"]) | {"memory": peak()}
        print(json.dumps(answer), file=answers, flush=True)


def timed(work, count: int) -> dict:
    start, processor = time.perf_counter(), time.process_time()
    work(count)
    spent = time.perf_counter() - start, time.process_time() - processor
    return {"seconds": spent[0] / count, "processor": spent[1] / count}


def peak() -> float:
    """MiB that the process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(sys.argv[1])
