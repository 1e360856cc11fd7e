"""Sentence vectors: `embed`, `similarity`."""
