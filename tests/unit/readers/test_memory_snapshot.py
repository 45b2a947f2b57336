"""Device memory snapshots: levels from the end, uses, the peak by frame, fragmentation."""

import json
import pickle

import pytest
from support.chart_vectors import content_of
from support.memory_snapshots import MODEL, T0, block, events, segment, write_snapshot

import hta_widgets as hw
from hta_widgets import analysis, diff
from hta_widgets.analysis import snapshot_peak, snapshot_segments, snapshot_timeline
from hta_widgets.formats.memory_snapshot.snapshots import DeviceMemory
from hta_widgets.panels.frames import panel_task
from hta_widgets.panels.headline import headline


def load(path, **options):
    return hw.load(path, cache=False, progress=False, **options)


def peak_subtitle(traces):
    make_frame, selection = panel_task("snapshot_peak", None)
    return content_of("snapshot_peak", make_frame(traces, selection, None))["subtitle"]


@pytest.fixture
def traces(tmp_path):
    return load(write_snapshot(tmp_path / "rank_0.pickle"))


def test_memory_before_the_ring_counts(traces):
    # 4,500 bytes are in use at the end. The events add up to −500, so it was 5,000 before.
    memory = analysis.memory_events(traces)
    assert memory["total_allocated_bytes"].tolist() == [7000, 9500, 7500, 6500, 7000, 4500]
    assert set(memory["total_reserved_bytes"]) == {7000}
    assert traces.origin_ns == T0 * 1000
    assert traces.formats == ["memory-snapshot"]
    assert not len(traces.problems[traces.problems["kind"] != "guessed_rank"])


def test_memory_over_time_by_use(traces):
    frame = analysis.snapshot_timeline(traces)
    uses = frame.iloc[:, -5:]
    assert (uses.sum(axis=1) == frame["used_bytes"]).all()
    assert frame["before the recording"].tolist() == [5000, 5000, 5000, 4000, 4000, 4000]
    assert frame["forward and other"].tolist() == [2000, 2000, 0, 0, 0, 0]
    assert frame["optimizer"].tolist() == [0, 2500, 2500, 2500, 2500, 0]
    assert frame["backward"].tolist() == [0, 0, 0, 0, 500, 500]
    assert frame["time_ns"].tolist() == [0, 10_000, 30_000, 40_000, 50_000, 70_000]


def test_what_holds_the_peak(traces):
    frame = analysis.snapshot_peak(traces)
    assert frame[["use", "where", "bytes", "blocks"]].to_numpy().tolist() == [
        ["forward and other", "forward (model.py:7)", 5000, 2],
        ["optimizer", "train (train.py:9)", 2500, 1],
        ["before the recording", "before the recording", 2000, 1],
    ]
    assert set(frame["peak_bytes"]) == {9500}
    assert set(frame["peak_event"]) == {1}


def test_the_peak_of_a_device_is_computed_a_few_times_only(tmp_path, monkeypatch):
    ring = events(*(("alloc", 100 * n, 100, "model") for n in range(50)))
    path = tmp_path / "rank_0.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [ring]}))
    calls, peak = [], DeviceMemory.peak

    def counted_peak(memory):
        calls.append(memory)
        return peak.fget(memory)

    monkeypatch.setattr(DeviceMemory, "peak", property(counted_peak))
    frame = analysis.snapshot_peak(load(path))
    assert frame[["bytes", "blocks", "peak_event"]].to_numpy().tolist() == [[5000, 50, 49]]
    assert len(calls) < 5


def test_fragmentation_of_segments(traces):
    frame = analysis.snapshot_segments(traces)
    assert frame["free_bytes"].tolist() == [1500, 0, 1000]
    assert frame["largest_free_bytes"].tolist() == [1500, 0, 700]
    assert frame["fragmentation"].tolist()[::2] == [0, pytest.approx(0.3)]
    pools = hw.Dashboard(traces).panel_frame("snapshot_segments")
    assert pools[["stream", "total_bytes", "segments"]].to_numpy().tolist() == [
        [0, 6000, 2],
        [7, 1000, 1],
    ]


def test_the_headline_names_the_peak_or_the_failed_allocation(traces, tmp_path):
    text = str(headline(traces))
    assert text.startswith(
        "Memory of cuda:0 on rank 0 peaks at 9.50\u202fkB in use, of 7.00\u202fkB reserved"
    )
    assert "2.50\u202fkB of 7.00\u202fkB reserved are free, in blocks of up to 1.50\u202fkB" in text
    failed = load(write_snapshot(tmp_path / "oom" / "rank_3.pickle", oom=True))
    assert str(headline(failed)).startswith(
        "cuda:0 of rank 3 is out of memory: an allocation of 8.00\u202fkB"
    )


