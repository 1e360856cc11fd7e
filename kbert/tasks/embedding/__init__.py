"""Sentence vectors: `embed`, `similarity`."""

LONG_TEXTS = ("truncate", "window")  # what is done with a text that is too long
