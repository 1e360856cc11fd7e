"""Tasks of a BERT, one folder each: reading, training, evaluation and inference.

The command line may import it; tasks share the modules outside their folders.
"""
