"""The graph for people: diagrams, the explorer, one W_Q, the verification, results as text.

The command line may import it; nothing below does.
"""
