"""What a user asks of a pretraining run, new or resumed, and its data."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbert.checkpoints.inspection import inspect
from kbert.data.corpus.corpus_warnings import warn_of_corpus
from kbert.data.corpus.shards import open_shards
from kbert.data.pretraining.pretraining_batches import (
    PretrainingBatches,
    count_predictions,
    warn_of_long,
)
from kbert.graph.config import BertConfig
from kbert.graph.presets import get_config, is_preset
from kbert.io.remote_files import is_remote
from kbert.tasks.distillation.settings import check_teacher
from kbert.tasks.pretraining.planning import Corpus, plan_pretraining
from kbert.tasks.pretraining.settings import (
    PretrainingSettings,
    check_budget,
    check_dev,
    check_fits,
    check_init,
    check_length,
    check_ramp,
)
from kbert.training.run.run_folder import RunFolder
from kbert.training.run_plan import Request, find_sources, pin_models

SHARE = 0.05  # of the documents, where there are enough to spare them
ENOUGH_DOCUMENTS = 100
MOVABLE = ("shards", "dev", "teacher")  # what a resumed run may be given again


def request_pretraining(
    settings: PretrainingSettings,
    sources: Mapping[str, Any],
    config: BertConfig | str | os.PathLike | None = None,
    run: RunFolder | None = None,
) -> Request:
    """Return the request of a run; a ValueError if settings and models do not fit.

    `sources` are "shards", "dev", "init" and "teacher" as `pretrain` takes them, `config` too;
    None: the model has that of "init", or of the run that is resumed.
    """
    if run is None:
        check_length(settings)
        check_budget(settings)
        check_ramp(settings, sources.get("teacher") is not None)
        sources = pin_models(sources)
    check_teacher(settings, sources.get("teacher") is not None)
    check_init(settings, bool(sources.get("init")))
    return Request(
        command=settings.command,
        settings=settings,
        sources=sources,
        read=read_corpus,
        plan=plan_pretraining,
        config=config,
        run=run,
    )


def request_resumed(
    run: RunFolder, moved: Mapping[str, Any], options: Mapping[str, Any]
) -> Request:
    """Return the request of a run that is resumed.

    `moved` are sources that are elsewhere now, `options` settings, which must be the run's.
    """
    settings = PretrainingSettings.from_run(run, options)
    sources = find_sources(run, moved, MOVABLE)
    shards = sources["shards"]
    is_missing = not is_remote(shards) and not Path(shards).exists()
    if shards == run.data_paths["shards"] and is_missing:
        how = f"no such folder: if it has moved, kbert pretrain SHARDS --resume {run.path}"
        raise FileNotFoundError(f"{shards}: {how}")
    config = BertConfig.from_dict(run.settings["config"])
    return request_pretraining(settings, sources, config, run)


def read_corpus(request: Request) -> Corpus:
    """Open the shards, and choose the model's configuration."""
    settings = request.settings
    batches, held_out = open_batches(request.sources, settings)
    warn_of_corpus(batches.shards, pairs=not settings.mlm_only)
    if held_out is None and settings.patience is not None:
        raise ValueError(
            "patience must go with dev data, got none: give dev or dev_ratio, or leave it out"
        )
    if request.run is not None:
        return Corpus(batches, held_out, request.config)
    return Corpus(batches, held_out, _choose_config(request, batches))


def _choose_config(request: Request, batches: PretrainingBatches) -> BertConfig:
    """Return the configuration of a new model for the shards' vocabulary."""
    shards, init = batches.shards, request.sources.get("init")
    if init is not None:
        config = inspect(init).config
    else:
        config = get_config(request.config)
        if is_preset(str(request.config)):  # a user's own configuration stays
            config = config.replace(vocab_size=shards.vocab_size)
    name = init or "the configuration"
    check_fits(config, name, shards.vocab_size, request.settings.seq_len)
    dropout = request.settings.dropout
    if dropout is not None:
        config = config.replace(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    return config.replace(pad_token_id=shards.tokenizer.pad_id)


def open_batches(
    paths: Mapping[str, Any], settings: PretrainingSettings
) -> tuple[PretrainingBatches, PretrainingBatches | None]:
    """Return the batches to train with, and those to evaluate with or None.

    `paths` are the folders of "shards" and "dev"; the latter may be None.
    """
    shards, dev = open_shards(paths["shards"]), None
    share = settings.dev_ratio
    check_dev(settings, paths.get("dev") is not None)
    if paths.get("dev") is not None:
        dev = open_shards(paths["dev"])
        if dev.tokenizer.tokens != shards.tokenizer.tokens:
            raise ValueError(f"dev must have the vocabulary of {paths['shards']}, got another")
    elif share is None and shards.documents >= ENOUGH_DOCUMENTS:
        share = SHARE

    opened = [shards] if dev is None else [shards, dev]
    if share:
        shards, dev = shards.split(share)
    options: dict[str, Any] = {
        "batch_size": settings.batch_size,
        "seq_len": settings.seq_len,
        "max_predictions": settings.max_predictions,
        "seed": settings.seed,
        "mlm_probability": settings.mlm_probability,
        "short_seq_probability": settings.short_seq_probability,
        "whole_word": settings.whole_word,
        "mlm_only": settings.mlm_only,
        "separate_documents": settings.separate_documents,
    }
    batches = PretrainingBatches(shards, **options)
    probability = settings.evaluation_mlm_probability
    if probability is not None:
        # the graph has as many predictions for both
        most = max(batches.max_predictions, count_predictions(probability, settings.seq_len))
        options["max_predictions"] = most
        batches = PretrainingBatches(shards, **options)
        options["mlm_probability"] = probability
    held_out = None if dev is None else PretrainingBatches(dev, **options)
    if not settings.mlm_only:
        for whole in opened:
            warn_of_long(whole, settings.seq_len)
    return batches, held_out
