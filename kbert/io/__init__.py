"""What goes in and out: files written whole, others' read within bounds, JSON, text for a terminal.

The bottom of the house, standard library alone: everyone may import it, it imports nobody.
"""
