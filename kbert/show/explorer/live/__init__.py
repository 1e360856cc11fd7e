"""The live part of the explorer's page: a sentence through a checkpoint.

The page's scripts compute it with the checkpoint's weights and tokenizer (`contents.py`); or it has
recordings, or asks kbert on the same machine. `page/live/client.js` describes what Python and
JavaScript agree on: a request, and a trace with every tensor of the forward pass by its name.
"""
