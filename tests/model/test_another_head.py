"""A head that kbert does not have: what its object and its rows say is enough."""

import dataclasses

import numpy as np
import pytest
from helpers.engines import build_engine
from helpers.sizes import BATCH, LENGTH

import kbert
from kbert import heads
from kbert.checkpoints import weight_names
from kbert.data.training_batch import TrainingBatch
from kbert.graph import closed_form, names
from kbert.graph.accounting import account
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import trained_parts
from kbert.heads.head import Variant
from kbert.model import heads as builders
from kbert.model.layers.encoder import Dropout
from kbert.model.layers.heads import Extract

ROWS = """
another|another|Another-First|Extract|(N, H)||{hidden}[0][0]|||
another|another|Another-Dense|Dense|(N, H)|H·H + H|Another-First[0][0]|2·{texts}·H·H|2·{texts}·H·w|
another|another|Another-Dropout|Dropout|(N, H)||Another-Dense[0][0]||{texts}·H|
another|another|Another|Dense|(N, {labels})|{labels}·H + {labels}|Another-Dropout[0][0]|||
doubt|qa|Span|Dense|(N, S, 2)|2·H + 2|{hidden}[0][0]|2·B·S·H·2||
doubt|pooler|Extract|Extract|(N, H)||{hidden}[0][0]|||
doubt|pooler|NSP-Dense|Dense|(N, H)|H·H + H|Extract[0][0]|2·B·H·H||
doubt|doubt|Doubt|Dense|(N, 2)|2·H + 2|NSP-Dense[0][0]|2·B·H·2||
"""
WEIGHTS = {"another": [("Another-Dense", "H"), ("Another", "N")], "doubt": [("Doubt", "2")]}
FORMATS = ("transformers", "google")


def apply_another(spec, x, table, inputs):
    """A dense layer on the first token, without a pooler."""
    x = Extract(**builders.name_layer(spec, "Another-First"))(x)
    x = builders.make_dense(spec, spec.config.hidden_size, "Another-Dense")(x)
    x = Dropout(spec.classifier_rate, **builders.name_layer(spec, "Another-Dropout"))(x)
    return builders.make_dense(spec, spec.num_labels, "Another")(x)


@pytest.fixture(autouse=True)
def more_heads(monkeypatch):
    """The head "another" has layers of its own; "doubt" has those of "qa" and one more."""
    another = dataclasses.replace(
        heads.HEADS["classifier"],
        name="another",
        variant=lambda family: Variant("another", ("another",), ("Another",)),
        build_outputs="model.test_another_head:apply_another",
        model_name="bert_another",
        layers=("Another-Dense", "Another"),
    )
    doubt = dataclasses.replace(
        heads.HEADS["qa"],
        name="doubt",
        variant=lambda family: Variant("doubt", ("pooler", "qa", "doubt"), ("Span", "Doubt")),
        layers=("Span", "Doubt"),
    )
    for head in (another, doubt):
        monkeypatch.setitem(heads.HEADS, head.name, head)
    rows = [line.split("|")[:-1] for line in ROWS.strip().splitlines()]
    table = [*closed_form.read_rows(), *rows]
    monkeypatch.setattr(closed_form, "read_rows", lambda: table)
    for part, layers in WEIGHTS.items():
        monkeypatch.setitem(weight_names.TABLE, part, tuple(list_templates(part, layers)))
    templates = [row for rows in weight_names.TABLE.values() for row in rows]
    monkeypatch.setattr(weight_names, "TEMPLATES", templates)


def list_templates(part, layers):
    for layer, outputs in layers:
        for variable, shape in (("kernel", (outputs, "H")), ("bias", (outputs,))):
            by_format = {form: f"{layer}.{variable}" for form in FORMATS}
            by_format["kbert"] = f"{layer}/{variable}"
            yield weight_names.Template(part, by_format, shape, layer, variable)


def test_head_with_its_own_layers_is_built_and_equals_its_rows(small):
    model = kbert.build_bert(small, head="another", seq_len=LENGTH, num_labels=5)
    assert model.output_shape == (None, 5)
    assert kbert.model_rows(model) == closed_form.rows(model.spec)


@pytest.mark.full
@pytest.mark.parametrize("rate", [None, 0.4])
def test_labels_and_dropout_of_its_own_layers_are_read_from_a_plain_keras_file(
    small, tmp_path, rate
):
    config = small.replace(classifier_dropout=rate)
    model = kbert.build_bert(config, head="another", num_labels=5)
    model.save(tmp_path / "bert.keras")
    again = kbert.load(tmp_path / "bert.keras")
    assert (again.config, again.head, again.spec.num_labels) == (config, "another", 5)


@pytest.mark.full
def test_head_that_reads_the_first_token_trains_without_a_pooler(small):
    spec = GraphSpec(small, "another", seq_len=LENGTH, num_labels=5).for_training()
    assert (spec.selected, spec.has_pooler) == (1, False)
    ids = np.random.default_rng(2).integers(1, 99, (BATCH, LENGTH)).astype("int32")
    inputs = {names.TOKEN_IDS: ids, names.SEGMENT_IDS: np.ones_like(ids)}
    labels = np.arange(BATCH, dtype="int32") % 5
    weights = np.full(BATCH, 1 / BATCH, "float32")
    batch = TrainingBatch(inputs, {"Another": labels}, {"Another": weights})
    gradients = build_engine(spec).gradients(batch, 3)
    assert all(
        np.abs(gradients[f"{name}/kernel"]).max() > 0 for name in ("Another-Dense", "Another")
    )


@pytest.mark.parametrize("column", FORMATS)
def test_head_with_another_ones_layers_and_one_more_is_found(small, column):
    tensors = [entry.name for entry in weight_names.entries_of(GraphSpec(small, "doubt"), column)]
    assert weight_names.find_head(tensors, column) == "doubt"
    assert weight_names.find_head([n for n in tensors if "Doubt" not in n], column) == "qa"
    layers = [row.layer for row in closed_form.rows(GraphSpec(small, "doubt"))]
    assert heads.find_head(layers).name == "doubt"


def test_training_flops_of_a_layer_on_the_pooler(small):
    """Only the head is trained: the gradient of the pooler's output is needed where it is."""
    flops = {}
    for freeze in ("embeddings,encoder", "embeddings,encoder,pooler"):
        spec = GraphSpec(small, "doubt")
        whole = account(small, LENGTH, BATCH, head="doubt")
        parts = trained_parts(spec, freeze=freeze)
        flops[freeze] = dataclasses.replace(whole, trained=parts).training_flops
    h = small.hidden_size
    pooler, on_it = 2 * BATCH * h * h, 2 * BATCH * h * 2
    assert flops["embeddings,encoder"] - flops["embeddings,encoder,pooler"] == pooler + on_it
