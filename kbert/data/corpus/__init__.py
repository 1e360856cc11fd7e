"""Raw text to shards of token ids: files, sentences, a vocabulary trained, processes, shards.

`kbert.data.pretraining` and the pretraining task may import it.
"""
