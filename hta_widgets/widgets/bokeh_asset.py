"""BokehJS of the installed Bokeh, once for all charts of a page and never on `window`."""

from __future__ import annotations

from pathlib import Path

import anywidget

from hta_widgets.widgets.hosts import in_marimo

__all__ = ["BokehAsset", "bokeh_asset", "bokeh_module"]

_one: BokehAsset | None = None


def bokeh_module() -> str:
    """Return an ES module whose default export's ``initialize()`` returns ``{Bokeh}``.

    It holds the installed Bokeh's own ``bokeh.min.js``, so that figures and library are of one
    version. It asks for nothing from the network, and sets no global name.

    Returns
    -------
    str
        About 1.3 MB of JavaScript, for a widget's ``_esm`` or a page of its own.
    """
    import bokeh  # noqa: PLC0415 - half a second, which `import hta_widgets` has not

    script = Path(bokeh.__file__).parent / "server" / "static" / "js" / "bokeh.min.js"
    return (
        "const root = {};\n(function () {\n"
        + script.read_text("utf-8")
        + "\n}).call(root);\n"
        + "export default { initialize() { return { Bokeh: root.Bokeh }; } };\n"
    )


class BokehAsset(anywidget.AnyWidget):
    """Carries BokehJS to the page; it has no view. Take the one of `bokeh_asset`."""

    def __init__(self) -> None:
        self._esm = bokeh_module()
        super().__init__()


def bokeh_asset() -> BokehAsset:
    """Return the kernel's one `BokehAsset`, or a new one where somebody closed it.

    Examples
    --------
    >>> bokeh_asset() is bokeh_asset()  # doctest: +SKIP
    True
    """
    if in_marimo():
        # One kernel may serve several pages there, and what a cell made ends with the cell.
        return BokehAsset()
    global _one  # noqa: PLW0603 - one a kernel is the point
    if _one is None or _one.comm is None:
        _one = BokehAsset()
    return _one
