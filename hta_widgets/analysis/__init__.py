"""Functions that take traces and return DataFrames, one module per topic.

Most take `selection`, `window` and `ranks`, and analyze their intersection. Times are on the clock
of the selection's traces, which a view may have fitted. Without a selection, they are on the clock
of the given traces. Formats of other packages may add functions.
"""

from hta_widgets.lazy import stub_modules
from hta_widgets.readers.formats import module_getattr, references

_MODULE_OF = stub_modules(__file__)

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 - a list

__getattr__ = module_getattr(
    __name__,
    lambda format_: format_.analyses.functions,
    [reference for name, module in _MODULE_OF.items() for reference in references(module, name)],
)


def __dir__() -> list[str]:
    return __all__
