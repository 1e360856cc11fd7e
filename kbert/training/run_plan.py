"""A run as a value: what a user asks for, and what is planned of it.

    read(request)  →  plan(request, data, device)  →  `kbert.training.runner`

Reading comes before the device: hosts must find each other before a backend is used. A plan is
complete. The runner needs nothing else to build the model, to train it and to write the result. A
resumed run is planned again, from its settings.json, and must have the same fingerprint.
"""

import dataclasses
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kbert.checkpoints.adapters.adapter import LoraAdapter, digest_arrays
from kbert.checkpoints.bert import Bert
from kbert.checkpoints.transfer import weights_digest
from kbert.graph.accounting import account
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import TrainedParts
from kbert.hub import fetching
from kbert.hub.model_card import Training
from kbert.io.remote_files import locate
from kbert.training.loop.best_weights import BestWeights, Evaluated, choose_best
from kbert.training.loop.history import History
from kbert.training.losses.embedding_objective import EmbeddingLoss
from kbert.training.losses.loss import Loss
from kbert.training.optimization.optimizers import Optimizer
from kbert.training.run.predictions import Baseline
from kbert.training.run.run_folder import RunFolder
from kbert.training.settings.keras_objects import check_rates
from kbert.training.settings.user_objects import RefusedError, write_resume_call

_MODELS = ("source", "init", "teacher")  # of the sources; the others are data


