"""Panel, and the table of all panels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import pandas as pd

from hta_widgets import analysis
from hta_widgets.errors import TraceError
from hta_widgets.formats.byteps.byteps_frames import arrivals_of, of_format
from hta_widgets.trace.query import read_clauses
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

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


_WORKERS = ("byteps_gradients", "byteps_stages", "byteps_blame")
_SERVERS = ("byteps_servers", "byteps_requests")
_MPI = (
    "mpi_ranks",
    "mpi_sizes",
    "mpi_routines",
    "mpi_routine_table",
    "mpi_messages",
    "mpi_hosts",
)
#: Panels of what a device does.
_DEVICE = (
    *("breakdown", "overlap", "heatmap", "kernels", "kernel_durations", "kernel_types", "idle"),
    "queue",
)
_ALWAYS = ("selection", "problems")
_BYTEPS_FORMATS = {"byteps", "byteps-server"}
_MPI_FORMATS = {"mpi-profile", "mpi-trace"}


def offered_panels(formats: Iterable[str], *, workers: int = 2) -> list[str]:
    """Return the ids of the panels that files of these formats have something for, in order.

    Text profiles have no times, so they have no timeline; what asks for a GPU's work is there for
    Kineto's traces alone. A single BytePS worker waits for nobody.
    """
    found = set(formats)
    own = _BYTEPS_FORMATS | _MPI_FORMATS
    others = found - own
    panels: list[str] = []
    if found != {"mpi-profile"}:
        panels.append("timeline")
    if others or not found or "mpi-trace" in found:
        panels.append("heatmap")
    if others or not found:
        panels += [
            *("breakdown", "overlap", "steps", "kernels", "kernel_durations", "kernel_types"),
            *("idle", "queue", "operators"),
        ]
    if "byteps-server" in found or ("byteps" in found and workers > 1):
        panels.append("byteps_stragglers")
    if "byteps" in found:
        panels += [name for name in _WORKERS if workers > 1 or name != "byteps_blame"]
    if "byteps-server" in found:
        panels += _SERVERS
    if found >= _BYTEPS_FORMATS:
        panels.append("byteps_clock")
    if found & _MPI_FORMATS:
        panels += _MPI
    return [*panels, *_ALWAYS]


def empty_panels(formats: Iterable[str], scene: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the panels of Kineto's traces that would stay empty, by what the files lack.

    Parameters
    ----------
    formats : iterable of str
    scene : mapping
        Of the job, as `TileEngine.scene` returns it.
    """
    if set(formats) & (_BYTEPS_FORMATS | _MPI_FORMATS):
        return {}
    roles = {row["role"] for rank in scene["ranks"] for row in rank["summary"]}
    found: dict[str, list[str]] = {}
    if not roles - {"cpu"}:
        found["no GPU work"] = list(_DEVICE)
    elif "comm" not in roles:
        found["no communication kernels"] = ["overlap"]
    if not scene["steps"]:
        found["no ProfilerStep"] = ["steps"]
    return found


def analysis_of(traces: TraceSet, panel: Panel, selection: Selection) -> pd.DataFrame | None:
    """Return the frame of the analysis behind a format's own panel; None for other panels.

    Its ranks and window are those of the selection as far as they apply: ranks narrow files of the
    panel's own format, and windows do not apply to MPI's profiles.
    """
    if panel.id == "byteps_stragglers":
        return arrivals_of(traces, of_format(traces, selection, "byteps-server"))
    if panel.id == "byteps_clock":
        return analysis.byteps_clock(traces)
    if panel.id in (*_WORKERS, *_SERVERS):
        scope = of_format(traces, selection, "byteps" if panel.id in _WORKERS else "byteps-server")
        return _called(panel, traces, selection=scope)
    if panel.id in _MPI:
        ranks = of_format(traces, selection, *_MPI_FORMATS).ranks
        scoped: dict[str, Any] = {} if ranks is None else {"ranks": ranks}
        return _called(panel, traces, **scoped)
    return None


def _called(panel: Panel, traces: TraceSet, **scope: Any) -> pd.DataFrame:
    found: pd.DataFrame = getattr(analysis, panel.analysis)(traces, **scope)
    return found


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
