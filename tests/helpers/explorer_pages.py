"""Pages of the explorer for its tests, and the counting part of one in an engine of JavaScript."""

import functools
import json
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from kbert.checkpoints.weight_names import entries_of
from kbert.graph.config import BertConfig
from kbert.graph.families import FAMILIES
from kbert.graph.spec import GraphSpec
from kbert.show.explorer import counting, writing


def counting_data(spec: GraphSpec) -> dict:
    data = counting.counting_data(spec, 1) | writing.notes_data(spec.config.model_type)
    return data | {"variables": counting.list_variables(spec)}


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
  const known = {
    count, problems, csv, configJson, layerOf, connections, variablesOf, mathml,
  };
  return asText(known[name](...rest, config));
}
"""


# As much of a document as the panel's functions need; `text` is what a reader sees.
_DOCUMENT = """
class DOM {
  children = [];
  classList = { add() {}, toggle() {} };
  append(...more) { this.children.push(...more); }
  setAttribute() {}
  addEventListener() {}
  get content() { return { firstChild: new DOM(), cloneNode: create }; }
  get text() {
    return this.children.map((one) => one.text ?? String(one)).join(" ").replace(/ +/g, " ");
  }
}
const create = () => new DOM();
const document = { createElement: create, createElementNS: create, getElementById: create };
"""
_PANELS = """
function panels(config) {
  state.configs = [config];
  settle();
  const whole = [["", overview()], ["encoder", encoderPanel()]];
  const ids = [...everyLayer(config)].filter(({ n }) => n <= 1 || n === config.L)
    .map(({ name }) => name);
  const parts = DATA.parts.map((part) => `${NAMES.attention.replace("{n}", 1)}/${part.name}`);
  const layers = [...ids, ...parts]
    .map((id) => [id, layerPanel(layerOf(id, config))]);
  const joined = [...whole, ...layers].map(([id, sections]) =>
    [id, sections.map((one) => one.text).join("\\n")]);
  return JSON.stringify(Object.fromEntries(joined));
}
"""


@functools.cache
def panel_engine(head: str):
    """Returns the texts of every panel: panels(config) by the layer's name, without a browser."""
    from py_mini_racer import MiniRacer

    context = MiniRacer()
    data = counting_data(GraphSpec.of("base", head)) | {"title": "base"}
    formulas = counting.list_formulas(counting.graphs(GraphSpec.of("base", head)))
    files = ("dom.js", "state.js", "drawn.js", "panel.js", "weights.js")
    scripts = [(writing.FOLDER / name).read_text(encoding="utf-8") for name in files]
    script = [_DOCUMENT, writing.counting_script(data, formulas), *scripts, _PANELS]
    context.eval("\n".join(script))
    return lambda config: json.loads(context.eval(f"panels({json.dumps(config)})"))


@functools.cache
def engine(head: str = "pretraining", model_type: str = "bert"):
    """Asks the page's own functions, in V8 without a browser: ask(name, config, …)."""
    from py_mini_racer import MiniRacer

    context = MiniRacer()
    family = FAMILIES[model_type]
    base = BertConfig(
        model_type=model_type,
        type_vocab_size=2 if family.segments else 1,
        pad_token_id=family.pad_token_id,
    )
    spec = GraphSpec.of(base, head)
    script = writing.counting_script(
        counting_data(spec), counting.list_formulas(counting.graphs(spec))
    )
    context.eval(script + _ASKED)

    def ask(name: str, config: dict, *rest):
        arguments = ", ".join(json.dumps(value) for value in (name, config, *rest))
        return json.loads(context.eval(f"ask({arguments})"))

    return ask
