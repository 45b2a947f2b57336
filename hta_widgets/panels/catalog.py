"""The panels of a dashboard: all of them, those that fit a job, and the user's choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import pandas as pd

from hta_widgets.errors import TraceError
from hta_widgets.facts import facts
from hta_widgets.readers.formats import all_formats, provided
from hta_widgets.trace.query import read_clauses
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

Frame = Callable[[TraceSet, Selection, int | None], pd.DataFrame]
Whole = Callable[[TraceSet, Selection], pd.DataFrame]
#: Panels of all formats with events and device work, in the order of the list for users.
_OFFERED = (
    *("timeline", "heatmap", "breakdown", "overlap", "steps", "kernels", "kernel_durations"),
    *("kernel_types", "idle", "queue", "operators"),
)
#: Panels of device work.
_DEVICE = (
    *("breakdown", "overlap", "heatmap", "kernels", "kernel_durations", "kernel_types", "idle"),
    "queue",
)
#: Panels of Kineto traces that are shown only once a user adds them.
ADDED = tuple(name for name, one in facts("panels").items() if "added" in one)
_ALWAYS = ("selection", "problems")
Choice = list[str] | list[list[str]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of the dashboard; `frame`, `whole` and `fits` are for panels of one format."""

    id: str
    #: Name of its function in `hta_widgets.analysis`; empty for none.
    analysis: str
    #: Parts of the selection that do not filter it: ``ranks``, ``names``, ``kinds``, ``window``.
    own: tuple[str, ...]
    #: Whether it is a chart.
    is_chart: bool = False
    #: Makes its frame of traces, a selection and a number of rows.
    frame: Frame | None = None
    #: Makes the frame of the analysis behind it.
    whole: Whole | None = None
    #: Whether it has data for these formats and this number of workers.
    fits: Callable[[set[str], int], bool] = lambda _formats, _workers: True


def known_panel(name: str, **more: Any) -> Panel:
    """Return a panel of the catalogue `facts/panels.json`; `more` are further fields."""
    one = facts("panels")[name]
    is_chart = one["look"] in {"chart", "heatmap"}
    return Panel(name, one.get("analysis", ""), tuple(one["own"]), is_chart=is_chart, **more)


_SHARED = tuple(map(known_panel, (*_OFFERED[2:], "heatmap", *ADDED)))


def own_panels() -> list[Panel]:
    """Return the panels of single formats."""
    return list(dict.fromkeys(panel for one in provided("panels") for panel in one))


def panels() -> dict[str, Panel]:
    """Return all panels with a frame, by id."""
    return {one.id: one for one in (*_SHARED, *own_panels(), known_panel("summary"))}


def chart_panels() -> list[str]:
    """Return the ids of the panels that are charts, in the order of the list."""
    known = panels()
    return [name for name in all_panels() if name in known and known[name].is_chart]


def all_panels() -> list[str]:
    """Return the ids of all panels, in the order of the list from which users choose."""
    return [*_OFFERED, *ADDED, *(one.id for one in own_panels()), *_ALWAYS]


def panel_of(name: str) -> Panel:
    """Return the panel of an id, or of an analysis: the first one if there are two."""
    known = panels()
    of_analysis = (one for one in known.values() if one.analysis == name and name)
    found = known.get(name) or next(of_analysis, None)
    if found is None:
        raise ValueError(f"no panel {name!r}; the panels are {', '.join(known)}")
    return found


def without_own(panel: Panel, selection: Selection) -> Selection:
    """Return a selection without the parts that the panel itself sets."""
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


def offered_panels(formats: Iterable[str], *, workers: int = 2) -> list[str]:
    """Return the ids of the panels that have data for files of these formats, in order.

    A format states which shared panels fit it (`Format.shared_panels`), and adds its own.
    """
    found = set(formats)
    known = {one.name: one.shared_panels for one in all_formats() if one.name in found}
    some = [_OFFERED if shared is None else shared for shared in known.values()]
    if not found or found - set(known):
        some = [_OFFERED]
    shared = [name for name in _OFFERED if any(name in one for one in some)]
    shared += ADDED if _OFFERED in some else ()
    own = [
        panel.id for one in provided("panels", found) for panel in one if panel.fits(found, workers)
    ]
    return [*shared, *dict.fromkeys(own), *_ALWAYS]


def empty_panels(formats: Iterable[str], scene: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the panels of Kineto traces without data, by reason; `scene` is the job's."""
    found_formats = set(formats)
    if any(one.shared_panels is not None for one in all_formats() if one.name in found_formats):
        return {}
    roles = {row["role"] for rank in scene["ranks"] for row in rank["summary"]}
    found: dict[str, list[str]] = {}
    if not roles - {"cpu"}:
        found["no GPU work"] = list(_DEVICE)
    elif "comm" not in roles:
        found["no communication kernels"] = ["overlap"]
    if not scene["steps"]:
        found["no ProfilerStep"] = ["steps"]
    if len(scene["ranks"]) == 1 and "heatmap" not in found.get("no GPU work", ()):
        found["one rank"] = ["heatmap"]
    return found


def chosen_panels(panels: Sequence[str | Sequence[str]] | None, of_job: Sequence[str]) -> Choice:
    """Return the ids that `panels=` names, by id or analysis.

    None stands for the panels of the job, without those that users add.
    """
    if panels is None:
        return [name for name in of_job if name not in ADDED]
    if isinstance(panels, str) or not isinstance(panels, Iterable):
        panels = [str(panels)]
    rows = [row for row in panels if not isinstance(row, str)]
    if rows and len(rows) < len(panels):
        raise TraceError(
            "panels= mixes names with rows of names",
            remedy="Give names alone, or a list for each row: [['breakdown'], ['timeline']].",
        )
    if rows:
        ids = iter(_checked((name for row in rows for name in row), of_job))
        return [[next(ids) for _ in row] for row in rows if len(row)]
    return _checked((name for name in panels if isinstance(name, str)), of_job)


def _checked(names: Iterable[str], of_job: Sequence[str]) -> list[str]:
    seen: list[str] = []
    known = all_panels()
    analyses = {one.analysis: id_ for id_, one in reversed(panels().items()) if one.analysis}
    for given in names:
        name = analyses.get(str(given), given)
        if name not in known:
            near = get_close_matches(str(name), known, 1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            remedy = f"The panels of this job are {', '.join(of_job)}.{guess}"
            raise TraceError(f"no panel {name!r}", remedy=remedy)
        if name in seen:
            raise TraceError(f"the panel {name!r} is there twice", remedy="Name each panel once.")
        seen.append(name)
    return seen
