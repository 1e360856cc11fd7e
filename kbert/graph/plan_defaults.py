"""Defaults of `kbert plan`, in a module of their own so that a help page computes nothing."""

PAPER_STEPS = 1_000_000  # of 256 sequences (the paper, appendix A.2)
UTILIZATION = 0.4  # of the peak
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
