"""Which panels there are for a job's formats, and the analyses of those that are a format's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from hta_widgets import analysis
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

from hta_widgets.formats.byteps.byteps_frames import arrivals_of
from hta_widgets.formats.byteps.byteps_frames import of_format
from hta_widgets.panels.catalog import Panel

__all__ = ["analysis_of", "empty_panels", "offered_panels"]

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
