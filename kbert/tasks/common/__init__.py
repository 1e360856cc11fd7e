"""Shared parts of the tasks: checks, encoding, inference in batches, metrics and intervals."""
