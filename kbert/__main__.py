"""`python -m kbert`."""

from kbert.cli.main import main

main()
