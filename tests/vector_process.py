"""Updates of every loss of sentence vectors, on one device and on two: what both end with.

    python tests/vector_process.py OUT.npz [CASE …]

The backend and, of torch, the processes come from the environment. Each process writes, by case,
the weights, both moments and the figures of two devices, and the first one those of one device.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from sizes import SIZES

BATCH, LENGTH, UPDATES = 14, 7, 2
FULL = BATCH - 1  # the last record is filled up, as in an epoch's last batch
# loss, texts of a record, options of VectorLoss, options of the engine, those of two devices alone
CASES = {
    "infonce": ("infonce", 3, {"dimensions": (24, 9)}, {}, {}),
    "infonce_in_parts": ("infonce", 3, {"dimensions": (24, 9)}, {}, {"accumulation": 7}),
    "infonce_of_adapters": ("infonce", 2, {}, {"lora": 3}, {}),
    "cosent": ("cosent", 2, {}, {}, {}),
    "cosent_in_parts": ("cosent", 2, {}, {}, {"accumulation": 7}),
    "triplet": ("triplet", 3, {"dimensions": (11, 24)}, {}, {}),
    "cosine_in_parts": ("cosine", 2, {"normalize": True}, {}, {"accumulation": 7}),
    "infonce_by_xla": ("infonce", 2, {}, {}, {"jit": True}),
    "infonce_by_xla_in_parts": ("infonce", 2, {}, {}, {"jit": True, "accumulation": 7}),
}


def batch(loss: str, columns: int, step: int):
    from kbert.data.training_batch import TrainingBatch
    from kbert.graph import names
    from kbert.training.vector_loss import VECTORS

    random = np.random.default_rng([step, columns])
    ids = random.integers(5, SIZES["vocab_size"], (BATCH, columns, LENGTH)).astype("int32")
    ids[np.arange(LENGTH) >= random.integers(2, LENGTH + 1, (BATCH, columns, 1))] = 0
    weights = np.where(np.arange(BATCH) < FULL, 1 / FULL, 0).astype("float32")
    if loss in ("cosine", "cosent"):
        labels = random.integers(0, 4, BATCH).astype("float32") / 3
        labels = labels[:, None] if loss == "cosent" else labels
    else:
        # larger than float32 counts; and duplicates, of each half of the batch in the other
        labels = np.arange(BATCH * columns, dtype="int32").reshape(BATCH, columns) + (1 << 24)
        labels[12, 0], labels[2, 1] = labels[1, 0], labels[9, 1]
    inputs = {names.TOKEN_IDS: ids, names.SEGMENT_IDS: np.zeros_like(ids)}
    return TrainingBatch(inputs, {VECTORS: labels}, {VECTORS: weights})


def prepared(engine, loss: str, columns: int, options: dict, lora: int = 0, **parts):
    """The engine with a model whose weights are the same each time."""
    import kbert
    from kbert.graph.spec import GraphSpec
    from kbert.graph.trained_parts import trained_parts
    from kbert.model.builder import build
    from kbert.tasks.embedding.recipe import encoder_of
    from kbert.training.optimizers import Optimizer
    from kbert.training.trained_weights import weights_of
    from kbert.training.vector_loss import VectorLoss

    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    spec = GraphSpec(kbert.BertConfig(**SIZES | rates | {"num_hidden_layers": 1}), "encoder")
    random, trained = np.random.default_rng(7), None
    keras.utils.set_random_seed(11)
    with engine.scope():
        model = build(spec)
        model.set_weights([one + random.normal(0, 0.2, one.shape) for one in model.get_weights()])
        model = encoder_of(model)
        if lora:
            trained = weights_of(model, trained_parts(spec, lora=lora), 5)
    engine.vectors = VectorLoss(loss, columns, SIZES["hidden_size"], **options)
    # a large epsilon: with a small one Adam's steps are the same for gradients twice as large
    optimizer = Optimizer(learning_rate=0.003, total_steps=9, epsilon=0.1)
    engine.prepare(model, optimizer, trained, clip_norm=None, **parts)
    return engine


def trained(engine, loss: str, columns: int, *options) -> dict[str, np.ndarray]:
    """What some updates end with."""
    figures = []
    for step in range(UPDATES):
        rows = batch(loss, columns, step).rows(engine.rows(BATCH))
        figures.append({name: float(one) for name, one in engine.update(rows, step).items()})
    state = {"weights": engine.weights, "first": engine.first, "second": engine.second}
    found = {
        f"{kind} {place}": keras.ops.convert_to_numpy(variable.value)
        for kind, variables in state.items()
        for place, variable in enumerate(variables)
    }
    return found | {name: np.array([one[name] for one in figures]) for name in figures[0]}


def results(devices: int | None, cases: list[str]) -> dict[str, np.ndarray]:
    from kbert.training import engines

    found = {}
    for name in cases:
        loss, columns, options, both, two = CASES[name]
        more = both | two if devices != 1 else both
        engine = engines.start(None if keras.backend.backend() == "torch" else devices)
        assert engine.replicas == (devices or 2), engine.replicas
        prepared(engine, loss, columns, options, **more)
        ended = trained(engine, loss, columns)
        found |= {f"{name}/{what}/{devices or 2}": array for what, array in ended.items()}
    return found


def main(out: str, *cases: str) -> None:
    chosen = list(cases or CASES)
    alone = {}
    if keras.backend.backend() == "torch":
        count = os.environ.pop("WORLD_SIZE")
        alone = results(1, chosen) if os.environ["RANK"] == "0" else {}
        os.environ["WORLD_SIZE"] = count
        together = results(None, chosen)
    else:
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            (cpu,) = tf.config.list_physical_devices("CPU")
            parts = [tf.config.LogicalDeviceConfiguration()] * 2
            tf.config.set_logical_device_configuration(cpu, parts)
        alone, together = results(1, chosen), results(2, chosen)
    np.savez(out, **alone, **together)


if __name__ == "__main__":
    main(*sys.argv[1:])
