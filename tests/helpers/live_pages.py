"""The explorer's engine without a browser: a small checkpoint, and its page's own scripts in V8."""

import base64
import json
import re
from pathlib import Path

from helpers.explorer_pages import write_checkpoint
from kbert.graph.config import BertConfig
from kbert.heads import HEADS
from kbert.show.explorer import writing

WORDS = "the cat sat on mat dog a river bank it was tired , . ! ? ##s ##ing film fine walk"
WORDS = tuple(WORDS.split(" "))
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS),
    *(letter for letter in LETTERS if letter not in WORDS),
    *(f"##{letter}" for letter in LETTERS if f"##{letter}" not in WORDS),
]
SIZES = {
    "vocab_size": len(TOKENS),
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 44,
    "max_position_embeddings": 40,
}
# What a browser has, and V8 alone does not.
_BROWSER = """
const performance = { now: () => 0 };
function atob(text) {
  const signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const bytes = [];
  let [bits, held] = [0, 0];
  for (const sign of text.replaceAll("=", "")) {
    bits = ((bits << 6) | signs.indexOf(sign)) & 0xffff;
    held += 6;
    if (held >= 8) bytes.push((bits >> (held -= 8)) & 255);
  }
  return bytes.map((byte) => String.fromCharCode(byte)).join("");
}
"""
_ASKED = """
const inner = makeEngine();
const { openEngine, makeTokenizer, decodeBase64, findRecording } = inner;
function multiply(x, rows, kernel, outputs, inputs) {
  const products = inner.makeProducts();
  const matrix = inner.prepareKernel(products, kernel, outputs, inputs, null);
  return inner.project(products, x, rows, matrix);
}
let engine;
let trace;
function run(request) {
  trace = engine.run(request);
  return JSON.stringify({ ...trace, tensors: [...trace.tensors.keys()] },
    (_, value) => (value instanceof Float32Array ? [...value] : value));
}
"""


COMPUTED = {
    "place": "inside",
    "outputs": [],
}  # DATA.live of a page that computes, as far as V8 asks
RECORDED = {"place": "recorded", "outputs": [], "recordings": [{"attention": {}}]}
# Functions that an engine keeps to itself.
_INNER = {"inside": "makeProducts, prepareKernel, project, makeTokenizer, ", "recorded": ""}


def write_live_checkpoint(folder: Path, head: str = "pretraining", **sizes) -> Path:
    """A checkpoint with random weights and a vocabulary, in transformers' files."""
    write_checkpoint(folder, BertConfig(**SIZES | sizes), head)
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = [f"Bert{next(iter(HEADS[head].classes))}"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))
    return folder


def start_v8(before: str = "", live: dict = COMPUTED):
    """An engine of JavaScript that has read a page's engine, `before` it something else."""
    from py_mini_racer import MiniRacer

    context = MiniRacer()
    engine = writing.engine_script(live)
    engine = engine.replace("\nreturn { ", f"\nreturn {{ {_INNER[live['place']]}")
    context.eval("\n".join([before, _BROWSER, engine, _ASKED]))
    return context


def own_code(page: str) -> str:
    """Return a page's styles and scripts without its font, its weights and its data."""
    data = r"^const (?:DATA|FORMULAS) = .*?;$|url\(data:[^)]*\)"
    parts = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", page, re.DOTALL)
    return re.sub(data, "", "".join(parts), flags=re.MULTILINE | re.DOTALL)


def data_of(page: str) -> dict:
    return json.loads(re.search(r"^const DATA = (.*);$", page, re.MULTILINE)[1])


class Page:
    """The live part of a page, in V8: it runs texts and gives tensors."""

    def __init__(self, html: str, before: str = ""):
        self.live = data_of(html)["live"]
        self.weights = re.search(r'id="weights">([^<]*)<', html)[1]
        self.context = start_v8(before, self.live)
        weights = base64.b64decode(self.weights)
        # V8's own memory, written from here: megabytes are not decoded by the script above
        self.context.eval(f"const weights = new Uint8Array({len(weights)}); weights")[:] = weights
        self.context.eval(f"engine = openEngine({json.dumps(self.live)}, weights)")

    def run(self, text: str, pair: str | None = None, **request) -> dict:
        request |= {"text": text, "pair": pair}
        return json.loads(self.context.eval(f"run({json.dumps(request)})"))

    def tensor(self, name: str):
        import numpy as np

        tensor = f"trace.tensors.get({json.dumps(name)})"
        shape = json.loads(self.context.eval(f"JSON.stringify({tensor}.shape)"))
        return np.array(np.frombuffer(self.context.eval(f"{tensor}.data"), "<f4")).reshape(shape)

    @property
    def byte_count(self) -> int:
        return len(base64.b64decode(self.weights))
