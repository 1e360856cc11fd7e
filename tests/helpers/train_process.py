"""A training of a few steps from a checkpoint's weights, saved as arrays.

Hosts come from the environment, as everywhere. Each process writes what it ends with.
"""

UPDATES, BATCH = 5, 12


def main(
    out: str, folder: str, dropout: float, devices: int, accumulation_steps: int, at_once: int
) -> None:
    import keras
    import numpy as np

    from helpers.training_batches import PREDICTIONS, arrays, batch_of

    on_tensorflow = keras.backend.backend() == "tensorflow"
    if on_tensorflow and devices > 1:
        import tensorflow as tf

        (cpu,) = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration()] * devices
        tf.config.set_logical_device_configuration(cpu, parts)

    import kbert
    from kbert.training import backends
    from kbert.training.engine import Engine
    from kbert.training.optimization.optimizers import Optimizer

    backend = backends.start(devices)
    source = kbert.load(folder)
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    with backend.scope():
        model = kbert.build_bert(
            source.config.replace(**rates), seq_len=11, max_predictions=PREDICTIONS
        )
    model.set_weights(source.model.get_weights())
    if on_tensorflow and backend.replicas > 1:  # compiled, as larger models are
        from kbert.training.backends import tensorflow

        tensorflow.WORTH_COMPILING = 0
    optimizer = Optimizer(learning_rate=3e-3, total_steps=9, ema=0.6)
    options = {"accumulation_steps": accumulation_steps, "steps_per_execution": at_once}
    engine = Engine(backend, model, optimizer, clip_norm=0.5, **options)
    data, metrics = arrays("pretraining", UPDATES, BATCH), []
    batches = [batch_of(data, step).select(engine.slice_examples(BATCH)) for step in range(UPDATES)]
    for step in range(0, UPDATES, at_once):
        metrics += engine.updates(batches[step : step + at_once], step)()
    losses, norms = ([one[name] for one in metrics] for name in ("loss", "gradient_norm"))
    totals = engine.evaluate(batch_of(data, 0).select(engine.slice_examples(BATCH)))
    logits = engine.predict(batch_of(data, 0).inputs)
    engine.barrier()
    weights = {f"weight {n}": array for n, array in enumerate(model.get_weights())}
    engine.state.use_averages()  # which are evaluated
    weights |= {f"average {n}": array for n, array in enumerate(model.get_weights())}
    evaluated = [total for pair in totals.values() for total in pair]
    np.savez(
        out,
        losses=losses,
        norms=norms,
        evaluated=evaluated,
        logits=logits[0],
        nsp=logits[1],
        engine=[engine.backend.replicas, engine.backend.process, engine.backend.processes],
        **weights,
    )
