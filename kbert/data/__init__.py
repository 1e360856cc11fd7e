"""Text to examples to batches."""
