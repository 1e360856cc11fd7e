"""Figures for papers and slides: the architecture, and the input of a text.

`shapes` is what a figure consists of. `architecture` and `input_figure` place the shapes; `svg`,
`tikz` and `picture` write them; `named_sources` does both for what a user names.
"""
