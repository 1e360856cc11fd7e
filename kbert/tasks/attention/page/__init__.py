"""Attention as one page that opens anywhere: its data as bytes, its HTML, style and script.

Nothing here imports Keras.
"""
