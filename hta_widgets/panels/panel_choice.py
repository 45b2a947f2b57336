"""Which panels a dashboard shows, and what it says of names that are none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from hta_widgets.errors import TraceError
from hta_widgets.panels.catalog import PANELS
from hta_widgets.panels.catalog import FORMAT_CHARTS

__all__ = ["ALL_PANELS", "CHARTS", "chosen_panels", "shown_panels"]

#: Drawn as Bokeh figures.
CHARTS = (
    "breakdown",
    "overlap",
    "steps",
    "heatmap",
    "kernel_durations",
    "kernel_types",
    "idle",
    "queue",
    *FORMAT_CHARTS,
)

#: In the order of the list from which users choose.
ALL_PANELS = (
    "timeline",
    "heatmap",
    "breakdown",
    "overlap",
    "steps",
    "kernels",
    "kernel_durations",
    "kernel_types",
    "idle",
    "queue",
    "operators",
    "byteps_stragglers",
    "byteps_gradients",
    "byteps_stages",
    "byteps_blame",
    "byteps_servers",
    "byteps_requests",
    "byteps_clock",
    "mpi_ranks",
    "mpi_sizes",
    "mpi_routines",
    "mpi_routine_table",
    "mpi_messages",
    "mpi_hosts",
    "selection",
    "problems",
)

Choice = list[str] | list[list[str]]


def chosen_panels(
    panels: Sequence[str | Sequence[str]] | None, offered: Sequence[str] = ALL_PANELS
) -> Choice:
    """Return what `panels=` asks for, checked; None asks for everything that is offered.

    Raises
    ------
    TraceError
        If a name is no panel, or is there twice, or rows are mixed with names.
    """
    if panels is None:
        return list(offered)
    if isinstance(panels, str) or not isinstance(panels, Iterable):
        panels = [str(panels)]
    rows = [row for row in panels if not isinstance(row, str)]
    if rows and len(rows) < len(panels):
        raise TraceError(
            "panels= mixes names with rows of names",
            remedy="Give names alone, or a list for each row: [['breakdown'], ['timeline']].",
        )
    if rows:
        _check(name for row in rows for name in row)
        return [list(row) for row in rows if len(row)]
    names = [name for name in panels if isinstance(name, str)]
    _check(names)
    return names


def shown_panels(choice: Choice) -> list[str]:
    """Return the ids of a checked choice, in its order."""
    return [name for row in choice for name in ([row] if isinstance(row, str) else row)]


def _check(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name not in ALL_PANELS:
            near = get_close_matches(str(name), ALL_PANELS, 1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            shown = next((id_ for id_, panel in PANELS.items() if panel.analysis == name), None)
            if shown is not None:
                guess = f" The panel of {name} is {shown!r}."
            raise TraceError(
                f"there is no panel {name!r}",
                remedy=f"The panels are {', '.join(ALL_PANELS)}.{guess}",
            )
        if name in seen:
            raise TraceError(f"the panel {name!r} is there twice", remedy="Name each panel once.")
        seen.add(name)
