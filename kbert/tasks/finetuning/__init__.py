"""What the tasks with labels share: `finetune`, `evaluate`."""