def test_no_times_no_history_and_missing_keys(tmp_path):
    untimed = load(write_snapshot(tmp_path / "a.pickle", timed=False))
    assert "1 µs apart" in " ".join(untimed.problems["detail"])
    assert analysis.snapshot_peak(untimed)["peak_bytes"].max() == 9500
    bare = load(write_snapshot(tmp_path / "b.pickle", device_traces=[]))
    assert "no history" in " ".join(bare.problems["detail"])
    assert analysis.snapshot_peak(bare)["bytes"].sum() == 4500
    assert "no history" in analysis.snapshot_timeline(bare).attrs["note"]
    odd = [{"action": "alloc"}, 7, *events(("alloc", 1, 10, "model"))]
    held = load(
        write_snapshot(tmp_path / "c.pickle", device_traces=[odd], segments=[{}, segment(0, [])])
    )
    assert "skipped" in set(held.problems["kind"])
    assert analysis.snapshot_timeline(held)["used_bytes"].tolist() == [10]


def test_a_history_of_more_than_the_segments_hold(tmp_path):
    ring = events(("alloc", 0, 6000, "model"), ("alloc", 6000, 500, "adam"))
    traces = load(write_snapshot(tmp_path / "a.pickle", device_traces=[ring]))
    assert "allocates 2,000 bytes more" in " ".join(traces.problems["detail"])
    assert analysis.snapshot_timeline(traces)["used_bytes"].tolist() == [6000, 6500]


def test_expandable_segments_change_what_is_reserved(tmp_path):
    ring = events(
        ("segment_map", 0, 4000, ""),
        ("alloc", 0, 10, ""),
        ("segment_unmap", 0, 1000, ""),
        ("alloc", 10, 10, ""),
    )
    traces = load(write_snapshot(tmp_path / "a.pickle", device_traces=[ring]))
    assert analysis.snapshot_timeline(traces)["reserved_bytes"].tolist() == [8000, 7000]


def test_two_snapshots_are_compared_by_frame(traces, tmp_path):
    more = events(("alloc", 1, 6000, "model"), ("free_completed", 1, 6000, ""))
    after = load(write_snapshot(tmp_path / "after" / "rank_0.pickle", device_traces=[more]))
    both = diff.compare(traces, after)
    table = diff.tables(both)["snapshot_peak"]
    row = table[table["where"] == "forward (model.py:7)"].iloc[0]
    assert (row["before_bytes"], row["after_bytes"]) == (5000, 9000)
    texts = [finding.text for finding in diff.findings(both)]
    assert any(
        text.startswith("Peak memory in use: 9.50\u202fkB before, 10.5\u202fkB after")
        for text in texts
    )


def test_a_store_has_the_snapshots(traces, tmp_path):
    traces.save(tmp_path / "job.store")
    assert hw.load(tmp_path / "job.store", progress=False)[0].profile == traces[0].profile


@pytest.mark.parametrize("settings", [{}, {"PYTORCH_HIP_ALLOC_CONF": "a"}])
def test_an_export_has_no_device_work(tmp_path, settings):
    traces = load(write_snapshot(tmp_path / "a.pickle", allocator_settings=settings))
    hw.export_trace(traces, tmp_path / "a.trace.json.gz")
    exported = load(tmp_path / "a.trace.json.gz")[0]
    assert exported.events["kind"].tolist() == traces[0].events["kind"].tolist()
    assert {track.stream for track in exported.tracks} == {-1}


def test_older_snapshots_have_frames_in_the_history_of_blocks(tmp_path):
    owned = block(0, 512) | {"frames": [], "history": [{"real_size": 500, "frames": [MODEL]}]}
    frame = analysis.snapshot_peak(
        load(
            write_snapshot(tmp_path / "a.pickle", segments=[segment(0, [owned])], device_traces=[])
        )
    )
    assert frame[["where", "bytes"]].to_numpy().tolist() == [["forward (model.py:7)", 512]]
    empty = load(write_snapshot(tmp_path / "b.pickle", segments=[], device_traces=[]))
    assert "no device memory" in analysis.snapshot_segments(empty).attrs["note"]


def test_a_history_without_segments(tmp_path):
    # 900 older bytes are released, and 100 reserved bytes are returned.
    ring = events(("alloc", 0, 500, "model"), ("free_completed", 90, 900, ""),
                  ("segment_free", 90, 100, ""), ("alloc", 7, 300, "adam"))  # fmt: skip
    path = tmp_path / "rank_0.pickle"
    path.write_bytes(pickle.dumps({"device_traces": [ring]}))
    traces = load(path)
    frame = analysis.snapshot_timeline(traces)
    assert frame["used_bytes"].tolist() == [900, 0, 300]
    assert frame["reserved_bytes"].tolist() == [900, 900, 800]
    assert "no segments" in " ".join(traces.problems["detail"])


