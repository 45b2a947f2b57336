"""The panels of a dashboard, the frames that they draw, and frames as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.matching import counted, matching
from hta_widgets.analysis.scope import narrowed, parts
from hta_widgets.analysis.stragglers import waiting, waits_of
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts, note_for
from hta_widgets.panels import added
from hta_widgets.readers.formats import all_formats, provided
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Floats, Ints, Rows, ranges
from hta_widgets.trace.names import short_name
from hta_widgets.trace.query import read_clauses
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import dtype_of
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
    #: Makes its frame from traces, a selection and a maximum number of rows.
    frame: Frame | None = None
    #: Makes the frame of the analysis on which the panel's frame is based.
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
    """Return the panel with an id, or the first panel of an analysis."""
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


# --- frames ---------------------------------------------------------------------------------------


Maker = Callable[[TraceSet, Selection, int | None], pd.DataFrame]

#: The clock on which waits are measured, as in the timeline.
CLOCK: Any = "fitted"
#: Panels whose charts draw one dot per rank.
MARKED = ("kernel_durations", "steps")
#: Default number of rows of tables, and maximum number of kernels in the chart of durations.
TOP = 200
TOP_DURATIONS = 12
MOST_ROWS = 100_000  # of a table that is sent to the page; Python answers for larger ones
_COMMUNICATION = KINDS.index("communication")
_LEAST_RANKS = 3  # minimum number of ranks for an outlier
STEP = "step"
LEAST_PCT = 1  # of the steps' time; shorter phases are left out


def as_json(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a frame as ``{rows, columns, attrs}``; missing values are None.

    Integers stay integers; text and categories are strings.
    """
    return {
        "rows": len(frame),
        "columns": {str(name): _values(frame[name]) for name in frame},
        "attrs": dict(frame.attrs),
    }


def _values(column: pd.Series[Any]) -> list[Any]:
    kind = column.dtype.kind if isinstance(column.dtype, np.dtype) else ""
    if kind in {"i", "u", "b"}:
        return column.to_numpy().tolist()
    if kind == "f":
        return [value if math.isfinite(value) else None for value in column.tolist()]
    if isinstance(column.dtype, pd.CategoricalDtype):
        # Missing values have the code -1, the index of the last entry.
        categories = [*map(str, column.cat.categories), None]
        return [categories[code] for code in column.cat.codes.tolist()]
    return [None if value is None or value is pd.NA else value for value in column.tolist()]


def base_tables(traces: TraceSet) -> dict[str, Any]:
    """Return the tables from which the page computes frames itself, by name, as JSON.

    A table with more than `MOST_ROWS` rows is None.
    """
    tables: dict[str, Any] = {}
    for tables_of in provided("base_tables", traces.formats):
        tables |= tables_of(traces)
    return tables


def rows_or_none(frame: pd.DataFrame) -> Any:
    """Return a frame as JSON; None if it has more than `MOST_ROWS` rows."""
    return as_json(frame) if len(frame) <= MOST_ROWS else None


def _durations(traces: TraceSet, selection: Selection, top: int | None) -> pd.DataFrame:
    """Return the kernels with most time, one row per rank."""
    frame = analysis.kernel_duration_by_rank(traces, selection=selection)
    names = _Names(frame)
    shown = names.order[: TOP_DURATIONS if top is None else min(top, TOP_DURATIONS)]
    rows = names.rows[ranges(names.first[shown], names.ranks[shown])]
    found = pd.DataFrame(
        {
            **names.labels(np.repeat(shown, names.ranks[shown])),
            **{name: frame[name].to_numpy()[rows] for name in _OF_DURATIONS},
        }
    )
    return _with_attrs(found, frame, total=len(names.order))


def _kernels(traces: TraceSet, selection: Selection, top: int | None) -> pd.DataFrame:
    """Return the kernels with most time, and the outlier rank of each."""
    frame = analysis.kernel_breakdown(traces, selection=selection)
    names = _Names(frame)
    order = names.order[: TOP if top is None else top]
    outlier, ratio = _outliers(names, frame)
    kernels = {
        **names.labels(order),
        "count": names.count[order],
        "sum_ns": names.spent[order],
        "mean_ns": names.spent[order] / names.count[order],
        "min_ns": names.groups["min_ns"].min().to_numpy()[order],
        "max_ns": names.groups["max_ns"].max().to_numpy()[order],
        "ranks": names.ranks[order],
        "wait_ns": or_null(_waits(traces, selection, names)[order]),
        "odd_rank": or_null(outlier[order]),
        "odd_ratio": ratio[order],
    }
    found = pd.DataFrame({"kind": kernels.pop("kind"), **kernels})
    found = _with_attrs(found, frame, total=len(names.order))
    found.attrs["rest_ns"] = int(names.spent.sum() - names.spent[order].sum())
    return found


