"""Settings of a fine-tuning run: everything that its result depends on, except the data."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kbert.data.labelled.columns import ColumnOptions
from kbert.heads import HEADS
from kbert.io import json_schema as js
from kbert.tasks.distillation.settings import DistillationSettings, check_teacher
from kbert.training.settings.run_settings import RunSettings
from kbert.training.settings.setting_rules import KERAS_OPTIMIZER
from kbert.training.settings.user_objects import UserFunction, name_object

if TYPE_CHECKING:
    from kbert.tasks.finetuning.task import Task

COLUMNS = ("text_column", "text_pair_column", "label_column", "label_columns")


@dataclass(frozen=True, kw_only=True)
class FinetuningSettings(DistillationSettings, RunSettings):
    """Settings of `finetune`.

    The settings of every run (`RunSettings`) and of distillation (`DistillationSettings`) belong to
    them.

    Args:
        epochs: number of passes over the training data.
        text_column: column of the texts, or of the words. None: found by its name. See
            `kbert.data.labelled.columns`. Without a header, give its number, from 1. For "qa": of
            the questions.
        text_pair_column: column of the second texts. None: found by its name. For "qa": of the
            contexts.
        label_column: column of the labels or numbers. None: found by its name. For "qa": of the
            answers. For "embed": of the scores or the labels.
        label_columns: columns of 0 and 1, one for each label, for multilabel and classify. None:
            the labels are in one column. The columns' names are the labels.
        no_header: read the first line of a file as an example, even if it looks like a header.
            JSON lines, Parquet and data in memory have no header: it changes nothing for them.
        lowercase: whether the source's vocabulary is uncased, if its files do not say it. None: as
            the files say.
        max_length: maximum number of tokens per example. None: 128, or as many as the model has
            positions. The rest is cut off, or read in windows.
        lengths: lengths of the batches, ascending. None: few if XLA compiles each; otherwise
            nearly all that are needed on a CPU, every fourth on a GPU. With `packing`: the one
            length of the rows; None: the one that wastes least.
        packing: pack several examples into one row, for classify and tag: less padding, the same
            results. Each example has its own attention and positions. Batches then mix all lengths,
            while otherwise each has similar ones. It needs one device.
        positive_label: label that f1 is of, for classify. None: the second one of two labels, and
            the mean of all labels' F1 if there are more.
        label_smoothing: share of each label that is spread over all labels, for classify and tag.
            Szegedy et al. 2016, section 7. With class_weights: as in PyTorch, where each label's
            share has that label's weight.
        class_weights: give rare labels more weight in the loss, for classify and tag; in Python and
            in a settings file also weights by label, such as {"bad": 2.0}, where others weigh 1.
            None: all labels weigh the same. "balanced" weights each label by the number of labels
            divided by the number of classes and the label's own count (as scikit-learn does).
            Losses of evaluations have neither.
        sample_weight_column: column of the examples' weights in the loss, for classify, multilabel
            and regress. None: all examples weigh the same. The weights are numbers of at least 0;
            in a step they are divided by their sum. Only the training data need it: metrics of
            evaluations have no weights.
        loss: loss that the training minimizes. None: the task's own. "squared_error",
            "absolute_error" or "huber" for regress; "infonce", "triplet", "cosine" or "cosent" for
            embed; in Python also a `keras.losses.Loss`, or a function of labels and logits that
            returns a loss per example, in `keras.ops`. See `kbert.training.losses.user_loss`. With
            infonce, embed's own, each text must find its partner among all texts of the batch;
            scored pairs have cosent. See `kbert.training.losses.embedding_losses`.
        score: metric that chooses the best weights and ends the run with `patience`; higher is
            better, but lower if - stands before it. None: the task's own.
        metrics: further metrics of the dev data, in Python: a list of `keras.metrics.Metric`
            objects, and of functions of the labels and logits of all examples that return a number
            or a dict of numbers. None: the task's own alone. See
            `kbert.tasks.finetuning.user_metrics`.
        pooling: pooling of the task embed. None: the checkpoint's own, else mean. "mean", "cls" or
            "max": it turns token vectors into one.
        scale: factor of the cosines in the losses infonce and cosent: 1 / temperature.
        margin: margin of the loss triplet, in the unit of the embeddings.
        dimensions: lengths to which embeddings can be cut, for the task embed (Matryoshka). None:
            only the full length. Each has its own loss.
        optimizer: "adamw", or a `keras.optimizers.Optimizer`, in a settings file its JSON; LAMB is
            `keras.optimizers.Lamb()`.
        learning_rate: peak learning rate, reached after warm-up.
        warmup_ratio: share of the steps that are warm-up. The rate grows from 0.
        head_learning_rate: peak learning rate of the head. None: `learning_rate`.
        layer_decay: factor of the learning rate from each layer to the one below, such as 0.95.
            None: 1. From the head down, as in ELECTRA
            (`kbert.graph.trained_parts.learning_rate_factors`).
        keep_best: keep the weights with the best score on the dev data, not the last ones.
        evaluate_every: number of steps between two evaluations. None: one epoch.
        save_every: number of steps between two saved training states. None: at the best evaluations
            and at the end.
        log_every: number of steps between two lines of metrics.jsonl.

    Raises:
        ValueError: a value out of its range.
    """

    command: ClassVar[str] = "finetune"
    first: ClassVar[tuple[str, ...]] = (
        "text_column",
        "text_pair_column",
        "label_column",
        "label_columns",
        "no_header",
        "sample_weight_column",
        "lowercase",
        "epochs",
        "batch_size",
        "max_length",
        "lengths",
        "packing",
        "positive_label",
        "label_smoothing",
        "class_weights",
        "loss",
        "score",
        "metrics",
        "pooling",
        "scale",
        "margin",
        "dimensions",
        "learning_rate",
        "warmup_ratio",
        "optimizer",
        "freeze",
        "head_learning_rate",
        "layer_decay",
        "lora_rank",
        "lora_targets",
        "lora_alpha",
        "lora_dropout",
    )
    other_fields: ClassVar[dict] = {"task": js.TEXT}
    # settings that also hold when the run's model is evaluated
    evaluation: ClassVar[tuple[str, ...]] = (
        *COLUMNS,
        "no_header",
        "max_length",
        "positive_label",
        "dimensions",
    )

    text_column: str | None = None
    text_pair_column: str | None = None
    label_column: str | None = None
    label_columns: tuple[str, ...] | None = None
    no_header: bool = False
    lowercase: bool | None = None
    epochs: int = 3
    max_length: int | None = None
    lengths: tuple[int, ...] | None = None
    packing: bool = False
    positive_label: str | None = None
    label_smoothing: float = 0.0
    class_weights: str | dict | None = None
    sample_weight_column: str | None = None
    loss: str | dict | UserFunction | None = None
    score: str | None = None
    metrics: tuple | None = None
    pooling: str | None = None
    scale: float = 20.0
    margin: float = 5.0
    dimensions: tuple[int, ...] | None = None
    learning_rate: float = 5e-5
    warmup_ratio: float = 0.1
    keep_best: bool = True
    evaluate_every: int | None = None
    save_every: int | None = None
    log_every: int = 1
    head_learning_rate: float | None = None
    layer_decay: float | None = None

    def __post_init__(self):
        if isinstance(self.optimizer, str) and self.optimizer != "adamw":
            raise ValueError(
                f"optimizer must be adamw, or {KERAS_OPTIMIZER.format('Lamb')}, got "
                f"{self.optimizer!r}"
            )
        super().__post_init__()
        _ = self.columns

    @property
    def columns(self) -> ColumnOptions:
        """Options of the columns to read."""
        return ColumnOptions(
            self.text_column,
            self.text_pair_column,
            self.label_column,
            self.no_header,
            labels=self.label_columns or (),
            weight=self.sample_weight_column,
        )

    @property
    def has_own_loss(self) -> bool:
        """True if the loss is an object of Keras or a function, and not one of kbert's."""
        return self.loss is not None and not isinstance(self.loss, str)

    def check_for(self, task: "Task", has_teacher: bool = False) -> None:
        """Raise a ValueError for a setting of other tasks, or one that goes with no teacher."""
        check_teacher(self, has_teacher)
        if has_teacher and not task.takes_teacher:
            raise ValueError(f"teacher does not go with the task {task.name}: leave it out")
        if self.packing and has_teacher:
            raise ValueError("packing does not go with a teacher: leave one of them out")
        self._check_loss(task)
        self._check_packing(task)

        for name in ("label_smoothing", "class_weights"):
            if getattr(self, name) and not task.has_classes:
                raise ValueError(f"{name} must be for the task classify or tag, got {task.name}")
        if self.sample_weight_column is not None and not task.takes_sample_weights:
            raise ValueError(
                "sample_weight_column must be for the task classify, multilabel or regress, got "
                f"{task.name}"
            )
        if task.trains_embeddings and self.head_learning_rate is not None:
            raise ValueError(
                f"head_learning_rate must be for a task with a head, got it for {task.name}"
            )
        for name in ("pooling", "scale", "margin", "dimensions"):
            default = getattr(type(self), name)
            if not task.trains_embeddings and getattr(self, name) != default:
                raise ValueError(f"{name} must be for the task embed, got {task.name}")

    def check_dev(self, has_dev: bool) -> None:
        """Raise a ValueError for a setting of evaluations without dev data."""
        for name in ("patience", "score", "metrics"):
            if not has_dev and getattr(self, name) is not None:
                raise ValueError(
                    f"{name} must go with dev data, got none: give dev, or leave it out"
                )

    def _check_packing(self, task: "Task") -> None:
        """Raise a ValueError for packing of a task that cannot have it, or in several lengths."""
        if not self.packing:
            return
        if not HEADS[task.head].packs:
            raise ValueError(f"packing must be for the task classify or tag, got {task.name}")
        if self.lengths is not None and len(self.lengths) > 1:
            raise ValueError(
                "lengths must be one number with packing, the length of its rows, got "
                f"{self.lengths}"
            )

    def _check_loss(self, task: "Task") -> None:
        """Raise a ValueError for a loss that the task does not have."""
        if isinstance(self.loss, str) and self.loss not in task.losses:
            raise ValueError(
                f"loss must be {' or '.join(task.losses)} for the task {task.name}, got {self.loss}"
            )
        if not self.has_own_loss:
            return

        name = name_object(self.loss)
        if task.trains_embeddings:
            raise ValueError(
                f"loss must be one of {', '.join(task.losses)} for the task {task.name}, got "
                f"{name}: a loss of sentence embeddings compares all texts of a batch"
            )
        if self.label_smoothing:
            raise ValueError(
                f"label_smoothing must go with the loss cross_entropy, got {name}: leave one of "
                "them out"
            )
