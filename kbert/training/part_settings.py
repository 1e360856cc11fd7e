"""What a run that trains less than a whole model is asked for: frozen parts, adapters."""

import dataclasses
from dataclasses import dataclass

from kbert.graph.trained_parts import LORA_TARGETS


@dataclass(frozen=True, kw_only=True)
class PartSettings:
    """Settings of what a run trains, beside the others.

    Args:
        freeze: parts that stay as they are, between commas: "embeddings", "encoder", "pooler",
            "head", and blocks, from 1: "3" or "1-8"; None: none. They have no gradients and no
            moments.
        lora_rank: rank of low-rank adapters (Hu et al. 2021, arXiv 2106.09685), which are trained
            in the place of all weights but the head's; None: no adapters. The result has them in
            its weights, and as `Bert.adapter`; the run's folder, as adapter/, as PEFT writes it.
        lora_targets: which matrices have one, between commas: query, key, value, attention_output,
            intermediate, output; in each block that is not frozen.
        lora_alpha: they count lora_alpha / lora_rank times; None: once.
        lora_dropout: share of the numbers that go into each adapter's A which training leaves out,
            as PEFT's; W itself has all of them.

    Raises:
        ValueError: lora_targets, lora_alpha or lora_dropout without lora_rank.
    """

    freeze: str | None = None
    lora_rank: int | None = None
    lora_targets: str = LORA_TARGETS
    lora_alpha: float | None = None
    lora_dropout: float = 0.0

    def check_adapters(self) -> None:
        """A ValueError where something is said of adapters and there are none."""
        for name in ("lora_alpha", "lora_dropout", "lora_targets"):
            if self.lora_rank is None and getattr(self, name) != DEFAULTS[name]:
                raise ValueError(
                    f"{name} must go with lora_rank, the adapters' rank, got {name} alone: "
                    "give lora_rank too, or leave it out"
                )


DEFAULTS = {field.name: field.default for field in dataclasses.fields(PartSettings)}
