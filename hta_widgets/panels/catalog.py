"""Which panels there are, what each one writes of the selection, and what it is computed from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.clauses import read_clauses

__all__ = ["FORMAT_CHARTS", "PANELS", "Panel", "panel_of", "without_own"]

#: Panels of BytePS and MPI that are charts, in the order of the list from which users choose.
FORMAT_CHARTS = (
    "byteps_stragglers",
    "byteps_gradients",
    "byteps_stages",
    "byteps_blame",
    "byteps_servers",
    "byteps_clock",
    "mpi_ranks",
    "mpi_sizes",
    "mpi_routines",
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of the dashboard.

    Attributes
    ----------
    id : str
    analysis : str
        Name of the function in `hta_widgets.analysis` behind it; empty for none.
    own : tuple of str
        What of the selection it is not filtered by: ``ranks``, ``names``, ``kinds``, ``window``.
    """

    id: str
    analysis: str
    own: tuple[str, ...]


PANELS: dict[str, Panel] = {
    panel.id: panel
    for panel in (
        Panel("breakdown", "temporal_breakdown", ("ranks",)),
        Panel("overlap", "comm_comp_overlap", ("ranks",)),
        Panel("idle", "device_idle_breakdown", ("ranks",)),
        Panel("queue", "queue_length_summary", ("ranks",)),
        Panel("kernel_types", "kernel_type_breakdown", ("kinds",)),
        Panel("kernel_durations", "kernel_duration_by_rank", ("names", "ranks")),
        Panel("kernels", "kernel_breakdown", ("names",)),
        Panel("operators", "operators", ("names", "kinds")),
        Panel("steps", "step_times", ("window", "ranks", "names", "kinds")),
        Panel("heatmap", "rank_time_heatmap", ("window", "ranks")),
        Panel("byteps_stragglers", "byteps_arrivals", ("window", "ranks")),
        Panel("byteps_gradients", "byteps_gradients", ("names",)),
        Panel("byteps_stages", "byteps_stages", ("ranks",)),
        Panel("byteps_blame", "byteps_pull_blame", ("ranks",)),
        Panel("byteps_servers", "byteps_servers", ("ranks",)),
        Panel("byteps_requests", "byteps_requests", ("ranks",)),
        Panel("byteps_clock", "byteps_clock", ("ranks", "window")),
        Panel("mpi_ranks", "mpi_ranks", ("ranks", "window", "names")),
        Panel("mpi_sizes", "mpi_message_sizes", ("names", "window")),
        Panel("mpi_routines", "mpi_routines", ("names", "window")),
        Panel("mpi_routine_table", "mpi_routines", ("names", "window")),
        Panel("mpi_messages", "mpi_message_sizes", ("window",)),
        Panel("mpi_hosts", "mpi_hosts", ("ranks", "window", "names")),
        Panel("summary", "", ()),
    )
}
# Of an analysis with two panels the first one counts.
_BY_ANALYSIS = {panel.analysis: panel for panel in reversed(PANELS.values()) if panel.analysis}


def panel_of(name: str) -> Panel:
    """Return the panel of an id, or of the analysis that it shows."""
    found = PANELS.get(name) or _BY_ANALYSIS.get(name)
    if found is None:
        raise ValueError(f"there is no panel {name!r}; the panels are {', '.join(PANELS)}")
    return found


def without_own(panel: Panel, selection: Selection) -> Selection:
    """Return a selection without what the panel itself writes of it."""
    if "ranks" in panel.own:
        selection = replace(selection, ranks=None)
    if "window" in panel.own:
        selection = replace(selection, start_ns=None, end_ns=None)
    if selection.query is not None and {"names", "kinds"} & set(panel.own):
        clauses = read_clauses(selection.query)
        names = None if "names" in panel.own else clauses.names
        kinds = None if "kinds" in panel.own else clauses.kinds
        if (names, kinds) != (clauses.names, clauses.kinds):
            selection = replace(selection, query=replace(clauses, names=names, kinds=kinds).query)
    return selection
