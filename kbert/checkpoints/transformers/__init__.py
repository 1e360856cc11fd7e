"""The folders that transformers and TFBert write. Only `kbert.checkpoints` imports it."""
