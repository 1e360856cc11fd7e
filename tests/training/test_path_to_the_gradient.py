"""The files between `kbert.pretrain` and a gradient, which the page on the architecture names."""

import traceback
from pathlib import Path

import pytest
from helpers.run_shards import make_shards

import kbert

tf = pytest.importorskip("tensorflow")

ROOT = Path(kbert.__file__).parent
FILES = [
    "graph/aliases.py",
    "tasks/pretraining/pretrain.py",
    "training/runner.py",
    "training/loop/loop.py",
    "training/engine.py",
    "training/backends/tensorflow.py",
    "training/backends/backend.py",
    "training/step/step.py",
]


@pytest.mark.full
def test_eight_files_lie_between_the_call_and_the_gradient(monkeypatch, tmp_path):
    stacks, gradient = [], tf.GradientTape.gradient

    def recording(self, *arguments, **options):
        stacks.append([Path(frame.filename) for frame in traceback.extract_stack()])
        return gradient(self, *arguments, **options)

    monkeypatch.setattr(tf.GradientTape, "gradient", recording)
    kbert.pretrain(make_shards(tmp_path), "tiny", output=tmp_path / "run", steps=1, batch_size=4)
    own = [str(path.relative_to(ROOT)) for path in stacks[0] if path.is_relative_to(ROOT)]
    assert list(dict.fromkeys(own)) == FILES
