"""The recipe of a run of any task, which `kbert.training.runner` carries out."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from kbert.checkpoints.adapters.adapter import LoraAdapter, digest_arrays
from kbert.checkpoints.bert import Bert
from kbert.checkpoints.hub import fetching
from kbert.checkpoints.transfer import weights_digest
from kbert.data.training_batch import Batches
from kbert.graph.accounting import account
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import TrainedParts
from kbert.training.best_weights import BestWeights, Evaluated
from kbert.training.embedding_loss import EmbeddingLoss
from kbert.training.loop.history import History
from kbert.training.loss import Loss
from kbert.training.run.run_folder import RunFolder
from kbert.training.run_settings import RunSettings
from kbert.training.trained_weights import TrainedWeights, select_weights

_MODELS = ("source", "init", "teacher")  # of the sources; the others are data


class Distillation(Batches, Protocol):
    """A recipe's batches, with a teacher's outputs among their labels."""

    losses: Mapping[str, Loss]  # of these labels, by name

    def add_outputs(self, model):
        """Return the model with the outputs that `losses` need."""


class Recipe(Protocol):
    """A run: its settings and data, its initial model, its metrics and its result.

    The runner calls the methods in their order here. They raise an OSError for a file that cannot
    be read, and a ValueError for settings or data that do not fit.

    Args:
        settings: the run's; complete after `open`.
        sources: data and models by the argument's name: paths, rows in memory, a `Bert` or None.
    """

    command: ClassVar[str]  # resumes such a run
    verb: ClassVar[str]  # what was done, for the model's card
    settings_type: ClassVar[type[RunSettings]]
    base: ClassVar[str]  # the source with the model that the run starts from
    needed: ClassVar[tuple[str, ...]]  # sources that a resumed run must have
    may_move: ClassVar[tuple[str, ...]]  # sources that may move before a resumed run
    title: str  # of the run's page
    score: str  # metric that says which evaluation is best; "-" before it: lower is better
    keep_best: bool = False  # whether the result has the best weights or the last
    settings: Any  # a `RunSettings`
    sources: dict
    # `open` sets what follows
    batches: Any  # a `Batches`
    spec: GraphSpec  # of the result
    training_spec: GraphSpec  # what is trained, in the settings' precision: `spec.for_training()`
    trained: TrainedParts
    adapter: LoraAdapter | None = None  # which the run continues
    fingerprint: dict  # all that the batches and the evaluation depend on, as JSON
    steps: int  # of the whole run
    warmup_steps: int
    evaluate_every: int  # steps
    flops: float  # of a step, over all hosts
    losses: Mapping[str, Loss]  # of the outputs that have labels, by name
    embedding_loss: EmbeddingLoss | None = None  # of text embeddings, in place of `losses`
    distillation: Distillation | None = None
    base_digest: str | None = None  # of the weights of a new run; set by `first_layers`
    base_address: str | None = None  # of the model that the run starts from, on a hub
    dev_name: str | None = None  # of the dev data, for the model's card
    classifies_pairs: bool = False  # of texts, for the card's examples

    def __init__(self, settings: Any, sources: dict):
        self.settings, self.sources = settings, sources

    @classmethod
    def from_run(cls, run: RunFolder, settings: Any, sources: dict) -> Self:
        """Recreate the recipe of a resumed run."""

    def read(self) -> None:
        """Read the data. No backend yet: hosts must find each other before one is used."""

    def open(self, compiled: bool, shape_cost: float = 0.0) -> None:
        """Make the batches of a step that XLA compiles or not; see `Backend.shape_cost`."""

    def select_trained_part(self, model):
        """Return the trained parts of the graph of `spec`, as it was built; by default all."""
        return model

    def first_layers(self) -> Mapping[str, Any]:
        """Return Keras layers that initialize a new run, by name; None: newly initialized."""

    def collect_settings(self) -> dict:
        """Return the settings as settings.json has them, with what else the result depends on."""

    def summarize(self) -> dict[str, Any]:
        """Return what the run learns and how its result is chosen, as JSON; it decides nothing."""
        return {}

    def data_paths(self) -> dict[str, str]:
        """Return the paths of the sources, by the argument's name, for a resumed run."""
        paths = {}
        for name, source in self.sources.items():
            source = source.source if isinstance(source, Bert) else source
            if isinstance(source, (str, os.PathLike)):
                paths[name] = os.fspath(source) if name in _MODELS else str(Path(source).absolute())
        return paths

    def evaluate(self, engine) -> Evaluated:
        """Compute the metrics of the engine's weights on the dev data."""

    def choose_weights(self, best: BestWeights, history: History) -> dict:
        """Give the engine the weights that are the result; describe it for result.json."""
        step, metrics = best.restore(history)
        result = {"loss": history.updates[-1]["loss"], "weights_of_update": step}
        return result | {"metrics": metrics, "intervals": best.find_intervals(metrics)}

    def make_bert(self, layers: Mapping[str, Any]) -> Bert:
        """Return the result: a float32 model of any length, with the layers' weights."""

    def find_untrained(self) -> set[str]:
        """Return the layers that were newly initialized, and frozen or otherwise never trained."""

    def describe_training(self, done: int) -> dict[str, str]:
        """Return what was trained in so many steps, in words by name, for the report."""
        facts = {}
        for title, name in {"Started from": self.base, "Teacher": "teacher"}.items():
            model = self.sources.get(name)
            if isinstance(model, Bert):
                model = model.source
            if model is not None:  # addresses, or names without folders
                facts[title] = str(model) if "://" in str(model) else Path(model).name
        if self.trained.frozen:
            spec, in_adapters = self.trained.spec, self.trained.adapter_params
            counts = account(spec.config, 1, head=spec.head, num_labels=spec.num_labels)
            total = counts.params
            trained = dataclasses.replace(counts, trained=self.trained).trainable_params
            text = f"{trained:,} of {total:,} parameters ({trained / total:.2%})"
            adapters = f", {in_adapters:,} of them in adapters" if self.trained.adapted else ""
            facts["Trained"] = text + adapters
        return facts | self.describe_data(done)

    def describe_data(self, done: int) -> dict[str, str]:
        """Return the data, and how much of them so many steps have seen, in words by name."""

    @staticmethod
    def make_result(bert: Bert, history: History, result: dict, folder: Path | None) -> Any:
        """Return the user's result; `result` is as in result.json."""


