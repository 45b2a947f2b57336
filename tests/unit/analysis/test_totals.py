"""Sums of a selection, against sums by hand and by pandas."""

import json

import pytest

from hta_widgets.analysis.busy import totals, totals_by_kind, totals_by_name


@pytest.fixture(scope="module")
def job(shared):
    import hta_widgets as hw  # noqa: PLC0415 - skipped before it is needed

    return hw.load(shared / "traces/made/ddp_8rank", progress=False)


WINDOW = (100_000_000, 300_000_000)


def by_pandas(traces, keys, window=None, ranks=None):
    frame = traces.events(ranks)
    end = frame["start_ns"] + frame["dur_ns"]
    if window is not None:
        low, high = window
        inside = (frame["start_ns"] < high) & ((end > low) | (frame["start_ns"] >= low))
        frame, end = frame[inside], end[inside].clip(upper=high)
        frame = frame.assign(dur_ns=end - frame["start_ns"].clip(lower=low))
    groups = frame.groupby(keys, observed=True)["dur_ns"]
    return groups.agg(["count", "sum", "mean", "min", "max"])


@pytest.mark.parametrize("window", [None, WINDOW])
@pytest.mark.parametrize("ranks", [None, [1, 5]])
@pytest.mark.parametrize(
    ("function", "keys"), [(totals_by_kind, ["kind"]), (totals_by_name, ["kind", "name"])]
)
def test_sums_are_those_of_pandas(job, function, keys, window, ranks):
    frame = function(job, window=window, ranks=ranks)
    expected = by_pandas(job, keys, window, ranks)
    columns = ["count", "sum_ns", "mean_ns", "min_ns", "max_ns"]
    got = {tuple(map(str, row[keys])): row[columns].tolist() for _, row in frame.iterrows()}
    assert got == {
        tuple(map(str, key if isinstance(key, tuple) else (key,))): row.tolist()
        for key, row in expected.astype(object).iterrows()
    }
    assert frame["sum_ns"].is_monotonic_decreasing
    assert (frame["device_ns"] + frame["host_ns"] == frame["sum_ns"]).all()
    assert frame.attrs["matched"] == by_pandas(job, ["kind"], window, ranks)["count"].to_dict()


def test_device_time_is_that_of_streams(job):
    frame = job.events()
    device = frame[frame["stream"] >= 0].groupby("kind", observed=True)["dur_ns"].sum().to_dict()
    got = totals_by_kind(job).set_index("kind")["device_ns"]
    assert {kind: time for kind, time in got.items() if time} == device


def test_selection_window_and_ranks_narrow_each_other(job):
    selection = job.select("kind == 'communication'", start_ns=WINDOW[0], ranks=[0, 1])
    narrowed = totals_by_kind(job, selection=selection, window=(0, WINDOW[1]), ranks=[1, 2])
    alone = totals_by_kind(
        job, selection=job.select("kind == 'communication'"), window=WINDOW, ranks=[1]
    )
    assert narrowed.equals(alone)
    apart = totals_by_kind(job, selection=job.select(end_ns=5), window=(10, 20))
    assert apart.empty


def test_nothing_selected_is_an_empty_frame_with_a_reason(job):
    for function in (totals_by_kind, totals_by_name):
        frame = function(job, window=(10**15, 10**16))
        assert frame.empty
        assert frame.attrs == {"matched": {}, "note": "no events are selected"}
        assert list(frame.columns) == list(function(job).columns)


def test_the_panel_gets_both_tables_as_json(job):
    selection = job.select(start_ns=WINDOW[0], end_ns=WINDOW[1])
    answer = json.loads(json.dumps(totals(job, selection, most=5)))
    by_name = totals_by_name(job, selection=selection)
    assert answer["events"] == by_name["count"].sum()
    assert answer["names_total"] == len(by_name)
    assert [row["name"] for row in answer["names"]] == by_name["name"].head(5).tolist()
    assert [row["sum"] for row in answer["kinds"]] == totals_by_kind(job, selection=selection)[
        "sum_ns"
    ].tolist()
    kernel = next(r for r in totals(job)["names"] if r["name"].startswith("ncclKernel_AllReduce"))
    assert kernel["short"] == "AllReduce ring LL sum f32"
    assert kernel["kind"] == "communication"
    assert totals(job, job.select(ranks=[])) == {
        "events": 0, "kinds": [], "names": [], "names_total": 0,
    }  # fmt: skip
