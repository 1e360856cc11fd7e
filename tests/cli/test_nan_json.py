"""NaN is null in JSON, and the command ends as after a fault. Python's own parser is the judge."""

import dataclasses
import json

import numpy as np
import pytest
from helpers.command_line import kbert as run

import kbert
from kbert.io import row_formats
from kbert.training.run.records import RecordFile


def read_strictly(text: str):
    """Read JSON as RFC 8259 has it: without the NaN and Infinity that Python accepts."""

    def refuse(name):
        raise ValueError(f"not JSON: {name}")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def broken(saved, tmp_path):
    """A classifier with NaN in its weights."""
    folder = tmp_path / "broken"
    bert = kbert.load(saved[0] / "classifier")
    kernel = bert.model.layers[-1].weights[0]
    kernel.assign(np.full(kernel.shape, np.nan, "float32"))
    kbert.save(bert, folder)
    return folder


@pytest.mark.full
@pytest.mark.parametrize("form", ["json", "text"])
def test_results_with_nan_end_with_status_1_and_a_line(broken, capsys, form):
    done = run(capsys, "classify", broken, "a cat", "--format", form)
    assert done.status == 1
    assert "NaN" in done.err.splitlines()[-1] and "Traceback" not in done.err
    if form == "json":
        (result,) = read_strictly(done.out)
        assert {label["probability"] for label in result["labels"]} == {None}
    else:
        assert "nan" in done.out


@pytest.mark.full
def test_attributions_with_nan_are_json(broken, capsys):
    done = run(capsys, "attribute", broken, "a cat", "--steps", 2, "--format", "json")
    assert done.status == 1
    assert read_strictly(done.out)["value"] is None


def test_every_number_that_json_lacks_is_null():
    @dataclasses.dataclass
    class Result:
        number: float

    values = {"a": [np.inf, -np.inf, 0.1], "b": Result(np.nan)}
    assert read_strictly(row_formats.to_json(values)) == {
        "a": [None, None, 0.1],
        "b": {"number": None},
    }


def test_records_of_a_run_are_json(tmp_path):
    file = RecordFile(tmp_path / "metrics.jsonl")
    file.add(1, {"loss": np.nan, "accuracy": 0.5})
    file.close()
    text = (tmp_path / "metrics.jsonl").read_text()
    assert read_strictly(text) == {"step": 1, "loss": None, "accuracy": 0.5}
