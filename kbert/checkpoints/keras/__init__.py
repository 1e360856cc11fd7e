"""kbert's own `.keras` files. Only `kbert.checkpoints` imports it."""
