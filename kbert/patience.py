"""How long something takes before it is said that it is under way."""

PATIENCE_S = 2.0
