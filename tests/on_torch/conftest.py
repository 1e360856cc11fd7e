"""Runs of no particular backend: on torch, which traces nothing, they take least.

The tests on TensorFlow leave them out; test_backends.py has torch's process run them.
"""

import keras

collect_ignore_glob = [] if keras.backend.backend() == "torch" else ["test_*.py"]
