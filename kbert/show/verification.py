"""Verification of three sources: the built graph, the closed forms, the published tables."""

import itertools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbert.checkpoints import weight_names
from kbert.graph import closed_form, names, reference
from kbert.graph.accounting import account
from kbert.graph.aliases import answer_old_names
from kbert.graph.closed_form import COLUMNS, Row
from kbert.graph.config import BertConfig
from kbert.graph.keras_config import SETTINGS, read_config
from kbert.graph.presets import base, get_config
from kbert.graph.spec import GraphSpec

if TYPE_CHECKING:
    import keras

# What the sources are called in a sentence; the others are tables that someone published.
_OWN = {"graph": "the built graph", "closed forms": "the closed forms"}
_OWN["transformers' parameters"] = "transformers' parameters"
_ARTICLE = '"Understanding BERT architecture"'  # its summary of 112 rows


@dataclass(frozen=True)
class Difference:
    """A value that differs between two sources.

    Attributes:
        where: the layer, weight or number that it is of.
        what: the column, such as "params", in which it differs.
        expected, found: the values of the two sources.
    """

    where: str
    what: str
    expected: object
    found: object

    def __str__(self) -> str:
        return f"{self.where}: {self.what} expected {self.expected}, found {self.found}"


@dataclass(frozen=True)
class Comparison:
    """A comparison of two sources: how much was compared, and the differences.

    Attributes:
        found, expected: the names of the two sources, such as "graph" and "closed forms".
        amount: how much was compared, in words.
        differences: the values that differ.
    """

    found: str
    expected: str
    amount: str
    differences: tuple[Difference, ...] = ()

    def __repr__(self) -> str:
        return f"Comparison({self.found} = {self.expected}: {self.amount}, {self.verdict})"

    @property
    def verdict(self) -> str:
        """Statement that all values agree, or how many differ."""
        return f"{len(self.differences)} differ" if self.differences else "ok"


@dataclass(frozen=True)
class VerificationReport:
    """The result of `verify`.

    Attributes:
        comparisons: one per pair of sources.
        errata: errors in the published documents, each with its arithmetic.
    """

    comparisons: tuple[Comparison, ...]
    errata: tuple = field(default=())

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Values that differ, each with the row, the expected and the found value."""
        differences = (comparison.differences for comparison in self.comparisons)
        return tuple(itertools.chain.from_iterable(differences))

    @property
    def ok(self) -> bool:
        """True if all sources agree and the arithmetic of every erratum is right."""
        return not self.differences and all(entry.holds for entry in self.errata)

    def __repr__(self) -> str:
        holding = sum(entry.holds for entry in self.errata)
        return (
            f"VerificationReport({'ok' if self.ok else 'not ok'}: "
            f"{len(self.comparisons)} comparisons, "
            f"{len(self.differences)} differences, {holding} of {len(self.errata)} errata hold)"
        )

    def _repr_html_(self) -> str:
        from kbert.io.row_formats import to_html

        lines = [(f"{p.found} = {p.expected}", p.amount, p.verdict) for p in self.comparisons]
        lines += [(str(difference), "", "differs") for difference in self.differences]
        for entry in self.errata:
            says = f"{entry.source_says}: {entry.says}; correct: {entry.true}"
            lines.append((says, entry.arithmetic, "ok" if entry.holds else "DOES NOT HOLD"))
        return to_html(("compared", "how much", "verdict"), lines, repr(self))

    def to_latex(self) -> str:
        """Return the comparisons and what differs as a table for LaTeX, with booktabs' rules."""
        from kbert.io.latex import to_latex

        lines = [(f"{p.found} = {p.expected}", p.amount, p.verdict) for p in self.comparisons]
        lines += [(str(difference), "", "differs") for difference in self.differences]
        return to_latex(("Compared", "How much", "Verdict"), lines)

    def __str__(self) -> str:
        from kbert.show.texts import paragraph

        lines = []
        for part in self.comparisons:
            what = f"{part.found} = {part.expected}: {part.amount}"
            lines.append(what.ljust(70) + part.verdict.rjust(10))
            lines += [paragraph(str(difference), 4) for difference in part.differences]
        if self.errata:
            lines += ["", "CORRECTIONS OF PUBLISHED TEXTS"]
        for entry in self.errata:
            lines.append(paragraph(f"{entry.source_says}: {entry.says}"))
            lines.append(paragraph(f"correct: {entry.true}", 4))
            verdict = "ok" if entry.holds else "DOES NOT HOLD"
            lines.append(paragraph(f"{entry.arithmetic} … {verdict}", 4))
        lines += ["", paragraph(self.verdict, 0)]
        return "\n".join(lines) + "\n"

    @property
    def verdict(self) -> str:
        """Statement of what agrees with what, or of how much differs."""
        wrong_errata = sum(not entry.holds for entry in self.errata)
        wrong = len(self.differences) + wrong_errata
        if wrong:
            return f"{wrong} difference{'s' * (wrong > 1)}."

        compared: dict[str, None] = {}  # in this order, each once
        for comparison in self.comparisons:
            compared |= dict.fromkeys((comparison.found, comparison.expected))
        sources = [_OWN[name] for name in compared if name in _OWN]
        tables = len(set(compared) - set(_OWN))
        if tables:
            sources.append(f"{tables} published table{'s' * (tables > 1)}")

        text = f"{', '.join(sources[:-1])} and {sources[-1]} agree."
        if self.errata:
            text += (
                f" {len(self.errata)} statements of published texts do not: each is corrected, "
                "with its arithmetic."
            )
        return text[0].upper() + text[1:]


