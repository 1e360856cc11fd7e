"""What a run is told, of either kind: settings from keyword arguments, and its surroundings."""

import dataclasses
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, get_args

from kbert.io import json_schema as js
from kbert.training.setting_rules import checked


class RunSettings:
    """What the settings of `pretrain` and `finetune`, which are dataclasses, have in common."""

    command: ClassVar[str]
    kept_fields: ClassVar[dict]  # what else a run's settings.json has, and its kind

    @classmethod
    def of(cls, options: dict):
        """From keyword arguments; a ValueError names one that there is not."""
        names = [field.name for field in dataclasses.fields(cls)]
        for name in options:
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
                raise ValueError(f"{cls.command} has no option {name!r}: {hint}")
        return cls(**options)

    def __post_init__(self):
        optional = {
            field.name for field in dataclasses.fields(self) if type(None) in get_args(field.type)
        }
        for name, value in checked(vars(self), optional).items():
            object.__setattr__(self, name, value)

    @classmethod
    def check_kept(cls, run) -> None:
        """Raises a ValueError where a run's settings.json has not what `rules` says."""
        names = [field.name for field in dataclasses.fields(cls)]
        source = str(run.path / "settings.json")
        kinds = dict.fromkeys(names, js.ANYTHING) | cls.kept_fields
        js.check(run.settings, js.fields(kinds), source, "settings")
        try:
            cls(**{name: run.settings[name] for name in names})
        except ValueError as error:
            raise ValueError(f"{source}: settings.{error}") from None


@dataclass(frozen=True)
class Surroundings:
    """What may differ between two starts of a run.

    Args:
        devices: how many local devices; None: all.
        callbacks: Keras's.
        show: whether the live line is written.
        peak_flops: FLOP/s of all devices together, for the MFU; None: a matrix product is timed.
        keep: what stays in the run's folder once it is finished: "model", or "all", the last two
            training states and the best as well, each three times the model's size; None:
            "model", and for a run that goes on what it began with.

    Raises:
        ValueError: a value out of its range.
    """

    devices: int | None = None
    callbacks: Sequence = ()
    show: bool = True
    peak_flops: float | None = None
    keep: str | None = None

    def __post_init__(self):
        names = ("devices", "show", "peak_flops", "keep")
        checked({name: getattr(self, name) for name in names}, ("devices", "peak_flops", "keep"))

    def peak(self, precision: str, replicas: int) -> tuple[float, str]:
        """FLOP/s of all devices together, and where the number is from."""
        from kbert.training.loop.throughput import measured_peak

        if self.peak_flops is not None:
            return self.peak_flops, "given"
        return measured_peak(precision, replicas)
