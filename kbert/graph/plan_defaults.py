"""What `kbert plan` takes where nothing is given; apart, so that a help page counts nothing."""

PAPER_STEPS = 1_000_000  # of 256 sequences (the paper, appendix A.2)
UTILIZATION = 0.4  # of the peak
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
