"""What a BERT is for, a folder each: what it reads, trains, evaluates and answers.

The command line may import it; tasks share the modules beside their folders.
"""
