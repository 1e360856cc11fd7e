"""Fine-tuning and evaluation of the tasks with labels: `finetune`, `evaluate`."""
