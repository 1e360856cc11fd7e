"""Pages of the explorer for its tests, and the counting part of one in an engine of JavaScript."""

import functools
import json
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from kbert.checkpoints.weight_names import entries_of
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec
from kbert.show.explorer import counting, writing


def counting_data(spec: GraphSpec) -> dict:
    data = counting.counting_data(spec, 1) | writing.notes_data()
    return data | {"variables": counting.list_variables(spec.head)}


def write_checkpoint(folder: Path, config: BertConfig, head: str) -> dict[str, np.ndarray]:
    """transformers' files with random numbers, without Keras; the tensors by kbert's names."""
    folder.mkdir()
    config.to_json(folder / "config.json")
    random = np.random.default_rng(7)
    tensors, by_place = {}, {}
    for entry in entries_of(GraphSpec(config, head), "transformers"):
        numbers = random.normal(0.1, 0.3, math.prod(entry.shape)).astype("float32")
        tensors[entry.name] = by_place[f"{entry.layer}/{entry.variable}"] = numbers.reshape(
            entry.shape
        )
    save_file(tensors, folder / "model.safetensors")
    return by_place


_ASKED = """
const asText = (value) =>
  JSON.stringify(value, (_, one) => (typeof one === "bigint" ? String(one) : one));
function ask(name, config, ...rest) {
  const known = { count, problems, csv, configJson, layerOf, connections, variablesOf };
  return asText(known[name](...rest, config));
}
"""


@functools.cache
def engine(head: str = "pretraining"):
    """Asks the page's own functions, in V8 without a browser: ask(name, config, …)."""
    from py_mini_racer import MiniRacer

    context = MiniRacer()
    spec = GraphSpec.of("base", head)
    script = writing.counting_script(
        counting_data(spec), counting.list_formulas(counting.graphs(spec))
    )
    context.eval(script + _ASKED)

    def ask(name: str, config: dict, *rest):
        arguments = ", ".join(json.dumps(value) for value in (name, config, *rest))
        return json.loads(context.eval(f"ask({arguments})"))

    return ask