def test_a_list_of_segments_alone(tmp_path):
    path = tmp_path / "rank_0.pickle"
    path.write_bytes(pickle.dumps([segment(0, [block(0, 700), block(700, 300, "inactive")])]))
    frame = analysis.snapshot_segments(load(path))
    assert frame[["total_bytes", "used_bytes", "free_bytes"]].to_numpy().tolist() == [
        [1000, 700, 300]
    ]


def test_devices_with_expandable_segments(tmp_path):
    ring = events(("segment_map", 0, 4096, ""), ("alloc", 0, 1024, "model"),
                  ("alloc", 2048, 512, "adam"), ("free_completed", 0, 1024, ""),
                  ("segment_unmap", 0, 2048, ""))  # fmt: skip
    blocks = [block(2048, 512, stack="adam"), block(2560, 1536, "inactive")]
    held = [segment(2048, blocks, device=device, is_expandable=True, segment_pool_id=(0, 1))
            for device in (0, 3)]  # fmt: skip
    path = tmp_path / "rank_0.pickle"
    path.write_bytes(pickle.dumps({"segments": held, "device_traces": [ring, [], [], ring]}))
    frame = analysis.snapshot_peak(load(path))
    assert frame["device"].tolist() == ["cuda:0"] * 2 + ["cuda:3"] * 2
    assert frame["bytes"].tolist() == [1024, 512] * 2
    assert set(frame["peak_bytes"]) == {1536}
    assert set(frame["reserved_bytes"]) == {4096}


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        ({"PYTORCH_ALLOC_CONF": "", "expandable_segments": False}, "xpu:0"),
        ({"PYTORCH_NPU_ALLOC_CONF": ""}, "npu:0"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1}, "cuda:0"),
        ({"PYTORCH_ALLOC_CONF": "", "max_split_size": -1}, "cuda:0"),
        ({"PYTORCH_HIP_ALLOC_CONF": ""}, "cuda:0"),
        (None, "cuda:0"),
    ],
)
def test_the_allocator_names_the_type_of_the_device(tmp_path, settings, label):
    traces = load(write_snapshot(tmp_path / "a.pickle", allocator_settings=settings, oom=True))
    for frame in (analysis.snapshot_peak(traces), analysis.snapshot_segments(traces)):
        assert set(frame["device"]) == {label}
    assert str(headline(traces)).startswith(f"{label} of rank 0 is out of memory")
    assert {track.process for track in traces[0].table.tracks} == {label}


@pytest.mark.parametrize("sort_keys", [False, True])
def test_the_same_snapshot_as_json(traces, tmp_path, sort_keys):
    value = pickle.loads((tmp_path / "rank_0.pickle").read_bytes())
    path = tmp_path / "json" / "rank_0.json"
    path.parent.mkdir()
    path.write_text(json.dumps(value, sort_keys=sort_keys))
    assert load(path)[0].profile == traces[0].profile
    path.write_text(json.dumps(value["segments"]))
    assert analysis.snapshot_segments(load(path.parent))["total_bytes"].sum() == 7000
    path.write_text(json.dumps(value)[:-900])
    with pytest.raises(hw.TraceError, match=r"damaged JSON.*Dump it again"):
        load(path)


def test_sizes_beyond_any_device_are_skipped(tmp_path):
    ring = events(("alloc", 1, 1 << 60, "model"), ("alloc", 2, 20, "model"))
    ring.append({"action": ["alloc"], "size": 1})
    held = [segment(0, [block(2, 20)]), segment(9, [block(9, 1 << 61)])]
    traces = load(write_snapshot(tmp_path / "a.pickle", device_traces=[ring], segments=held))
    assert analysis.snapshot_timeline(traces)["used_bytes"].tolist() == [20]
    assert "skipped" in set(traces.problems["kind"])


def test_addresses_may_have_64_bits(tmp_path):
    first = 0xFF00_0000_0000_0000
    ring = events(
        ("alloc", first + 100, 2000, "model"),
        ("free_completed", first + 100, 2000, ""),
        ("alloc", first + 200, 512, "adam"),
    )
    blocks = [block(first + 200, 512, stack="adam"), block(first + 712, 1536, "inactive")]
    path = write_snapshot(
        tmp_path / "xpu.pickle",
        segments=[segment(first, blocks)],
        device_traces=[[*ring, None, {}]],
    )
    traces = hw.load(path, cache=False, progress=False)
    peak = snapshot_peak(traces)
    assert peak[["use", "bytes", "peak_event"]].to_numpy().tolist() == [
        ["forward and other", 2000, 0]
    ]
    assert snapshot_segments(traces).address.tolist() == [first - (1 << 64)]
    changes = snapshot_timeline(traces)[["change_bytes", "used_bytes"]].to_numpy().tolist()
    assert changes == [[2000, 2000], [-2000, 0], [512, 512]]
    skipped = traces.problems.query("kind == 'skipped'")
    assert skipped["count"].tolist() == [2]