def recreate(kind: type[Recipe], run: RunFolder, settings: Any, moved: dict) -> Recipe:
    """Return the recipe of a resumed run; `moved` as in `kbert.training.runner.resume`."""
    sources = dict.fromkeys(kind.may_move) | run.data_paths
    sources |= {name: source for name, source in moved.items() if source is not None}
    has_teacher = run.fingerprint.get("teacher") is not None
    for name in (*kind.needed, *(["teacher"] if has_teacher else [])):
        if sources[name] is None:
            raise ValueError(
                f"{name} must be given to resume the run: it was not started from a file"
            )
    return kind.from_run(run, settings, sources)


def pin_models(sources: dict) -> None:
    """Replace the names and paths of models by what opens the same models later."""
    for name in _MODELS:
        if isinstance(model := sources.get(name), (str, os.PathLike)):
            sources[name] = fetching.pin(model)


def choose_variant(recipe: Recipe, spec: GraphSpec) -> GraphSpec:
    """Return the variant of a graph to train."""
    # distillation reads the hidden states of all positions
    reads_all = recipe.sources.get("teacher") is not None and recipe.settings.hidden_loss
    return spec if reads_all else spec.for_training()


def select_trained(recipe: Recipe, model) -> TrainedWeights | None:
    """Return a model's trained weights, within the engine's scope; None: all, at one rate."""
    settings = recipe.settings
    # pretraining has neither
    decay, head_rate = (getattr(settings, x, None) for x in ("layer_decay", "head_learning_rate"))
    if not recipe.trained.frozen and decay is None and head_rate is None:
        return None
    share = 1.0 if head_rate is None else head_rate / settings.learning_rate
    pairs = recipe.adapter.pairs if recipe.adapter else None
    options = settings.seed, decay, share, settings.lora_dropout, pairs
    return select_weights(model, recipe.trained, *options)


def digest_base(bert: Bert, adapter: LoraAdapter | None = None) -> str:
    """Return a hash of the weights that a run starts from, those of an adapter among them.

    Weights that are not in the checkpoint are left out: `load` initializes them at random.
    """
    new = bert.report.initialized_layers if bert.report else ()
    digest = weights_digest(bert, without=new)
    return digest if adapter is None else f"{digest} {digest_arrays(adapter)}"
