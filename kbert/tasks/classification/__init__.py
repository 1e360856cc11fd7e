"""Labels for a text or a pair: read, trained, `classify`, `next_sentence`."""
