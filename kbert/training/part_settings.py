"""Settings of a run that trains parts of a model: frozen parts, adapters."""

import dataclasses
from dataclasses import dataclass

from kbert.graph.trained_parts import LORA_TARGETS


@dataclass(frozen=True, kw_only=True)
class PartSettings:
    """Settings for training only parts of a model.

    Args:
        freeze: parts that are not trained, separated by commas: "embeddings", "encoder", "pooler",
            "head", and blocks, counted from 1, such as "3" or "1-8". None: all are trained. Frozen
            parts have no gradients and no moments.
        lora_rank: rank of low-rank adapters (Hu et al. 2021, arXiv 2106.09685), which are trained
            instead of all weights except the head's. None: no adapters. The result contains them,
            merged into its weights and as `Bert.adapter`; the run's folder contains them as
            adapter/, in PEFT's format.
        lora_targets: matrices that get an adapter, separated by commas: query, key, value,
            attention_output, intermediate, output; in each block that is not frozen.
        lora_alpha: scale of the adapters: they count lora_alpha / lora_rank times. None: once.
        lora_dropout: dropout rate of the adapters' inputs, as in PEFT. The base weights' inputs
            have no dropout from it.

    Raises:
        ValueError: lora_targets, lora_alpha or lora_dropout without lora_rank.
    """

    freeze: str | None = None
    lora_rank: int | None = None
    lora_targets: str = LORA_TARGETS
    lora_alpha: float | None = None
    lora_dropout: float = 0.0

    def check_adapters(self) -> None:
        """Raise a ValueError for settings of adapters if there are no adapters."""
        for name in ("lora_alpha", "lora_dropout", "lora_targets"):
            if self.lora_rank is None and getattr(self, name) != DEFAULTS[name]:
                raise ValueError(
                    f"{name} must go with lora_rank, the adapters' rank, got {name} alone: "
                    "give lora_rank too, or leave it out"
                )


DEFAULTS = {field.name: field.default for field in dataclasses.fields(PartSettings)}
