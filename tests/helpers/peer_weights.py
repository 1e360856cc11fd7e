"""Weights of the peers' small models, the same with every release of torch and transformers."""

import numpy as np


def draw_weights(model, seed: int, fraction: int = 64) -> None:
    """Set all parameters to random multiples of 1/64: far from 0, and few bytes in a zip file."""
    import torch

    random = np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            mean = 1.0 if name.lower().endswith("norm.weight") else 0.0
            values = random.normal(mean, 0.2, tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(np.round(values * fraction) / fraction))
