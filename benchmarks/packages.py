"""What a contender's process sees of what is installed: what its own packages ask for.

A machine with all peers on it has more than any user of one of them: TensorFlow, for one, imports
JAX where it finds it, and Keras scikit-learn and pandas. That costs memory and seconds of a start.
"""

import functools
import importlib.metadata
import sys
import sysconfig
from collections.abc import Iterable

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_PEERS = {"keras_bert", "keras_hub", "sentence_transformers", "transformers"}
_OF_DEVICES = ("jax-cuda", "jax-rocm", "libtpu", "nvidia", "triton")  # extras ask for them
_INSTALLED = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
HIDDEN = "BENCHMARKS_HIDDEN"  # variable of the environment: what `hidden` gave, JSON


@functools.cache
def hidden(modules: frozenset[str]) -> dict[str, list[str]]:
    """Installed packages that none of the modules' packages asks for, and their modules.

    Args:
        modules: what the contender uses, kbert apart: "torch", "keras_hub". What kbert asks for
            is hidden from a peer too, unless that asks for it.

    Returns:
        What `hide` takes, in another process. Nothing from a bare checkout: what kbert asks for
        stands in its package.
    """
    providers = _providers()
    if not _is_installed("kbert-keras"):
        return {"modules": [], "packages": []}
    asked = {name for module in modules for name in providers.get(module, ())}
    asked |= {"packaging"} if modules & _PEERS else {"packaging", "kbert-keras"}
    seen = frozenset().union(*map(_with_required, asked))
    installed = {name for names in providers.values() for name in names}
    seen |= {name for name in installed if name.startswith(_OF_DEVICES)}
    return {
        "modules": sorted(module for module, names in providers.items() if not seen & set(names)),
        "packages": sorted(installed - seen),
    }


@functools.cache
def _providers() -> dict[str, list[str]]:
    found = importlib.metadata.packages_distributions()
    return {module: [canonicalize_name(name) for name in names] for module, names in found.items()}


def _is_installed(name: str) -> bool:
    try:
        return bool(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return False


@functools.cache
def _with_required(name: str) -> frozenset[str]:
    """The package and all that is asked for, extras apart; what is not installed asks nothing."""
    seen, left = set(), [canonicalize_name(name)]
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        if not _is_installed(one):
            continue
        asked = map(Requirement, importlib.metadata.requires(one) or [])
        left += [
            canonicalize_name(requirement.name)
            for requirement in asked
            if not requirement.marker or requirement.marker.evaluate({"extra": ""})
        ]
    return frozenset(seen)


def hide(modules: Iterable[str], packages: Iterable[str]) -> None:
    """From here on, in this process, none of these top-level modules and packages is there."""
    modules, packages = frozenset(modules), frozenset(packages)
    sys.meta_path[:] = [_Hiding(finder, modules, packages) for finder in sys.meta_path]


class _Hiding:
    """A finder of modules and packages that does not find some."""

    def __init__(self, finder, modules: frozenset, packages: frozenset):
        self._finder, self._modules, self._packages = finder, modules, packages

    def __getattr__(self, name: str):
        return getattr(self._finder, name)

    def find_spec(self, name, path=None, target=None):
        """See `importlib.abc.MetaPathFinder`."""
        if path is None and name in self._modules:  # but what setuptools has of its own is there
            path = [one for one in sys.path if one not in _INSTALLED]
        return self._finder.find_spec(name, path, target)

    def find_distributions(self, *context):
        """See `importlib.metadata.DistributionFinder`; transformers looks for packages there."""
        for one in getattr(self._finder, "find_distributions", lambda *_: ())(*context):
            if canonicalize_name(one.metadata["Name"]) not in self._packages:
                yield one
