"""Every notebook runs from top to bottom and is committed without outputs."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.notebook_files import write_notebook

REPO = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((REPO / "notebooks").glob("*.ipynb"))


def cells(path):
    return json.loads(path.read_text("utf-8"))["cells"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path, tmp_path):
    # Runs in a separate process: nbclient needs an event loop, and this thread may have one.
    copy = shutil.copytree(path.parent, tmp_path / "notebooks") / path.name
    script = REPO / "scripts/run_notebook.py"
    result = subprocess.run(
        [sys.executable, script, copy], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr[-4000:]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_committed_without_outputs(path):
    for number, cell in enumerate(cells(path)):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], f"cell {number} has outputs"
            assert cell["execution_count"] is None, f"cell {number} has a number"
    assert "widgets" not in json.loads(path.read_text("utf-8"))["metadata"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_tells_what_it_does(path):
    first = cells(path)[0]
    assert first["cell_type"] == "markdown"
    assert "".join(first["source"]).startswith("# ")


def test_a_failing_cell_fails(tmp_path):
    path = tmp_path / "failing.ipynb"
    write_notebook(path, ["raise SystemError('on purpose')"])
    script = REPO / "scripts/run_notebook.py"
    result = subprocess.run(
        [sys.executable, script, path], capture_output=True, text=True, check=False
    )
    assert result.returncode != 0
    assert "on purpose" in result.stderr
