"""Which rows are a device's, which track they are on, and what the tracks are called."""


def meta(what, pid, tid=0, **args):
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def test_a_stream_argument_counts_on_device_categories_only(make, records):
    trace = make(
        [
            records.op("triton_poi_fused", 0, 5, args={"stream": 0}),
            records.kernel("k", 1, 1, stream=0),
            records.kernel("wait", 3, 1, stream=3, cat="cuda_sync"),
            records.kernel("event", 5, 1, stream=4, cat="mtia_ccp_events"),
            records.kernel("copy", 7, 1, stream=7, cat="Memcpy"),
            records.op("hipMemcpy", 8, 1, cat="cuda_runtime", args={"stream": 5}),
        ]
    )
    frame = trace.events.set_index("name")
    assert frame["stream"].to_dict() == {
        "triton_poi_fused": -1, "k": 0, "wait": 3, "event": 4, "copy": 7, "hipMemcpy": -1,
    }  # fmt: skip
    assert frame.loc["triton_poi_fused", "kind"] == "cpu"


def test_annotations_of_a_device_have_the_stream_of_their_thread_and_a_track_of_their_own(
    make, records
):
    trace = make(
        [
            records.kernel("k", 1, 2, stream=7),
            {"ph": "X", "cat": "gpu_user_annotation", "name": "step", "pid": 0, "tid": 7}
            | {"ts": 0, "dur": 9},
        ]
    )
    frame = trace.events
    assert frame["name"].tolist() == ["step", "k"]
    assert frame["stream"].tolist() == [7, 7]
    assert frame["depth"].tolist() == [0, 0]
    assert frame["parent"].tolist() == [-1, -1]
    assert [(t.role, t.stream, t.label) for t in trace.tracks] == [
        ("annotation", 7, "stream 7"),
        ("stream", 7, "stream 7"),
    ]
    assert [t.key for t in trace.tracks] == [
        "device 0 · stream 7 annotations",
        "device 0 · stream 7",
    ]


def test_device_rows_without_a_stream_argument_take_it_from_their_thread(make, records):
    def bare(tid, category="kernel"):
        return {"ph": "X", "cat": category, "name": "k", "pid": 0, "tid": tid, "ts": 0, "dur": 1}

    trace = make(
        [
            bare("stream 12"),
            bare(9),
            bare(3774, "mtia_ccp_events"),
            bare(-1, "cuda_sync"),
            records.kernel("k", 2, 1, stream=108, cat="mtia_ccp_events", tid=3774),
        ]
    )
    by_thread = trace.events.groupby("tid", observed=True)["stream"].agg(set).to_dict()
    assert by_thread == {"stream 12": {12}, "9": {9}, "3774": {108}, "-1": {-1}}
    roles = {track.tid: track.role for track in trace.tracks}
    assert roles == {"stream 12": "stream", "9": "stream", "3774": "stream", "-1": "other"}


def test_tracks_are_named_and_ordered_by_metadata(make, records):
    trace = make(
        [
            meta("process_name", 7, name="python"),
            meta("process_labels", 7, labels="CPU"),
            meta("process_name", 0, name="python"),
            meta("process_labels", 0, labels="GPU 0"),
            meta("process_sort_index", 7, sort_index=5),
            meta("process_sort_index", 0, sort_index=100),
            meta("thread_name", 7, 1, name="thread 1 (unnamed)"),
            meta("thread_name", 7, 1, name="thread 1 (main)"),
            meta("thread_name", 0, 7, name="stream 7 "),
            meta("thread_sort_index", 7, 1, sort_index=2),
            meta("thread_sort_index", 7, 2, sort_index=1),
            records.kernel("k", 0, 1),
            records.op("a", 1, 1, tid=1),
            records.op("b", 2, 1, tid=2),
            records.op("Profiler", 0, 9, pid="Spans", tid="PyTorch Profiler", cat="Trace"),
        ]
    )
    assert [track.key for track in trace.tracks] == [
        "python · thread 2",
        "python · thread 1 (main)",
        "GPU 0 · stream 7",
        "Spans · PyTorch Profiler",
    ]
    assert [track.role for track in trace.tracks] == ["thread", "thread", "stream", "other"]
    assert trace.events["track"].tolist()[0] == "Spans · PyTorch Profiler"


def test_tracks_of_the_same_name_are_told_apart(make, records):
    names = [meta("process_name", pid, name="python") for pid in (7, 8)]
    threads = [meta("thread_name", pid, tid, name="worker") for pid in (7, 8) for tid in (1, 2)]
    events = [records.op("a", 0, 1, tid=tid, pid=pid) for pid in (7, 8) for tid in (1, 2)]
    keys = [track.key for track in make(names + threads + events).tracks]
    assert len(set(keys)) == 4
    assert keys[0] == "python [7] · worker [1]"


def test_tids_that_are_text_and_numbers_are_one_thread(make, records):
    trace = make([records.op("a", 0, 9, tid="25"), records.op("b", 1, 1, tid=25)])
    assert len(trace.tracks) == 1
    assert trace.events["depth"].tolist() == [0, 1]


def test_odd_sort_indices_do_not_matter(make, records):
    trace = make(
        [
            meta("process_sort_index", 7, sort_index="first"),
            meta("thread_sort_index", 7, 1),
            records.op("a", 0, 1),
        ]
    )
    assert [track.tid for track in trace.tracks] == ["1"]