@answer_old_names
def verify(
    source: "keras.Model | BertConfig | str | os.PathLike | None" = None,
    *,
    config: BertConfig | str | os.PathLike | None = None,
) -> VerificationReport:
    """Compare a graph with the closed forms and, if there is one, with its published table.

    Args:
        source: None: `base` with every check; a preset's name, a path to a JSON file or a
            `BertConfig`, which is built; or your own functional `keras.Model`.
        config: the configuration, if the model's layers do not determine it.

    Returns:
        A `VerificationReport`.

    Raises:
        ValueError: the model has no graph, or no layer Embedding-Token.
    """
    from kbert.model.summary import model_rows, read_spec_arguments

    is_config = source is None or isinstance(source, (str, BertConfig))
    if is_config or hasattr(source, "__fspath__"):
        from kbert.model.deferred import build_outline

        config = get_config("base" if source is None else source)
        source = build_outline(GraphSpec.of(config))

    config = config_of(source) if config is None else get_config(config)
    arguments = read_spec_arguments(source)
    expected = closed_form.rows(GraphSpec(config, **arguments))
    differences = compare_summaries(model_rows(source), expected)
    amount = f"{len(expected)} rows × 5 columns"
    comparisons = [Comparison("graph", "closed forms", amount, differences)]
    comparisons.append(_compare_weights(source, config))
    is_document = arguments == {"head": "pretraining", "seq_len": 512}
    if _sizes(config) != _sizes(base) or not is_document:
        return VerificationReport((*comparisons, *_compare_parameters(config)))
    from kbert.graph.reference.errata import errata

    comparisons += _compare_documents(source, config)
    return VerificationReport(tuple(comparisons), errata())


def config_of(model) -> BertConfig:
    """Return the configuration of a model, derived from its layers by their names."""
    if not hasattr(model, "layers"):
        raise TypeError(
            "expected a keras.Model, a preset's name, a path to a JSON file or a BertConfig, got "
            f"{type(model).__name__}{': give its .model' if hasattr(model, 'model') else ''}"
        )
    # Attributes, which are called as in get_config: that one imports TensorFlow on any backend.
    known = {"first", *(attribute for _, attribute in SETTINGS.values())}
    settings = {}
    for layer in model.layers:
        present = [attribute for attribute in known if hasattr(layer, attribute)]
        values = {attribute: getattr(layer, attribute) for attribute in present}
        settings[layer.name] = values
    if names.TOKEN_EMBEDDING not in settings:
        raise ValueError(
            f"expected a BERT graph, with a layer {names.TOKEN_EMBEDDING}, got {model.name!r}, "
            f"which has {', '.join(list(settings)[:3])} …"
        )
    return read_config(settings)


