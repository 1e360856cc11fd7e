"""The largest difference between kbert and transformers: each class, each backend.

    python benchmarks/parity.py [FOLDER …]

Random small models of transformers' seven BERT classes, three activations and two epsilons, with
padding; and FOLDERs with a real checkpoint and its vocabulary, on texts short, long, empty and
multilingual. Maximum absolute differences over real tokens. Needs transformers, torch and jax; the
models are written by tests/helpers/peer_bert.py.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))
from helpers.peer_bert import CLASSES  # noqa: E402
from helpers.sizes import SIZES  # noqa: E402

TEXTS = [
    "",
    "Hi",
    "The capital of France is Paris, and has been for a long time.",
    "Shōnen Jump publie des mangas ; 東京は日本の首都です。 Москва — столица России.",
    "สวัสดี مرحبا שלום 안녕하세요 👩‍👩‍👧 e\u0301",
    "word " * 700,
]
SETTINGS = [("gelu", 1e-12, 2), ("gelu_new", 1e-5, 3), ("relu", 1e-12, 2)]
OURS = """
import json, sys
import numpy as np
import kbert

def difference(folder, inputs, outputs):
    ids, expected = np.load(inputs), np.load(outputs)
    segments = ids["segment_ids"] if "segment_ids" in ids else None
    bert = kbert.load(folder)
    found = list(kbert.predict(bert.model, ids["token_ids"], segments).values())
    real = ids["token_ids"] != 0
    differences = []
    for name in expected.files:
        wanted = expected[name]
        if name != "token_ids":  # a head that the class lacks is passed over
            ours = next(array for array in found if array.shape == wanted.shape)
            found = [array for array in found if array is not ours]
            where = real if wanted.shape[:2] == real.shape else slice(None)
            differences.append(float(np.abs(ours[where] - wanted[where]).max()))
    return max(differences)

print(json.dumps([difference(*case) for case in json.loads(sys.argv[1])]))
"""
BACKENDS = ("tensorflow", "jax", "torch")


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        cases = {}
        for activation, epsilon, segments in SETTINGS:
            out = Path(made) / activation
            out.mkdir()
            sizes = SIZES | {
                "hidden_act": activation,
                "layer_norm_eps": epsilon,
                "type_vocab_size": segments,
            }
            call("write_checkpoints", out, sizes)
            for name in CLASSES:
                title = f"random, {activation}, {epsilon:g}, {segments} segments | {name}"
                cases[title] = (out / name, out / "ids.npz", out / f"{name}.npz")
        for folder in sys.argv[1:]:
            out = Path(made) / str(len(cases))
            out.mkdir()
            (out / "texts.json").write_text(json.dumps(TEXTS), encoding="utf-8")
            call("read_folder", out, folder)
            outputs = out / "outputs.npz"
            cases[f"{Path(folder).parent.name} | BertModel"] = (folder, outputs, outputs)
        paths = json.dumps([[str(path) for path in case] for case in cases.values()])
        found = [json.loads(run(["-c", OURS, paths], name).splitlines()[-1]) for name in BACKENDS]
    print(f"| checkpoint | class | {' | '.join(BACKENDS)} |\n|---|---|---|---|---|")
    for title, values in zip(cases, zip(*found, strict=True), strict=True):
        print(f"| {title} | " + " | ".join(f"{value:.1e}" for value in values) + " |")


def call(function: str, out: Path, argument: str | dict) -> None:
    """Call a function of tests/helpers/peer_bert.py in a process of its own."""
    code = f"import pathlib; from helpers.peer_bert import {function}; "
    run(["-c", f"{code}{function}(pathlib.Path({str(out)!r}), {argument!r})"])


def run(arguments: list[str], backend: str | None = None) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "KERAS_BACKEND"}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"}
    paths = [str(TESTS), str(TESTS.parent), environment.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    environment |= {"KERAS_BACKEND": backend} if backend else {}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout


if __name__ == "__main__":
    main()
