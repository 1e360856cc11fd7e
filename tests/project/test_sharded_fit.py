"""The page's code that shards a model with `keras.distribution`: JAX, with eight devices."""

import json

import numpy as np
import pytest
from helpers.page_blocks import blocks, same
from helpers.sizes import ROOT

PAGE = ROOT / "docs" / "how_to" / "several_machines.md"
# printed behind the page's own lines
REPORT = """
def list_shapes(variables):
    shapes = {}
    for variable in variables:
        shard = variable.value.addressable_shards[0].data
        shapes[variable.path] = [list(variable.shape), list(shard.shape)]
    return shapes

import json, sys
weights, moments = list_shapes(model.weights), list_shapes(model.optimizer.variables)
kbert.save(kbert.Bert(config, "pretraining", model, None), sys.argv[1])
with distribution.scope():
    loaded = list_shapes(kbert.load(sys.argv[1]).model.weights)
lists = [losses, losses_of_one_device]
print(json.dumps({"losses": lists, "weights": weights, "moments": moments, "loaded": loaded}))
"""


@pytest.mark.full
def test_sharded_fit_of_the_page(run_python, tmp_path):
    (block,) = [block for block in blocks(PAGE) if "ModelParallel" in block.text]
    code = block.text + REPORT
    lines = run_python(code, tmp_path / "saved", backend="jax").stdout.splitlines()
    report = json.loads(lines[-1])
    assert same(block.shown.text, "\n".join(lines[:-1]) + "\n")

    sharded, whole = report["losses"]
    np.testing.assert_allclose(sharded, whole, rtol=1e-5)
    assert sharded[1] < sharded[0]

    # tiny has two blocks, two heads of 64 and an intermediate size of 512; the axis has two devices
    expected = {"Embedding-Token/embeddings": [500, 128], "MLM-Sim/bias": [500]}
    for block_number in (1, 2):
        attention = f"Encoder-{block_number}-MultiHeadSelfAttention"
        feed_forward = f"Encoder-{block_number}-FeedForward"
        for name in ("query", "key", "value"):
            expected |= {f"{attention}/{name}/kernel": [128, 1, 64]}
            expected |= {f"{attention}/{name}/bias": [1, 64]}
        expected |= {f"{attention}/attention_output/kernel": [1, 64, 128]}
        expected |= {f"{feed_forward}/intermediate/kernel": [128, 256]}
        expected |= {f"{feed_forward}/intermediate/bias": [256]}
        expected |= {f"{feed_forward}/output/kernel": [256, 128]}
    for weights in (report["weights"], report["loaded"]):
        found = {path: shard for path, (shape, shard) in weights.items() if shape != shard}
        assert found == expected
    moments = [path for path, (shape, shard) in report["moments"].items() if shape != shard]
    assert len(moments) == 2 * len(expected)
