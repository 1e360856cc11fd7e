"""Weights in and out: `load`, `save`, and the formats of checkpoints that kbert reads and writes.

`formats.py` has their table. `kbert.exports` writes formats for serving alone, `kbert.hub` finds
models by their names.

Training, tasks, show and the command line may import it.
"""
