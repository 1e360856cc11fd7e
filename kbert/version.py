"""The version of kbert, which the package index and the pages of a release show."""

__version__ = "0.2.0"
