"""A run's folder: records, states, its page, its environment."""
