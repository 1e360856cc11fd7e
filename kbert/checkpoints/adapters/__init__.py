"""Low-rank adapters (LoRA): added to a model's weights, read and written as PEFT does."""
