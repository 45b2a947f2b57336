"""The code in documents runs, on a small job."""

import gzip
import importlib.util
import json
import re
import shutil

import pytest

from hta_widgets import analysis, taxonomy
from hta_widgets.demo import write_demo

PAGES = [
    "README.md",
    "docs/analyses.md",
    "docs/cluster.md",
    "docs/concepts.md",
    "docs/dashboard.md",
    "docs/diff.md",
    "docs/many-ranks.md",
    "docs/moving-from-hta.md",
    "docs/store.md",
]

#: As PyTorch writes memory: time, action, (size,) and category; two allocations and a release.
MEMORY = [[1000, 2, 512, 4], [2000, 2, 256, 5], [3000, 4, -512, 4]]


def blocks(path):
    """The Python blocks of a page, with the line on which each begins."""
    text = path.read_text("utf-8")
    return [
        (text.count("\n", 0, found.start(1)), found[1])
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "job"
    write_demo(folder, ranks=2, steps=3, seed=1)
    return folder


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("default::ResourceWarning:distributed")
def test_the_code_of_a_page_runs_from_top_to_bottom(page, repo, job, tmp_path, monkeypatch):
    if page == "docs/cluster.md":
        pytest.importorskip("distributed", reason="Dask is not installed")
    monkeypatch.chdir(tmp_path)
    for folder in ("demo-job", "runs/job"):
        shutil.copytree(job, tmp_path / folder)
    with gzip.open("memory.raw.json.gz", "wt") as file:
        json.dump(MEMORY, file)
    names = {"__name__": "page"}
    found = blocks(repo / page)
    assert found
    try:
        for line, code in found:
            if "import torch" in code and importlib.util.find_spec("torch") is None:
                continue
            # Lines of a failure are those of the page.
            exec(compile("\n" * line + code, page, "exec"), names)
    finally:
        taxonomy.reset()


def test_every_analysis_has_its_words(repo):
    text = (repo / "docs/analyses.md").read_text("utf-8")
    assert [name for name in analysis.__all__ if name not in text] == []


def test_the_modules_that_a_page_names_are_there(repo):
    text = (repo / "docs/moving-from-hta.md").read_text("utf-8")
    listed = text.partition("## Which modules")[2].partition("```")[0]
    modules = []
    for line in re.findall(r"^- (.*(?:\n  .*)*)", listed, re.MULTILINE):
        first, *names = re.findall(r"`([\w.]+)`", line)
        folder = first if first.endswith(".") else ""
        modules += [folder + name for name in (names if folder else [first, *names])]
    assert len(modules) > 25
    for module in modules:
        importlib.import_module(f"hta_widgets.compat.{module}")
