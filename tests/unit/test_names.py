"""Machine-checkable rules for names, see CONTRIBUTING.md."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "hta_widgets"

IRREGULAR_PARTICIPLES = frozenset(
    [
        "begun",
        "bound",
        "broken",
        "chosen",
        "done",
        "drawn",
        "found",
        "given",
        "gone",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "left",
        "lost",
        "made",
        "meant",
        "paid",
        "said",
        "seen",
        "sent",
        "shown",
        "spoken",
        "taken",
        "told",
        "written",
    ]
)
FILLERS = {"one", "found", "own", "given", "known", "kept", "whole", "told", "there"}


@cache
def modules() -> list[tuple[str, ast.Module]]:
    return [
        (path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text("utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


@cache
def definitions() -> list[tuple[str, ast.AST]]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [
        (file, node)
        for file, module in modules()
        for node in ast.walk(module)
        if isinstance(node, kinds)
    ]


def is_lone_participle(name: str) -> bool:
    word = name.strip("_")
    return word in IRREGULAR_PARTICIPLES or bool(re.fullmatch(r"[a-z]{3,}[^e]ed", word))


def test_the_name_of_no_function_is_a_lone_participle():
    assert is_lone_participle("_widened")
    assert is_lone_participle("told")
    assert not is_lone_participle("feed")
    # Properties are read like columns, so they may be participles: `Trace.prelaunched`.
    assert [
        f"{file}: {node.name}"
        for file, node in definitions()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and is_lone_participle(node.name)
        and not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    ] == []


def test_no_two_classes_have_one_name():
    files = defaultdict(list)
    for file, node in definitions():
        # `compat` uses HTA's names.
        if isinstance(node, ast.ClassDef) and not file.startswith("compat/"):
            files[node.name].append(file)
    assert {name: where for name, where in files.items() if len(where) > 1} == {}


def test_no_name_of_a_module_is_a_filler():
    names = [
        f"{file}: {target.id}"
        for file, module in modules()
        for statement in module.body
        for target in ast.walk(statement)
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.For)
        and isinstance(target, ast.Name)
        and isinstance(target.ctx, ast.Store)
        and target.id.strip("_").lower() in FILLERS
    ]
    assert names == []


def test_functions_are_short_and_files_have_no_banners():
    long = [
        f"{file}: {node.name}"
        for file, node in definitions()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        # Docstrings of public functions are long, because they list parameters and columns.
        and node.end_lineno - node.lineno - len((ast.get_docstring(node) or "").split("\n")) >= 80
    ]
    banners = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^ *# ---", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert (long, banners) == ([], [])
