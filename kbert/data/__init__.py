"""Text to arrays, arrays to batches; no Keras but for what it fits.

Models, checkpoints, training and tasks may import it.
"""