@dataclass(frozen=True)
class Device:
    """What a plan must know of the device.

    Attributes:
        compiled: whether XLA compiles the step, for each shape of a batch anew.
        shape_cost: see `kbert.training.backends.backend.Backend.shape_cost`.
    """

    compiled: bool
    shape_cost: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user asks for.

    Attributes:
        command: the command that resumes such a run, "finetune" or "pretrain".
        settings: the user's; a plan completes them.
        sources: data and models by the argument's name: paths, rows in memory, a `Bert` or None.
        read: reads the data, without a backend.
        plan: makes the plan of the data, for a device.
        task: what is learned; None for pretraining.
        config: the configuration of a model to pretrain; None: that of "init".
        run: the run to resume; None: a new one.
    """

    command: str
    settings: Any  # a `RunSettings`
    sources: Mapping[str, Any]
    read: Callable[["Request"], Any]
    plan: Callable[["Request", Any, Device], "RunPlan"]
    task: Any = None
    config: Any = None
    run: RunFolder | None = None


class InitialLayers(NamedTuple):
    """Layers that initialize a new run, by name; None: newly initialized.

    `digest` is a hash of the weights that the run starts from; None: there are none.
    """

    layers: Mapping[str, Any]
    digest: str | None = None


@dataclass(frozen=True, kw_only=True)
class PlannedModel(ABC):
    """The model of a run: where it starts, what is trained of it, and the result.

    Attributes:
        spec: the graph of the result.
        training_spec: the graph that is trained, see `GraphSpec.for_training`.
        trained: the parts that are trained.
        adapter: the LoRA adapter that the run continues, if any.
    """

    spec: GraphSpec
    training_spec: GraphSpec
    trained: TrainedParts
    adapter: LoraAdapter | None = None

    @abstractmethod
    def initialize(self) -> InitialLayers:
        """Return the layers of a new run."""

    def select_trained_part(self, model):
        """Return the trained part of the graph of `training_spec`, as it was built."""
        return model

    @abstractmethod
    def make_bert(self, layers: Mapping[str, Any]) -> Bert:
        """Return the result: a float32 model of any length, with the layers' weights."""

    @abstractmethod
    def find_untrained(self) -> set[str]:
        """Return the layers that were newly initialized, and frozen or otherwise never trained."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunPlan:
    """A run, planned: everything that the runner needs to do it.

    Attributes:
        command: the command that resumes it.
        title: of the run's page.
        settings: complete, with what was derived from data and model.
        recorded: the settings as settings.json has them, with all else that the result depends on.
        derived: names of what is recorded and was not asked for: data, model and steps gave it.
        fingerprint: all that batches and evaluation depend on, as JSON.
        summary: what the run learns and how its result is chosen, as JSON; it decides nothing.
        data_paths: where the sources are, by the argument's name, for a resumed run.
        base: the argument's name of the model that the run starts from.
        base_may_move: whether a resumed run may be given another path of it.
        model: what is trained, and the result.
        batches: of the training data.
        losses: of the batches' labels, by name.
        optimizer: with the number of steps and the learning rates.
        flops: of a step, over all hosts.
        evaluate_every: steps between two evaluations.
        evaluate: computes the metrics of an engine's weights on the dev data; None: no dev data.
        score: metric that says which evaluation is best; "-" before it: lower is better.
        baseline: how good a model is on the dev data that does not read them; None: unknown.
        keep_best: whether the result has the best weights or the last.
        choose_weights: gives the engine the weights that are the result; see `choose_best`.
        facts: what is trained on what, in words by name, for the report and the card.
        describe_progress: says in words how much of the data so many steps have seen.
        card: what the model's card says of the run, before it has a result.
        embedding_loss: of text embeddings, in place of `losses`.
        micro_batch_size: of batches that grow, see `kbert.training.engine.Engine`; else None.
        planned_steps: number of steps that are expected in a time budget, `settings.hours`; None:
            the optimizer has the number.
        plan_steps: returns a plan with another number of expected steps, once a step is measured.
        extend_model: adds the outputs that a teacher's losses need; None: there are none.
    """

    command: str
    title: str
    settings: Any
    recorded: Mapping[str, Any]
    derived: Sequence[str] = ()
    fingerprint: Mapping[str, Any]
    summary: Mapping[str, Any] = field(default_factory=dict)
    data_paths: Mapping[str, str]
    base: str
    base_may_move: bool
    model: PlannedModel
    batches: Any  # a `Batches`
    losses: Mapping[str, Loss]
    optimizer: Optimizer
    flops: float
    evaluate_every: int
    evaluate: Callable[[Any], Evaluated] | None
    score: str
    baseline: Baseline | None = None
    keep_best: bool = False
    choose_weights: Callable[[BestWeights, History], dict] = choose_best
    facts: Mapping[str, str]
    describe_progress: Callable[[int], str]
    card: Training
    embedding_loss: EmbeddingLoss | None = None
    micro_batch_size: int | None = None
    planned_steps: int | None = None
    plan_steps: "Callable[[RunPlan, int], RunPlan] | None" = None
    extend_model: Callable[[Any], Any] | None = None

    @property
    def steps(self) -> int:
        """Number of steps of the whole run."""
        return self.planned_steps or self.optimizer.total_steps

    @property
    def hours(self) -> float | None:
        """The time budget; None: the run has a number of steps."""
        return getattr(self.settings, "hours", None)

    def describe_training(self, done: int) -> dict[str, str]:
        """Return what was trained in so many steps, in words by name."""
        return {**self.facts, "Seen": self.describe_progress(done)}


def list_derived(request: Request, settings: Any) -> list[str]:
    """Return the names of the settings that the plan of a request has completed."""
    requested = request.settings.as_dict()
    derived = []
    for name, value in settings.as_dict().items():
        if value is not None and requested[name] is None:
            derived.append(name)
    return derived


def make_optimizer(
    settings: Any, steps: int, warmup_steps: int, follows_budget: bool = False
) -> Optimizer:
    """Return a run's optimizer and learning rate schedule; refuse rates that cannot be used.

    A schedule that follows a time budget has that budget in so many equal parts, its `steps`.
    """
    if isinstance(settings.schedule, dict):
        try:
            check_rates(settings.schedule, steps)
        except RefusedError as error:
            raise ValueError(f"schedule: {error}") from None
    return Optimizer(
        name=settings.optimizer,
        learning_rate=settings.learning_rate,
        total_steps=steps,
        warmup_steps=warmup_steps,
        schedule=settings.schedule,
        min_learning_rate_ratio=settings.min_learning_rate_ratio,
        schedule_power=settings.schedule_power,
        schedule_timescale=settings.schedule_timescale,
        weight_decay=settings.weight_decay,
        beta_1=settings.beta_1,
        beta_2=settings.beta_2,
        epsilon=settings.epsilon,
        ema=settings.ema,
        follows_budget=follows_budget,
    )


def pin_models(sources: Mapping[str, Any]) -> dict[str, Any]:
    """Return sources with what opens the same models later, in place of names and paths."""
    pinned = dict(sources)
    for name in _MODELS:
        model = pinned.get(name)
        if isinstance(model, (str, os.PathLike)):
            pinned[name] = fetching.pin(model)
    return pinned


def list_paths(sources: Mapping[str, Any]) -> dict[str, str]:
    """Return the paths of sources, by the argument's name, for a resumed run."""
    paths = {}
    for name, source in sources.items():
        if isinstance(source, Bert):
            source = source.source
        if not isinstance(source, (str, os.PathLike)):
            continue
        if name in _MODELS:
            paths[name] = os.fspath(source)
        else:
            paths[name] = locate(source)
    return paths


