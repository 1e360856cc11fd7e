"""TensorFlow's step as XLA is given it."""

import pytest
from helpers.sizes import SIZES
from helpers.training_batches import PREDICTIONS, arrays, batch_of

import kbert
from kbert.training.engine import Engine
from kbert.training.optimizers import Optimizer

pytestmark = pytest.mark.full


def test_xla_program_has_no_dynamic_size():
    """One would stand between XLA's fusions: dropout's numbers are then drawn for each anew."""
    pytest.importorskip("tensorflow")
    engine, blocks = Engine(), 1
    with engine.backend.scope():
        config = kbert.BertConfig(**SIZES | {"num_hidden_layers": blocks})
        model = kbert.build_bert(config, seq_len=11, max_predictions=PREDICTIONS)
    engine.prepare(model, Optimizer(total_steps=9), jit=True)
    (values,), (seeds,) = engine.split(batch_of(arrays("pretraining", 1, 13), 0)), engine.seeds(0)
    update = engine.program.update_function
    program = update.experimental_get_compiler_ir(values, seeds)(stage="hlo")
    assert program.count("rng-bit-generator(") == 3 * blocks + 1  # dropout is there: it is whole
    assert "set-dimension-size" not in program
