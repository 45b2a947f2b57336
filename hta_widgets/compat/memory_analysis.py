"""HTA's chart of PyTorch's memory export, over our analysis."""

from __future__ import annotations

from pathlib import Path

from hta_widgets.analysis.memory import memory_timeline
from hta_widgets.compat.show import show

__all__ = ["MemoryAnalysis"]


class MemoryAnalysis:
    """What PyTorch's ``export_memory_timeline`` wrote about one device.

    Parameters
    ----------
    path : path-like
        The file; see `hta_widgets.analysis.memory_timeline`, which gives the numbers as a frame.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path

    def plot_memory_timeline(
        self,
        save_graph: bool = False,
    ) -> None:
        """Draw the memory in use over time, by what it is for.

        Parameters
        ----------
        save_graph : bool, default False
            Instead of showing the chart write it to ``images/memory_plot.html`` in the working
            directory (where HTA writes a PNG).
        """
        frame = memory_timeline(self.path)
        if not save_graph:
            show("memory_timeline", frame)
            return
        from hta_widgets import charts  # noqa: PLC0415 - Bokeh takes a while to import

        folder = Path("images")
        folder.mkdir(exist_ok=True)
        charts.to_html(charts.memory_timeline(frame), folder / "memory_plot.html")
