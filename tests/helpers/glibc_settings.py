"""The environment of a process whose glibc was told nothing, and then some."""

import os


def environment(**variables: str) -> dict[str, str]:
    """Ours without variables of glibc's allocator, with these."""
    ours = {name: value for name, value in os.environ.items() if "MALLOC" not in name.upper()}
    ours.pop("GLIBC_TUNABLES", None)
    return ours | variables
