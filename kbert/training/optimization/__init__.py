"""The optimizers, and the schedules of their learning rate."""
