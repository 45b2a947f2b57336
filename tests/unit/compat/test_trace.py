"""HTA's frames: columns, units, and the meaning of values."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import small

import hta_widgets as hw
from hta_widgets.compat.config import ParserConfig
from hta_widgets.compat.trace import Trace, create_rank_to_trace_dict, owner_of
from hta_widgets.compat.trace_diff import LabeledTrace
from hta_widgets.errors import TraceError

OPERATOR = [small.event("cpu_op", "aten::mm", 0, 10)]


def write(folder, events=OPERATOR, rank=0, **more):
    path = folder / f"rank-{rank}.json"
    document = {"distributedInfo": {"rank": rank}, "traceEvents": events, **more}
    path.write_text(json.dumps(document))
    return path


EVENTS = [
    {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": 0,
     "ts": 90, "dur": 1000},
    small.call(101_000, 103_500, launch=5),
    {"ph": "M", "name": "process_name", "pid": 10, "tid": 0, "args": {"name": "python"}},
    small.kernel(110_000, 115_250, launch=5, grid=[1, 2, 3]),
    small.kernel(120_000, 121_000, stream=0, launch=77),
    small.event("gpu_user_annotation", "range", 110_000, 121_000, pid=0, tid=7),
    small.event("user_annotation", "ProfilerStep#4", 100_000, 130_000, pid=10, tid="main"),
]  # fmt: skip


@pytest.fixture
def trace(tmp_path):
    write(tmp_path, EVENTS, baseTimeNanoseconds=5_000_000)
    t = Trace(trace_dir=str(tmp_path))
    t.load_traces()
    return t


def test_rows_are_complete_events_with_a_category_in_file_order_since_the_first(trace):
    frame = trace.get_trace(0)
    assert frame["index"].tolist() == frame.index.tolist()
    frame = frame.assign(name=frame["name"].map(trace.symbol_table.sym_table.__getitem__))
    columns = ["index", "name", "ts", "dur", "end", "stream", "correlation", "index_correlation",
               "iteration", "pid", "tid"]  # fmt: skip
    assert frame[columns].to_numpy().tolist() == [
        [1, "cudaLaunchKernel", 1, 2.5, 3.5, -1, 5, 3, 4, 10, 1],
        [3, "gemm", 10, 5.25, 15.25, 7, 5, 1, 4, 0, 7],
        [4, "gemm", 20, 1, 21, 0, 77, 0, -1, 0, 0],
        [5, "range", 10, 11, 21, -1, -1, -1, -1, 0, 7],
        [6, "ProfilerStep#4", 0, 30, 30, -1, -1, -1, 4, 10, "main"],
    ]
    assert frame.dtypes[["ts", "dur", "end"]].unique().tolist() == [np.dtype("float64")]
    assert trace.min_ts == 100
    assert trace.get_trace_duration() == 20


def test_parsed_frames_have_the_files_own_times(tmp_path, trace):
    t = Trace(trace_dir=str(tmp_path))
    t.parse_traces()
    assert t.get_trace(0)["ts"].tolist() == [101, 110, 120, 110, 100]
    assert [Path(file).name for file in t.trace_files.values()] == ["rank-0.json"]
    t.align_and_filter_trace()
    assert t.get_trace(0)["ts"].tolist() == trace.get_trace(0)["ts"].tolist()


def test_the_trace_is_a_set_whose_names_may_be_text(trace):
    assert isinstance(trace, hw.TraceSet)
    assert trace.ranks == trace.get_ranks() == [0]
    assert len(trace[0]) == 6
    assert owner_of(trace.symbol_table) is trace
    with pytest.raises(ValueError, match="no rank 3"):
        trace.get_trace(3)
    before = trace.get_trace(0)
    trace.decode_symbol_ids(use_shorten_name=False)
    assert before["s_cat"].tolist()[:2] == ["cuda_runtime", "kernel"]
    assert before["s_name"].tolist()[-1] == "ProfilerStep#4"


def test_args_become_columns(tmp_path):
    write(tmp_path, EVENTS)
    config = ParserConfig(args=[])
    assert "grid" not in _parsed(tmp_path, config).columns
    config.set_parse_all_args(True)
    result = _parsed(tmp_path, config)
    assert result["grid"].tolist() == ["[]", [1, 2, 3], "[]", "[]", "[]"]
    assert result["bytes"].tolist() == [-1] * 5


def _parsed(folder, config):
    t = Trace(trace_dir=str(folder), parser_config=config)
    t.parse_traces()
    return t.get_trace(0)


def test_ranks_share_one_clock(tmp_path):
    for rank, start in ((0, 100_000), (1, 103_000)):
        write(tmp_path, [small.event("cpu_op", "aten::mm", start, start + 1000)], rank)
    t = Trace(trace_dir=str(tmp_path))
    t.load_traces()
    assert [t.get_trace(rank)["ts"].tolist() for rank in (0, 1)] == [[0], [3]]


def test_last_step_is_left_out_by_default(tmp_path):
    steps = [
        small.event("user_annotation", f"ProfilerStep#{n}", n * 10_000, n * 10_000 + 9_000, pid=1)
        for n in range(3)
    ]
    calls = [small.call(n * 10_000 + 100, n * 10_000 + 200, launch=n + 1) for n in range(3)]
    # The kernel of the second step runs after the third step has begun.
    kernels = [
        small.kernel(n * 10_000 + 9_500, n * 10_000 + 12_000, launch=n + 1) for n in range(3)
    ]
    write(tmp_path, [*steps, *calls, *kernels])
    facade = hw.TraceAnalysis(trace_dir=tmp_path)
    assert facade.get_profiler_steps() == [0, 1]
    assert facade.t.get_iterations() == [0, 1]
    assert len(facade.t.get_trace(0)) == 6
    assert len(facade.kept[0]) == 6
    assert len(facade.t[0]) == 9
    full = hw.TraceAnalysis(trace_dir=tmp_path, include_last_profiler_step=True)
    assert full.get_profiler_steps() == [0, 1, 2]
    assert len(full.t.get_trace(0)) == 9


def test_ranks_without_steps_keep_all_and_lost_launches_are_counted(tmp_path):
    for rank in (0, 1):
        events = [small.kernel(50_000, 51_000, launch=9), small.event("cpu_op", "aten::mm", 0, 10)]
        if rank == 0:
            events += [
                small.event("user_annotation", f"ProfilerStep#{n}", n * 10_000, n * 10_000 + 1)
                for n in range(2)
            ]
        write(tmp_path, events, rank)
    facade = hw.TraceAnalysis(trace_dir=tmp_path)
    assert [len(facade.t.get_trace(rank)) for rank in (0, 1)] == [2, 2]
    problems = facade.kept.problems
    lost = problems[problems["detail"].str.contains("without a launch")]
    assert lost[["rank", "kind", "count"]].to_numpy().tolist() == [[0, "unpaired", 1]]


@pytest.fixture
def edited(tmp_path):
    """Two ranks, each with a compute kernel of 5 µs and a copy of 2 µs."""
    for rank in (0, 1):
        copy = small.event("gpu_memcpy", "Memcpy HtoD", 20_000, 22_000, pid=0, tid=7, stream=7)
        write(tmp_path, [small.kernel(10_000, 15_000), copy], rank)
    return hw.TraceAnalysis(trace_dir=tmp_path)


def busy(analyzer):
    result = analyzer.get_temporal_breakdown(visualize=False).set_index("rank")
    return (result["compute_time(us)"] + result["non_compute_time(us)"]).to_dict()


def test_rows_and_ranks_that_are_dropped_from_frames_are_left_out(edited):
    assert busy(edited) == {0: 7, 1: 7}
    traces = edited.t.traces
    traces[0] = traces[0].query("dur > 2").assign(mine=1)
    assert busy(edited) == {0: 5, 1: 7}
    traces[1] = edited.t.get_trace(1).drop(index=0)
    assert busy(edited) == {0: 5, 1: 2}
    traces.pop(0)
    assert busy(edited) == {1: 2}
    assert edited.t.get_ranks() == edited.kept.ranks == [1]
    assert edited.get_idle_time_breakdown(visualize=False)[0]["rank"].unique().tolist() == [1]
    assert edited.t.ranks == [0, 1]
    edited.t.traces = {0: edited.t.get_trace(1)}
    assert busy(edited) == {0: 2}  # the same events, because both files are equal


def test_rows_dropped_before_alignment_stay_dropped(edited, tmp_path):
    trace = Trace(trace_dir=str(tmp_path))
    trace.parse_traces()
    trace.decode_symbol_ids()
    trace.traces[0] = trace.get_trace(0).query("dur > 2")
    trace.traces.pop(1)
    assert len(LabeledTrace("parsed", trace).extract_ops(rank=0)) == 1
    trace.align_and_filter_trace()
    edited.t = trace
    assert busy(edited) == {0: 5}


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.__setitem__("dur", frame["dur"] / 2),
        lambda frame: frame.__setitem__("name", frame["name"].to_numpy()[::-1]),
        lambda frame: frame.__delitem__("ts"),
        lambda frame: frame.loc.__setitem__((0, "stream"), 9),
        lambda frame: frame.loc.__setitem__((0, "memory_bw_gbps"), 9.5),
    ],
    ids=["dur", "name", "no ts", "stream", "arg"],
)
def test_values_that_are_changed_in_frames_raise(edited, change):
    change(edited.t.get_trace(1))
    with pytest.raises(TraceError, match=r"frame of rank 1 was changed: .*Change a copy"):
        busy(edited)


def test_events_and_ranks_that_are_added_to_frames_raise(edited):
    frame = edited.t.get_trace(0)
    edited.t.traces[0] = pd.concat([frame, frame])
    with pytest.raises(TraceError, match="events were added to the frame of rank 0"):
        busy(edited)
    edited.t.traces[0], edited.t.traces[5] = frame, frame
    with pytest.raises(TraceError, match="rank 5, which was not parsed"):
        busy(edited)


def test_files_are_known_before_they_are_parsed_and_may_be_set(tmp_path):
    for rank in (0, 1, 2):
        write(tmp_path, rank=rank)
    folder = str(tmp_path)
    trace = Trace(trace_dir=folder)
    assert sorted(trace.trace_files) == [0, 1, 2]
    trace.trace_files.pop(2)
    trace.trace_files[0] = "rank-2.json"
    trace.parse_traces()
    assert trace.get_ranks() == [0, 1]
    assert trace.trace_files[0] == str(tmp_path / "rank-2.json")
    trace = Trace(trace_dir=folder)
    trace.trace_files = {4: "rank-1.json"}
    trace.load_traces()
    assert trace.get_ranks() == [4]
    assert sorted(Trace(["rank-1.json"], folder).trace_files) == [1]
    assert Trace(trace_dir=str(tmp_path / "nowhere")).trace_files == {}
    with pytest.raises(TraceError, match="trace_files is a str"):
        trace.trace_files = "rank-1.json"
    trace = Trace(trace_dir=folder)
    trace.trace_files = {}
    with pytest.raises(TraceError, match="no files"):
        trace.parse_traces()


def test_stated_ranks_win_with_a_warning(tmp_path, caplog):
    events, info = {"traceEvents": OPERATOR * 4000}, {"distributedInfo": {"rank": 0}}
    files = [str(tmp_path / f"{name}.json") for name in "abc"]
    for file, document in zip(files, (events, events | info, info | events), strict=True):
        Path(file).write_text(json.dumps(document))
    assert create_rank_to_trace_dict(files[1:2]) == (True, {0: files[1]})
    assert not caplog.messages
    result = create_rank_to_trace_dict(files)[1]
    assert result == {0: files[1], 1: files[0], 2: files[2]}
    assert "does not have the rank" in caplog.messages[0]
    assert "has the same rank" in caplog.messages[1]
    caplog.clear()
    trace = Trace(trace_dir=str(tmp_path))
    trace.parse_traces()
    assert trace.trace_files == result
    assert len(caplog.messages) == 2


def test_files_by_rank_and_as_a_list(tmp_path):
    for rank in (0, 1):
        write(tmp_path, rank=rank)
    folder = str(tmp_path)
    assert hw.TraceAnalysis({7: "rank-1.json"}, folder).t.ranks == [7]
    assert hw.TraceAnalysis(["rank-1.json"], folder).t.ranks == [1]
    assert hw.TraceAnalysis(trace_dir=tmp_path).t.ranks == [0, 1]
    with pytest.raises(ValueError, match="rank-9"):
        hw.TraceAnalysis({0: "rank-9.json"}, folder)
    with pytest.raises(TraceError):
        hw.TraceAnalysis(trace_dir=tmp_path / "nowhere")
    assert hw.TraceAnalysis("rank-0.json", folder).t.ranks == [0]


def test_copies_by_hta_and_other_files_are_not_ranks(tmp_path):
    path = write(tmp_path)
    copies = [tmp_path / name for name in ("rank-0_with_counters.json", "overlaid_rank-0.json")]
    for copy in copies:
        copy.write_bytes(path.read_bytes())
    (tmp_path / "config.json").write_text('{"lr": 1}')
    (tmp_path / "deeper").mkdir()
    write(tmp_path / "deeper", rank=5)
    assert hw.TraceAnalysis(trace_dir=tmp_path).t.trace_files == {0: str(path)}
    for item in (path, *copies, tmp_path / "config.json"):
        item.unlink()
    assert hw.TraceAnalysis(trace_dir=tmp_path).t.ranks == [5]


def test_raw_traces_are_read_and_written(tmp_path, trace):
    content = trace.get_raw_trace_for_one_rank(0)
    assert content["traceEvents"] == EVENTS
    series = pd.DataFrame({"pid": [0], "ts": [10], "queue_length": [3], "id": [7]})
    content["traceEvents"] += trace.convert_time_series_to_events(
        series, "Queue Length", "queue_length"
    )
    assert content["traceEvents"][-1] == {
        "pid": 0, "ts": 110, "ph": "C", "name": "Queue Length", "id": 7,
        "args": {"Queue Length": 3},
    }  # fmt: skip
    trace.write_raw_trace(str(tmp_path / "again.json.gz"), content)
    again = hw.load(tmp_path / "again.json.gz", cache=False, progress=False)
    assert len(again[0].counters) == 1


def test_without_annotations_on_devices_no_kernel_has_one(edited, caplog):
    assert edited.get_gpu_kernels_with_user_annotations(0) is None
    assert "no annotations on devices" in caplog.text


def test_annotations_on_the_host_are_not_taken_for_those_of_a_device(tmp_path):
    step = small.event("user_annotation", "step", 0, 50_000, pid=10)
    events = [step, small.call(1_000, 2_000, launch=5), small.kernel(10_000, 15_000, launch=5)]
    write(tmp_path, events, 0)
    write(tmp_path, [small.event("gpu_user_annotation", "step", 0, 50, stream=7), *events], 1)
    result = hw.TraceAnalysis(trace_dir=tmp_path).get_gpu_kernels_with_user_annotations(0)
    assert result["user_annotation"].tolist() == [-1]


def test_settings_without_effect_are_warned_of(edited, tmp_path, caplog, monkeypatch):
    edited.critical_path_analysis(0, "", 0)
    assert not caplog.messages
    monkeypatch.setenv("CRITICAL_PATH_STRICT_NEGATIVE_WEIGHT_CHECKS", "1")
    edited.critical_path_analysis(0, "", 0)
    assert "CRITICAL_PATH_STRICT_NEGATIVE_WEIGHT_CHECKS: set, but without effect" in caplog.text
    caplog.clear()
    config = ParserConfig(max_event_duration_us=3)
    Trace(trace_dir=str(tmp_path), parser_config=config).load_traces()
    assert "parser_config: max_event_duration_us: no events" in caplog.text


def test_memory_events(tmp_path):
    def memory(ts, size, device, total):
        args = {"Bytes": size, "Device Type": device, "Device Id": device - 1, "Addr": 7,
                "Total Allocated": total, "Total Reserved": 100}  # fmt: skip
        return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 10,
                "tid": 1, "ts": ts, "args": args}  # fmt: skip

    operator = small.event("cpu_op", "aten::empty", 5_000, 20_000, pid=10)
    write(tmp_path, [operator, memory(10, 64, 1, 64), memory(15, -64, 1, 0), memory(30, 8, 0, 8)])
    result = hw.TraceAnalysis(trace_dir=tmp_path).get_memory_timeline()
    assert result["ts"].tolist() == [5, 10, 25]
    assert result["bytes_delta"].tolist() == [64, -64, 8]
    assert result["total_allocated"].tolist() == [64, 0, 8]
    assert result[["device_type", "device_id"]].to_numpy().tolist() == [[1, 0], [1, 0], [0, -1]]
    assert result["operator"].astype(str).tolist() == ["aten::empty", "aten::empty", ""]
