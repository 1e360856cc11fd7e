"""The graph for people: diagrams, pictures, one W_Q, the verification, results as text.

The command line may import it; nothing below does.
"""
