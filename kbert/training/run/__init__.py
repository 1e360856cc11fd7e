"""A run's folder: records, states, its page, what it was made with.

The loop and the tasks' runner may import it.
"""
