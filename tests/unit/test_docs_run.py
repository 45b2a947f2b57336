"""Run the code in the documentation on a small job."""

import gzip
import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest
from support.chart_reading import words_of

import hta_widgets as hw
from hta_widgets import analysis, taxonomy
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.job import write_demo
from hta_widgets.panels.headline import headline, text_of

pytestmark = pytest.mark.slow

PAGES = [
    "README.md",
    "docs/analyses.md",
    "docs/analyses-formats.md",
    "docs/analyses-host.md",
    "docs/analyses-idle.md",
    "docs/analyses-ranks.md",
    "docs/answers.md",
    "docs/architecture.md",
    "docs/byteps.md",
    "docs/clocks.md",
    "docs/cluster.md",
    "docs/concepts.md",
    "docs/dashboard.md",
    "docs/devices.md",
    "docs/diff.md",
    "docs/diff-changes.md",
    "docs/diff-page.md",
    "docs/efficiency.md",
    "docs/many-ranks.md",
    "docs/moving-from-hta.md",
    "docs/mpi.md",
    "docs/next-steps.md",
    "docs/store.md",
    "docs/thousand-ranks.md",
]

#: PyTorch's format: time, action, (size,) and category; two allocations and a release.
MEMORY = [[1000, 2, 512, 4], [2000, 2, 256, 5], [3000, 4, -512, 4]]


def blocks(path, language="python"):
    """Return the code blocks of a page, each with its first line number."""
    text = path.read_text("utf-8")
    return [
        (text.count("\n", 0, result.start(1)), result[1])
        for result in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "job"
    write_demo(folder, ranks=2, steps=3, seed=1)
    return folder


@pytest.mark.parametrize("document", PAGES)
@pytest.mark.filterwarnings("default::ResourceWarning:distributed")
def test_the_code_of_a_document_runs_from_top_to_bottom(document, repo, job, tmp_path, monkeypatch):
    if document == "docs/cluster.md":
        pytest.importorskip("distributed", reason="Dask is not installed")
    monkeypatch.chdir(tmp_path)
    for folder in ("demo-job", "runs/job"):
        shutil.copytree(job, tmp_path / folder)
    with gzip.open("memory.raw.json.gz", "wt") as file:
        json.dump(MEMORY, file)
    write_byteps_job("runs/byteps", steps=1, gradients=2)
    names = {"__name__": "page"}
    result = blocks(repo / document)
    assert len(result) > (5 if document == "docs/mpi.md" else 0)
    try:
        for line, code in result:
            if "import torch" in code and importlib.util.find_spec("torch") is None:
                continue
            # Line numbers in tracebacks are those of the page.
            exec(compile("\n" * line + code, document, "exec"), names)
    finally:
        taxonomy.reset()
    if document == "docs/byteps.md":
        assert Path("byteps-demo.truth.json").exists()
    if document == "docs/mpi.md":
        assert "Rank 3 has the least time in MPI" in names["uneven"].explanation[0]


def test_code_for_other_packages_compiles(repo):
    pages = [repo / "README.md", *(repo / "docs").glob("*.md")]
    result = [
        compile("\n" * line + code, page.name, "exec")
        for page in pages
        for line, code in blocks(page, "py")
    ]
    assert len(result) > 10


@pytest.fixture(scope="module")
def pictures(repo):
    """The scripts that make the pictures, and the recorded texts of the pictures."""
    pytest.importorskip("playwright", reason="Playwright is not installed")
    path = repo / "scripts/pictures.py"
    spec = importlib.util.spec_from_file_location("pictures", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, json.loads((repo / "docs/img/texts.json").read_text("utf-8"))


def test_pictures_say_what_the_product_says_today(pictures, tmp_path):
    """`make screenshots` updates them."""
    result, texts = pictures
    job, slower, byteps, mpi = result.jobs(tmp_path)
    for traces, names in (
        (job, ["dashboard", "dashboard_dark", "dashboard_rank_5", "dashboard_window"]),
        (byteps, ["dashboard_byteps"]),
        (mpi, ["dashboard_mpi"]),
    ):
        text = headline(traces)
        more = " ".join(text_of(parts) for parts in text.sentences)
        for name in names:
            selected = name in ("dashboard_rank_5", "dashboard_window")
            scope = ["of the whole job"] if selected else []
            assert texts[name][: 2 + len(scope)] == [text.text, more, *scope], name
    assert texts["diff"][0] == hw.TraceDiff(job, slower).findings[0].text
    for name, chart in result.drawn_charts(job).items():
        assert texts[name] == [words_of(chart)], name


def test_readme_quotes_the_answer_of_the_demo_job(repo):
    texts = json.loads((repo / "docs/img/texts.json").read_text("utf-8"))
    finding, reason = texts["dashboard"][:2]
    quote = re.search(r"^> (.*)$", (repo / "README.md").read_text("utf-8"), re.MULTILINE)[1]
    assert quote == f"{finding} {reason.partition('. ')[0]}."


def test_pages_name_the_pictures_that_are_there(repo):
    texts = json.loads((repo / "docs/img/texts.json").read_text("utf-8"))
    pages = [repo / "README.md", *(repo / "docs").glob("*.md")]
    named = {
        Path(link).name
        for page in pages
        for link in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text("utf-8"))
    }
    present = {path.name for path in (repo / "docs/img").iterdir()} - {"texts.json"}
    assert named == present == {*(f"{name}.png" for name in texts), "performance.svg", "tour.webp"}


def test_every_analysis_has_its_words(repo):
    text = "".join(page.read_text("utf-8") for page in (repo / "docs").glob("analyses*.md"))
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
