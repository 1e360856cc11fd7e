"""How anything is trained: what it minimizes, the engines, the loop, the run's folder.

`kbert.tasks` and the command line may import it; it knows no task.
"""
