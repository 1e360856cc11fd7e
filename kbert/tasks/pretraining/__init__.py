"""Masked language model and next sentence: `pretrain`."""
