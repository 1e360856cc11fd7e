"""Devices of Keras's backend."""

import contextlib
import os


def device_names() -> list[str]:
    """Return the names of this process's accelerators; ["CPU"] if it has none."""
    import keras

    return _NAMES[keras.backend.backend()]() or ["CPU"]


def on_accelerator():
    """Return a context for single operations: TensorFlow computes these on a TPU's host else."""
    import keras

    if keras.backend.backend() != "tensorflow" or not _tpus():
        return contextlib.nullcontext()
    import tensorflow as tf

    return tf.device(tf.config.list_logical_devices("TPU")[0].name)


def _tensorflow() -> list[str]:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(device) for device in gpus]
    names = [detail.get("device_name", "accelerator") for detail in details]
    return names + ["TPU"] * len(_tpus())


def _tpus() -> list:
    """Return TensorFlow's TPUs.

    A TPU over the network has no physical devices, and asking for logical ones settles what all
    devices are.
    """
    import tensorflow as tf

    named = os.environ.get("TPU_NAME")
    return (
        tf.config.list_logical_devices("TPU") if named else tf.config.list_physical_devices("TPU")
    )


def _jax() -> list[str]:
    import jax

    return [device.device_kind for device in jax.local_devices() if device.platform != "cpu"]


def _torch() -> list[str]:
    import torch

    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


_NAMES = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