@pytest.mark.parametrize("address", [[1], {}, None, "x"])
def test_addresses_of_blocks_may_be_anything(tmp_path, address):
    held = [block(10, 20, stack="model") | {"address": address}, block(30, 20, stack="model")]
    ring = events(("alloc", 10, 20, "model"))
    path = write_snapshot(tmp_path / "a.pickle", device_traces=[ring], segments=[segment(10, held)])
    traces = hw.load(path, cache=False, progress=False)
    assert snapshot_timeline(traces)["used_bytes"].tolist() == [40]


@pytest.mark.parametrize("blocks", [5, "x", {"a": 1}, None])
def test_blocks_that_are_no_list_are_none(tmp_path, blocks):
    held = segment(10, [block(10, 20, stack="model")]) | {"blocks": blocks}
    ring = events(("alloc", 10, 20, "model"))
    path = write_snapshot(tmp_path / "a.pickle", device_traces=[ring], segments=[held])
    assert snapshot_segments(hw.load(path, cache=False, progress=False)).used_bytes.tolist() == [20]


@pytest.mark.parametrize("time_us", [None, "soon", -5, 1 << 63])
def test_annotations_without_a_time_are_skipped_and_counted(tmp_path, time_us):
    ends = [("START", "fwd", T0 + 5), ("END", "fwd", T0 + 25), ("START", "bwd", time_us)]
    annotations = [
        {"stage": stage, "device": 0, "name": name, "time_us": time}
        for stage, name, time in (*ends, ("PAUSE", "bwd", T0 + 30))
    ]
    zero_ns = load(write_snapshot(tmp_path / "plain.pickle"))[0].zero_ns
    traces = load(write_snapshot(tmp_path / "named.pickle", external_annotations=annotations))
    named = traces[0].events.query("category == 'user_annotation'")
    assert named[["name", "dur_ns"]].values.tolist() == [["fwd", 20_000]]
    assert traces[0].zero_ns == zero_ns == T0 * 1000
    skipped = traces.problems.query("kind == 'skipped'")
    assert skipped[["detail", "count"]].values.tolist() == [
        ["annotations without a time or a stage", 2]
    ]


@pytest.mark.parametrize("rings", [[], [[], []], None])
def test_the_headline_of_a_snapshot_without_history_states_the_end_and_no_peak(tmp_path, rings):
    traces = load(write_snapshot(tmp_path / "a.pickle", device_traces=rings))
    text = str(headline(traces)).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert text.startswith(
        "At the end, cuda:0 on rank 0 has 4.50 kB in use, of 7.00 kB reserved: 3.00 kB of forward"
        " (model.py:7). Its peak is not known."
    )
    assert "in use when the snapshot was taken, of" in peak_subtitle(traces)


def test_the_chart_of_a_recorded_peak_calls_it_a_peak(traces):
    assert "in use at the peak, of" in peak_subtitle(traces)


def test_devices_with_a_ring_with_segments_or_with_both(tmp_path):
    """Blocks never released, blocks that wait for streams, and blocks from before the recording."""
    rings = [
        [],
        events(("segment_alloc", 1000, 8000, ""), ("alloc", 1000, 4000, "model"),
               ("alloc", 5000, 1000, ""), ("free_requested", 5000, 1000, "")),
        events(("free_requested", 77, 600, ""), ("free_completed", 77, 600, "")),
    ]  # fmt: skip
    waiting = [block(1000, 4000, stack="model"), block(5000, 1000, "active_pending_free")]
    segments = [
        segment(1000, [*waiting, block(6000, 3000, "inactive")], device=1),
        segment(1, [block(1, 300, stack="adam"), block(301, 700, "inactive")], device=2),
        segment(5, [block(5, 200)], device=3),
    ]
    traces = load(write_snapshot(tmp_path / "a.pickle", device_traces=rings, segments=segments))
    names = {name for _, name, _ in traces[0].counter_table.series}
    assert names == {f"cuda:{number} {name}" for number in (1, 2) for name in ("memory", "from")}
    levels = snapshot_timeline(traces)[["device", "used_bytes", "reserved_bytes"]]
    assert levels.to_numpy().tolist() == [
        ["cuda:1", 4000, 8000], ["cuda:1", 5000, 8000], ["cuda:2", 300, 1000],
    ]  # fmt: skip
    peaks = snapshot_peak(traces).groupby("device")[["peak_bytes", "bytes"]]
    assert peaks.agg({"peak_bytes": "first", "bytes": "sum"}).to_numpy().tolist() == [
        [5000, 5000], [900, 900], [200, 200],
    ]  # fmt: skip
    text = str(headline(traces)).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert text.startswith("Memory of cuda:1 on rank 0 peaks at 5.00 kB in use, of 8.00 kB")
