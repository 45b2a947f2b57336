"""The panels of a dashboard, the frames that they draw, and frames as JSON.

A panel's frame contains what its chart or table shows: for ``breakdown``, the rows of
`analysis.temporal_breakdown`; for ``kernels``, sums by name over all ranks. A panel ignores the
parts of the selection that are set by clicks in it (`Panel.own`): a click on a rank's bar selects
this rank, but the bars of the other ranks remain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.cross_rank.matching import count_selected, matching
from hta_widgets.analysis.cross_rank.waits import RankWaits, collective_waits, wait_intervals
from hta_widgets.analysis.frames import text_column
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.operator_times import operators_with_kinds
from hta_widgets.analysis.scope import RankPart, narrow_selection, rank_parts
from hta_widgets.analysis.steps import deviation_from_median, device_steps
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts, note_text
from hta_widgets.panels import added
from hta_widgets.panels.groupings import GROUPED_FRAMES
from hta_widgets.panels.savings import add_call_rates, selected_kernels, selected_operators
from hta_widgets.readers.formats import Format, all_formats, formats_named, load_references
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Floats, Ints, Rows, concatenate_ranges
from hta_widgets.trace.event_columns import categorical_dtype
from hta_widgets.trace.intervals import subtract, total_length, union
from hta_widgets.trace.names import short_name
from hta_widgets.trace.query import parse_clauses
from hta_widgets.trace.traceset import Selection, TraceSet

FrameMaker = Callable[[TraceSet, Selection, int | None], pd.DataFrame]
BaseFrameMaker = Callable[[TraceSet, Selection], pd.DataFrame]
#: Panels of all formats with device work, in the order in which users choose from them.
_OFFERED = (
    *("timeline", "heatmap", "breakdown", "overlap", "steps", "kernels", "kernel_durations"),
    *("kernel_types", "idle", "queue", "operators"),
)
_DEVICE = (
    *("breakdown", "overlap", "heatmap", "kernels", "kernel_durations", "kernel_types", "idle"),
    "queue",
)
#: Panels of Kineto traces that are shown only if a user adds them.
ADDED = tuple(name for name, panel in facts("panels").items() if "added" in panel)
_ALWAYS = ("selection", "problems")
#: Ids of panels, or a list of ids per row of panels.
PanelIds = list[str] | list[list[str]]


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of the dashboard; panels of a single format set `frame`, `base_frame` and `fits`."""

    id: str
    analysis: str  # name of its function in `hta_widgets.analysis`, or empty
    #: Parts of the selection that do not filter the panel: ``window``, ``ranks``, ``tracks``,
    #: ``ids``, and the query parts ``names``, ``kinds`` and ``rest``.
    own: tuple[str, ...]
    rows: str = ""  # what its rows name: ``operators``, ``kernels``, or something else
    is_chart: bool = False
    #: Makes its frame from traces, a selection and a maximum number of rows.
    frame: FrameMaker | None = None
    #: Makes the frame of the analysis on which the panel's frame is based.
    base_frame: BaseFrameMaker | None = None
    #: Returns whether the panel has data, given the formats and the number of workers.
    fits: Callable[[set[str], int], bool] = lambda _formats, _workers: True


def catalog_panel(name: str, **more: Any) -> Panel:
    """Return a panel of the catalog `facts/panels.json`; `more` are further fields."""
    entry = facts("panels")[name]
    is_chart = entry["shape"] in {"chart", "heatmap"}
    own_parts, rows = tuple(entry["own"]), entry.get("rows", "")
    return Panel(name, entry.get("analysis", ""), own_parts, rows, is_chart=is_chart, **more)


def whole_job_panel(
    name: str,
    panel_frame: Callable[[TraceSet], pd.DataFrame],
    analysis_frame: Callable[[TraceSet], pd.DataFrame],
) -> Panel:
    """Return a panel of the catalog that ignores windows and ranks."""
    return catalog_panel(
        name,
        frame=lambda traces, _selection, _top: panel_frame(traces),
        base_frame=lambda traces, _selection: analysis_frame(traces),
    )


