"""Weights in and out: `load`, `save`, six formats read, four written, and exports for serving.

Training, tasks, show and the command line may import it.
"""
