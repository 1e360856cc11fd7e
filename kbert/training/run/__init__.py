"""A run's folder: records, states, its page, its environment.

The loop and the tasks' runner may import it.
"""
