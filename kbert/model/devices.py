"""What Keras's backend computes on."""


def device_names() -> list[str]:
    """What this process's accelerators are called; ["CPU"] where it has none."""
    import keras

    return _NAMES[keras.backend.backend()]() or ["CPU"]


def _tensorflow() -> list[str]:
    import tensorflow as tf

    found = [*tf.config.list_physical_devices("GPU"), *tf.config.list_physical_devices("TPU")]
    details = [tf.config.experimental.get_device_details(device) for device in found]
    return [detail.get("device_name", "accelerator") for detail in details]


def _jax() -> list[str]:
    import jax

    return [device.device_kind for device in jax.local_devices() if device.platform != "cpu"]


def _torch() -> list[str]:
    import torch

    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


_NAMES = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
