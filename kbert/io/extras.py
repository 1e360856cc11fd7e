"""Optional packages: if one is missing, one line names the extra that installs it."""

import importlib.util


def require(what: str, extra: str, *modules: str, instead: str = "") -> None:
    """Raise an ImportError that says what to install if any module is missing.

    `what` needs the modules, which the `extra` of pyproject.toml brings; they are not imported.
    `instead` is what else the user can do.
    """
    absent = [name for name in modules if not is_installed(name)]
    missing = [name.replace("_", "-") for name in absent]
    if not missing:
        return
    packages = f"package {missing[0]}, which is"
    if missing[1:]:
        packages = f"packages {', '.join(missing[:-1])} and {missing[-1]}, which are"
    otherwise = instead and f", {instead}"
    raise ImportError(f"{what} needs the {packages} not installed: {install(extra)}{otherwise}")


def install(extra: str) -> str:
    """Return the command that installs an extra, in the clone: kbert is on no package index."""
    return f'pip install ".[{extra}]" in the clone of kbert'


def is_installed(module: str) -> bool:
    """Return whether a module could be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # hidden by an import hook; None in sys.modules
        return False