def find_sources(
    run: RunFolder, moved: Mapping[str, Any], names: tuple[str, ...]
) -> dict[str, Any]:
    """Return the sources of a resumed run: those that have `moved`, and the run's own paths.

    Raises:
        ValueError: one was not a file, and is not given.
        FileNotFoundError: a model is no longer where it was.
    """
    moved = {name: source for name, source in moved.items() if source is not None}
    sources = dict.fromkeys(names) | run.data_paths | moved
    in_memory = run.list_in_memory()
    missing = [name for name in in_memory if name not in moved]
    if missing:
        call = write_resume_call(run.path, run.settings, in_memory)
        raise ValueError(
            f"{' and '.join(missing)} must be given to resume the run, in Python: "
            f"{'it was' if len(missing) == 1 else 'they were'} no file when the run started: {call}"
        )

    for name in _MODELS:
        if name in names and name not in moved and run.data_paths.get(name) is not None:
            _require_model(name, run.data_paths[name])
    return sources


def _require_model(name: str, path: str) -> None:
    """Raise a FileNotFoundError if a run's model is no longer at its path.

    The address of a model on a hub is no path.
    """
    if os.path.isabs(path) and not os.path.exists(path):
        raise FileNotFoundError(
            f"{path}: no such file or folder: if it has moved, give its place with --{name} "
            f"({name}= in Python)"
        )


def choose_variant(spec: GraphSpec, sources: Mapping[str, Any], settings) -> GraphSpec:
    """Return the variant of a graph to train."""
    # distillation reads the hidden states of all positions
    reads_all_states = sources.get("teacher") is not None and settings.hidden_loss
    return spec if reads_all_states else spec.for_training()


def describe_models(sources: Mapping[str, Any], base: str, trained: TrainedParts) -> dict[str, str]:
    """Return what a run starts from and what is trained of it, in words by name."""
    facts = {}
    names_by_title = {"Started from": base, "Teacher": "teacher"}
    for title, name in names_by_title.items():
        model = sources.get(name)
        if isinstance(model, Bert):
            model = model.source
        if model is None:
            continue
        is_address = "://" in str(model)
        facts[title] = str(model) if is_address else Path(model).name

    if trained.frozen:
        facts["Trained"] = _describe_trained(trained)
    return facts


def _describe_trained(trained: TrainedParts) -> str:
    """Return how many of a model's parameters are trained."""
    spec = trained.spec
    counts = account(spec.config, 1, head=spec.head, num_labels=spec.num_labels)
    trainable = dataclasses.replace(counts, trained=trained).trainable_params
    share = trainable / counts.params
    text = f"{trainable:,} of {counts.params:,} parameters ({share:.2%})"
    if trained.adapted:
        text += f", {trained.adapter_params:,} of them in adapters"
    return text


def digest_base(bert: Bert, adapter: LoraAdapter | None = None) -> str:
    """Return a hash of the weights that a run starts from, those of an adapter among them.

    Weights that are not in the checkpoint are left out: `load` initializes them at random.
    """
    new = bert.report.initialized_layers if bert.report else ()
    digest = weights_digest(bert, without=new)
    return digest if adapter is None else f"{digest} {digest_arrays(adapter)}"
