"""What differs between TensorFlow, JAX and torch in training."""

from kbert.ops.devices import require_gradients
from kbert.ops.forks import check_process


def start(devices: int | None = None):
    """Return the `Backend` of Keras's backend, on the devices and hosts that there are.

    Several hosts: TF_CONFIG on TensorFlow; KERAS_DISTRIBUTION_JOB_ADDRESSES,
    KERAS_DISTRIBUTION_NUM_PROCESSES and KERAS_DISTRIBUTION_PROCESS_ID on JAX; torchrun's variables
    on torch, where each device has a process. Absent hosts are a TimeoutError within a minute.

    Args:
        devices: number of this host's devices to use; None: all accelerators, or one CPU. Each of
            several hosts uses all of its own, torch one per process: another number is a
            ValueError.
    """
    import keras

    check_process()
    require_gradients("training")
    backend = keras.backend.backend()
    if backend != "jax" and keras.distribution.distribution() is not None:
        raise ValueError(
            f"keras.distribution must not be set on {backend}, which trains undistributed with it "
            "and says nothing: leave it out and give devices=N, or take KERAS_BACKEND=jax"
        )
    if backend == "tensorflow":
        from kbert.training.backends.tensorflow import TensorFlowBackend

        return TensorFlowBackend(devices)
    if backend == "jax":
        from kbert.training.backends.jax import JaxBackend

        return JaxBackend(devices)
    from kbert.training.backends.torch import TorchBackend

    return TorchBackend(devices)
