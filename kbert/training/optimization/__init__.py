"""The optimizers' update rules, and the schedules of the learning rate."""
