"""Commands that only look at a graph initialize no random weights for it."""

import keras
import pytest
from helpers.command_line import kbert as command
from helpers.errors import raises
from helpers.parse_summary import expected, parse

import kbert
from kbert.graph.spec import GraphSpec
from kbert.model import builder, heads
from kbert.model.deferred import build_outline
from kbert.model.summary import model_rows


@pytest.fixture
def config_file(small, tmp_path):
    small.to_json(tmp_path / "config.json")
    return tmp_path / "config.json"


@pytest.fixture
def drawing_fails(monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("random weights were drawn")

    monkeypatch.setattr(keras.initializers.TruncatedNormal, "__call__", fail)


def test_building_a_model_initializes_random_weights(small, drawing_fails):
    with raises(AssertionError, "were drawn"):
        kbert.build_bert(small)


@pytest.mark.parametrize("command_name", ["summary", "verify", "plot"])
def test_commands_that_show_a_graph_initialize_no_weights(
    capsys, config_file, tmp_path, drawing_fails, command_name
):
    options = ["-o", tmp_path / "a.svg"] if command_name == "plot" else []
    assert command(capsys, command_name, config_file, *options).out


def test_verify_and_plot_by_name_initialize_no_weights(config_file, small, tmp_path, drawing_fails):
    assert kbert.verify("tiny").ok and kbert.verify(small).ok and kbert.verify(config_file).ok
    for subject in ("tiny", small, config_file):
        assert kbert.plot(subject, tmp_path / "a.mmd").read_text()


def test_outline_has_the_rows_and_counts_of_the_model(small, capsys):
    spec = GraphSpec(small)
    outline, built = build_outline(spec), builder.build(spec)
    assert model_rows(outline) == model_rows(built)
    assert outline.count_params() == built.count_params()
    outline.summary()
    assert parse(capsys.readouterr().out).rows == expected(model_rows(built))


def test_model_built_after_an_outline_has_weights(small, monkeypatch):
    """Keras keeps a list of variables that wait for a value: no outline may stay on it."""
    outline = build_outline(GraphSpec(small))
    with keras.StatelessScope():  # at its end Keras fills what waits for a value
        pass
    assert all(weight._value is None for weight in outline.weights)
    built = kbert.build_bert(small)
    assert keras.ops.convert_to_numpy(built.weights[0]).any()
    monkeypatch.setattr(heads, "Extract", lambda **_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        build_outline(GraphSpec(small))
    monkeypatch.undo()
    assert kbert.build_encoder(small).get_weights()[0].any()
