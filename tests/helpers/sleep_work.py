"""Work for the benchmarks' tests: a function of options that returns a function of a count."""

import time


def sleeper(seconds):
    time.sleep(seconds)
    return lambda count: time.sleep(seconds * count)
