"""Measurements beside the peers: `python -m benchmarks` runs them, `--only` some of them.

What stands here may import kbert and any peer; nothing imports it but its own tests.
"""