_SHARED = tuple(map(catalog_panel, (*_OFFERED[2:], "heatmap", *ADDED)))
_ALL_PARTS = ("window", "ranks", "tracks", "ids", "names", "kinds", "rest")
#: Whole-job tables by shape, module or source line, which replace the tables by name.
_GROUPED = tuple(Panel(name, "", _ALL_PARTS) for name in GROUPED_FRAMES)


def format_panels() -> list[Panel]:
    """Return the panels that formats define."""
    return list(dict.fromkeys(chain.from_iterable(_panel_groups(all_formats()))))


def _panel_groups(formats: Iterable[Format]) -> list[tuple[Panel, ...]]:
    return load_references(format_.views.panels for format_ in formats)


def panels() -> dict[str, Panel]:
    """Return all panels with a frame, keyed by id."""
    others = catalog_panel("summary"), *_GROUPED
    return {panel.id: panel for panel in (*_SHARED, *format_panels(), *others)}


def chart_panels() -> list[str]:
    """Return the ids of the panels that are charts, in list order."""
    by_id = panels()
    return [name for name in all_panels() if name in by_id and by_id[name].is_chart]


def all_panels() -> list[str]:
    """Return the ids of all panels, in the order in which users choose from them."""
    return [*_OFFERED, *ADDED, *(panel.id for panel in format_panels()), *_ALWAYS]


def panel_of(name: str) -> Panel:
    """Return the panel with an id, or the first panel of an analysis."""
    by_id = panels()
    by_analysis = {panel.analysis: panel for panel in reversed(by_id.values()) if panel.analysis}
    panel = by_id.get(name) or by_analysis.get(name)
    if panel is None:
        raise _unknown_panel_error(name)
    return panel


def panel_task(name: str, selection: Selection | None) -> tuple[FrameMaker, Selection]:
    """Return the function that makes a panel's frame, and the selection that filters it."""
    panel = panels().get(name)
    if panel is None:
        raise _unknown_panel_error(name)
    return panel.frame or MAKERS[name], without_panel_filters(panel, selection)


def _unknown_panel_error(name: str) -> ValueError:
    return ValueError(f"no panel {name!r}; the panels are {', '.join(panels())}")


def without_panel_filters(panel: Panel, selection: Selection | None) -> Selection:
    """Return a selection without the parts that the panel itself sets; None selects everything.

    If the selection includes launches, the names of its operators still filter a panel of kernels.
    """
    if selection is None:
        return Selection()
    own_parts = set(panel.own)
    if selection.launches and panel.rows == "kernels":
        own_parts.discard("names")
    fields: list[str] = [name for name in ("ranks", "tracks", "ids") if name in own_parts]
    if "window" in own_parts:
        fields += ["start_ns", "end_ns"]
    unfiltered: dict[str, Any] = dict.fromkeys(fields)
    selection = replace(selection, **unfiltered)
    clauses = parse_clauses(selection.query)
    own_clauses = [name for name in ("names", "kinds", "rest") if name in own_parts]
    others = replace(clauses, **dict.fromkeys(own_clauses))
    return selection if others == clauses else replace(selection, query=others.query)


def offered_panels(formats: Iterable[str], *, workers: int = 2) -> list[str]:
    """Return the ids of the panels with data for files of these formats, in order.

    A format states which shared panels apply to it (`FormatViews.shared_panels`), and adds its own.
    """
    format_names = set(formats)
    known_formats = formats_named(format_names)
    shared_panels = (format_.views.shared_panels for format_ in known_formats)
    offered = [_OFFERED if shared is None else shared for shared in shared_panels]
    if not format_names or len(known_formats) < len(format_names):
        offered = [_OFFERED]
    shared = [name for name in _OFFERED if any(name in names for names in offered)]
    shared += ADDED if _OFFERED in offered else ()
    panels_of_formats = chain.from_iterable(_panel_groups(known_formats))
    fitting = [panel.id for panel in panels_of_formats if panel.fits(format_names, workers)]
    return [*shared, *dict.fromkeys(fitting), *_ALWAYS]


