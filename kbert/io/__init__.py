"""Input and output: atomic writes, bounded reads, JSON, text for a terminal.

This is the lowest layer of kbert, on the standard library alone: every module may import it, and it
imports none of them.
"""
