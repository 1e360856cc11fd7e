"""KerasHub's presets and live backbones. Only `kbert.checkpoints` imports it."""
