"""Compare two trace sets through the public API."""

import numpy as np
import pandas as pd
from support.same_lanes import assert_kept_lanes_are_right

import hta_widgets as hw
from hta_widgets import analysis

SMALL = ("instants", "asyncs", "counters", "flows")


def assert_same(one, other):
    """Compare all public results of two sets except exports."""
    for name in ("ranks", "format", "formats", "origin_ns", "clock", "start_ns", "end_ns"):
        assert getattr(other, name) == getattr(one, name), name
    pd.testing.assert_frame_equal(other.summary(), one.summary())
    pd.testing.assert_frame_equal(other.problems, one.problems)
    # Without `check_exact`, pandas compares categories one by one, which takes seconds.
    pd.testing.assert_frame_equal(other.events(), one.events(), check_exact=True)
    for rank, trace in one.items():
        again = other[rank]
        assert_kept_lanes_are_right(again.table)
        for name in SMALL:
            pd.testing.assert_frame_equal(getattr(again, name), getattr(trace, name))
        assert again.metadata == trace.metadata
        assert again.tracks == trace.tracks
        assert repr(as_plain(again.profile)) == repr(as_plain(trace.profile))
        assert np.array_equal(again.launch_of, trace.launch_of)
        assert again.table.end_record == trace.table.end_record
        assert (again.source is None) == (trace.source is None)
        if trace.source is not None:
            numbers = np.arange(len(trace.source))
            assert list(again.source.records(numbers)) == list(trace.source.records(numbers))
        for row in range(0, len(trace), max(len(trace) // 20, 1)):
            assert again.args(row) == trace.args(row)


def as_plain(profile):
    """Return the profile as text, in which NaN equals NaN."""
    return profile and [getattr(profile, name) for name in type(profile).__slots__]


def assert_same_exports(one, other, folder):
    """Compare exported files byte by byte."""
    places = folder / "one", folder / "other"
    for traces, where in zip((one, other), places, strict=True):
        where.mkdir()
        hw.export_trace(traces, where / "merged.json")
        hw.export_trace(traces, where / "files")
    for path in places[0].rglob("*.json*"):
        assert (places[1] / path.relative_to(places[0])).read_bytes() == path.read_bytes()


def assert_same_analyses(one, other):
    """Compare analyses of kernels, operators and copies, which read args too."""
    for name in ("temporal_breakdown", "kernel_breakdown", "operators", "collectives",
                 "launch_stats", "memory_bandwidth", "queue_length"):  # fmt: skip
        function = getattr(analysis, name)
        pd.testing.assert_frame_equal(function(other), function(one))
