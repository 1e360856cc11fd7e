"""SavedModel, ONNX, LiteRT: written for serving, not read."""
