"""The protocol of a run of any task, which `kbert.training.runner` carries out."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from kbert.checkpoints.bert import Bert
from kbert.data.training_batch import Batches
from kbert.graph.spec import GraphSpec
from kbert.training.embedding_loss import EmbeddingLoss
from kbert.training.loop.history import History
from kbert.training.loss import Loss
from kbert.training.run.run_folder import RunFolder
from kbert.training.run_settings import RunSettings
from kbert.training.trained_weights import TrainedWeights


class DistillationTargets(Protocol):
    """Distillation targets of a model besides its labels."""

    losses: Mapping[str, Loss]  # by the names of a batch's labels that belong to no output

    def add_outputs(self, model):
        """Return the model with the outputs that `losses` need."""

    def batches(self, batches: Batches) -> Batches:
        """Return the recipe's batches with the targets among their labels."""


class Recipe(Protocol):
    """A run: its settings and data, its initial model, its metrics and its result.

    The runner calls the methods in their order here. They raise an OSError for a file that cannot
    be read, and a ValueError for settings or data that do not fit.
    """

    command: ClassVar[str]  # resumes such a run
    settings_type: ClassVar[type[RunSettings]]
    may_move: ClassVar[tuple[str, ...]]  # arguments for data that may move before a resumed run
    title: str  # of the run's page
    score: str  # metric that says which evaluation is best; "-" before it: lower is better
    settings: Any  # complete after `open`, which sets what follows
    batches: Batches
    spec: GraphSpec  # of the result
    training_spec: GraphSpec  # what is trained, in the settings' precision: `spec.for_training()`
    fingerprint: dict  # all that the batches and the evaluation depend on, as JSON
    steps: int  # of the whole run
    warmup_steps: int
    evaluate_every: int  # steps
    flops: float  # of a step, over all hosts
    losses: Mapping[str, Loss]  # of the outputs that have labels, by name
    distillation: DistillationTargets | None = None
    embedding_loss: EmbeddingLoss | None = (
        None  # the loss of text embeddings; else the outputs have labels
    )

    @classmethod
    def from_run(cls, run: RunFolder, settings: Any, moved: dict) -> Self:
        """Recreate the recipe of a resumed run; `moved` as in `kbert.training.runner.resume`."""

    def read(self) -> None:
        """Read the data. No backend yet: hosts must find each other before one is used."""

    def open(self, compiled: bool, shape_cost: float = 0.0) -> None:
        """Make the batches, where XLA compiles the step or not; open what they depend on.

        `shape_cost` is the one-time cost of a batch of a new shape, in steps; 0: unknown.
        """

    def select_trained_part(self, model):
        """Return the trained parts of the graph of `spec`, as it was built; by default all."""
        return model

    def select_weights(self, model) -> TrainedWeights | None:
        """Return a model's trained weights, within the engine's scope; None: all."""
        return None

    def first_layers(self) -> Mapping[str, Any]:
        """Return Keras layers by name, whose weights initialize a run that has no state yet.

        A value of None means a newly initialized layer; an empty result, that all layers are.
        """
        return {}

    def collect_settings(self) -> dict:
        """Return the settings as settings.json has them, with what else the result depends on."""

    def data_paths(self) -> dict[str, str | None]:
        """Return the paths of the data, by the argument's name, for a resumed run."""

    def evaluation(self, engine, run: RunFolder | None) -> Callable[[], dict[str, float]] | None:
        """Return a function that computes metrics of the engine's weights; None without data."""

    def export_bert(self, engine, history: History) -> Bert:
        """Return the weights that are the result, as a float32 model of any length."""

    def result(self, last: dict) -> dict:
        """Return the run's result for result.json; `last` is the last line of the history."""

    def describe_training(self, done: int) -> dict[str, str]:
        """Return how much was trained on in so many steps, in words by name, for the report."""

    def make_card(self, bert: Bert, result: dict) -> str:
        """Make the model's card, of `bert`, with what is in result.json."""

    @staticmethod
    def make_result(bert: Bert, history: History, result: dict, folder: Path | None) -> Any:
        """Return the user's result; `result` is as in result.json."""
