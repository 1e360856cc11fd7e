"""SavedModel, ONNX, LiteRT: written for serving, not read. Only `kbert.checkpoints` imports it."""
