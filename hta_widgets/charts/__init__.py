"""Bokeh figures. The functions take the result of an analysis and return a chart of it."""

from hta_widgets.lazy import import_name, stub_modules
from hta_widgets.readers.formats import module_getattr

_MODULE_OF = stub_modules(__file__)

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 - a list

# Charts of formats are imported on first use. The other charts are imported now, because some, such
# as `collectives`, have the same name as their module and must replace it.
globals().update(
    (name, import_name(module, name))
    for name, module in _MODULE_OF.items()
    if module.startswith(f"{__name__}.")
)
__getattr__ = module_getattr(__name__, lambda format_: format_.views.charts)


def __dir__() -> list[str]:
    return __all__
