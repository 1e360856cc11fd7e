"""Training of any model: the loss, the step, the loop, the run's folder.

`kbert.tasks` and the command line may import it; it knows no task.
"""
