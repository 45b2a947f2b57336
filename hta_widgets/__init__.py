"""Interactive, linked analysis of distributed training traces inside the notebook."""

from importlib import import_module
from typing import Any

from hta_widgets.lazy import import_name, stub_modules

_MODULE_OF = stub_modules(__file__)

__all__ = ["__version__", *sorted(_MODULE_OF)]  # noqa: PLE0604 - all are strings


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = import_module("importlib.metadata").version("hta_widgets")
    elif name in _MODULE_OF:
        value = import_name(_MODULE_OF[name], name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def load_ipython_extension(ipython: Any) -> None:
    """Add the cell magic ``%%trace``, for ``%load_ext hta_widgets``."""
    import_module(f"{__name__}.recording").register_magic(ipython)


def __dir__() -> list[str]:
    return __all__
