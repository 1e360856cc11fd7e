"""Attention maps of texts: `attention`, and their picture."""
