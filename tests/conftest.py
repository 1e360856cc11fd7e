"""What several test modules share."""

import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest
from helpers import peer_outputs
from helpers.backends import environment_of
from helpers.errors import collected_logs
from helpers.sizes import ROOT, SHARED, SIZES, TESTS

gc.disable()  # until `pytest_collection_finish`: importing the tests takes a third less time
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # several processes on the cores: threads would spin
# No test asks a hub, or finds what this machine's user downloaded.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HOME"] = os.path.join(tempfile.gettempdir(), "no-hub")
os.environ["KAGGLEHUB_CACHE"] = os.environ["HF_HOME"]
# Programs that tests run in processes of their own find the package helpers.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
)

BROWSER_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
# Files whose tests run in processes that tests/training/conftest.py forks: one worker runs them
# all, so that each backend is imported once for them, which takes 5 seconds.
FORKING = (
    "training/test_run_kills.py",
    "training/test_run_workers.py",
    "training/test_torch_processes.py",
    "training/test_tpu_program.py",
    "training/test_training_processes.py",
    "training/test_vector_processes.py",
)
# What takes longest begins first: at the end it would keep one core busy alone.
LONGEST = ("test_backends.py", *FORKING, "project/test_notebooks.py", "checkpoints/test_exports.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each file to one worker, and the files that fork processes all to the same one."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "forking" if file.endswith(FORKING) else file

    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_configure(config):
    """Restore Ctrl-C, and share what JAX compiled and peers computed between the processes.

    A shell has a background job ignore Ctrl-C, and with it all that the job starts: tests that
    press it would wait for nothing. The shared folders are removed at the end.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in (peer_outputs.FOLDER, "JAX_COMPILATION_CACHE_DIR"):  # .ci/run sets the latter
        if name not in os.environ:
            os.environ[name] = make_temporary_folder(config)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


def make_temporary_folder(config) -> str:
    folder = tempfile.TemporaryDirectory(prefix="kbert-tests-")
    config.add_cleanup(folder.cleanup)
    return folder.name


def pytest_collection_modifyitems(items):
    """Put the files that take longest first."""
    places = {str(TESTS / file): place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(str(item.path), len(places)))


def pytest_collection_finish():
    """Leave what was imported out of garbage collections, of which Keras asks for many."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Keras takes the seeds that it is not given from here: a test draws the same each time."""
    random.seed(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef):
    """What tests share draws the same too, whichever of them asks for it first."""
    if fixturedef.scope == "function":
        return (yield)
    before = random.getstate()
    random.seed(fixturedef.argname)
    try:
        return (yield)
    finally:
        random.setstate(before)


@pytest.fixture(autouse=True)
def nothing_takes_long(monkeypatch):
    """On a machine that is busy a test may be slow; no test is about what is said then."""
    monkeypatch.setattr("kbert.io.progress.PROGRESS_DELAY_S", 600.0)


@pytest.fixture
def messages():
    """What kbert's logger says during the test."""
    with collected_logs() as found:
        yield found


@pytest.fixture(scope="session")
def small():
    """A configuration of odd sizes."""
    from kbert import BertConfig

    return BertConfig(**SIZES)


@pytest.fixture(scope="session")
def saved(small, tmp_path_factory):
    """A folder with a checkpoint of each head, and the `Bert`s. Tests may add folders to it."""
    from helpers.small_berts import small_berts

    import kbert

    out = tmp_path_factory.mktemp("saved")
    berts = small_berts(small.replace(num_hidden_layers=2))
    for head, bert in berts.items():
        kbert.save(bert, out / head)
    return out, berts


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder of texts in small blocks, and the content of its shards by one process."""
    from helpers.corpora import content, prepare_some, small_blocks, write_corpus

    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    with small_blocks():
        prepare_some(folder, folder / "shards", processes=1)
        yield folder, content(folder / "shards")


@pytest.fixture(scope="session")
def shared():
    """The folder of shared material beside the project, where there is one."""
    if not SHARED.is_dir():
        pytest.skip("no ../shared beside the project: nothing to compare with")
    return SHARED


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A `LocalHub` that huggingface_hub uses in this test, with an empty cache."""
    from helpers.hub_cache import use_hub
    from helpers.local_hub import LocalHub

    with LocalHub() as local_hub:
        use_hub(monkeypatch, local_hub.endpoint, tmp_path / "hf")
        yield local_hub


@pytest.fixture(scope="session")
def run_python():
    """Runs Python code in a process of its own; returns what it printed."""

    def run(code: str, *arguments, backend: str | None = None, check: bool = True, **env: str):
        environment = os.environ | (environment_of(backend) if backend else {}) | env
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert not check or done.returncode == 0, done.stderr[-3000:]
        return done

    return run


@pytest.fixture(scope="session")
def base_model():
    """Document 004's graph, built once, without weights: 110 million values take seconds."""
    from kbert.graph.spec import GraphSpec
    from kbert.model.deferred import build_outline

    return build_outline(GraphSpec.of("base"))


@pytest.fixture
def nobody(tmp_path, request):
    """A function that gives the rights of a user who has none, until the test's end."""
    if not hasattr(os, "geteuid"):
        pytest.skip("no POSIX rights on this system")
    as_root = os.geteuid() == 0
    if as_root:
        request.addfinalizer(lambda: os.seteuid(0))
        for place in (tmp_path, *tmp_path.parents):
            if place.name.startswith(("pytest-", "popen-", "test_")):
                place.chmod(0o755)
    return lambda: os.seteuid(65534) if as_root else None


@pytest.fixture(scope="session")
def launch():
    """Start a headless Chromium, with variables for its environment; all end with the tests."""
    api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium on PATH: apt-get install chromium")
    with api.sync_playwright() as playwright:
        yield lambda **environment: playwright.chromium.launch(
            executable_path=path, args=BROWSER_OPTIONS, env=os.environ | environment
        )


@pytest.fixture(scope="session")
def browser(launch):
    return launch()
