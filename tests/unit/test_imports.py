"""The rooms of the package, and that imports point one way only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "hta_widgets"

BASE = {"errors", "formats", "places", "taxonomy"}
MAY_IMPORT = {
    "errors": set(),
    "formats": {"errors"},
    "places": set(),
    "taxonomy": {"errors"},
    "executors": BASE,
    "model": BASE | {"executors"},
    "lanes": BASE | {"model"},
    "store": BASE | {"model", "lanes"},
    "readers": BASE | {"executors", "model", "store"},
    "analysis": BASE | {"executors", "model"},
    "tiles": BASE | {"model", "lanes", "analysis"},
    "demo": BASE | {"model"},
    "charts": BASE | {"model", "analysis", "panels"},
    "panels": BASE | {"model", "analysis", "tiles"},
    "diff": BASE | {"model", "analysis"},
    "export": BASE | {"model", "lanes", "analysis", "tiles", "panels", "charts", "diff"},
    "widgets": BASE
    | {"model", "readers", "analysis", "tiles", "panels", "charts", "diff", "export"},
}
# These see everything: nothing imports them.
TOP = {"__init__", "__main__", "cli", "compat"}

# Methods of a lower room that hand on to a higher one, for the user's convenience. The import
# stands inside of the method, so the lower room still loads and works alone.
HANDED_ON = {
    ("model/selection.py", "export"),
    ("model/traceset.py", "analysis"),
    ("model/traceset.py", "export"),
    ("model/traceset.py", "store"),
}

HEADLESS = {
    "analysis", "diff", "errors", "executors", "formats", "lanes", "model", "panels", "readers",
    "store", "taxonomy", "tiles",
}  # fmt: skip
WIDGET_LIBRARIES = {"anywidget", "bokeh", "ipywidgets", "jupyterlab", "traitlets"}

MODULES = sorted(PACKAGE.rglob("*.py"))
INITS = sorted(PACKAGE.rglob("__init__.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Every imported module as an absolute name, its line, and whether it is at module level."""
    tree = ast.parse(path.read_text("utf-8"))
    top_level = set(map(id, tree.body))
    package = ["hta_widgets", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, id(node) in top_level
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno, id(node) in top_level


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    room = room_of(path)
    file = path.relative_to(PACKAGE).as_posix()
    if room in TOP:
        return
    assert room in MAY_IMPORT, f"{file}: a new room needs its place in MAY_IMPORT"
    for name, line, at_top in imports(path):
        parts = name.split(".")
        if parts[0] == "hta_widgets":
            target = parts[1] if len(parts) > 1 else "__init__"
            handed_on = (file, target) in HANDED_ON and not at_top
            assert target in MAY_IMPORT[room] | {room} or handed_on, (
                f"{file}:{line}: {room} may not import {target}"
            )
        elif room in HEADLESS:
            assert parts[0] not in WIDGET_LIBRARIES, f"{file}:{line}: {room} imports {parts[0]}"


@pytest.mark.parametrize("path", INITS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_an_init_gathers_names_and_does_nothing_else(path):
    tree = ast.parse(path.read_text("utf-8"))
    for node in tree.body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        dunder = isinstance(node, ast.Assign) and all(
            isinstance(target, ast.Name) and target.id.startswith("__") for target in node.targets
        )
        assert docstring or dunder or isinstance(node, ast.Import | ast.ImportFrom), (
            f"{path}:{node.lineno}: an __init__ only gathers names"
        )


@pytest.mark.parametrize("path", INITS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_names_that_are_offered_exist(path):
    tree = ast.parse(path.read_text("utf-8"))
    bound = {
        (alias.asname or alias.name).split(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    offered = {
        name
        for node in tree.body
        if isinstance(node, ast.Assign)
        and [target.id for target in node.targets if isinstance(target, ast.Name)] == ["__all__"]
        for name in ast.literal_eval(node.value)
        if not name.startswith("__")
    }
    assert offered <= bound
