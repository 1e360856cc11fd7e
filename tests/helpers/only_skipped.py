"""`pytest --skipped`: the tests that the last run skipped, once what they need is installed.

A run that names no file notes in pytest's cache what it skipped. With `--skipped` the others are
left out, and a test that was skipped and is not there any more is an error: its name changed with
what is installed, and nobody would miss it.
"""

import pytest

PLACE = "kbert/skipped"
noted = pytest.StashKey[set]()


def pytest_addoption(parser):
    parser.addoption("--skipped", action="store_true", help="only what the last run of all skipped")


def pytest_configure(config):
    """The process that gives out the tests notes; the others, and `-p no:cacheprovider`, do not."""
    of_all = config.args_source is not config.ArgsSource.ARGS
    here = hasattr(config, "cache") and not hasattr(config, "workerinput")
    if of_all and here and not config.option.skipped:
        config.stash[noted] = set()
        config.pluginmanager.register(Notes(config.stash[noted]))
    if of_all and config.option.skipped:
        root = config.rootpath
        files = sorted({str(root / name.partition("::")[0]) for name in of_last_run(config)})
        config.args = files or config.args  # no others need be imported


def of_last_run(config) -> set[str]:
    return set(config.cache.get(PLACE, []))


class Notes:
    """Tests and modules that said why they do not run here."""

    def __init__(self, names: set[str]):
        self._names = names

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            self._names.add(report.nodeid)

    def pytest_collectreport(self, report):
        if report.skipped:
            self._names.add(report.nodeid)


def pytest_collection_modifyitems(config, items):
    if not config.option.skipped:
        return
    names = of_last_run(config)
    chosen = [item for item in items if {item.nodeid, item.nodeid.partition("::")[0]} & names]
    here = {item.nodeid for item in items}
    files = {name.partition("::")[0] for name in here}
    gone = [name for name in names if "::" in name and name not in here]
    missing = sorted(name for name in gone if name.partition("::")[0] in files)
    if missing and not any("::" in argument for argument in config.args):
        raise pytest.UsageError(f"skipped before, not there now: {', '.join(missing)}")
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def pytest_sessionfinish(session):
    config = session.config
    if noted in config.stash:
        config.cache.set(PLACE, sorted(config.stash[noted]))
