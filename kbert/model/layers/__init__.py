"""The Keras layers of the graph that Keras does not have.

Keras comes first: its import has kbert.model.registration import kbert's classes, which must find
no module half-made.
"""

import keras  # noqa: F401
