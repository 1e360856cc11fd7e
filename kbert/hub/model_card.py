"""A model's card: the README.md, with metadata, that Hugging Face shows on the model's page.

The metadata's keys are those of huggingface_hub's documentation, "Create and share Model Cards".
"""

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbert.graph.accounting import account
from kbert.heads import HEADS
from kbert.heads.head import Use
from kbert.hub.names import ModelName
from kbert.io import printable
from kbert.version import __version__

_PLACEHOLDER = '"ORG/NAME"'  # `push` writes the model's name in its place
_ANOTHER = "the package index's `kbert` is another project"  # in cards of each version
_MADE_BY = f"(from a clone of its repository; {_ANOTHER})."
_TRANSFORMERS = ("transformers", "transformers_onnx")  # formats that transformers opens
_LIBRARIES = dict.fromkeys(_TRANSFORMERS, "transformers") | {"keras_hub": "keras-hub"}  # the tag
_INTERVALS = (
    "The intervals are bootstrap percentiles over the dev examples: how much a metric depends on "
    "which examples these are. An accuracy of 0 or 1 has Wilson's interval. The intervals do not "
    "show how much a metric differs between seeds. If the run evaluated more than once, the dev "
    "data also chose the weights, and other data may give lower values."
)
_NO_INTERVALS = {  # by a run's verb
    "fine-tuned": "There are no intervals: they need at least 10 dev examples, and so few that 50 "
    "resamples of them take at most about 10 seconds.",
    "pretrained": "There are no intervals: these are means over batches of masked tokens.",
}
_METRIC_TYPES = {  # the names of Hugging Face's library of metrics, where they differ
    "matthews": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}


_SENTENCE = Use(
    "sentence-similarity",
    "sentence embeddings",
    "embed",
    "SentenceTransformer",
    '"a fine film"',
)


@dataclass(frozen=True)
class Training:
    """Description of the run that made a model.

    Attributes:
        verb: what was done, "fine-tuned" or "pretrained".
        base: what the run started from, an address on a hub; None: something else.
        facts: its data and what was done with them, in words by name.
        dev: the name of the dev data; None: there were none.
        metrics: on the dev data, by name.
        settings: its hyperparameters, by name.
        intervals: 95 % intervals of the metrics that have one, (lower, upper) by name.
        pairs: whether its examples were pairs of texts to classify.
    """

    verb: str
    base: str | None
    facts: Mapping[str, str]
    dev: str | None
    metrics: Mapping[str, float]
    settings: Mapping[str, Any]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    pairs: bool = False


def make_card(
    model,
    *,
    base: str | None = None,
    training: Training | None = None,
    form: str = "transformers",
) -> str:
    """Make the README.md of a `Bert` or a `Checkpoint`, for a folder of a format.

    `base` is the address of the model that it was made from; None: the training's.
    """
    use = choose_use(model, bool(training and training.pairs))
    config = model.spec.config
    name = ModelName.parse(base or (training and training.base) or "")

    title = name.repo.rpartition("/")[2] if name else config.family.title
    if training:
        title += f" {training.verb}"
    title += f" for {use.title}"

    mask = "<mask>" if config.family.first_position is not None else "[MASK]"
    metadata = _make_metadata(config.model_type, use, name, title, training, form)
    sections = [
        f"---\n{metadata}\n---",
        f"# {title}",
        _describe_origin(training),
        _table(("", ""), _list_facts(model, use, name, training).items()),
    ]
    if training:
        sections += _describe_metrics(training)
    sections += ["## How to use it", _show_use(use, mask, form)]
    if training:
        settings = training.settings.items()
        lines = [(f"`{key}`", _text(value)) for key, value in settings]
        sections += ["## Hyperparameters", _table(("setting", "value"), lines)]
    return "\n\n".join(sections) + "\n"


def _describe_origin(training: Training | None) -> str:
    """Say by what the model was made."""
    verb = training.verb.capitalize() if training else "Saved"
    return f"{verb} with kbert {__version__} {_MADE_BY}"


def _list_facts(
    model, use: Use, base: ModelName | None, training: Training | None
) -> dict[str, str]:
    """Return the facts on a model by name, then those on its training."""
    spec = model.spec
    config = spec.config
    costs = account(config, 1, head=spec.head, num_labels=spec.num_labels)
    params = costs.params

    labels = model.labels or ()
    shown = ", ".join(labels[:20])
    if labels[20:]:
        shown += f", … ({len(labels)})"

    facts = {"Task": use.title}
    if shown:
        facts["Labels"] = shown
    if base:
        facts["Started from"] = _link(base)
    facts["Size"] = (
        f"{config.num_hidden_layers} layers of width {config.hidden_size:,}, {params:,} parameters"
    )
    if training:
        for key, text in training.facts.items():
            facts.setdefault(key, text)
    return facts


