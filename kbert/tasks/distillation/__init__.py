"""Distillation, shared by fine-tuning and pretraining: a student and its teacher."""
