"""The wheel: built once, complete, and usable on a machine without Node."""

import email
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from support.examples import ALL, only_in_all

pytestmark = pytest.mark.slow

CPU = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1}
TRACE = {
    "distributedInfo": {"rank": 3, "world_size": 4},
    "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        CPU | {"name": "aten::mm", "ts": 10.5, "dur": 4},
        CPU | {"name": "aten::add", "ts": 11, "dur": 0.25},
    ],
}

PROJECT_URL = "https://example.org/team/hta_widgets"

USE = """
import hta_widgets as hw
traces = hw.load("trace.json", cache=False, progress=False)
events = traces.events()
assert traces.ranks == [3], traces.ranks
assert dict(zip(events["name"], events["dur_ns"])) == {"aten::mm": 4000, "aten::add": 250}, events
assert hw.__version__ == VERSION, hw.__version__
state = hw.Timeline(traces).get_state()
assert len(str(state["_esm"])) > 1000 and "export" in str(state["_esm"]), "no front end"
print("fine")
"""

#: Runs the code blocks of README.md in order; all Python blocks share one session.
READER = """
import importlib, json, subprocess, sys
names = {"__name__": "__main__"}
for line, language, code in json.load(sys.stdin):
    print(f"README.md:{line}", flush=True)
    if language == "sh":
        subprocess.run(["bash", "-euo", "pipefail", "-c", code], check=True)
    else:
        importlib.invalidate_caches()
        exec(compile("\\n" * line + code, "README.md", "exec"), names)
importlib.invalidate_caches()
print("from", importlib.import_module("hta_widgets").__file__)
"""


def run(*command: object, **options: object) -> str:
    words = [str(part) for part in command]
    result = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert result.returncode == 0, f"{command[0]}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}"
    return result.stdout


@pytest.fixture(scope="module")
def built(repo) -> set[str]:
    """Return the names of the built front-end files."""
    names = {path.name for path in (repo / "hta_widgets/static").glob("*")}
    if not names:
        pytest.skip("the front end is not built (`make build`)")
    return names


