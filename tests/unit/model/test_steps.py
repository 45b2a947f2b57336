"""Which step an event belongs to."""


def step(n, ts, dur, **more):
    record = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 7, "tid": 1}
    return record | {"ts": ts, "dur": dur} | more


def steps(trace):
    return trace.events.set_index("name")["step"].to_dict()


def test_host_events_belong_to_the_step_in_which_they_start(make, records):
    trace = make(
        [
            step(4, 10, 10),
            step(5, 20, 10),
            records.op("before", 9, 5),
            records.op("first", 10, 1, tid=2),
            records.op("over", 19, 5, tid=2),
            records.op("edge", 20, 1, tid=3),
            records.op("after", 30, 1),
        ]
    )
    assert steps(trace) == {
        "before": -1, "ProfilerStep#4": 4, "first": 4, "over": 4, "ProfilerStep#5": 5, "edge": 5,
        "after": -1,
    }  # fmt: skip


def test_device_events_belong_to_the_step_of_their_launch(make, records):
    trace = make(
        [
            step(1, 0, 10),
            step(2, 10, 10),
            records.call("cudaLaunchKernel", 9, 1, 3),
            records.kernel("late", 15, 1, 3),
            records.kernel("unknown", 15, 1, 99, stream=8),
        ]
    )
    assert steps(trace)["late"] == 1
    assert steps(trace)["unknown"] == -1


def test_copies_of_a_step_on_the_device_are_no_steps(make, records):
    copy = step(1, 30, 10, cat="gpu_user_annotation", pid=0, tid=7)
    trace = make([step(1, 0, 10), copy, records.kernel("k", 32, 1), records.op("op", 33, 1)])
    frame = trace.events
    assert frame.loc[frame["start_ns"] == 33_000, "step"].tolist() == [-1]


def test_of_steps_within_steps_the_inner_one_counts(make, records):
    trace = make(
        [step(1, 0, 100), step(7, 10, 10), records.op("in", 12, 1), records.op("out", 50, 1)]
    )
    assert steps(trace) == {"ProfilerStep#1": 1, "ProfilerStep#7": 7, "in": 7, "out": 1}


def test_names_that_only_look_like_steps(make, records):
    trace = make([step("x", 0, 9), records.op("ProfilerStep", 0, 5), records.op("op", 1, 1)])
    assert set(trace.events["step"]) == {-1}
