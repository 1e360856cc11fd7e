"""Shards to masked batches: pairs or packed sequences, masking.

The pretraining task may import it.
"""
