"""BERT's graph in closed form: configurations, names, rows, parameters, FLOPs; no Keras, no NumPy.

Everyone above `io` may import it. It never sees `kbert.model`: two derivations, one test.
"""
