"""A recipe, from a corpus to a table of GLUE: each step has a folder, and is not done twice.

OUT/recipe.json     what was asked for; written first
    vocabulary/     the tokenizer
    shards/         the corpus as tokens
    run/            the pretraining
    glue/           the fine-tuning on GLUE's tasks
    report.html     all of it on one page; written last
"""

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from kbert.data.corpus.preparing import prepare
from kbert.data.corpus.shards import Shards, open_shards
from kbert.data.corpus.vocab_training import train_vocab
from kbert.data.pretraining.pretraining_batches import count_predictions
from kbert.graph import accelerators
from kbert.graph.config import BertConfig
from kbert.graph.presets import get_config
from kbert.io import json_schema as js
from kbert.io import printable
from kbert.io.atomic_write import write_atomically
from kbert.io.folders import check_new_folder
from kbert.io.json_differences import differences
from kbert.io.json_values import as_json
from kbert.io.row_formats import to_json
from kbert.planning.plan import Plan, plan
from kbert.tasks.glue.glue import glue
from kbert.tasks.glue.results import GlueResult, published_text
from kbert.tasks.pretraining.pretrain import pretrain
from kbert.tasks.pretraining.results import Trained
from kbert.tasks.pretraining.settings import PretrainingSettings, check_budget, check_length
from kbert.tasks.recipes.recipes import Recipe, find_recipe
from kbert.tasks.resume import resume
from kbert.training.run.report_page import write_page
from kbert.training.settings.run_settings import RunOptions
from kbert.training.settings.setting_texts import list_fields

_logger = logging.getLogger("kbert")
_REQUEST_FILE = "recipe.json"
PAGE = "report.html"

# How cramming evaluates its models: config/eval/GLUE_sane.yaml and optim/adam.yaml of its code. One
# point for all tasks, so that nothing is chosen on the dev data.
GLUE_SETTINGS: dict[str, Any] = {
    "batch_sizes": [16],
    "learning_rates": [4e-5],
    "epochs": [5],
    "schedule": "cosine",
    "warmup_ratio": 0.1,
    "weight_decay": 0.0,
    "beta_2": 0.98,
    "clip_norm": None,
}


@dataclass(frozen=True)
class RecipeResult:
    """The result of `kbert.run_recipe`; printed, it is the loss and the table of GLUE.

    Attributes:
        recipe: the recipe's name.
        trained: the pretrained model, as from `kbert.pretrain`.
        glue: the scores, as from `kbert.glue`; None: no data were given.
        folder: the folder of all steps, with report.html.
    """

    recipe: str
    trained: Trained
    glue: GlueResult | None
    folder: Path

    def __str__(self) -> str:
        lines = [self.pretraining_text]
        if self.glue is not None:
            lines.append(str(self.glue))
        return "\n".join(lines)

    @property
    def pretraining_text(self) -> str:
        """The last losses of the pretraining."""
        history = self.trained.history
        last = history.updates[-1]
        text = f"{self.recipe}: loss {last['loss']:.4f} after {last['step']:,} steps"
        if history.evaluations:
            text += f", {history.evaluations[-1]['val_loss']:.4f} on held-out documents"
        return text


@printable.escape_errors()
def run_recipe(
    name: str,
    corpus: str | os.PathLike | Iterable[str | os.PathLike] | Mapping | None = None,
    *,
    output: str | os.PathLike,
    shards: str | os.PathLike | None = None,
    config: BertConfig | str | os.PathLike = "base",
    vocab_size: int | None = None,
    mix: Mapping[str, float] | str | None = None,
    text_column: str | Mapping[str, str] = "text",
    glue_data: str | os.PathLike | None = None,
    tasks: str = "sane",
    seeds: int = 5,
    **settings: bool | int | float | str | None,
) -> RecipeResult:
    """Pretrain by a recipe: train a vocabulary, prepare shards, plan, pretrain, run GLUE, report.

    Each step has a folder in `output`. After an interruption call it again: finished steps are not
    repeated, the others are resumed.

    Args:
        name: "original", "cramming" or "mosaic"; `kbert recipe NAME` prints its settings and their
            sources.
        corpus: raw text, as for `kbert.prepare`; or
        shards: the folder that `kbert.prepare` wrote.
        output: the folder of all steps; new, or of an earlier call.
        config: the model, as for `kbert.pretrain`.
        vocab_size: number of tokens of the vocabulary. None: as the recipe was published.
        mix, text_column: as for `kbert.prepare`.
        glue_data: GLUE's folder, as for `kbert.glue`. None: no model is fine-tuned.
        tasks, seeds: as for `kbert.glue`.
        settings: those of `kbert.pretrain`, in place of the recipe's; `hours` or `steps` is needed.

    Returns:
        A `RecipeResult`.

    Raises:
        ValueError: an unknown recipe, or a part of another graph than BERT's; neither or both of
            `corpus` and `shards`; other settings than the first call had.
        Exception: any error of the steps.
    """
    recipe = find_recipe(name)
    folder = Path(output)
    if (corpus is None) == (shards is None):
        raise ValueError("corpus or shards must be given, one of the two: the text to learn from")
    run_names = settings.keys() & list_fields(RunOptions).keys()
    options = {key: settings.pop(key) for key in run_names}
    chosen = PretrainingSettings.from_options(recipe.read_settings() | settings)
    check_length(chosen)
    check_budget(chosen)
    vocab_size = vocab_size or recipe.vocab_size
    request = {
        "recipe": name,
        "config": get_config(config).to_dict(),
        "vocab_size": vocab_size,
        "settings": chosen.as_dict(),
    }
    _check_request(folder, as_json(request))

    if corpus is not None:
        vocabulary, shards = folder / "vocabulary", folder / "shards"
        if not vocabulary.exists():
            _logger.info("training a vocabulary of %s tokens", f"{vocab_size:,}")
            train_vocab(corpus, vocab_size, vocabulary, text_column=text_column)
        prepare(corpus, vocabulary, shards, mix=mix, text_column=text_column, progress=True)
    assert shards is not None
    opened = open_shards(shards)
    trained = _pretrain(folder / "run", opened, config, chosen, options)
    scores = None
    if glue_data is not None:
        scores = glue(
            folder / "run" / "model",
            glue_data,
            output=folder / "glue",
            tasks=tasks,
            seeds=seeds,
            precision=chosen.precision,
            **GLUE_SETTINGS,
        )
    result = RecipeResult(name, trained, scores, folder)
    _write_report(recipe, result, opened)
    return result


