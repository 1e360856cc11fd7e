"""Work for the benchmarks' tests: it sleeps."""

import time


def sleeper(seconds):
    time.sleep(seconds)
    return lambda count: time.sleep(seconds * count)
