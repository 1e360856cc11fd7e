"""Devices and hosts that TensorFlow trains on: a `tf.distribute` strategy."""

import functools
import os

import tensorflow as tf

from kbert.training.backends import hosts

_NAME = "TPU_NAME"


def of(devices: int | None) -> tf.distribute.Strategy:
    """Return the strategy for several hosts (TF_CONFIG), a TPU, several devices or one.

    Args:
        devices: how many of this host's; None: all accelerators, one CPU.

    Raises:
        ValueError: more than there are, or some of those that go together; a TPU that is not there.
        TimeoutError: hosts that are not there, by name.
    """
    if config := hosts.tf_config():
        return _workers(config, devices)
    # the variable first: to ask for devices is to start them, and a remote TPU has to come before
    if os.environ.get(_NAME) or tf.config.list_logical_devices("TPU"):
        return _tpu(os.environ.get(_NAME) or "local", devices)
    return _local(devices)


def _workers(config: dict, devices: int | None) -> tf.distribute.Strategy:
    workers = config["cluster"]["worker"]
    local = len(tf.config.list_physical_devices("GPU")) or 1
    if devices not in (None, local):
        raise ValueError(
            f"devices must be all {local} of each host where there are several (TF_CONFIG), "
            f"got {devices}: hide the others by CUDA_VISIBLE_DEVICES"
        )
    hosts.wait_for(workers, config["task"]["index"])
    return tf.distribute.MultiWorkerMirroredStrategy()


def _local(devices: int | None) -> tf.distribute.Strategy:
    gpus = tf.config.list_logical_devices("GPU")
    found = gpus or tf.config.list_logical_devices("CPU")
    count = (len(gpus) or 1) if devices is None else devices
    if not 1 <= count <= len(found):
        raise ValueError(
            f"devices must be 1 … {len(found)}, as many as there are, got {count}: to make "
            "several of one CPU, call tf.config.set_logical_device_configuration"
        )
    if count == 1:
        return tf.distribute.get_strategy()
    return _mirrored(tuple(device.name.removeprefix("/device:") for device in found[:count]))


@functools.cache
def _mirrored(names: tuple[str, ...]) -> tf.distribute.Strategy:
    # One for all runs of a process: each new one numbers its exchanges from the same number on, and
    # TensorFlow holds those of another run, of other sizes, for the same ones, and fails.
    return tf.distribute.MirroredStrategy(names)


def _tpu(name: str, devices: int | None) -> tf.distribute.Strategy:
    """Return all chips of the TPU of that name; "local": this host's own."""
    strategy = _connected(name)
    chips = strategy.num_replicas_in_sync
    if devices not in (None, chips):
        raise ValueError(f"devices must be all {chips} of the TPU {name!r}, got {devices}")
    return strategy


def _connected(name: str) -> tf.distribute.Strategy:
    try:
        scheme, _, address = name.partition("://")
        if scheme == "grpc" and not hosts.is_there(address.split(",")[0]):
            raise OSError(f"nothing answers at {address}")  # TensorFlow would wait for minutes
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(
            f"the TPU {name!r} cannot be used ({said[0][:200]}): {_NAME} must be local on a TPU's "
            "own host, where tensorflow-tpu is installed instead of tensorflow, or the name or "
            "grpc:// address of one. For other devices unset it, or take KERAS_BACKEND=jax"
        ) from None
