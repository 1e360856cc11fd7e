"""Learning rates of transformers' and torch's schedules: what kbert's are compared with."""

from pathlib import Path

import numpy as np


def write_rates(out: Path, peak: float, steps: list, schedules: dict) -> None:
    """Write rates.npz: of each schedule the rates at the steps, float64, in the order given.

    `schedules` have the name of a function of transformers', or "OneCycleLR", and its options.
    """
    rates = {name: rates_of(peak, steps, *call) for name, call in schedules.items()}
    np.savez(out / "rates.npz", **rates)


def rates_of(peak: float, steps: list, function: str, options: dict) -> list[float]:
    import torch
    import transformers

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=peak)
    if function == "OneCycleLR":
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, peak, cycle_momentum=False, **options
        )
        found = []
        for step in steps:
            schedule.last_epoch = step
            schedule._get_lr_called_within_step = True  # else a warning
            found += schedule.get_lr()
        return found
    schedule = getattr(transformers, function)(optimizer, **options)
    return [peak * schedule.lr_lambdas[0](step) for step in steps]
