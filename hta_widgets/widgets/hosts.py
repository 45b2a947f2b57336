"""In which front end's kernel this code runs, as far as that matters."""

from __future__ import annotations

import sys

__all__ = ["in_marimo"]


def in_marimo() -> bool:
    """Return whether a marimo notebook runs this.

    There a widget can be made only while a cell runs, and it lives as long as the cell's output.
    """
    marimo = sys.modules.get("marimo")
    return marimo is not None and bool(marimo.running_in_notebook())
