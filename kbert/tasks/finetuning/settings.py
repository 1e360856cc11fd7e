"""What a fine-tuning run is asked for: everything that its result depends on, beside the data."""

from dataclasses import dataclass
from typing import ClassVar

from kbert.data.labelled.columns import ColumnOptions
from kbert.io import json_schema as js
from kbert.tasks.distillation.settings import DEFAULTS, DistillationSettings
from kbert.training.part_settings import DEFAULTS as PART_DEFAULTS
from kbert.training.part_settings import PartSettings
from kbert.training.run_settings import RunSettings


@dataclass(frozen=True, kw_only=True)
class FinetuningSettings(PartSettings, DistillationSettings, RunSettings):
    """Settings of `finetune`, beside those of every run (`RunSettings`), of what is trained
    (`PartSettings`) and of a teacher.

    Args:
        epochs: passes over the training data.
        text_column, text_pair_column, label_column: names of the columns of the data, where they
            are none of those that are recognized (`kbert.data.labelled.columns`); without a header
            their numbers, from 1 on. Of "tag" the words and their labels, of "qa" question,
            context and answers, of "embed" two texts and their score, or one and its label.
        no_header: whether the first line of a file is an example, whatever it looks like.
        lowercase: whether the source's vocabulary is uncased, where its files do not say it; None:
            as they say.
        max_length: tokens of an example at most; None: 128, or as many as the model has positions,
            where those are fewer. The rest is cut off, or read in windows.
        lengths: that batches may have, ascending; None: few where XLA compiles for each; on a CPU
            else nearly all that they need, on a GPU every fourth. With `packing` the one of its
            rows; None: the one that wastes least.
        packing: whether several examples share a row, each with attention within it and positions
            of its own: the same numbers, nearly no padding and one shape. Batches are then of all
            lengths, where else each is of like lengths. For "classify" and "tag", on one device.
        label_smoothing: share of each label that goes to all labels alike (Szegedy et al. 2016,
            section 7); for "classify" and "tag".
        class_weights: "balanced" has a label of a class count for the number of labels over that of
            the classes and of its own (as scikit-learn's); None: each the same. For "classify" and
            "tag"; losses of evaluations have neither.
        loss: of "embed": "infonce" (each text chooses its own partner among all of the batch's:
            in-batch negatives), "triplet", "cosine" or "cosent"; None: infonce, for scored pairs
            cosent. See `kbert.training.vector_loss`.
        pooling: of "embed", how token vectors become one: "mean", "cls" or "max"; None: the
            checkpoint's own, else mean.
        scale: what cosines are multiplied with, of infonce and cosent: 1 / temperature.
        margin: of triplet, in the vectors' own unit.
        dimensions: of "embed", lengths that vectors are to be cut to (Matryoshka), each with the
            loss of its own; None: whole vectors alone.
        learning_rate: the highest, reached at the end of the warm-up.
        warmup_ratio: of the updates, over which the rate grows from 0.
        head_learning_rate: the highest of the head; None: as the others.
        layer_decay: what the rate is multiplied with from layer to layer, from the head down, as
            ELECTRA's (`kbert.graph.trained_parts.rate_shares`); None: 1.
        keep_best: whether the result has the weights that did best on the dev data, or the last.
        evaluate_every: updates between two evaluations; None: an epoch.
        save_every: updates between two states; None: at evaluations that are the best so far and
            at the end.
        log_every: updates between two lines of metrics.jsonl.

    Raises:
        ValueError: a value out of its range.
    """

    command: ClassVar[str] = "finetune"
    first: ClassVar[tuple[str, ...]] = (
        *("text_column", "text_pair_column", "label_column", "no_header", "lowercase"),
        *("epochs", "batch_size", "max_length", "lengths", "packing"),
        *("label_smoothing", "class_weights"),
        *("loss", "pooling", "scale", "margin", "dimensions"),
        *("learning_rate", "warmup_ratio", "optimizer"),
        *("freeze", "head_learning_rate", "layer_decay"),
        *("lora_rank", "lora_targets", "lora_alpha", "lora_dropout"),
    )
    other_fields: ClassVar[dict] = {"task": js.TEXT}
    of_vectors: ClassVar[dict] = {
        **{"loss": None, "pooling": None, "dimensions": None},
        **{"scale": 20.0, "margin": 5.0},
    }
    later: ClassVar[dict] = {
        **RunSettings.later,
        **{"text_column": None, "text_pair_column": None, "label_column": None},
        **{"no_header": False, "lowercase": None},
        **{"packing": False, "label_smoothing": 0.0, "class_weights": None},
        **{"head_learning_rate": None, "layer_decay": None},
        **PART_DEFAULTS,
        **of_vectors,
        **DEFAULTS,
    }

    text_column: str | None = None
    text_pair_column: str | None = None
    label_column: str | None = None
    no_header: bool = False
    lowercase: bool | None = None
    epochs: int = 3
    max_length: int | None = None
    lengths: tuple[int, ...] | None = None
    packing: bool = False
    label_smoothing: float = 0.0
    class_weights: str | None = None
    loss: str | None = None
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
        super().__post_init__()
        self.check_adapters()
        _ = self.columns

    @property
    def columns(self) -> ColumnOptions:
        """Which columns of the data are read."""
        return ColumnOptions(
            self.text_column, self.text_pair_column, self.label_column, self.no_header
        )

    def check_for(self, task: str) -> None:
        """A ValueError where a setting of vectors is for another task, or they lack one."""
        if task == "embed" and self.head_learning_rate is not None:
            raise ValueError("head_learning_rate must be for a task with a head, got it for embed")
        for name, default in self.of_vectors.items():
            if task != "embed" and getattr(self, name) != default:
                raise ValueError(f"{name} must be for the task embed, got {task}")
