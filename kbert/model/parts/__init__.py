"""A model's parts in training, beside the graph: cut into blocks, fused, of packed rows; the kits.

The models' class and `kbert.training.engines` may import it.
"""
