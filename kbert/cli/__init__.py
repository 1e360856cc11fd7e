"""The command line: parses, checks, calls, prints.

The top of the house: nobody imports it.
"""