def empty_panels(formats: Collection[str], scene: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the panels of Kineto traces that have no data, keyed by reason."""
    if any(format_.views.shared_panels is not None for format_ in formats_named(formats)):
        return {}
    roles = {row["role"] for rank in scene["ranks"] for row in rank["summary"]}
    missing: dict[str, list[str]] = {}
    if not roles - {"cpu"}:
        missing["no GPU work"] = list(_DEVICE)
    elif "comm" not in roles:
        missing["no communication kernels"] = ["overlap"]
    if "cpu" not in roles:
        missing["no CPU events"] = ["operators"]
    if not scene["steps"]:
        missing["no ProfilerStep"] = ["steps"]
    if len(scene["ranks"]) == 1 and "heatmap" not in missing.get("no GPU work", ()):
        missing["one rank"] = ["heatmap"]
    return missing


def resolve_panels(panels: Sequence[str | Sequence[str]] | None, of_job: Sequence[str]) -> PanelIds:
    """Resolve an argument `panels`, which names panels by id or analysis, to panel ids.

    None means the panels of the job, except those that users add.
    """
    if panels is None:
        return [name for name in of_job if name not in ADDED]
    if isinstance(panels, str) or not isinstance(panels, Iterable):
        panels = [str(panels)]
    rows = [row for row in panels if not isinstance(row, str)]
    if rows and len(rows) < len(panels):
        raise TraceError(
            "panels= mixes names with rows of names",
            remedy="Give only names, or a list for each row: [['breakdown'], ['timeline']].",
        )
    if rows:
        ids = iter(_validate_panels((name for row in rows for name in row), of_job))
        return [[next(ids) for _ in row] for row in rows if len(row)]
    return _validate_panels((name for name in panels if isinstance(name, str)), of_job)


def _validate_panels(names: Iterable[str], of_job: Sequence[str]) -> list[str]:
    seen: list[str] = []
    names_of_all = all_panels()
    analyses = {panel.analysis: id_ for id_, panel in reversed(panels().items()) if panel.analysis}
    for requested in names:
        name = analyses.get(str(requested), requested)
        if name not in names_of_all:
            similar = get_close_matches(str(name), names_of_all, 1)
            guess = f" Did you mean {similar[0]!r}?" if similar else ""
            remedy = f"The panels of this job are {', '.join(of_job)}.{guess}"
            raise TraceError(f"no panel {name!r}", remedy=remedy)
        if name in seen:
            raise TraceError(f"panel {name!r} is named twice", remedy="Name each panel once.")
        seen.append(name)
    return seen


#: The clock on which waits are measured, as in the timeline.
CLOCK: Final = "fitted"
#: Panels whose charts draw one dot per rank.
LATE_MARKED_PANELS = ("kernel_durations", "steps")
#: Default number of table rows, and maximum number of kernels in the chart of durations.
TOP: int = facts("limits")["table_rows"]
TOP_DURATIONS: int = facts("limits")["duration_names"]
#: Largest table, in rows, that is sent to the page; for larger ones, the page asks the kernel.
MAX_ROWS = 100_000
_COMMUNICATION = KINDS.index("communication")
#: Number of ranks required for an outlier.
_MIN_RANKS = 3

#: Smallest percentage of the step time for which a phase is shown.
MIN_PCT = 1
#: Columns of analyses that panels show.
_DURATION_COLUMNS = ("rank", "count", "mean_ns", "min_ns", "max_ns")
_OPERATOR_COLUMNS = (
    "count", "cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns",
    "communication_ns", "memory_ns",
)  # fmt: skip


def frame_to_json(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a frame as ``{rows, columns, attrs}``; missing values are None.

    Integers stay integers; text and categories are strings.
    """
    return {
        "rows": len(frame),
        "columns": {str(name): _json_values(frame[name]) for name in frame},
        "attrs": without_nan(frame.attrs),
    }


def without_nan(value: object) -> Any:
    """Return JSON values with None for numbers that JSON cannot represent."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and value and not isinstance(value[0], str):
        return [without_nan(item) for item in value]
    return value


def _json_values(column: pd.Series[Any]) -> list[Any]:
    kind = column.dtype.kind if isinstance(column.dtype, np.dtype) else ""
    if kind in {"i", "u", "b"}:
        return column.to_numpy().tolist()
    if kind == "f":
        return [value if math.isfinite(value) else None for value in column.tolist()]
    if isinstance(column.dtype, pd.CategoricalDtype):
        # Missing values have code -1, which selects the last entry.
        categories = [*map(str, column.cat.categories), None]
        return [categories[code] for code in column.cat.codes.tolist()]
    return [None if value is None or value is pd.NA else value for value in column.tolist()]


def base_tables(traces: TraceSet) -> dict[str, Any]:
    """Return the tables from which the page computes frames, as JSON keyed by name.

    Tables with more than `MAX_ROWS` rows are None. If a format defines no tables, the frames of its
    panels are used.
    """
    tables: dict[str, Any] = {}
    formats = formats_named(traces.formats)
    for tables_of in load_references(format_.views.base_tables for format_ in formats):
        tables |= tables_of(traces)
    others = [format_ for format_ in formats if not format_.views.base_tables]
    for panel in chain.from_iterable(_panel_groups(others)):
        if panel.frame is not None:
            tables[panel.id] = frame_to_json(panel.frame(traces, Selection(), None))
    return tables


def small_frame_to_json(frame: pd.DataFrame) -> Any:
    """Return a frame as JSON; None if it has more than `MAX_ROWS` rows."""
    return frame_to_json(frame) if len(frame) <= MAX_ROWS else None


def _durations(traces: TraceSet, selection: Selection, top: int | None) -> pd.DataFrame:
    """Return the kernels with the most time, one row per rank."""
    frame = analysis.kernel_duration_by_rank(traces, selection=selection)
    names = _NameGroups(frame)
    shown = names.order[: TOP_DURATIONS if top is None else min(top, TOP_DURATIONS)]
    rows = names.rows[concatenate_ranges(names.first[shown], names.ranks[shown])]
    durations = pd.DataFrame(
        {
            **names.labels(np.repeat(shown, names.ranks[shown])),
            **{name: frame[name].to_numpy()[rows] for name in _DURATION_COLUMNS},
        }
    )
    return _with_attrs(durations, frame, total=len(names.order))


def _kernels(traces: TraceSet, selection: Selection, top: int | None) -> pd.DataFrame:
    """Return the kernels with the most time, and the outlier rank of each."""
    frame = analysis.kernel_breakdown(traces, selection=selection)
    names = _NameGroups(frame)
    order = names.order[: TOP if top is None else top]
    outlier, ratio = _outliers(names, frame)
    labels = names.labels(order)
    columns = {
        "kind": labels.pop("kind"),
        **labels,
        "count": names.count[order],
        "sum_ns": names.spent[order],
        "mean_ns": names.spent[order] / names.count[order],
        "min_ns": names.groups["min_ns"].min().to_numpy()[order],
        "max_ns": names.groups["max_ns"].max().to_numpy()[order],
        "ranks": names.ranks[order],
        "wait_ns": null_if_negative(_waits(traces, selection, names)[order]),
        "odd_rank": null_if_negative(outlier[order]),
        "odd_ratio": ratio[order],
    }
    rest_ns = int(names.spent.sum() - names.spent[order].sum())
    kernels = pd.DataFrame(columns)
    kernels = _with_attrs(kernels, frame, total=len(names.order), rest_ns=rest_ns)
    return add_call_rates(kernels, traces, selection, selected_kernels)


def _operators(traces: TraceSet, selection: Selection, top: int | None) -> pd.DataFrame:
    """Return the operators with the most time, summed over ranks."""
    frame = operators_with_kinds(narrow_selection(traces, selection), ["name"])
    sums = frame.groupby("name", sort=False)[list(_OPERATOR_COLUMNS)].sum()
    order = ["device_total_ns", "cpu_self_ns", "name"]
    ranked = sums.sort_values(order, ascending=[False, False, True])
    shown = ranked[: TOP if top is None else top]
    columns = {name: shown[name].to_numpy() for name in _OPERATOR_COLUMNS}
    operators = pd.DataFrame({"name": text_column(shown.index.tolist()), **columns})
    operators = _with_attrs(operators, frame, total=len(sums))
    return add_call_rates(operators, traces, selection, selected_operators)


def _with_attrs(panel_frame: pd.DataFrame, frame: pd.DataFrame, **attrs: object) -> pd.DataFrame:
    """Set the attrs of a panel's frame: ``matched`` and ``note`` of `frame`, and `attrs`."""
    inherited = {key: frame.attrs[key] for key in frame.attrs if key in {"matched", "note"}}
    panel_frame.attrs.clear()
    panel_frame.attrs.update(inherited | attrs)
    return panel_frame


class _NameGroups:
    """Rows of an analysis, one per rank, kind and name, grouped by kind and name.

    `code` is the group of each row. `rows` lists the row numbers ordered by group, and `first` the
    position in `rows` at which each group begins. `order` lists the groups, most time first.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        name, distinct_names = pd.factorize(frame["name"])
        kind = frame["kind"].cat.codes.to_numpy(np.int64)
        # A single number per pair of name and kind.
        pairs, self.code = np.unique(name * len(KINDS) + kind, return_inverse=True)
        self.names = distinct_names.take(pairs // len(KINDS)).tolist()
        self.kind = pairs % len(KINDS)
        self.ranks = np.bincount(self.code, minlength=len(pairs))
        self.rows = np.argsort(self.code, kind="stable")
        self.first = np.cumsum(self.ranks) - self.ranks
        self.groups = frame.groupby(self.code)
        self.spent, self.count = (
            self.groups[column].sum().to_numpy() for column in ("sum_ns", "count")
        )
        _, name_rank = np.unique(np.array(self.names, dtype=object), return_inverse=True)
        self.order = np.lexsort((name_rank, self.kind, -self.count, -self.spent))

    def labels(self, order: Rows) -> dict[str, Any]:
        names = [self.names[group] for group in order.tolist()]
        kind = pd.Categorical.from_codes(self.kind[order], dtype=categorical_dtype(KINDS))
        shorts = text_column(map(short_name, names))
        return {"name": text_column(names), "short": shorts, "kind": kind}


def _outliers(names: _NameGroups, frame: pd.DataFrame) -> tuple[Ints, Floats]:
    """For each name, return the rank whose mean is farthest from the median, and their ratio.

    The ratio is the mean divided by the median. Rank and ratio are -1 and NaN for communication,
    and for names on few ranks or with a median of 0.
    """
    mean, rank = frame["mean_ns"].to_numpy(np.float64), frame["rank"].to_numpy(np.int64)
    median = pd.Series(mean).groupby(names.code).median().to_numpy()
    deviation = np.abs(mean - median[names.code])
    # In each group, the row with the largest deviation; ties go to the first.
    order = np.lexsort((-deviation[names.rows], names.code[names.rows]))
    farthest = names.rows[order][names.first]
    is_comparable = (names.ranks >= _MIN_RANKS) & (names.kind != _COMMUNICATION) & (median > 0)
    ratio = mean[farthest] / np.where(median > 0, median, np.nan)
    return np.where(is_comparable, rank[farthest], -1), np.where(is_comparable, ratio, np.nan)


def _waits(traces: TraceSet, selection: Selection, names: _NameGroups) -> Ints:
    """Return how long ranks wait in communication events of each name; -1 if unknown."""
    wait_ns = np.full(len(names.names), -1, dtype=np.int64)
    communication = np.flatnonzero(names.kind == _COMMUNICATION).tolist()
    groups = {names.names[group]: group for group in communication}
    if not groups:
        return wait_ns
    waits = collective_waits(traces, CLOCK)
    for part in rank_parts(traces, selection):
        rows, start, end = wait_intervals(part, waits.of_rank(part.rank))
        name = part.table.name[rows]
        waited_ns = np.maximum(end, start) - start
        for code in np.unique(name).tolist():
            group = groups[part.table.names[code]]
            wait_ns[group] = max(wait_ns[group], 0) + int(waited_ns[name == code].sum())
    return wait_ns


def _summary(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    """Return one row with the numbers of selected events, their first start and their last end."""
    parts = rank_parts(traces, selection)
    with_events = [part for part in parts if len(part.rows)]
    starts, ends = [], []
    for part in with_events:
        start, end = part.clip_rows(part.rows)
        starts.append(int(start.min()) + part.trace.shift_ns)
        ends.append(int(end.max()) + part.trace.shift_ns)
    match = matching(traces)
    selected, _ = count_selected(match, narrow_selection(traces, selection))
    frame = pd.DataFrame(
        {
            "events": [sum(len(part.rows) for part in parts)],
            "device_events": [sum(len(part.device_work_rows()) for part in parts)],
            "collectives": [len(np.unique(match.collective[selected]))],
            "ranks": [len(with_events)],
            "start_ns": null_if_negative([min(starts, default=-1)]),
            "end_ns": null_if_negative([max(ends, default=-1)]),
        }
    )
    if not with_events:
        frame.attrs["note"] = note_text("no_events")
    return frame


def _steps(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    """Return one row per phase, rank and step: first the whole steps, then the phases.

    If the host leaves a step before the device does its work, its duration is measured on the
    device. Phases with less than `MIN_PCT` percent of the step time are omitted.
    """
    all_steps = analysis.step_times(traces, clock=CLOCK, selection=selection)
    is_compared = all_steps["dur_deviation_ns"].notna().to_numpy()
    is_ahead = _set_device_times(all_steps, narrow_selection(traces, selection).owner)
    step_ns = all_steps["dur_ns"].to_numpy(np.int64)
    _, deviation = deviation_from_median(all_steps["step"].to_numpy(np.int64), step_ns, is_compared)
    phases = analysis.phase_times(traces, selection=selection)
    total_ns = phases.groupby("phase")["dur_ns"].transform("sum")
    is_long = total_ns * 100 >= int(all_steps["dur_ns"].sum()) * MIN_PCT
    phases = phases[is_long] if len(all_steps) and len(phases) else phases.iloc[:0]
    step_names = np.where(is_ahead, "step on device", "step").tolist()
    columns: dict[str, Any] = {"phase": text_column([*step_names, *phases["phase"].tolist()])}
    for name in ("step", "rank", "start_ns", "dur_ns"):
        both = all_steps[name].to_numpy(np.int64), phases[name].to_numpy(np.int64)
        columns[name] = np.concatenate(both)
    columns["deviation_share"] = np.concatenate((deviation, phases["deviation_share"]))
    return _with_attrs(pd.DataFrame(columns), all_steps)


def _set_device_times(steps: pd.DataFrame, traces: TraceSet) -> list[bool]:
    """For steps in which the host is ahead, set device times; return a mask of these steps."""
    on_device = {
        (rank, step): (start_ns, dur_ns)
        for rank, steps_of_rank in device_steps(traces).items()
        for step, start_ns, dur_ns in steps_of_rank
    }
    keys = list(zip(steps["rank"], steps["step"], strict=True))
    on_host = zip(steps["start_ns"], steps["dur_ns"], strict=True)
    times = [on_device.get(key, host) for key, host in zip(keys, on_host, strict=True)]
    steps[["start_ns", "dur_ns"]] = np.array(times, np.int64).reshape(-1, 2)
    return [key in on_device for key in keys]


def _breakdown(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    """Return how devices spend the window, and how much of that time is in selected events."""
    all_events = replace(selection, tracks=None, query=None, ids=None)
    frame = analysis.temporal_breakdown(traces, selection=all_events)
    waits = analysis.exposed_waits(traces, clock=CLOCK, selection=all_events)
    waits = waits.set_index("rank").loc[frame["rank"]]
    names = [
        "rank", "span_ns", "idle_ns", "compute_ns", "non_compute_ns", "busy_ns",
        "communication_ns", "exposed_communication_ns", "exposed_memory_ns", "unrecorded_ns",
    ]  # fmt: skip
    breakdown = take_columns(frame, names)
    breakdown["exposed_wait_ns"] = null_if_negative(waits["exposed_wait_ns"])
    # In a job of one rank, no partners can be missing.
    unmatched = waits["unmatched_exposed_ns"] if len(traces) > 1 else [-1] * len(frame)
    breakdown["unmatched_exposed_ns"] = null_if_negative(unmatched)
    times = np.full((len(frame), len(_SELECTED)), -1)
    if all_events != selection:
        parts = rank_parts(traces, replace(selection, ranks=tuple(frame["rank"].tolist())))
        arguments = collective_waits(traces, CLOCK).arguments_by_rank(parts.ranks)
        times = np.array(list(map_ranks(parts, _selected_times, each=arguments)))
    # Without ranks, the array is empty and needs its columns.
    for name, times_ns in zip(_SELECTED, times.reshape(-1, len(_SELECTED)).T, strict=True):
        breakdown[name] = null_if_negative(times_ns)
    return breakdown


#: Device time in selected events: compute, and exposed communication, waits and copies.
_SELECTED = (
    *("selected_compute_ns", "selected_communication_ns", "selected_wait_ns"),
    "selected_memory_ns",
)


def _selected_times(part: RankPart, waits: RankWaits) -> tuple[int, int, int, int]:
    """Return the times `_SELECTED` of a rank; unselected work also hides selected work."""
    compute, communication = map(part.union_of_all_of_kinds, ("compute", "communication"))
    _, wait_start, wait_end = wait_intervals(part, waits)
    copies = subtract(part.union_of_kinds("memory"), compute)
    return (
        total_length(part.union_of_kinds("compute")),
        total_length(subtract(part.union_of_kinds("communication"), compute)),
        total_length(subtract(union(wait_start, wait_end), compute)),
        total_length(subtract(copies, communication)),
    )


def _columns_of(name: str, *columns: str) -> FrameMaker:
    """Return a function that makes the frame of an analysis with `columns`. Default: all."""

    def make(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
        frame = getattr(analysis, name)(traces, selection=selection)
        return take_columns(frame, list(columns) or list(frame))

    return make


#: Functions that make the frames of panels, keyed by panel id.
MAKERS: dict[str, FrameMaker] = {
    "breakdown": _breakdown,
    "overlap": _columns_of("comm_comp_overlap"),
    "idle": _columns_of(
        "device_idle_breakdown", "rank", "idle_category", "idle_ns", "gaps", "idle_share"
    ),
    "queue": _columns_of(
        "queue_length_summary", "rank", "stream", "count", "time_weighted_mean", "max", "span_ns"
    ),
    "kernel_types": _columns_of("kernel_type_breakdown", "kernel_type", "sum_ns", "share"),
    "kernel_durations": _durations,
    "kernels": _kernels,
    "operators": _operators,
    "steps": _steps,
    "heatmap": lambda traces, selection, _: analysis.rank_time_heatmap(
        traces, clock=CLOCK, selection=selection
    ),
    "summary": _summary,
    **added.SELECTION_FRAMES,
}


def take_columns(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return the columns `names` of a frame, with its attrs ``matched`` and ``note``."""
    return _with_attrs(frame[names].reset_index(drop=True), frame)


def null_if_negative(values: npt.ArrayLike) -> Any:
    """Return integers as a column in which negative numbers are missing values."""
    numbers = np.asarray(values, dtype=np.int64)
    return pd.arrays.IntegerArray(numbers, numbers < 0)
