"""The training step on each backend: `start` gives the engine for Keras's."""


def start(devices: int | None = None):
    """The engine of Keras's backend, on the devices and hosts that there are.

    Several hosts: TF_CONFIG on TensorFlow; KERAS_DISTRIBUTION_JOB_ADDRESSES,
    KERAS_DISTRIBUTION_NUM_PROCESSES and KERAS_DISTRIBUTION_PROCESS_ID on JAX.

    Args:
        devices: how many of this host's devices to use; None: all its accelerators, one CPU.

    Returns:
        A `kbert.training.engines.engine.Engine`.

    Raises:
        ValueError: more devices than there are, or more than the backend can use.
    """
    import keras

    backend = keras.backend.backend()
    if backend == "tensorflow":
        from kbert.training.engines.tensorflow_engine import TensorFlowEngine

        return TensorFlowEngine(devices)
    if backend == "jax":
        from kbert.training.engines.jax_engine import JaxEngine

        return JaxEngine(devices)
    from kbert.training.engines.torch_engine import TorchEngine

    return TorchEngine(devices)
