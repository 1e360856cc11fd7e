"""The pictures show the graph of document 004: its nodes, edges, shapes and counts."""

import re
from dataclasses import replace

import pytest
from helpers.diagram_readers import (
    DOCUMENT,
    READERS,
    read_dot,
    shown,
    shown_collapsed,
)

from kbert.show import diagrams
from kbert.show.plotting import plot


@pytest.mark.parametrize("ending", READERS)
def test_whole_diagram_is_document_004(drawn, ending):
    nodes, edges, frames = READERS[ending](drawn(ending, False).read_text(encoding="utf-8"))
    assert (nodes, edges) == shown(DOCUMENT)
    assert (len(nodes), sum(edges.values()), frames) == (112, 136, [])


@pytest.mark.parametrize("ending", READERS)
def test_collapsed_diagram_is_document_004_with_one_block(drawn, ending):
    nodes, edges, frames = READERS[ending](drawn(ending, True).read_text(encoding="utf-8"))
    assert (nodes, edges) == shown_collapsed()
    assert len(nodes) == 112 - 11 * 8 + 1
    ((label, framed),) = frames
    told = ["× 12", "Encoder n = 1 … 12", "7,087,872 params each", "85,054,464 in all"]
    assert label == told
    assert framed is None or framed == {name for name in nodes if name.startswith("Encoder-n-")}


# Other models and other blocks.


@pytest.mark.full
@pytest.mark.parametrize("build", ["build_encoder", "build_classifier", "build_question_answering"])
def test_every_head_is_drawn_from_its_blocks_output(build, small, tmp_path):
    import kbert

    model = getattr(kbert, build)(small)
    for ending in READERS:
        text = plot(model, tmp_path / f"a.{ending}").read_text(encoding="utf-8")
        nodes, edges, frames = READERS[ending](text)
        assert len(nodes) == len(model.layers) - 2 * 8 + 1
        assert frames[0][0][:2] == ["× 3", "Encoder n = 1 … 3"]
        outside = [b for a, b, _ in edges if a == "Encoder-n-FeedForward-Norm"]
        assert outside and not any(name.startswith("Encoder") for name in outside)


@pytest.mark.full
@pytest.mark.parametrize("collapse", [True, False])
def test_config_and_built_model_draw_the_same_diagram(small, tmp_path, collapse):
    import kbert
    from kbert.graph.spec import GraphSpec
    from kbert.model.builder import build

    spec = GraphSpec.of(small, "tokens", num_labels=5, seq_len=7)
    for given, model in ((small, kbert.build_bert(small)), (spec, build(spec))):
        for ending in ("dot", "mmd"):
            paths = [tmp_path / f"{name}.{ending}" for name in ("given", "built")]
            plot(given, paths[0], collapse=collapse)
            plot(model, paths[1], collapse=collapse)
            assert paths[0].read_bytes() == paths[1].read_bytes()


def test_foreign_model_is_drawn_whole(tmp_path):
    import keras

    inputs = keras.Input((5,), name='odd "name" <1> & #2;')
    both = keras.layers.Dense(3, name="Encoder-n-x")(inputs)
    shared = keras.layers.Dense(3, name="end")
    total = keras.layers.Add(name="sum \\")([shared(both), shared(shared(both))])
    model = keras.Model(inputs, total)
    for collapse in (True, False):
        for ending in ("dot", "svg"):
            path = plot(model, tmp_path / f"other.{ending}", collapse=collapse)
            text = path.read_text(encoding="utf-8")
            nodes = re.findall(r'class="?(?:node )?(?:input|head|joint|other)', text)
            assert len(nodes) == 4
            assert not re.search(r'subgraph|class="cluster', text)
    assert "odd &quot;name&quot; &lt;1&gt; &amp; #2;" in text
    mermaid = plot(model, tmp_path / "other.mmd").read_text(encoding="utf-8")
    assert "<b>odd #quot;name#quot; &lt;1&gt; &amp; #35;2;</b>" in mermaid
    assert "subgraph" not in mermaid


def changed(layer, **values):
    assert any(row.layer == layer for row in DOCUMENT)
    return tuple(replace(row, **values) if row.layer == layer else row for row in DOCUMENT)


def rewired(layer, source):
    return changed(layer, connected_to=f"{source}[0][0]")


def in_all(pattern, text, within=""):
    """Rows with another text in names and connections, of the layers that begin with `within`."""
    return tuple(
        replace(
            row,
            layer=re.sub(pattern, text, row.layer),
            connected_to=re.sub(pattern, text, row.connected_to),
        )
        if row.layer.startswith(within)
        else row
        for row in DOCUMENT
    )


OTHER_BLOCKS = {
    "a type": changed("Encoder-7-FeedForward", type="Dense"),
    "a shape": changed("Encoder-7-FeedForward", output_shape="(None, 512, 769)"),
    "wiring inside": changed(
        "Encoder-7-FeedForward-Add",
        connected_to="Encoder-7-MultiHeadSelfAttention[0][0], Encoder-7-FeedForward-Dropout[0][0]",
    ),
    "a skip over a block": rewired(
        "Encoder-7-MultiHeadSelfAttention", "Encoder-5-FeedForward-Norm"
    ),
    "a layer missing": tuple(
        row
        for row in changed(
            "Encoder-7-FeedForward-Add",
            connected_to="Encoder-7-MultiHeadSelfAttention-Norm[0][0], Encoder-7-FeedForward[0][0]",
        )
        if row.layer != "Encoder-7-FeedForward-Dropout"
    ),
    "a head on a middle block": rewired("Extract", "Encoder-6-FeedForward-Norm"),
    "blocks side by side": in_all(
        r"(Embedding-Norm|Encoder-\d+-FeedForward-Norm)(?=\[)", "Embedding-Dropout", "Encoder"
    ),
    "a number missing": in_all("Encoder-12-", "Encoder-13-"),
}


@pytest.mark.parametrize("difference", OTHER_BLOCKS)
def test_blocks_that_differ_are_not_collapsed(difference):
    rows = OTHER_BLOCKS[difference]
    assert rows != DOCUMENT
    assert diagrams.collapse_blocks(rows) == (rows, 0)
    assert read_dot(diagrams.to_dot(*diagrams.collapse_blocks(rows))) == (*shown(rows), [])


def test_one_block_alone_is_drawn_under_its_own_name():
    rows = tuple(row for row in DOCUMENT if re.match(r"Embedding|Input-[TS]|Encoder-1-", row.layer))
    assert len(rows) == 16
    assert diagrams.collapse_blocks(rows) == (rows, 0)


def test_layers_beside_the_blocks_stay_in_their_order():
    rows, count = diagrams.collapse_blocks(DOCUMENT)
    names = [row.layer for row in rows]
    ours = [row.layer.replace("Encoder-1-", "Encoder-n-") for row in DOCUMENT]
    ours.insert(ours.index("Embedding-Norm") + 1, "Encoder-n-Input")
    assert (names, count) == ([name for name in ours if not re.match(r"Encoder-\d", name)], 12)