def _check_request(folder: Path, request: dict) -> None:
    """Write down what is asked for; raise a ValueError if an earlier call asked otherwise."""
    file = folder / _REQUEST_FILE
    if file.is_file():
        different = "; ".join(differences(js.read(file, js.OBJECT), request))
        if different:
            raise ValueError(f"{folder} was made otherwise: {different}: choose another output")
        return
    check_new_folder(folder).mkdir(parents=True, exist_ok=True)
    write_atomically(file, to_json(request).encode())


def _pretrain(
    run: Path,
    shards: Shards,
    config: BertConfig | str | os.PathLike,
    settings: PretrainingSettings,
    options: dict[str, Any],
) -> Trained:
    """Start the run, or resume it; a new one gets micro-batches that fit the device."""
    if (run / "settings.json").is_file():
        resumed = resume(run, **options)
        assert isinstance(resumed, Trained)
        return resumed
    model = get_config(config).replace(vocab_size=shards.vocab_size)
    settings = _fit_device(model, settings, options.get("devices"))
    return pretrain(shards.folder, config, output=run, **settings.as_dict(), **options)


def _fit_device(
    config: BertConfig, settings: PretrainingSettings, devices: int | None
) -> PretrainingSettings:
    """Return the settings with more micro-batches where theirs need more memory than there is."""
    from kbert.ops.devices import device_names

    names = device_names()
    memory = accelerators.find_memory(names[0])
    if memory is None:
        _logger.warning("the memory of %s is not known: batches are as in the recipe", names[0])
        return settings
    while True:
        planned = plan(
            config,
            gpu=f"device:{devices or len(names)}",
            peak_flops=1e12,  # the memory does not depend on it
            memory=memory,
            seq_len=settings.seq_len,
            batch_size=settings.batch_size,
            precision=settings.precision,
            accumulation_steps=settings.accumulation_steps,
            gradient_checkpointing=settings.gradient_checkpointing,
            max_predictions=count_predictions(settings.mlm_probability, settings.seq_len),
            ema=settings.ema,
        )
        _logger.info("%s", _describe_plan(names[0], planned))
        micro_batch = settings.batch_size // settings.accumulation_steps
        if planned.memory.fits or micro_batch % 2:
            return settings
        settings = replace(settings, accumulation_steps=2 * settings.accumulation_steps)


def _describe_plan(device: str, planned: Plan) -> str:
    memory, size = planned.memory, planned.batch_size // planned.accumulation_steps
    return (
        f"{device}: {planned.accumulation_steps} times {size} × {planned.seq_len} tokens a step "
        f"need {memory.total / 2**20:,.0f} of {memory.capacity / 2**20:,.0f} MiB"
    )


def _write_report(recipe: Recipe, result: RecipeResult, shards: Shards) -> None:
    """Write report.html: the recipe with its sources, the data, the run, and GLUE."""
    index = shards.index
    glue_text = published_text()
    note = "No scores of this run: give the folder of GLUE's files (--glue) and run it again."
    if result.glue is not None:
        glue_text = str(result.glue)
        note = "<a href='glue/report.html'>All runs, and the sources of the published scores</a>"
    sections = [
        f"<h1>{recipe.name}</h1>",
        *[f"<p class=small>{escape(line)}</p>" for line in recipe.comments],
        f"<p>{index['documents']:,} documents, {index['tokens']:,} tokens, a vocabulary of "
        f"{shards.vocab_size:,}</p>",
        "<h2>Pretraining</h2>",
        f"<p>{escape(result.pretraining_text)}</p>",
        "<p><a href='run/report.html'>Curves, settings and devices of the run</a></p>",
        f"<h2>GLUE</h2><div class=table><pre>{escape(glue_text)}</pre></div>",
        f"<p class=small>{note}</p>",
    ]
    write_page(result.folder / PAGE, f"{result.folder.name}: {recipe.name}", sections)
