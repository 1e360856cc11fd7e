"""Attention maps of texts: `attention`, and their picture."""

SPECIAL = ("clipped", "hidden", "whole")  # how a picture shows [CLS] and [SEP]
