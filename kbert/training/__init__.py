"""Training: what is minimized, how a step is done on each backend, and the run around it."""
