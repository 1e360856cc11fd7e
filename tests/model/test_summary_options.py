"""Options of a summary, in Python and on the command line, do what Keras's do."""

import inspect
import json

import keras
import numpy as np
import pytest
from helpers.command_line import kbert, read_table
from helpers.errors import raises
from helpers.parse_summary import expected, parse, parse_keras
from helpers.sizes import BATCH, LENGTH

from kbert import account, build_bert, model_rows
from kbert.graph.closed_form import rows
from kbert.graph.reference import document_004
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS, HEADS_WITH_LABELS
from kbert.model.bert_model import BertModel


@pytest.fixture(scope="module")
def model(small):
    return build_bert(small)


@pytest.fixture
def keras_prints(monkeypatch):
    """Keras's own summary of a model, wide enough to cut nothing, parsed."""
    monkeypatch.setenv("COLUMNS", "400")

    def summary(model, **options):
        pages = []
        ends = [0.3, 0.5, 0.6, 0.9] if options.get("show_trainable") else [0.3, 0.5, 0.6, 1.0]
        ends += [1.0] if options.get("show_trainable") else []
        keras.Model.summary(model, 390, ends, pages.append, **options)
        return parse_keras("\n".join(pages))

    return summary


@pytest.fixture
def prints(capsys):
    """kbert's summary of a model, parsed."""

    def summary(model, **options):
        capsys.readouterr()
        model.summary(**options)
        return parse(capsys.readouterr().out)

    return summary


