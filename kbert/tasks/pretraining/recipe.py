"""Pretraining as a recipe: shards of text, MLM and NSP, a held-out part to evaluate with."""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.bert import Bert, load
from kbert.data.corpus.corpus_warnings import warn_of_corpus
from kbert.data.corpus.shards import open_shards
from kbert.data.pretraining.pretraining_batches import PretrainingBatches, warn_of_long
from kbert.graph import names
from kbert.graph.config import BertConfig
from kbert.graph.presets import get_config, is_preset
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import trained_parts
from kbert.heads import HEADS
from kbert.model.deferred import build_with, layers_of
from kbert.tasks.checks import MLM_LAYERS, load_of_casing, require_head
from kbert.tasks.distillation.distillation import Distillation, open_teacher
from kbert.tasks.distillation.settings import check_teacher
from kbert.tasks.pretraining.settings import PretrainingSettings, check_fits
from kbert.training.loop.history import History
from kbert.training.loss import LOSSES
from kbert.training.recipe import Recipe, choose_variant, digest_base
from kbert.training.run.run_folder import RunFolder

SHARE = 0.05  # of the documents, where there are enough to spare them
ENOUGH_DOCUMENTS = 100


@dataclass(frozen=True)
class Trained:
    """The result of a pretraining run.

    Attributes:
        bert: the model, for sequences of any length, with the shards' tokenizer.
        history: a `kbert.training.loop.history.History`.
        folder: the run's folder.
    """

    bert: Bert
    history: History
    folder: Path

    def __repr__(self) -> str:
        return f"Trained({self.bert}, {self.history}, {self.folder.name!r})"


