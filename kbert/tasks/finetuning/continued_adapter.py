"""A LoRA run on top of another: it continues the first's adapter, of the original base.

PEFT's `PeftModel.from_pretrained(base, adapter, is_trainable=True)`: the base's weights stay as
they are, training goes on with A, B and the head as the adapter's folder has them.
"""

import dataclasses
import logging
import os
from pathlib import Path

from kbert.checkpoints import run_models
from kbert.checkpoints.adapters import peft_folder
from kbert.checkpoints.adapters.adapter import LoraAdapter
from kbert.checkpoints.bert import Bert, load
from kbert.graph.closed_form import layers
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import (
    AdaptedMatrix,
    TrainedParts,
    read_lora_targets,
    trained_parts,
)
from kbert.hub import fetching
from kbert.hub.names import ModelName
from kbert.tasks.finetuning.settings import FinetuningSettings

_logger = logging.getLogger("kbert")


def find_adapter(source) -> Path | None:
    """Return the folder of the adapter at a source: the source itself, or within a finished run."""
    if not isinstance(source, (str, os.PathLike)):
        return None
    path = Path(source)
    if not path.exists():
        name = ModelName.parse(os.fspath(source))
        if name is not None:
            path = fetching.locate(source)
    if peft_folder.is_adapter(path) and not (path / "config.json").is_file():
        return path

    inner = path / "adapter"
    if run_models.is_run(path) and peft_folder.is_adapter(inner):
        return inner
    return None


def find_base(folder: Path) -> str:
    """Return the path or the address of the base that an adapter says it was trained on."""
    base = peft_folder.read(folder).base_path
    if base is None or not (Path(base).exists() or ModelName.parse(base)):
        raise ValueError(
            f"{folder / peft_folder.CONFIG}: base_model_name_or_path must be the path or the name "
            f"of the base, got {base!r}, which is not here: write the base's path there"
        )
    return base


def open_source(
    source: Bert | str | os.PathLike, settings: FinetuningSettings
) -> tuple[Bert, LoraAdapter | None]:
    """Open a model, and the adapter that the run continues, which is not in the model's weights.

    `source` is as `finetune` takes it, or the folder of an adapter. A ValueError says that an
    adapter has other settings than the run, or no base that is here.
    """
    if isinstance(source, Bert):
        return source, None
    lowercase = settings.lowercase
    folder = find_adapter(source)
    of_run = run_models.is_run(Path(source))
    if folder is None or (of_run and settings.lora_rank is None):
        return load(source, lowercase=lowercase), None
    if settings.lora_rank is None:
        return load(find_base(folder), adapter=folder, lowercase=lowercase), None

    adapter = peft_folder.read(folder)
    expected = _describe_adapter(adapter)
    alpha = settings.lora_rank if settings.lora_alpha is None else settings.lora_alpha
    targets = set(read_lora_targets(settings.lora_targets))
    if expected == _describe_lora(settings.lora_rank, targets, alpha):
        bert, adapter = _open_base(folder, adapter, lowercase)
        _logger.warning(
            "%s: its adapter is trained further, on the base %s", source, adapter.base_path
        )
        return bert, adapter

    if not of_run:
        raise ValueError(f"{source} has an adapter with other settings: give {expected}")
    _logger.warning(
        "%s has an adapter with other settings (%s): it is merged into the base, "
        "and a new adapter is trained",
        source,
        expected,
    )
    return load(source, lowercase=lowercase), None


def _open_base(
    folder: Path, adapter: LoraAdapter, lowercase: bool | None
) -> tuple[Bert, LoraAdapter]:
    """Open the base of an adapter, with the adapter's head; return it and the adapter on it."""
    from kbert.model.lora import kernel_of  # imports Keras

    base = find_base(folder)
    merged = load(base, adapter=folder, lowercase=lowercase)
    plain = load(base, tokenizer=False)  # bit for bit, which no subtraction would give
    for pair in adapter.pairs:
        matrix = AdaptedMatrix(*pair, 0, 0)
        kernel_of(merged.model, matrix).assign(kernel_of(plain.model, matrix))
    adapter = dataclasses.replace(adapter, base_path=base)
    return dataclasses.replace(merged, adapter=None), adapter


def choose_trained(
    settings: FinetuningSettings, spec: GraphSpec, source: Bert, adapter: LoraAdapter | None = None
) -> TrainedParts:
    """Return the trained parts of a graph. With LoRA, newly initialized layers are trained too.

    So are the layers that a continued adapter has trained as a whole; it must be on the same
    blocks.
    """
    present = {layer.name for layer in source.model.layers}
    new = {layer.name for layer in layers(spec)} - present
    if adapter is not None:
        new |= adapter.layers(spec.config)
    lora = (settings.lora_rank, settings.lora_targets, settings.lora_alpha)
    trained = trained_parts(spec, settings.freeze, *lora, also=new)
    if adapter is None:
        return trained

    adapter_blocks = {block for block, _ in adapter.pairs}
    different = adapter_blocks ^ {matrix.block for matrix in trained.adapted}
    if different:
        raise ValueError(
            f"freeze must leave the blocks that the adapter is on, got blocks {sorted(different)} "
            "on one side alone: give the first run's freeze"
        )
    return trained


def _describe_adapter(adapter: LoraAdapter) -> str:
    """Return the settings of `finetune` that have made an adapter."""
    a, _, scale = next(iter(adapter.pairs.values()))
    rank = a.shape[0]
    return _describe_lora(rank, {name for _, name in adapter.pairs}, scale * rank)


def _describe_lora(rank, names: set[str], alpha) -> str:
    """Return settings of `finetune`, such as those that have made an adapter."""
    ordered = ",".join(read_lora_targets(",".join(names)))
    return f"lora_rank={rank}, lora_targets={ordered!r}, lora_alpha={alpha:g}"
