"""Checkpoints in and out."""
