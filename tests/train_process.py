"""One process of a training: a few updates from a checkpoint's weights, saved as arrays.

    python tests/train_process.py FOLDER OUT.npz DROPOUT DEVICES [MICRO_BATCHES]

Hosts come from the environment, as everywhere. Each process writes what it ends with.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
UPDATES, BATCH = 5, 12


def main(folder: str, out: str, dropout: float, devices: int, accumulation: int) -> None:
    import keras
    import numpy as np
    from training_batches import PREDICTIONS, arrays, batch_of

    on_tensorflow = keras.backend.backend() == "tensorflow"
    if on_tensorflow and devices > 1:
        import tensorflow as tf

        (cpu,) = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration()] * devices
        tf.config.set_logical_device_configuration(cpu, parts)

    import kbert
    from kbert.training import engines
    from kbert.training.optimizers import Optimizer

    engine = engines.start(devices)
    source = kbert.load(folder)
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    with engine.scope():
        model = kbert.build_bert(
            source.config.replace(**rates), seq_len=11, max_predictions=PREDICTIONS
        )
    model.set_weights(source.model.get_weights())
    if on_tensorflow and engine.replicas > 1:  # compiled, as larger models are
        from kbert.training.engines import tensorflow_engine

        tensorflow_engine._WORTH_COMPILING = 0
    optimizer = Optimizer(learning_rate=3e-3, total_steps=9)
    engine.prepare(model, optimizer, clip_norm=0.5, accumulation=accumulation)
    data, losses, norms = arrays("pretraining", UPDATES, BATCH), [], []
    for step in range(UPDATES):
        logs = engine.update(batch_of(data, step).rows(engine.rows(BATCH)), step)
        losses.append(float(logs["loss"]))
        norms.append(float(logs["gradient_norm"]))
    totals = engine.evaluate(batch_of(data, 0).rows(engine.rows(BATCH)))
    logits = engine.predict(batch_of(data, 0).inputs)
    engine.barrier()
    weights = {f"weight {n}": array for n, array in enumerate(model.get_weights())}
    evaluated = [total for pair in totals.values() for total in pair]
    np.savez(
        out,
        losses=losses,
        norms=norms,
        evaluated=evaluated,
        logits=logits[0],
        nsp=logits[1],
        **weights,
    )
    print(engine.replicas, engine.process, engine.processes)


if __name__ == "__main__":
    micro_batches = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), micro_batches)
