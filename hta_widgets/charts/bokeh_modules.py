"""Bokeh's modules, imported when first used: they take half a second, `import hta_widgets` none."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Later:
    """Stands for a module until one of its names is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


embed: Any = _Later("bokeh.embed")
models: Any = _Later("bokeh.models")
plotting: Any = _Later("bokeh.plotting")
resources: Any = _Later("bokeh.resources")
