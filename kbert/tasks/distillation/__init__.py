"""A student and its teacher: what fine-tuning and pretraining share of distillation."""
