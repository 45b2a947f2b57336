"""Sorted indices find the same events as a scan of all events."""

import importlib
import tempfile
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from support import random_job, recorded
from support.examples import ALL

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.analysis import scope
from hta_widgets.analysis.operator_times import _WindowOperators
from hta_widgets.live.job import PanelEngine
from hta_widgets.panels.frames import panels as known_panels
from hta_widgets.trace.traceset import Selection

SHARED = ("hta_tests/cpu_only", "hta_tests/amd_trace", "hta_tests/mtia_inference_trace",
          "hta_tests/trace_diff__test", "made/ddp_8rank")  # fmt: skip
SPAN = 10_000_000


@cache
def job(seed: int) -> hw.TraceSet:
    folder = tempfile.mkdtemp()
    random_job.write_job(Path(folder), seed, ranks=3)
    return hw.load(folder, cache=False, progress=False)


@lru_cache(maxsize=16)
def members(selection: Selection, trace) -> np.ndarray:
    """Return the mask of the selected events, built one condition at a time."""
    table = trace.table
    start, end = table.start_ns + trace.shift_ns, table.end_ns + trace.shift_ns
    member = np.ones(len(table), dtype=bool)
    if selection.start_ns is not None:
        member &= (end > selection.start_ns) | (start >= selection.start_ns)
    if selection.end_ns is not None:
        member &= (start < selection.end_ns) & (selection.start_ns != selection.end_ns)
    if selection.tracks is not None:
        keys = np.array([track.key for track in table.tracks])[table.track]
        member &= [k in selection.tracks or (trace.rank, k) in selection.tracks for k in keys]
    if selection.ids is not None:
        member &= [(trace.rank, row) in selection.ids for row in range(len(table))]
    rows = np.flatnonzero(member)
    if selection.query is not None:
        frame = trace.frame(rows)
        rows = rows[frame.eval(selection.query, engine="python").to_numpy(bool)]
    return rows


def looking_at_all(trace, selection: Selection) -> scope.RankPart:
    shift = trace.shift_ns
    low = None if selection.start_ns is None else selection.start_ns - shift
    high = None if selection.end_ns is None else selection.end_ns - shift
    own = replace(selection, ranks=None)
    return scope.RankPart(trace, members(own, trace), low, high, chosen_by=own)


def all_operators(part, tree, work, *, annotations):
    calls = part.trace.launch_of[work]
    return _WindowOperators(np.arange(len(tree.rows)), tree.forest, tree.innermost[calls], calls)


WINDOWS = st.none() | st.tuples(st.integers(-5, SPAN), st.integers(0, SPAN)).map(
    lambda pair: (pair[0], pair[0] + pair[1] // (1 + pair[0] % 400))
)
COPY = "Memcpy DtoH (Device -> Pageable)"
QUERIES = st.sampled_from(
    [
        None,
        "kind in ['compute', 'memory']",
        f"name in ['aten::mm', '{COPY}']",
        "(dur_ns > 700) and kind in ['communication', 'compute']",
        "(depth == 0 or stream == 7) and name in ['aten::add_', 'cudaLaunchKernel']",
        "dur_ns > dur_ns.mean() and kind in ['compute']",
        "name in ['not there']",
        "kind in ['nothing']",
        "kind in []",
    ]
)
SELECTIONS = st.builds(
    lambda window, ranks, query: Selection(*(window or (None, None)), ranks=ranks, query=query),
    WINDOWS,
    st.none() | st.sets(st.integers(0, 2)),
    QUERIES,
)


@given(st.integers(0, 3), SELECTIONS, st.booleans(), st.data())
def test_members_are_those_that_looking_at_all_finds(seed, selection, narrow, data):
    traces = job(seed)
    if narrow:
        ids = data.draw(st.sets(st.tuples(st.integers(0, 3), st.integers(-1, 400)), max_size=80))
        selection = replace(selection, ids=frozenset(ids))
    else:
        keys = sorted({track.key for track in traces[0].table.tracks})
        some = st.sampled_from(keys)
        tracks = data.draw(st.none() | st.sets(some | st.tuples(st.integers(0, 2), some)))
        selection = replace(selection, tracks=None if tracks is None else frozenset(tracks))
    for trace in traces.values():
        expected = members(selection, trace)
        if selection.ranks is not None and trace.rank not in selection.ranks:
            expected = expected[:0]
        assert selection.rows(trace).tolist() == expected.tolist()
        assert np.flatnonzero(selection.mask(trace)).tolist() == expected.tolist()


def frames_of(traces: hw.TraceSet, selection: Selection) -> dict[str, pd.DataFrame]:
    engine = PanelEngine(traces)
    # Panels of other formats are empty here.
    names = [name for name in known_panels() if not name.startswith(("byteps_", "mpi_"))]
    result = {panel: engine.frame(panel, selection) for panel in names}
    requested = Selection(
        selection.start_ns, selection.end_ns, selection.ranks, query=selection.query
    )
    for name in ("kernel_breakdown", "operators", "queue_length_summary", "collectives"):
        result[f"analysis {name}"] = getattr(analysis, name)(traces, selection=requested)
    return result


def compare(traces: hw.TraceSet, selection: Selection) -> None:
    fast = frames_of(traces, selection)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("scope", "steps"):
            patch.setattr(f"hta_widgets.analysis.{name}.rank_part", looking_at_all)
        operators = importlib.import_module("hta_widgets.analysis.operator_times")
        patch.setattr(operators, "_operators_in_window", all_operators)
        traces.memo.clear()
        slow = frames_of(traces, selection)
    for panel, frame in slow.items():
        pd.testing.assert_frame_equal(fast[panel], frame, check_exact=True, obj=panel)
        assert fast[panel].attrs == frame.attrs, panel


# Each example computes all panels twice.
@settings(max_examples=60 if ALL else 6)
@given(st.integers(0, 3), SELECTIONS)
def test_panels_are_those_of_looking_at_all(seed, selection):
    compare(job(seed), selection)


@pytest.mark.parametrize("path", recorded.paths(*SHARED))
def test_panels_of_real_traces(path):
    traces = recorded.load(path)
    start, length = traces.start_ns, traces.end_ns - traces.start_ns
    commonest = traces[traces.ranks[-1]].frame(columns=["name"])["name"].mode()[0]
    selections = (
        Selection(start + length // 3, start + length // 2),
        Selection(start + length // 5, start + length // 5 + 400_000, ranks=traces.ranks[-1:]),
        Selection(end_ns=start + length // 7, query=f"name in [{commonest!r}]"),
        Selection(query="kind in ['communication']"),
    )
    # In `make test`, each trace uses one selection, in rotation.
    turn = len(path.name) % len(selections)
    for selection in selections if ALL else selections[turn : turn + 1]:
        compare(traces, selection)
