"""Devices of Keras's backend."""

import contextlib
import os

WITH_GRADIENTS = ("tensorflow", "jax", "torch")  # backends of Keras; the others only compute


def require_gradients(what: str) -> None:
    """Raise a ValueError on a backend of Keras without gradients; `what` needs them."""
    import keras

    backend = keras.backend.backend()
    if backend not in WITH_GRADIENTS:
        raise ValueError(
            f"{what} needs gradients, which Keras does not compute on {backend}: set KERAS_BACKEND="
            f"{WITH_GRADIENTS[0]}, {WITH_GRADIENTS[1]} or {WITH_GRADIENTS[2]}"
        )


def device_names() -> list[str]:
    """Return the names of this process's accelerators; ["CPU"] if it has none."""
    import keras

    if keras.backend.backend() == "jax":
        import jax

        devices = jax.local_devices()
        names = [device.device_kind for device in devices if device.platform != "cpu"]
    elif keras.backend.backend() == "torch":
        import torch

        indices = range(torch.cuda.device_count())
        names = [torch.cuda.get_device_name(index) for index in indices]
    elif keras.backend.backend() != "tensorflow":
        return ["CPU"]
    else:
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        details = [tf.config.experimental.get_device_details(device) for device in gpus]
        names = [detail.get("device_name", "accelerator") for detail in details]
        names += ["TPU"] * len(_tpus())
    return names or ["CPU"]


def on_accelerator():
    """Return a context for single operations: TensorFlow computes these on a TPU's host else."""
    import keras

    if keras.backend.backend() != "tensorflow" or not _tpus():
        return contextlib.nullcontext()
    import tensorflow as tf

    first = tf.config.list_logical_devices("TPU")[0]
    return tf.device(first.name)


def _tpus() -> list:
    """Return TensorFlow's TPUs; asked for logical ones only where there are no physical ones."""
    import tensorflow as tf

    if os.environ.get("TPU_NAME"):
        return tf.config.list_logical_devices("TPU")
    return tf.config.list_physical_devices("TPU")
