"""Labels for words: CoNLL read, trained, `tag`."""