class Pretraining(Recipe):
    """See `Recipe`.

    Args:
        settings: the run's.
        sources: "shards", "dev", "init" and "teacher" as `pretrain` takes them.
        config: as `pretrain` takes it; None: the model has that of "init".
    """

    command, verb, settings_type = "pretrain", "pretrained", PretrainingSettings
    base, needed, may_move = "init", ("shards",), ("shards", "dev", "teacher")
    score, title = "-loss", "Pretraining a BERT"
    config: BertConfig

    def __init__(
        self,
        settings: PretrainingSettings,
        sources: dict,
        config: BertConfig | str | os.PathLike | None = None,
    ):
        super().__init__(settings, sources)
        check_teacher(settings, sources.get("teacher") is not None)
        self._preset = config
        self.resumed_config: BertConfig | None = None
        init = sources.get("init")
        self.base_address = init if init and "://" in init else None
        for name in ("freeze", "lora_rank"):
            value = getattr(settings, name)
            if value is not None and not init:
                raise ValueError(
                    f"{name} needs a checkpoint to start from (init), got {value!r} without one: "
                    f"give init, or leave {name} out"
                )
        # the settings have put their numbers for None
        assert settings.warmup_steps is not None and settings.evaluate_every is not None
        self.steps, self.warmup_steps = settings.steps, settings.warmup_steps
        self.evaluate_every = settings.evaluate_every

    @classmethod
    def from_run(cls, run: RunFolder, settings: PretrainingSettings, sources: dict):
        shards = sources["shards"]
        if shards == run.data_paths["shards"] and not Path(shards).exists():
            how = f"no such folder: if it has moved, kbert pretrain SHARDS --resume {run.path}"
            raise FileNotFoundError(f"{shards}: {how}")
        recipe = cls(settings, sources)
        recipe.resumed_config = BertConfig.from_dict(run.settings["config"])
        return recipe

    def read(self) -> None:
        self.batches, self.held_out = open_batches(self.sources, self.settings)
        warn_of_corpus(self.batches.shards, pairs=not self.settings.mlm_only)
        if self.held_out is None and self.settings.patience is not None:
            raise ValueError(
                "patience must go with dev data, got none: give dev or dev_ratio, or leave it out"
            )
        held_out = self.held_out and self.held_out.fingerprint
        self.dev_name = "held-out documents" if self.held_out else None
        self.fingerprint = {"train": self.batches.fingerprint, "dev": held_out}
        if self.resumed_config is not None:
            self.config = self.resumed_config
            return
        size, seq_len = self.batches.shards.vocab_size, self.settings.seq_len
        if (init := self.sources.get("init")) is None:
            assert self._preset is not None
            config = get_config(self._preset)
            if is_preset(str(self._preset)):  # a user's own configuration stays
                config = config.replace(vocab_size=size)
        else:
            from kbert.checkpoints.inspection import inspect

            config = inspect(init).config
        check_fits(config, init or "the configuration", size, seq_len)
        self.config = config.replace(pad_token_id=self.batches.shards.tokenizer.pad_id)

    def open(self, compiled: bool, shape_cost: float = 0.0) -> None:
        from kbert.graph.accounting import account

        settings, batches = self.settings, self.batches
        sizes: dict = {"max_predictions": batches.max_predictions}
        self.spec = GraphSpec(self.config, seq_len=None)
        variant = GraphSpec(self.config, seq_len=batches.seq_len, **sizes)
        # without next sentences their labels have weight 0
        self.losses = dict.fromkeys((names.MLM, names.NSP), LOSSES[HEADS[self.spec.head].loss])
        self.training_spec = choose_variant(self, variant)
        lora = (settings.lora_rank, settings.lora_targets, settings.lora_alpha)
        self.trained = trained_parts(variant, settings.freeze, *lora)
        sizes["selected_positions"] = self.training_spec.selected_positions
        accounting = account(self.config, batches.seq_len, batches.batch_size, **sizes)
        self.flops = dataclasses.replace(accounting, trained=self.trained).training_flops
        if (source := self.sources.get("teacher")) is not None:
            pairs, head = not settings.mlm_only, "pretraining" if settings.alpha else None
            tokenizer = batches.shards.tokenizer
            teacher = open_teacher(source, tokenizer, batches.seq_len, pairs, head)
            if settings.alpha:
                heads = (*MLM_LAYERS, names.POOLER, names.NSP) if pairs else MLM_LAYERS
                require_head(teacher, "a teacher (but with alpha 0)", "pretraining", heads)
            losses = {name: self.losses[name] for name in (names.MLM, names.NSP)[: 1 + pairs]}
            self.distillation = Distillation(teacher, batches, settings, losses, variant)
            self.fingerprint["teacher"] = self.distillation.digest

    def collect_settings(self) -> dict:
        return self.settings.as_dict() | {"config": self.config.to_dict()}

    def first_layers(self):
        """Return the layers of `init`, whose vocabulary must be the shards'."""
        if not (init := self.sources.get("init")):
            return {}
        bert = load_of_casing(init, self.batches.shards.tokenizer, "pretraining")
        tokens = self.batches.shards.tokenizer.tokens
        if bert.tokenizer is not None and bert.tokenizer.tokens != tokens:
            raise ValueError(
                f"{init} must have the vocabulary of the shards, got another: prepare with this one"
            )
        self.base_digest = digest_base(bert)
        return layers_of(bert.model)

    def find_untrained(self) -> set[str]:
        never = {names.POOLER, names.NSP} if self.settings.mlm_only else set()
        init = self.sources.get("init")
        if init is None:
            return never
        never |= self.trained.frozen
        if not never:
            return set()
        try:
            bert = load(init, head="pretraining", tokenizer=False)
        except OSError:  # a run that goes on may have lost it
            return set()
        return never & set(untrained_weights.find_untrained(bert))

    def evaluate(self, engine):
        """Return each output's loss and accuracy over held-out batches, and the losses' sum.

        Examples and masks are the same every time: those of one pass, at least one batch.
        """
        assert self.held_out is not None
        batches = self.held_out
        count = max(1, batches.examples_per_epoch(0) // batches.batch_size)
        part = engine.slice_examples(batches.batch_size)
        sums: dict[str, np.ndarray] = {}
        for step in range(min(self.settings.evaluation_batches, count)):
            for name, pair in engine.evaluate(batches.batch(step, part)).items():
                sums[name] = sums.get(name, 0.0) + np.array(pair)
        metrics = {name: float(total / weight) for name, (total, weight) in sums.items() if weight}
        losses = [value for name, value in metrics.items() if name.endswith("_loss")]
        return {"loss": sum(losses)} | metrics, dict

    def choose_weights(self, best, history: History) -> dict:
        last = history.updates[-1]
        result = {name: value for name, value in last.items() if name not in ("step", "skipped")}
        if not history.restored or self.held_out is None:
            return result
        step, metrics = best.restore(history)  # other weights than the last step's
        result |= {f"val_{name}": value for name, value in metrics.items()}
        return result | {"weights_of_update": step, "metrics": metrics}

    def make_bert(self, layers) -> Bert:
        model = build_with(self.spec, layers)
        return Bert(self.config, "pretraining", model, self.batches.shards.tokenizer)

    def describe_data(self, done: int) -> dict[str, str]:
        batches, epoch = self.batches, self.batches.examples_per_epoch(0)
        vocabulary = f"; a vocabulary of {batches.shards.vocab_size:,}"
        facts = {"Data": _amount(batches.shards) + vocabulary}
        if self.held_out is not None:
            facts["Dev data"] = _amount(self.held_out.shards)
        seen = done * batches.batch_size
        seen_text = f"{seen:,} examples of {batches.seq_len} tokens: {seen / epoch:.2f} epochs"
        return facts | {"Seen": seen_text}

    @staticmethod
    def make_result(bert: Bert, history: History, result: dict, folder: Path | None) -> Trained:
        assert folder is not None  # `pretrain` asks for one
        return Trained(bert, history, folder)


def open_batches(
    paths: dict, settings: PretrainingSettings
) -> tuple[PretrainingBatches, PretrainingBatches | None]:
    """Return the batches to train with, and those to evaluate with or None.

    `paths` are the folders of "shards" and "dev"; the latter may be None.
    """
    shards, dev = open_shards(paths["shards"]), None
    share = settings.dev_ratio
    if paths.get("dev") is not None:
        if share:
            raise ValueError(f"dev and dev_ratio cannot go together: leave one out, got {share}")
        dev = open_shards(paths["dev"])
        if dev.tokenizer.tokens != shards.tokenizer.tokens:
            raise ValueError(f"dev must have the vocabulary of {paths['shards']}, got another")
    elif share is None and shards.documents >= ENOUGH_DOCUMENTS:
        share = SHARE
    opened = [shards] if dev is None else [shards, dev]
    if share:
        shards, dev = shards.split(share)
    names = ["batch_size", "seq_len", "max_predictions", "seed", "mlm_probability"]
    names += ["short_seq_probability", "whole_word", "mlm_only"]
    options = {name: getattr(settings, name) for name in names}
    train = PretrainingBatches(shards, **options)
    batches = train, None if dev is None else PretrainingBatches(dev, **options)
    if not settings.mlm_only:
        for whole in opened:
            warn_of_long(whole, settings.seq_len)
    return batches


def _amount(shards) -> str:
    return f"{shards.documents:,} documents of {int(shards.document_tokens.sum()):,} tokens"
