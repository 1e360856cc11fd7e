"""Models for inference elsewhere: SavedModel, ONNX, LiteRT; one file a format."""
