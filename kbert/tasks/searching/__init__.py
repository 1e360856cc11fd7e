"""Texts for a query, the fitting ones first: `search`, `rank`."""

TOP = 10  # texts that a search finds
