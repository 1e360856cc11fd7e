"""Faster computation of a model in training: cut into blocks, fused, with packed rows.

The models' class and `kbert.training.engines` may import it.
"""
