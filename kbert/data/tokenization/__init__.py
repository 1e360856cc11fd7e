"""Text to token ids: the vocabulary, WordPiece, `Tokenizer`.

Checkpoints, data and tasks may import it.
"""