def _operators(traces: TraceSet, selection: Selection, top: int | None) -> pd.DataFrame:
    """Return the operators with most time, summed over ranks."""
    frame = analysis.operators(traces, selection=selection)
    sums = frame.groupby("name", sort=False)[list(_OF_OPERATORS)].sum()
    keys = zip(-sums["device_total_ns"], -sums["cpu_self_ns"], sums.index, strict=True)
    order = [place for place, _ in sorted(enumerate(keys), key=lambda one: one[1])]
    shown = sums.iloc[order[: TOP if top is None else top]]
    columns = {name: shown[name].to_numpy() for name in _OF_OPERATORS}
    return _with_attrs(
        pd.DataFrame({"name": texts(shown.index.tolist()), **columns}), frame, total=len(sums)
    )


def _with_attrs(found: pd.DataFrame, frame: pd.DataFrame, **attrs: Any) -> pd.DataFrame:
    """Return a panel's frame with the attrs ``matched`` and ``note`` of its analysis."""
    kept = {key: frame.attrs[key] for key in frame.attrs if key in {"matched", "note"}}
    found.attrs.clear()
    found.attrs.update(kept | attrs)
    return found


class _Names:
    """Rows of an analysis, one per rank, kind and name, grouped by kind and name.

    `rows` are row numbers in the order of groups, and `first` is where each group begins in `rows`.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        name, distinct = pd.factorize(frame["name"])
        values = distinct.tolist()
        kind = frame["kind"].cat.codes.to_numpy(np.int64)
        pairs, self.code = np.unique(name * len(KINDS) + kind, return_inverse=True)
        self.names = [values[code] for code in (pairs // len(KINDS)).tolist()]
        self.kind = pairs % len(KINDS)
        self.ranks = np.bincount(self.code, minlength=len(pairs))
        self.rows = np.argsort(self.code, kind="stable")
        self.first = np.cumsum(self.ranks) - self.ranks
        self.groups = frame.groupby(self.code)
        self.spent, self.count = (self.groups[one].sum().to_numpy() for one in ("sum_ns", "count"))
        place = np.empty(len(pairs), dtype=np.int64)
        place[sorted(range(len(pairs)), key=self.names.__getitem__)] = np.arange(len(pairs))
        self.order = np.lexsort((place, self.kind, -self.count, -self.spent))

    def labels(self, order: Rows) -> dict[str, Any]:
        names = [self.names[place] for place in order.tolist()]
        kind = pd.Categorical.from_codes(self.kind[order], dtype=dtype_of(KINDS))
        return {"name": texts(names), "short": short_names(names), "kind": kind}


def _outliers(names: _Names, frame: pd.DataFrame) -> tuple[Ints, Floats]:
    """Return for each name the rank with the mean farthest from the median, and their ratio."""
    mean, rank = frame["mean_ns"].to_numpy(np.float64), frame["rank"].to_numpy(np.int64)
    median = pd.Series(mean).groupby(names.code).median().to_numpy()
    apart = np.abs(mean - median[names.code])
    # In each group, the row with the greatest distance; the first one if there are several.
    far = names.rows[np.lexsort((-apart[names.rows], names.code[names.rows]))][names.first]
    known = (names.ranks >= _LEAST_RANKS) & (names.kind != _COMMUNICATION) & (median > 0)
    ratio = mean[far] / np.where(median > 0, median, np.nan)
    return np.where(known, rank[far], -1), np.where(known, ratio, np.nan)


def _waits(traces: TraceSet, selection: Selection, names: _Names) -> Ints:
    """Return the time that ranks wait in communication events of each name; -1 if unknown."""
    found = np.full(len(names.names), -1, dtype=np.int64)
    kinds = zip(names.kind.tolist(), names.names, strict=True)
    groups = {name: k for k, (kind, name) in enumerate(kinds) if kind == _COMMUNICATION}
    if not groups:
        return found
    waits = waits_of(traces, CLOCK)
    for part in parts(traces, selection):
        rows, begin, until = waiting(part, waits.of_rank(part.rank))
        table = part.table
        for code in np.unique(table.name[rows]).tolist():
            group = groups[table.names[code]]
            mine = table.name[rows] == code
            time = int((np.maximum(until, begin) - begin)[mine].sum())
            found[group] = max(found[group], 0) + time
    return found


def _summary(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    """Return the number of selected events, and the time from the first to the last."""
    chosen = parts(traces, selection)
    with_events = [part for part in chosen if len(part.rows)]
    starts, ends = [], []
    for part in with_events:
        start, end = part.clipped(part.rows)
        starts.append(int(start.min()) + part.trace.shift_ns)
        ends.append(int(end.max()) + part.trace.shift_ns)
    match = matching(traces)
    kept, _ = counted(match, narrowed(traces, selection))
    found = pd.DataFrame(
        {
            "events": [sum(len(part.rows) for part in chosen)],
            "device_events": [sum(len(part.busy_rows()) for part in chosen)],
            "collectives": [len(np.unique(match.collective[kept]))],
            "ranks": [len(with_events)],
            "start_ns": or_null([min(starts, default=-1)]),
            "end_ns": or_null([max(ends, default=-1)]),
        }
    )
    if not with_events:
        found.attrs["note"] = note_for("no_events")
    return found


def _steps(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    """Return one row per phase, rank and step: the whole step first, then its phases in order.

    Phases are those of `phase_times` with at least `LEAST_PCT` percent of the steps' time.
    """
    whole = analysis.step_times(traces, clock=CLOCK, selection=selection)
    phases = analysis.phase_times(traces, selection=selection)
    spent = phases.groupby("phase")["dur_ns"].transform("sum")
    lasting = spent * 100 >= int(whole["dur_ns"].sum()) * LEAST_PCT
    phases = phases[lasting] if len(whole) and len(phases) else phases.iloc[:0]
    columns: dict[str, Any] = {"phase": texts([*[STEP] * len(whole), *phases["phase"].tolist()])}
    for name in ("step", "rank", "start_ns", "dur_ns"):
        both = whole[name].to_numpy(np.int64), phases[name].to_numpy(np.int64)
        columns[name] = np.concatenate(both)
    shares = whole["dur_deviation_share"], phases["deviation_share"]
    columns["deviation_share"] = np.concatenate(shares)
    return _with_attrs(pd.DataFrame(columns), whole)


def _breakdown(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.temporal_breakdown(traces, selection=selection)
    waits = analysis.exposed_waits(traces, clock=CLOCK, selection=selection)
    names = [
        "rank", "span_ns", "idle_ns", "compute_ns", "non_compute_ns", "busy_ns",
        "communication_ns", "exposed_communication_ns", "exposed_memory_ns",
    ]  # fmt: skip
    waits = waits.set_index("rank").loc[frame["rank"]]
    found = taken(frame, names)
    found["exposed_wait_ns"] = or_null(waits["exposed_wait_ns"].tolist())
    # A job of a single rank has no partners that could be missing.
    unmatched = waits["unmatched_exposed_ns"].tolist() if len(traces) > 1 else [-1] * len(found)
    found["unmatched_exposed_ns"] = or_null(unmatched)
    found.attrs["missing_ranks"] = _missing(traces, selection, frame)
    return found


def _idle(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.device_idle_breakdown(traces, selection=selection)
    found = taken(frame, ["rank", "idle_category", "idle_ns", "gaps", "idle_share"])
    found.attrs["missing_ranks"] = _missing(traces, selection, frame)
    return found


def _columns_of(name: str, *columns: str) -> Maker:
    """Return a function that returns some columns of an analysis, all by default."""

    def make(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
        frame = getattr(analysis, name)(traces, selection=selection)
        return taken(frame, list(columns) or list(frame))

    return make


_OF_DURATIONS = ("rank", "count", "mean_ns", "min_ns", "max_ns")
_OF_OPERATORS = ("count", "cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns")
_OF_QUEUES = ("rank", "stream", "count", "time_weighted_mean", "max", "span_ns")


#: The function of each panel's frame, by id.
MAKERS: dict[str, Maker] = {
    "breakdown": _breakdown,
    "overlap": _columns_of("comm_comp_overlap"),
    "idle": _idle,
    "queue": _columns_of("queue_length_summary", *_OF_QUEUES),
    "kernel_types": _columns_of("kernel_type_breakdown", "kernel_type", "sum_ns", "share"),
    "kernel_durations": _durations,
    "kernels": _kernels,
    "operators": _operators,
    "steps": _steps,
    "heatmap": lambda traces, selection, _: analysis.rank_time_heatmap(
        traces, clock=CLOCK, selection=selection
    ),
    "summary": _summary,
    **added.MAKERS,
}


def _missing(traces: TraceSet, selection: Selection, frame: pd.DataFrame) -> list[int]:
    """Return the selected ranks without a row."""
    chosen = set(traces.ranks if selection.ranks is None else selection.ranks)
    there = set(frame["rank"].tolist())
    return [rank for rank in traces.ranks if rank in chosen - there]


def taken(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return some columns of an analysis, with its attrs ``matched`` and ``note``."""
    return _with_attrs(frame[names].reset_index(drop=True), frame)


def or_null(values: npt.ArrayLike) -> Any:
    """Return integers; negative ones become missing values."""
    numbers = np.asarray(values, dtype=np.int64)
    return pd.arrays.IntegerArray(numbers, numbers < 0)


def texts(values: Sequence[str]) -> Any:
    """Return strings as a column, even if some are not valid Unicode."""
    try:
        return pd.array(values, dtype="str")
    except UnicodeError:
        return np.array(values, dtype=object)


def short_names(names: Sequence[str]) -> Any:
    """Return short names as a column."""
    return texts([short_name(name) for name in names])
