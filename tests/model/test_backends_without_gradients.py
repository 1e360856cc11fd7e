"""On Keras's backends that compute no gradients, models are used, and training is one line."""

import json

import numpy as np
import pytest
from helpers.marks import full

import kbert

USE = """
import json, sys
import kbert

folder, output = sys.argv[1:]
bert = kbert.load(folder + "/classifier")
texts = ["a cat", "the dog ran"]
labels = [[(one.label, one.probability) for one in row] for row in kbert.classify(bert, texts)]
said = []
for train in (
    lambda: kbert.finetune(bert, "classify", train=[("a", "0"), ("b", "1")] * 4, output=output),
    lambda: kbert.attribute(bert, "a cat"),
):
    try:
        train()
    except ValueError as error:
        said.append(str(error))
embeddings = kbert.embed(kbert.load(folder + "/encoder"), texts).tolist()
print(json.dumps([embeddings, labels, said]))
"""


@pytest.mark.full
def test_numpy_computes_what_the_other_backends_compute(saved, run_python, tmp_path):
    run = tmp_path / "run"
    done = run_python(USE, str(saved[0]), str(run), backend="numpy")
    embeddings, labels, said = json.loads(done.stdout.splitlines()[-1])
    berts, texts = saved[1], ["a cat", "the dog ran"]
    np.testing.assert_allclose(embeddings, kbert.embed(berts["encoder"], texts), atol=2e-5)
    for row, wanted in zip(labels, kbert.classify(berts["classifier"], texts), strict=True):
        assert [label for label, _ in row] == [one.label for one in wanted]
        np.testing.assert_allclose([p for _, p in row], [one.probability for one in wanted], 2e-5)
    assert len(said) == 2 and all("numpy" in line and "gradients" in line for line in said)
    assert not run.exists()


@pytest.mark.parametrize("name", ["foo", full("mlx")])
def test_an_unknown_backend_is_one_line(run_python, name):
    done = run_python("import kbert; kbert.build_bert('tiny')", backend=name, check=False)
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("ValueError: KERAS_BACKEND") and f"'{name}'" in line
    assert all(known in line for known in ("tensorflow", "jax", "torch", "numpy", "openvino"))