@pytest.fixture(scope="module")
def dist(repo, built, tmp_path_factory) -> Path:
    """An sdist, and the wheel built from that sdist instead of the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    # Programs that need Node find one that always fails.
    broken = tmp_path_factory.mktemp("bin")
    for tool in ("node", "npm"):
        (broken / tool).write_text(f"#!/bin/sh\necho 'must not call {tool}' >&2\nexit 1\n")
        (broken / tool).chmod(0o755)
    env = {"PATH": f"{broken}:/usr/bin:/bin", "PROJECT_URL": PROJECT_URL} | pip_environment()
    run(sys.executable, "-m", "build", "--outdir", folder, repo, env=env)
    return folder


def pip_environment() -> dict[str, str]:
    """Return the environment variables that configure pip, and no others."""
    remaining = (
        "PIP_",
        "SSL_",
        "REQUESTS_",
        "HTTP",
        "http",
        "NO_PROXY",
        "no_proxy",
        "HOME",
        "TMPDIR",
    )
    return {name: value for name, value in os.environ.items() if name.startswith(remaining)}


def only(dist: Path, pattern: str) -> Path:
    (path,) = dist.glob(pattern)
    return path


def test_wheel_holds_the_package_and_each_built_file_once(dist, built):
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel:
        names = wheel.namelist()
    static = [name for name in names if name.startswith("hta_widgets/static/")]
    assert sorted(static) == sorted(f"hta_widgets/static/{name}" for name in built)
    assert len(names) == len(set(names))
    assert {"hta_widgets/py.typed", "hta_widgets/facts/tokens.json"} <= set(names)
    info = [name for name in names if ".dist-info/" in name]
    assert any(name.endswith("LICENSE") for name in info)
    roots = {name.split("/")[0] for name in names if name not in info}
    (data,) = (root for root in roots if root.endswith(".data"))
    assert roots == {"hta_widgets", data}


def test_wheel_states_the_public_address_of_the_project(dist):
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(name))
    assert set(metadata.get_all("Project-URL")) == {
        f"Source, {PROJECT_URL}",
        f"Documentation, {PROJECT_URL}/blob/v{metadata['Version']}/docs/index.md",
        f"Changelog, {PROJECT_URL}/blob/v{metadata['Version']}/CHANGELOG.md",
        f"Issues, {PROJECT_URL}/issues",
    }
    readme = metadata.get_payload()
    assert f"]({PROJECT_URL}/raw/v{metadata['Version']}/docs/img/tour.webp)" in readme
    assert f"]({PROJECT_URL}/blob/v{metadata['Version']}/docs/answers.md)" in readme
    assert re.findall(r"\]\((?!https:)[^)]*\)", readme) == []


def test_wheel_holds_the_extension_of_jupyterlab(dist):
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel:
        own = [name for name in wheel.namelist() if ".data/" in name]
        (root,) = {name[: name.index("hta-widgets/") + 12] for name in own}
        described = json.loads(wheel.read(f"{root}package.json"))
        schema = json.loads(wheel.read(f"{root}schemas/hta-widgets/plugin.json"))
    assert root.endswith(".data/data/share/jupyter/labextensions/hta-widgets/")
    script = described["jupyterlab"]["_build"]["load"]
    assert re.fullmatch(r"static/remoteEntry\.[0-9a-f]{16}\.js", script)
    schemas = [f"schemas/hta-widgets/{name}" for name in ("package.json.orig", "plugin.json")]
    assert sorted(own) == sorted(
        f"{root}{name}" for name in ("install.json", "package.json", *schemas, script)
    )
    assert f"-{described['version']}-" in only(dist, "*.whl").name
    assert set(schema["properties"]) == {"kernel"}


def test_sdist_builds_without_node(dist, built):
    with tarfile.open(only(dist, "*.tar.gz")) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {f"hta_widgets/static/{name}" for name in built} <= names
    assert {"package.json", "package-lock.json", "js/build.mjs", "LICENSE"} <= names
    assert {"tests/conftest.py", "docs/index.md", "notebooks/quickstart.ipynb"} <= names
    # Files that tests read and documents link to.
    assert {"scripts/replies.py", "benchmarks/README.md", "changes/README.md"} <= names
    assert {"CONTRIBUTING.md", "CITATION.cff", "mkdocs.yml", "packaging/conda-recipe.yaml"} <= names
    unwanted = ("node_modules", ".venv", "screenshots", "demo-job", ".tools")
    assert not [name for name in names if name.startswith(unwanted)]


@only_in_all
def test_wheel_works_in_a_clean_environment_without_node(dist, tmp_path):
    venv.create(tmp_path / "clean", with_pip=True)
    bin_ = tmp_path / "clean/bin"
    env = {"PATH": str(bin_), "HTA_WIDGETS_CACHE": str(tmp_path / "cache")} | pip_environment()
    run(bin_ / "python", "-m", "pip", "install", "-q", only(dist, "*.whl"), env=env)

    (tmp_path / "trace.json").write_text(json.dumps(TRACE))
    version = only(dist, "*.whl").name.split("-")[1]
    use = USE.replace("VERSION", repr(version))
    assert run(bin_ / "python", "-W", "error", "-c", use, cwd=tmp_path, env=env) == "fine\n"
    summary = run(bin_ / "hta-widgets", "summary", "trace.json", cwd=tmp_path, env=env)
    assert "kineto" in summary
    assert (tmp_path / "clean/share/jupyter/labextensions/hta-widgets/package.json").exists()


def environment_without_us(folder: Path) -> Path:
    """Create an environment with all installed packages except ours; return its bin folder."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "hta_widgets" not in entry.name and not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry)
    pip = folder / "bin/pip"
    pip.write_text(f'#!/bin/sh\nexec "{folder}/bin/python" -m pip "$@"\n')
    pip.chmod(0o755)
    return folder / "bin"


def test_each_line_of_the_readme_works_in_an_empty_folder(dist, repo, tmp_path):
    bin_ = environment_without_us(tmp_path / "env")
    folder = tmp_path / "empty"
    folder.mkdir()
    shutil.copy(only(dist, "*.whl"), folder)
    text = (repo / "README.md").read_text("utf-8").partition("## In a checkout")[0]
    has_torch = importlib.util.find_spec("torch") is not None
    blocks = [
        (text.count("\n", 0, result.start(2)), result[1], result[2])
        for result in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        # `tests/unit/test_docs_run.py` runs the Python blocks on a small job.
        if result[1] == "sh" or (ALL and (has_torch or "import torch" not in result[2]))
    ]
    assert {language for _, language, _ in blocks} == ({"sh", "python"} if ALL else {"sh"})
    assert "hta-widgets demo demo-job" in blocks[0][2]
    env = {"PATH": f"{bin_}:/usr/bin:/bin", "HOME": str(tmp_path), "PIP_NO_INDEX": "1"}
    # A browser command that opens nothing.
    env |= {"BROWSER": "true", "HTA_WIDGETS_CACHE": str(tmp_path / "cache")}
    message = run(bin_ / "python", "-c", READER, cwd=folder, env=env, input=json.dumps(blocks))
    assert f"from {tmp_path}/env/lib" in message
    assert "rank 5 is a straggler" in message
    assert f"{(folder / 'report.html').as_uri()} (" in message
    left = {path.name for path in folder.iterdir() if not path.name.endswith(".whl")}
    written = {"demo-job", "demo-job_truth.json", "report.html"}
    written |= {"part.trace.json.gz", "slower-job", "diff.html"}
    assert left >= written | ({"window.trace.json.gz", "window.svg"} if ALL else set())
    if ALL and has_torch:
        (trace,) = (folder / "my-job").iterdir()
        assert trace.name.endswith("_rank-0-of-1_step-5.pt.trace.json.gz")
