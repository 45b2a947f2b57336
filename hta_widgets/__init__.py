"""Interactive, linked analysis of distributed training traces in notebooks."""

from importlib import import_module


# `python -m hta_widgets` runs this file while the working directory is still first on the path, so
# nothing else is imported here.
def __getattr__(name: str) -> object:
    lazy = import_module(f"{__name__}.lazy")
    module_of: dict[str, str] = lazy.stub_modules(__file__)
    value: object
    if name == "__all__":
        value = ["__version__", *sorted(module_of)]
    elif name == "__version__":
        value = import_module("importlib.metadata").version("hta_widgets")
    elif name in module_of:
        value = lazy.import_name(module_of[name], name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def load_ipython_extension(ipython: object) -> None:
    """Add the cell magic ``%%trace``, for ``%load_ext hta_widgets``."""
    import_module(f"{__name__}.recording").register_magic(ipython)


def __dir__() -> list[str]:
    return list(__getattr__("__all__"))