def choose_use(model, pairs: bool = False) -> Use:
    """Return how to use a `Bert` or a `Checkpoint`; with `pairs` on two texts."""
    head = HEADS[model.spec.head]
    use = head.uses.get(model.problem_type or "", head.use)
    if not head.layers and model.sentence is not None:
        use = _SENTENCE
    return use._replace(inputs=f'{use.inputs}, "a good film"') if pairs else use


def fill_in_name(card: str, name: str) -> str:
    """Write a model's name into the examples of a card that kbert made; others stay as they are."""
    return card.replace(_PLACEHOLDER, f'"{name}"') if _ANOTHER in card else card


def _make_metadata(
    model_type: str,
    use: Use,
    base: ModelName | None,
    title: str,
    training: Training | None,
    form: str,
) -> str:
    """Return the card's metadata as YAML."""
    from huggingface_hub import EvalResult, ModelCardData

    library = _LIBRARIES.get(form, "kbert")
    if library == "transformers" and use is _SENTENCE:
        library = "sentence-transformers"

    data_name = printable.line((training and training.dev) or "dev")
    results = []
    metrics = training.metrics if training else {}
    for name, value in metrics.items():
        if name == "loss":  # no metric of Hugging Face's library
            continue
        result = EvalResult(
            task_type=use.tag,
            task_name=use.title,
            dataset_type="unknown",  # of Hugging Face's data sets
            dataset_name=data_name,
            metric_type=_METRIC_TYPES.get(name, name),
            metric_name=name,
            metric_value=value,
        )
        results.append(result)

    base_name = base.repo if base and base.hub == "hf" else None
    metric_types = [result.metric_type for result in results]
    return ModelCardData(
        library_name=library,
        tags=["kbert", model_type],
        base_model=base_name,
        pipeline_tag=use.tag,
        metrics=metric_types or None,
        model_name=title if results else None,
        eval_results=results or None,
    ).to_yaml()


def _link(name: ModelName) -> str:
    """Return a base model's name, and its commit, with a link to where that is."""
    if name.hub != "hf":
        return f"`{name}`"
    page = f"https://huggingface.co/{name.repo}"
    if not name.revision:
        return f"[{name.repo}]({page})"
    return f"[{name.repo}]({page}/tree/{name.revision}), commit `{name.revision}`"


def _describe_metrics(training: Training) -> list[str]:
    """Return the section of the metrics, or the sentence that there are none."""
    if not training.metrics:
        return ["## Metrics", "The run had no dev data, so there are no metrics."]

    columns = ["metric", f"dev data, {training.facts.get('Dev data', '')}"]
    note = _NO_INTERVALS[training.verb]
    if training.intervals:
        columns.append("95 % interval")
        note = _INTERVALS

    lines = []
    for name, value in training.metrics.items():
        ends = [f"{end:.4f}" for end in training.intervals.get(name, ())]
        lines.append((name, f"{value:.4f}", " to ".join(ends)))
    return ["## Metrics", _table(columns, lines), note]


def _show_use(use: Use, mask: str, form: str) -> str:
    """Return examples for kbert, and for the library that reads the format."""
    inputs = use.inputs.format(mask=mask)
    code = (
        f"import kbert\n\nbert = kbert.load({_PLACEHOLDER})\n"
        f"print(kbert.{use.function}(bert, {inputs}))"
    )
    examples = {"kbert": code.replace("'", '"')}

    if use is _SENTENCE and form in _TRANSFORMERS:
        examples["sentence-transformers"] = (
            "from sentence_transformers import SentenceTransformer\n\n"
            f"model = SentenceTransformer({_PLACEHOLDER})\nprint(model.encode([{inputs}]))"
        )
    elif form in _TRANSFORMERS:
        examples["transformers"] = (
            f"from transformers import {use.auto_class}, AutoTokenizer\n\n"
            f"tokenizer = AutoTokenizer.from_pretrained({_PLACEHOLDER})\n"
            f"model = {use.auto_class}.from_pretrained({_PLACEHOLDER})\n"
            f"{use.peer.replace('INPUTS', inputs)}"
        )
    blocks = [f"With {name}:\n\n```python\n{code}\n```" for name, code in examples.items()]
    return "\n\n".join(blocks)


def _table(header: Iterable[str], cells: Iterable[Iterable[str]]) -> str:
    header = list(header)
    table = [header, ["---"] * len(header)]
    table += [list(row)[: len(header)] for row in cells]

    lines = []
    for row in table:
        texts = [_cell(text) for text in row]
        lines.append(f"| {' | '.join(texts)} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Return a text as a cell of a table: on one line, no border within, no HTML."""
    line = printable.line(" ".join(text.split()))
    return html.escape(line, quote=False).replace("|", "\\|")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join([str(item) for item in value])
    return str(value)
