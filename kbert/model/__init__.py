"""The graph in Keras: the builders, the models' class, the layers, probes, inference.

Checkpoints, show, training and tasks may import it; it imports `graph`, `data` and `io`.
"""
