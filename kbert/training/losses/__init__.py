"""The losses, by name, and the objective that they add up to."""