def compare_summaries(summary: Sequence[Row], expected: Sequence[Row]) -> tuple[Difference, ...]:
    """Return every missing, additional, moved or different row, by name."""
    summary_by_name = {row.layer: row for row in summary}
    expected_by_name = {row.layer: row for row in expected}
    differences = []
    for name in expected_by_name:
        if name not in summary_by_name:
            differences.append(Difference(name, "row", "present", "missing"))
    for name, row in summary_by_name.items():
        if name not in expected_by_name:
            additional = f"{row.type}, {row.params:,} parameters"
            differences.append(Difference(name, "row", "none", additional))

    common = [row.layer for row in expected if row.layer in summary_by_name]
    order = [row.layer for row in summary if row.layer in expected_by_name]
    pairs = zip(common, order, strict=False)
    for number, (wanted, name) in enumerate(pairs, start=1):
        if wanted != name:
            differences.append(Difference(f"row {number}", "layer", wanted, name))
            break

    for name in common:
        for column in COLUMNS[1:]:
            wanted = getattr(expected_by_name[name], column)
            value = getattr(summary_by_name[name], column)
            if wanted != value:
                differences.append(Difference(name, column, wanted, value))
    return tuple(differences)


def _compare_weights(model, config: BertConfig) -> Comparison:
    """Compare each variable of encoder and pooler with its parameter in transformers."""
    layers = {layer.name: layer for layer in model.layers}
    entries = weight_names.entries_of(GraphSpec(config, "encoder"), "kbert")
    if names.POOLER not in layers:
        entries = [entry for entry in entries if entry.layer != names.POOLER]
    differences = []
    parameters = weight_names.named_parameters(config)
    for entry, parameter in zip(entries, parameters, strict=False):
        count = None
        layer = layers.get(entry.layer)
        if layer is not None:
            count = _count_variable(layer, entry.variable)
        if count != parameter.numel:
            where = f"{entry.layer}/{entry.variable}"
            differences.append(Difference(where, "parameters", parameter.numel, count))
    amount = f"{len(entries)} variables"
    return Comparison("graph", "transformers' parameters", amount, tuple(differences))


def _count_variable(layer, name: str) -> int | None:
    """Return the number of parameters of a layer's variable; None if it has no such variable."""
    for weight in layer.weights:
        if weight.path.endswith(f"/{name}"):
            return math.prod(weight.shape)
    return None


def _compare_documents(model, config: BertConfig) -> list[Comparison]:
    """Compare base with every published table."""
    from kbert.model.summary import model_rows

    table, total = reference.document_004(), 109_705_010
    amount = f"{len(table)} rows × 5 columns"
    closed = closed_form.rows(GraphSpec(config, seq_len=512))
    wrong_total = _unequal("total", "parameters", total, model.count_params())
    published = reference.published_totals()
    wrong: list[Difference] = []
    for entry in published:
        params = account(entry.config, head="encoder").params
        wrong += _unequal(entry.model, "total", entry.params_encoder_and_pooler, params)
    models = f"{len(published)} models"
    return [
        Comparison("graph", _ARTICLE, amount, compare_summaries(model_rows(model), table)),
        Comparison("closed forms", _ARTICLE, amount, compare_summaries(closed, table)),
        Comparison("graph", _ARTICLE, f"total {total:,}", wrong_total),
        *_compare_parameters(get_config("base_uncased")),
        *_compare_parameters(get_config("large_uncased")),
        Comparison("closed forms", "published totals", models, tuple(wrong)),
    ]


def _compare_parameters(config: BertConfig) -> list[Comparison]:
    """Compare with transformers' list of parameters for this configuration, if there is one."""
    documents = {"base_uncased": "bert-base-uncased", "large_uncased": "bert-large-uncased"}
    sizes = _sizes(config)
    presets = [name for name in documents if _sizes(get_config(name)) == sizes]
    if not presets:
        return []

    preset = presets[0]
    expected = reference.named_parameters(preset)
    computed = weight_names.named_parameters(config)
    differences = list(_unequal(preset, "named parameters", len(expected), len(computed)))
    for wanted, value in zip(expected, computed, strict=False):
        differences += _unequal(wanted.parameter, "entry", wanted, value)

    total = sum(entry.numel for entry in expected)
    amount = f"{len(expected)} parameters, {total:,}"
    return [Comparison("closed forms", documents[preset], amount, tuple(differences))]


def _sizes(config: BertConfig) -> dict[str, int]:
    """Return the sizes that names, shapes and counts determine: not rates or activations."""
    sizes = closed_form.config_letters(config)
    sizes["segments"] = config.type_vocab_size
    return sizes


def _unequal(where: str, what: str, expected, value) -> tuple[Difference, ...]:
    if expected == value:
        return ()
    return (Difference(where, what, expected, value),)
