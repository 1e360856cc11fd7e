"""Answers in a context: SQuAD read, trained, `answer`."""
