"""The activations of transformers at some numbers, run in a process of its own.

    python -m helpers.peer_activations OUT

writes OUT/activations.npz: the numbers, and the value of each activation under its name.
"""

import sys
from pathlib import Path

import numpy as np


def main(out: Path) -> None:
    import torch
    from transformers.activations import ACT2FN

    numbers = np.array([*np.linspace(-12, 12, 241), 1e-3, -1e-3], "float32")
    plain = set(ACT2FN) - {"prelu", "xielu"}  # they have weights
    values = {name: ACT2FN[name](torch.from_numpy(numbers)).numpy() for name in sorted(plain)}
    np.savez(out / "activations.npz", numbers=numbers, **values)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
