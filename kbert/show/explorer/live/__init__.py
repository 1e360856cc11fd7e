"""The live part of the explorer's page: a checkpoint's weights and tokenizer, for its scripts."""
