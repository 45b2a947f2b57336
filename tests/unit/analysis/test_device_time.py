"""Busy and idle device time calculated by hand, and sums of a selection compared with pandas.

Property tests count instants in random jobs, including windows.
"""

import json

import numpy as np
import pytest
from support import recorded
from support.small import call, copy, event, kernel, load, nccl

import hta_widgets as hw
from hta_widgets import taxonomy
from hta_widgets.analysis import comm_comp_overlap, kernel_type_breakdown, temporal_breakdown
from hta_widgets.analysis.scope import rank_parts
from hta_widgets.analysis.totals import event_sums, totals, totals_by


@pytest.fixture
def job(tmp_path):
    # compute        100 ---- 200        300 ------- 450
    # communication        150 ----- 260     320 - 340
    # memory                            290 --- 310            500 - 520
    rank = [
        kernel(100, 200), kernel(300, 450, stream=8),
        nccl(150, 260), nccl(320, 340, stream=21),
        copy(290, 310), copy(500, 520),
        event("cuda_sync", "Stream Wait Event", 210, 700, tid=7, stream=7),
        event("gpu_user_annotation", "forward", 90, 900, tid=7, stream=7),
        call(0, 600),
    ]  # fmt: skip
    return load(tmp_path, rank, [kernel(1000, 1600), nccl(1400, 1500)])


def test_every_instant_of_the_span_counts_once(job):
    frame = temporal_breakdown(job)
    first = frame.iloc[0].to_dict()
    assert {key: first[key] for key in first if key.endswith("_ns")} == {
        "span_ns": 420,  # 100 to 520, without waits and annotations
        "idle_ns": 30 + 50,  # 260 to 290, 450 to 500
        "compute_ns": 100 + 150,
        "non_compute_ns": 60 + 10 + 20,  # 200 to 260, 290 to 300, 500 to 520
        "busy_ns": 340,
        "communication_ns": 110 + 20,
        "memory_ns": 20 + 20,
        "exposed_communication_ns": 60,
        "exposed_memory_ns": 30,
        "unrecorded_ns": 0,
    }
    assert first["idle_pct"] == pytest.approx(100 * 80 / 420)
    assert first["compute_pct"] == pytest.approx(100 * 250 / 420)
    assert first["non_compute_pct"] == pytest.approx(100 * 90 / 420)
    assert frame.iloc[1][["rank", "span_ns", "compute_ns", "idle_ns"]].tolist() == [1, 600, 600, 0]
    assert frame.attrs["matched"] == {"compute": 3, "communication": 3, "memory": 2}
    assert "note" not in frame.attrs


def test_ranks_and_selections_narrow(job):
    frame = temporal_breakdown(job, window=(180, 305), ranks=[0])
    assert frame[["rank", "span_ns", "compute_ns", "idle_ns"]].to_numpy().tolist() == [
        [0, 125, 25, 30]
    ]
    assert frame.attrs["matched"] == {"compute": 2, "communication": 1, "memory": 1}
    frame = temporal_breakdown(job, selection=job.select("stream == 7"))
    assert frame[["span_ns", "compute_ns"]].to_numpy().tolist() == [[420, 100], [600, 600]]


def test_ranks_without_device_work_are_named(tmp_path):
    traces = load(tmp_path, [kernel(5, 9)], [call(1, 2)])
    frame = temporal_breakdown(traces)
    assert frame["rank"].tolist() == [0]
    assert frame.attrs["note"] == "no device work on rank 1"


def test_many_ranks_without_device_work_are_named_as_ranges(tmp_path):
    hosts = [call(1, 2)] * 3
    traces = load(tmp_path, *hosts, [kernel(5, 9)], *hosts[:1], [kernel(5, 9)], *hosts[:1])
    frame = temporal_breakdown(traces)
    assert frame.attrs["note"] == "no device work on ranks 0–2, 4, 6"
    frame = temporal_breakdown(traces, ranks=[0, 2, 3, 4, 6])
    assert frame.attrs["note"] == "no device work on ranks 0, 2, 4 and 1 more"


def test_events_without_length_divide_by_nothing(tmp_path):
    frame = temporal_breakdown(load(tmp_path, [kernel(50, 50)]))
    assert frame["span_ns"].tolist() == [0]
    assert np.isnan(frame["idle_pct"]).all()


def test_labels_name_what_runs_at_once(job):
    frame = kernel_type_breakdown(job).set_index("kernel_type")
    assert frame["sum_ns"].to_dict() == {
        "COMPUTATION": 50 + 10 + 110 + 500,
        "COMMUNICATION": 60,
        "MEMORY": 10 + 20,
        "COMPUTATION overlapping COMMUNICATION": 50 + 20 + 100,
        "COMPUTATION overlapping MEMORY": 10,
    }
    assert frame["sum_ns"].is_monotonic_decreasing
    assert frame["share"].to_numpy() == pytest.approx(frame["sum_ns"] / 940)
    ranks = kernel_type_breakdown(job, per_rank=True)
    assert ranks["rank"].is_monotonic_increasing
    assert ranks.groupby("rank")["share"].sum().to_numpy() == pytest.approx([1, 1])
    assert ranks[ranks["rank"] == 1]["sum_ns"].tolist() == [500, 100]


def test_classes_without_a_match_are_named(tmp_path):
    traces = load(tmp_path, [kernel(0, 10)])
    frame = kernel_type_breakdown(traces)
    assert frame.attrs["note"] == "no kernels matched communication, memory"
    without = kernel_type_breakdown(traces, include_memory=False)
    assert without.attrs["matched"] == {"compute": 1, "communication": 0}


