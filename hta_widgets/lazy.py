"""Import the names of a package on first use; pandas alone takes 0.5 s to import.

The names are listed in the package's ``__init__.pyi``, which type checkers and editors read instead
of its ``__init__.py``. The line ::

    from hta_widgets.readers.load import load as load

in ``hta_widgets/__init__.pyi`` declares ``hta_widgets.load``. On first access, the package's
``__getattr__`` imports it from ``hta_widgets.readers.load``.
"""

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


@cache
def stub_modules(init_file: str) -> dict[str, str]:
    """Map each name that the stub next to an ``__init__.py`` re-exports to its module."""
    stub = ast.parse(Path(init_file).with_suffix(".pyi").read_text("utf-8"))
    return {
        alias.name: statement.module
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
        if alias.asname == alias.name
    }


def import_name(module: str, name: str) -> Any:
    """Return what ``from module import name`` imports: an attribute or a submodule."""
    attributes = vars(import_module(module))  # `getattr` would recurse in a lazy package.
    return attributes[name] if name in attributes else import_module(f"{module}.{name}")
