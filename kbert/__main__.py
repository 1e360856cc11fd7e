"""`python -m kbert`."""

from kbert.cli import main

main()