def test_overlap_is_time_computing_while_communicating(job):
    frame = comm_comp_overlap(job).set_index("rank")
    columns = ["communication_ns", "overlapped_ns", "exposed_ns"]
    assert frame.loc[0, columns].tolist() == [130, 70, 60]
    assert frame.loc[0, "overlap_share"] == pytest.approx(70 / 130)
    assert frame.loc[1, "overlap_share"] == 1
    assert frame.loc[1, "compute_ns"] == 600


def test_no_communication_is_nan_with_a_note(tmp_path):
    traces = load(tmp_path, [kernel(0, 10)], [kernel(0, 10), nccl(2, 4)])
    frame = comm_comp_overlap(traces)
    assert frame["communication_ns"].tolist() == [0, 2]
    assert np.isnan(frame["overlap_share"][0])
    assert frame["overlap_share"][1] == 1
    assert frame.attrs["note"] == "no communication kernels matched on rank 0"
    frame = comm_comp_overlap(traces, ranks=[0])
    assert frame.attrs["note"] == "no communication kernels matched"
    assert frame.attrs["matched"] == {"compute": 1, "communication": 0}


def test_communication_that_takes_no_time_is_not_called_missing(tmp_path):
    brief = [kernel(0, 10), nccl(2, 2), nccl(5, 5)]
    traces = load(tmp_path, brief, [kernel(0, 10)], [nccl(2, 4)])
    frame = comm_comp_overlap(traces)
    assert frame["communication_ns"].tolist() == [0, 0, 2]
    assert frame.attrs["matched"] == {"compute": 2, "communication": 3}
    assert frame.attrs["note"] == (
        "no communication kernels matched on rank 1; communication kernels last 0 ns on rank 0"
    )
    frame = comm_comp_overlap(traces, ranks=[0])
    assert frame.attrs["note"] == "communication kernels last 0 ns"
    assert comm_comp_overlap(traces, ranks=[]).attrs["note"] == "no ranks are selected"


def test_users_rules_decide_what_communicates(tmp_path):
    traces = load(tmp_path, [kernel(0, 10), kernel(5, 20, name="my_ring", stream=9)])
    assert np.isnan(comm_comp_overlap(traces)["overlap_share"][0])
    taxonomy.add("communication", "^my_ring")
    try:
        row = comm_comp_overlap(traces).iloc[0]
        assert (row["communication_ns"], row["overlapped_ns"]) == (15, 5)
    finally:
        taxonomy.reset()


@pytest.fixture(scope="module")
def ddp():
    return hw.load(recorded.DATA / "gpu", progress=False)


WINDOW = (10_000_000, 30_000_000)


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
@pytest.mark.parametrize("ranks", [None, [1, 3]])
@pytest.mark.parametrize("keys", [["kind"], ["kind", "name"]])
def test_totals_equal_pandas_sums(ddp, keys, window, ranks):
    frame = totals_by(event_sums(rank_parts(ddp, None, window, ranks)), keys)
    expected = by_pandas(ddp, keys, window, ranks)
    columns = ["count", "sum_ns", "mean_ns", "min_ns", "max_ns"]
    got = {tuple(map(str, row[keys])): row[columns].tolist() for _, row in frame.iterrows()}
    assert got == {
        tuple(map(str, key if isinstance(key, tuple) else (key,))): row.tolist()
        for key, row in expected.astype(object).iterrows()
    }
    assert frame["sum_ns"].is_monotonic_decreasing
    assert (frame["device_ns"] + frame["host_ns"] == frame["sum_ns"]).all()
    if keys == ["kind"] and window is None:
        events = ddp.events(ranks).query("stream >= 0")
        device = events.groupby("kind", observed=True)["dur_ns"].sum().to_dict()
        assert {
            kind: time for kind, time in frame.set_index("kind")["device_ns"].items() if time
        } == device
    assert frame.attrs["matched"] == by_pandas(ddp, ["kind"], window, ranks)["count"].to_dict()


def test_nothing_selected_is_an_empty_frame_with_a_reason(ddp):
    frame = totals_by(event_sums(rank_parts(ddp, window=(10**15, 10**16))), ["kind", "name"])
    assert frame.empty
    assert frame.attrs == {"matched": {}, "note": "no events are selected"}
    assert [*frame] == [*totals_by(event_sums(rank_parts(ddp)), ["kind", "name"])]


def test_the_panel_gets_both_tables_as_json(ddp):
    selection = ddp.select(start_ns=WINDOW[0], end_ns=WINDOW[1])
    answer = json.loads(json.dumps(totals(ddp, selection, limit=5)))
    sums = event_sums(rank_parts(ddp, selection))
    by_name, by_kind = totals_by(sums, ["kind", "name"]), totals_by(sums, ["kind"])
    assert answer["events"] == by_name["count"].sum()
    assert answer["names_total"] == len(by_name)
    assert [row["name"] for row in answer["names"]] == by_name["name"].head(5).tolist()
    assert [row["sum"] for row in answer["kinds"]] == by_kind["sum_ns"].tolist()
    kernel = next(
        r for r in totals(ddp)["names"] if r["name"].startswith("ncclDevKernel_AllReduce")
    )
    assert kernel["short"] == "AllReduce ring LL sum f32"
    assert kernel["kind"] == "communication"
    assert totals(ddp, ddp.select(ranks=[])) == {
        "events": 0, "kinds": [], "names": [], "names_total": 0,
    }  # fmt: skip
