"""What several tasks share: their checks, encoding, batches of inference, metrics and intervals."""
