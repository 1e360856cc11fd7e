"""What readers of labelled data share: columns, lines, rows in memory, windows, buckets by length.

The folders of `kbert.tasks` may import it.
"""
