"""The public API, docs/api.md, import cost, and the order of layers."""

import ast
import inspect
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import hta_widgets as hw

MODULES = ["analysis", "charts", "compat", "devices", "diff", "taxonomy", "cache", ""]


@pytest.mark.parametrize("module", MODULES)
def test_dir_shows_what_the_documentation_lists(repo, module):
    face = getattr(hw, module) if module else hw
    title = f"hta_widgets.{module}".rstrip(".")
    text = (repo / "docs/api.md").read_text("utf-8")
    section = re.split(r"^## ", text.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]
    listed = re.findall(r"`(\w+)`", section.partition("\n\n")[2])
    assert sorted(dir(face)) == sorted(listed)
    assert all(getattr(face, name) is not None for name in listed)


@pytest.mark.parametrize("module", MODULES)
def test_markup_of_docstrings_is_balanced(module):
    """Each paragraph closes the code markup it opens."""
    face = getattr(hw, module) if module else hw
    values = [getattr(face, name) for name in dir(face)]
    values += [v for cls in values if inspect.isclass(cls) for v in vars(cls).values()]
    texts = [inspect.getdoc(v) or "" for v in values if callable(v) or isinstance(v, property)]
    paragraphs = [paragraph for text in texts for paragraph in text.split("\n\n")]
    assert [paragraph for paragraph in paragraphs if paragraph.count("``") % 2] == []


@pytest.mark.parametrize(
    ("code", "unused"),
    [
        ("import hta_widgets", "pandas"),
        ("from hta_widgets.cli import main; main(['--help'])", "pandas"),
        ("from hta_widgets import load", "bokeh"),
        ("from hta_widgets import load", "anywidget"),
    ],
)
def test_imports_are_lazy(code, unused):
    program = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
        f"sys.exit({unused!r} in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_a_table_imports_neither_widgets_nor_other_formats_and_analyses(tmp_path):
    path = tmp_path / "trace.json"
    kernel = '{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 5, "pid": 0, "tid": 7}'
    path.write_text(f'{{"traceEvents": [{kernel}]}}')
    modules = ("anywidget", "ipywidgets", "traitlets", "tornado", "bokeh", "IPython", "html.parser")
    parts = ("live", "widgets", "formats.nsight.reader", "analysis.steps")
    program = (
        "import sys\nfrom hta_widgets.cli import main\n"
        f"assert main(['table', {str(path)!r}, 'kernel_breakdown', '--csv']) == 0\n"
        f"unused = {[*modules, *(f'hta_widgets.{part}' for part in parts)]}\n"
        "print(*(set(unused) & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program]
    *table, imported = subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.split("\n")[:-1]
    assert len(table) == 2
    assert imported == ""


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_like_this"):
        hw.nothing_like_this  # noqa: B018


PACKAGE = Path(__file__).resolve().parents[2] / "hta_widgets"

GROUND = ["lazy", "facts", "errors", "text", "arguments", "taxonomy", "files", "options", "workers"]

ANALYSED = ["trace", "tiles", "store", "readers", "analysis", "panels"]

SHOWN = [
    "charts",
    "diff",
    "formats",
    "live",
    "export",
    "answers",
    "widgets",
    "host",
    "demo",
    "recording",
    "compat",
    "__init__",
    "cli",
    "__main__",
]

#: From the bottom up: a layer may only import layers below it.
LAYERS = [*GROUND, *ANALYSED, *SHOWN]

HEADLESS = {*GROUND, *ANALYSED, "diff"}

WIDGET_LIBRARIES = {"anywidget", "bokeh", "ipywidgets", "jupyterlab", "traitlets"}

MODULES = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}


@cache
def imports(file: str) -> tuple[tuple[str, int], ...]:
    """Return imported names with their lines, including those in functions or type checks."""
    return tuple(_find_imports(file))


def _find_imports(file: str) -> Iterator[tuple[str, int]]:
    package = ["hta_widgets", *file.split("/")[:-1]]
    for node in ast.walk(ast.parse(MODULES[file].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno


def test_imports_point_down():
    result = []
    for file in MODULES:
        layer = file.split("/")[0].removesuffix(".py")
        for name, line in imports(file):
            top, *rest = name.split(".")
            target = rest[0] if rest else "__init__"
            if top == "hta_widgets":
                target = target if target in LAYERS else "__init__"
                if LAYERS.index(target) > LAYERS.index(layer):
                    result.append(f"{file}:{line}: {layer} imports {name}")
            elif layer in HEADLESS and top in WIDGET_LIBRARIES:
                result.append(f"{file}:{line}: {layer} imports {top}")
    assert result == []


def test_no_module_is_in_a_circle():
    """Imports in functions and for type checkers count as well."""
    of_name = {
        "hta_widgets." + file.removesuffix(".py").removesuffix("/__init__").replace("/", "."): file
        for file in MODULES
    }
    graph = defaultdict(set)
    for file in MODULES:
        for name, _ in imports(file):
            target = of_name.get(name) or of_name.get(name.rpartition(".")[0])
            if target and target != file:
                graph[file].add(target)
    assert ("trace/traceset.py", "trace/conditions.py") in {
        (file, target) for file, targets in graph.items() for target in targets
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None