@pytest.fixture(scope="module")
def config_file(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("configuration") / "small.json"
    small.to_json(path)
    return path


def test_summary_has_keras_arguments():
    ours, theirs = (
        [
            (one.name, one.kind, one.default)
            for one in inspect.signature(kind.summary).parameters.values()
        ]
        for kind in (BertModel, keras.Model)
    )
    more = ours[len(theirs) :]  # what is trained, and the form, by keyword alone
    assert ours[: len(theirs)] == theirs and len(more) == 5
    assert {kind for _, kind, _ in more} == {inspect.Parameter.KEYWORD_ONLY}


def test_summary_rows_equal_keras_table(model, prints, keras_prints):
    ours, theirs = prints(model), keras_prints(model)
    assert ours.rows == theirs.rows == expected(model_rows(model))
    assert ours.totals == [line.split(" (")[0] for line in theirs.totals]


@pytest.mark.full
def test_summary_totals_stay_the_same_after_training(small, prints, keras_prints):
    model = build_bert(small, seq_len=LENGTH)
    before = prints(model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", {"MLM": loss, "NSP": loss}, run_eagerly=True)
    ids = np.ones((BATCH, LENGTH), "int32")
    model.fit([ids, ids, ids], [ids, ids[:, 0]], batch_size=BATCH, verbose=0)
    assert prints(model) == before
    # Keras's own total has grown by Adam's two moments a parameter: the optimizer is there.
    count = sum(int(np.prod(weight.shape)) for weight in model.weights)
    assert before.totals[0] == f"Total params: {count:,}"
    theirs = keras_prints(model).totals[0].split(" (")[0].split()[-1]
    assert int(theirs.replace(",", "")) > 2.9 * count


def test_summary_shows_trainable_as_keras_does(small, prints, keras_prints):
    model = build_bert(small)
    for name in ("Embedding-Token", "Encoder-2-FeedForward", "MLM-Norm"):
        model.get_layer(name).trainable = False
    theirs = keras_prints(model, show_trainable=True)
    assert theirs.trainable.count("N") == 3
    for width in (None, 200, 80, 40):
        ours = prints(model, show_trainable=True, line_length=width)
        assert (ours.rows, ours.trainable) == (theirs.rows, theirs.trainable), width
        assert ours.totals == [line.split(" (")[0] for line in theirs.totals]


@pytest.mark.parametrize(
    "names",
    [
        ("Embedding-Token", "Embedding-Norm"),
        ("Encoder-2-", "Encoder-2-"),
        ("Encoder-1-FeedForward-Norm", "Encoder-3-MultiHeadSelfAttention-Add"),
        ("NSP$", "NSP$"),
        ("MLM", "Extract"),
        ("MLM-Norm", "MLM"),
        ("Encoder-3-", "Encoder-1-"),
        (".*Norm", ".*Dropout"),
    ],
)
def test_layer_range_equals_keras(model, prints, keras_prints, names):
    theirs = keras_prints(model, layer_range=names)
    ours = prints(model, layer_range=names)
    assert ours.rows == theirs.rows
    shown = sum(row[2] for row in theirs.rows)
    assert ours.totals == [
        f"Shown: {len(theirs.rows)} of {len(model.layers)} rows, {shown:,} params",
        *(line.split(" (")[0] for line in theirs.totals),
    ]


@pytest.mark.parametrize("names", [["nosuch", "MLM"], ["MLM"], "MLM", [1, 2]])
def test_layer_range_that_keras_refuses_is_refused(model, names):
    for kind in (BertModel, keras.Model):
        with raises(ValueError, "layer"):
            kind.summary(model, print_fn=lambda text: None, layer_range=names)


def test_tsv_equals_the_reference_table_byte_for_byte(capsys, shared):
    done = kbert(capsys, "summary", "base", "--format", "tsv")
    table = shared / "reference" / "keras_bert_base.tsv"
    assert done.out.encode() == table.read_bytes()
    assert done.status == 0


@pytest.mark.parametrize("form", ["text", "tsv", "json", "markdown"])
def test_every_format_holds_the_same_rows(capsys, config_file, model, form):
    out = kbert(capsys, "summary", config_file, "--format", form).out
    if form == "text":
        assert parse(out).rows == expected(model_rows(model))
        return
    if form == "json":
        assert json.loads(out)["total_params"] == model.count_params()
    assert [
        [name, kind, shape, int(str(params).replace(",", "")), connected]
        for name, kind, shape, params, connected in read_table(out, form)
    ] == [
        [row.layer, row.type, row.output_shape, row.params, row.connected_to]
        for row in model_rows(model)
    ]


@pytest.mark.parametrize("built", [[], ["--built"]])
@pytest.mark.parametrize("head", HEADS)
def test_summary_of_each_head_equals_its_closed_form(capsys, config_file, small, head, built):
    labels = ["--num-labels", 5] if head in HEADS_WITH_LABELS else []
    done = kbert(capsys, "summary", config_file, "--head", head, *labels, *built)
    full = account(small, head=head, num_labels=5)
    printed = parse(done.out)
    assert printed.rows == expected(full.rows)
    assert printed.totals[0] == f"Total params: {full.params:,}"


@pytest.mark.full
@pytest.mark.parametrize("form", ["text", "tsv", "json", "markdown"])
@pytest.mark.parametrize(
    "options", [[], ["--layers", "2"], ["--seq-len", "any", "--max-predictions", 3]]
)
def test_summary_equals_the_built_graphs_in_every_format(capsys, config_file, options, form):
    line = ["summary", config_file, *options, "--format", form]
    without_keras, built = kbert(capsys, *line), kbert(capsys, *line, "--built")
    assert without_keras.status == built.status == 0
    assert without_keras.out == built.out


@pytest.mark.parametrize(("length", "axis"), [("7", 7), ("any", None)])
def test_seq_len_shows_in_every_shape(capsys, config_file, small, length, axis):
    found = parse(kbert(capsys, "summary", config_file, "--seq-len", length).out).rows
    assert found == expected(rows(GraphSpec(small, seq_len=axis)))
    # The document's own rows have P where these have the length.
    document = {f"{row.layer}({row.type})": row for row in document_004()}
    for name, shape, *_ in found:
        if name in document:
            axes = document[name].output_shape.count("512")
            assert shape.count(f"(None,{axis}") == axes, name


def test_max_predictions_shows_in_the_mlm_head(capsys, config_file, small):
    found = parse(kbert(capsys, "summary", config_file, "--max-predictions", 3).out).rows
    assert found == expected(account(small, max_predictions=3).rows)
    shapes = {name: shape for name, shape, *_ in found}
    assert shapes["MLM(Masked)"] == "(None,3,99)"
    assert shapes["Input-Positions(InputLayer)"] == "(None,3)"


@pytest.mark.parametrize(("layers", "blocks"), [("1-2", (1, 2)), ("2", (2,)), ("3-3", (3,))])
@pytest.mark.parametrize("form", ["text", "tsv"])
def test_layers_option_shows_those_blocks(capsys, config_file, model, layers, blocks, form):
    out = kbert(capsys, "summary", config_file, "--layers", layers, "--format", form).out
    chosen = [row for row in model_rows(model) if row.layer.startswith("Encoder-")]
    chosen = [row for row in chosen if int(row.layer.split("-")[1]) in blocks]
    assert len(chosen) == 8 * len(blocks)
    if form == "text":
        assert parse(out).rows == expected(chosen)
    else:
        assert [line.split("\t")[0] for line in out.splitlines()[1:]] == [
            row.layer for row in chosen
        ]


def test_block_1_is_not_block_10_to_12(capsys, small, tmp_path):
    small.replace(num_hidden_layers=12).to_json(tmp_path / "deep.json")
    for layers, blocks in (("1", {"1"}), ("10-12", {"10", "11", "12"})):
        done = kbert(capsys, "summary", tmp_path / "deep.json", "--layers", layers)
        found = [name.split("-")[1] for name, *_ in parse(done.out).rows]
        assert (set(found), len(found)) == (blocks, 8 * len(blocks))
