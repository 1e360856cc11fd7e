"""Shared parts of the readers of labelled data: columns, lines, rows in memory, windows, buckets.

The folders of `kbert.tasks` may import it.
"""
