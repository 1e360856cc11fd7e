"""Tasks of a BERT, one folder each: reading, training, evaluation and inference.

The command line may import it; tasks share the modules outside their folders.
"""

# mixed_bfloat16 computes in bfloat16, as in training; inference keeps no float32 weights.
PRECISIONS = ("float32", "bfloat16", "mixed_bfloat16")
