"""Pretraining as a recipe: shards of text, MLM and NSP, a held-out part to evaluate with."""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.adapters import peft_folder
from kbert.checkpoints.bert import Bert, load
from kbert.checkpoints.hub.model_card import Training, make_card
from kbert.data.corpus.corpus_warnings import warn_of_corpus
from kbert.graph import names
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import trained_parts
from kbert.heads import HEADS
from kbert.model.deferred import build_with, layers_of
from kbert.tasks.checks import MLM_LAYERS, load_of_casing, require_head
from kbert.tasks.distillation import settings as distillation_settings
from kbert.tasks.distillation.distillation import Distillation
from kbert.tasks.distillation.teacher import Source, open_teacher
from kbert.tasks.pretraining.held_out import HeldOutEvaluation, open_batches
from kbert.tasks.pretraining.settings import PretrainingSettings, check_fits, configuration
from kbert.training.loop.history import History
from kbert.training.loss import LOSSES
from kbert.training.recipe import Recipe
from kbert.training.run.run_folder import RunFolder
from kbert.training.trained_weights import amount_trained, select_weights, with_adapters


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
        paths: the folders of "shards" and "dev" and the checkpoint "init"; these two may be None.
        config, init: as `pretrain` takes them.
        own_config: that of a resumed run; None: it is made of the two.
        teacher: as `pretrain` takes it.
    """

    command, settings_type = "pretrain", PretrainingSettings
    may_move = ("shards", "dev", "teacher")
    score, title = "-loss", "Pretraining a BERT"

    def __init__(
        self,
        settings: PretrainingSettings,
        paths: dict,
        config: BertConfig | str | os.PathLike | None = None,
        init: str | os.PathLike | None = None,
        own_config: BertConfig | None = None,
        teacher: Source | None = None,
    ):
        distillation_settings.check(settings, teacher)
        self._teacher = teacher
        self._restored: dict[str, float] | None = None  # metrics of weights that a callback set
        self.settings, self._paths = settings, paths
        self._preset, self._init = config, init
        for name in ("freeze", "lora_rank"):
            value = getattr(settings, name)
            if value is not None and not paths.get("init"):
                raise ValueError(
                    f"{name} needs a checkpoint to start from (init), got {value!r} without one: "
                    f"give init, or leave {name} out"
                )
        self._own_config = own_config
        # the settings have put their numbers for None
        assert settings.warmup_steps is not None and settings.evaluate_every is not None
        self.steps, self.warmup_steps = settings.steps, settings.warmup_steps
        self.evaluate_every = settings.evaluate_every

    @classmethod
    def from_run(cls, run: RunFolder, settings: PretrainingSettings, moved: dict) -> "Pretraining":
        teacher = moved.pop("teacher") or run.data_paths.get("teacher")
        if teacher is None and run.fingerprint.get("teacher") is not None:
            raise ValueError(
                "teacher must be given to resume the run: it was not started from a file"
            )
        paths = run.data_paths | {
            name: str(path) for name, path in moved.items() if path is not None
        }
        if moved["shards"] is None and not Path(paths["shards"]).exists():
            how = f"no such folder: if it has moved, kbert pretrain SHARDS --resume {run.path}"
            raise FileNotFoundError(f"{paths['shards']}: {how}")
        config = BertConfig.from_dict(run.settings["config"])
        return cls(settings, paths, own_config=config, teacher=teacher)

    def read(self) -> None:
        self.batches, self.held_out = open_batches(self._paths, self.settings)
        warn_of_corpus(self.batches.shards, pairs=not self.settings.mlm_only)
        if self.held_out is None and self.settings.patience is not None:
            raise ValueError(
                "patience must go with dev data, got none: give dev or dev_ratio, or leave it out"
            )
        held_out = self.held_out and self.held_out.fingerprint
        self.fingerprint = {"train": self.batches.fingerprint, "dev": held_out}
        self.config = self._own_config or self._checked_config()

    def _checked_config(self) -> BertConfig:
        size, seq_len = self.batches.shards.vocab_size, self.settings.seq_len
        if self._init is None:
            config = configuration(self._preset, size, seq_len)
        else:
            from kbert.checkpoints.inspection import inspect

            config = inspect(self._init).config
            check_fits(config, f"{self._init}", size, seq_len)
        return config.replace(pad_token_id=self.batches.shards.tokenizer.pad_id)

    def open(self, compiled: bool, shape_cost: float = 0.0) -> None:
        from kbert.graph.accounting import account

        seq_len, predictions = self.batches.seq_len, self.batches.max_predictions
        self.spec = GraphSpec(self.config, seq_len=seq_len, max_predictions=predictions)
        # without next sentences their labels have weight 0
        self.losses = dict.fromkeys((names.MLM, names.NSP), LOSSES[HEADS[self.spec.head].loss])
        self.training_spec = self._choose_variant()
        settings, size = self.settings, self.batches.batch_size
        lora = (settings.lora_rank, settings.lora_targets, settings.lora_alpha)
        self._trained = trained_parts(self.spec, settings.freeze, *lora)
        accounting = account(
            self.config,
            seq_len,
            size,
            max_predictions=predictions,
            selected_positions=self.training_spec.selected_positions,
        )
        self.flops = dataclasses.replace(accounting, trained=self._trained).training_flops
        if self._teacher is not None:
            self._learn_of(self._teacher)

    def _choose_variant(self) -> GraphSpec:
        # distillation reads the hidden states of all positions
        reads_all = self._teacher is not None and self.settings.hidden_loss
        return self.spec if reads_all else self.spec.for_training()

    def _learn_of(self, source: Source) -> None:
        """Open the teacher, of whom the batches then have its word."""
        settings, batches = self.settings, self.batches
        head = "pretraining" if settings.alpha else None
        tokenizer, pairs = batches.shards.tokenizer, not settings.mlm_only
        teacher = open_teacher(source, tokenizer, batches.seq_len, pairs, head)
        if settings.alpha:
            heads = MLM_LAYERS if settings.mlm_only else (*MLM_LAYERS, names.POOLER, names.NSP)
            require_head(teacher, "a teacher (but with alpha 0)", "pretraining", heads)
        outputs = (names.MLM,) if settings.mlm_only else (names.MLM, names.NSP)
        distillation = self.distillation = Distillation(
            teacher,
            settings,
            {name: self.losses[name] for name in outputs},
            self.config.num_hidden_layers,
            max_predictions=batches.max_predictions,
            precision=settings.precision,
            pad_id=self.config.pad_token_id,
        )
        self.fingerprint["teacher"] = distillation.digest

    def collect_settings(self) -> dict:
        return self.settings.as_dict() | {"config": self.config.to_dict()}

    def data_paths(self) -> dict[str, str | None]:
        return self._paths

    def select_weights(self, model):
        if not self._trained.frozen:
            return None
        settings = self.settings
        return select_weights(model, self._trained, settings.seed, dropout=settings.lora_dropout)

    def first_layers(self):
        """Return the layers of `init`, whose vocabulary must be the shards'."""
        if not (init := self._paths.get("init")):
            return {}
        bert = load_of_casing(init, self.batches.shards.tokenizer, "pretraining")
        tokens = self.batches.shards.tokenizer.tokens
        if bert.tokenizer is not None and bert.tokenizer.tokens != tokens:
            raise ValueError(
                f"{init} must have the vocabulary of the shards, got another: prepare with this one"
            )
        return layers_of(bert.model)

    def _untrained(self) -> set[str]:
        """Return the layers that were newly initialized, and frozen or otherwise never trained."""
        never = {names.POOLER, names.NSP} if self.settings.mlm_only else set()
        init = self._paths.get("init")
        if init is None:
            return never
        never |= self._trained.frozen
        if not never:
            return set()
        try:
            bert = load(init, head="pretraining", tokenizer=False)
        except OSError:  # a run that goes on may have lost it
            return set()
        return never & set(untrained_weights.find_untrained(bert))

    def evaluation(self, engine, run):
        if self.held_out is None:
            return None
        batches = self.settings.evaluation_batches
        self._evaluate = HeldOutEvaluation(engine, self.held_out, batches)
        return self._evaluate

    def export_bert(self, engine, history) -> Bert:
        if history.restored and self.held_out is not None:  # other weights than the last step's
            self._restored = self._evaluate()
            evaluation = history.find_evaluation(self._restored)
            self._restored_step = evaluation["step"] if evaluation else history.updates[-1]["step"]
        any_length = dataclasses.replace(self.spec, seq_len=None, max_predictions=None)
        model = build_with(any_length, layers_of(engine.model))
        bert = Bert(self.config, "pretraining", model, self.batches.shards.tokenizer)
        bert = untrained_weights.with_untrained(bert, self._untrained())
        if not self._trained.adapted:
            return bert
        return with_adapters(bert, engine, self._paths.get("init"))

    def result(self, last: dict) -> dict:
        metrics = {name: value for name, value in last.items() if name not in ("step", "skipped")}
        if self._restored is None:
            return metrics
        metrics |= {f"val_{name}": value for name, value in self._restored.items()}
        return metrics | {"weights_of_update": self._restored_step, "metrics": self._restored}

    def describe_training(self, done: int) -> dict[str, str]:
        batches, epoch = self.batches, self.batches.examples_per_epoch(0)
        vocabulary = f"; a vocabulary of {batches.shards.vocab_size:,}"
        facts = {
            title: path if "://" in path else Path(path).name
            for title, name in (("Started from", "init"), ("Teacher", "teacher"))
            if (path := self._paths.get(name))
        }
        facts["Data"] = _amount(batches.shards) + vocabulary
        if self.held_out is not None:
            facts["Dev data"] = _amount(self.held_out.shards)
        if self._trained.frozen:
            facts["Trained"] = amount_trained(self._trained)
        seen = done * batches.batch_size
        seen_text = f"{seen:,} examples of {batches.seq_len} tokens: {seen / epoch:.2f} epochs"
        return facts | {"Seen": seen_text}

    def make_card(self, bert: Bert, result: dict) -> str:
        evaluated = {name[4:]: value for name, value in result.items() if name[:4] == "val_"}
        init = self._paths.get("init")
        training = Training(
            verb="pretrained",
            base=init if init and "://" in init else None,
            facts=self.describe_training(result["steps"]),
            dev=None if self.held_out is None else "held-out documents",
            metrics=evaluated,
            settings=self.settings.as_hyperparameters(),
        )
        return make_card(bert, training=training)

    @staticmethod
    def make_result(bert: Bert, history: History, result: dict, folder: Path | None) -> Trained:
        assert folder is not None  # `pretrain` asks for one
        if bert.adapter is None and (folder / "adapter").is_dir():
            bert = dataclasses.replace(bert, adapter=peft_folder.read(folder / "adapter"))
        return Trained(bert, history, folder)


def _amount(shards) -> str:
    return f"{shards.documents:,} documents of {int(shards.document_tokens.sum()):,} tokens"
