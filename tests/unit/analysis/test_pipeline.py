"""Bubbles and passes of a pipeline with two stages and two micro-batches, found by hand."""

import json

import pytest
from support.small import call, event, kernel, load, read, write

from hta_widgets import analysis
from hta_widgets.analysis.cross_rank import parallel_groups

GROUP = {"Process Group Name": "1", "Process Group Ranks": "[0, 1]", "Group size": 2}
#: Passes by stage, as (direction, start, end) in ns.
STAGES = (
    [("F", 1000, 1100), ("F", 1200, 1300), ("B", 1500, 1700), ("B", 1800, 2000)],
    [("F", 1100, 1200), ("B", 1200, 1400), ("F", 1400, 1500), ("B", 1600, 1800)],
)


def stage(rank, *, gap=0, step=0):
    """Return a stage: kernels with gaps, messages between passes, and an optimizer at the end."""
    events = [event("user_annotation", f"ProfilerStep#{step}", 500, 3000, pid=10)]
    for number, (direction, start, end) in enumerate(STAGES[rank]):
        host = 600 + 100 * number
        name = (
            "autograd::engine::evaluate_function: MmBackward0" if direction == "B" else "aten::mm"
        )
        middle = (start + end) // 2
        events += [
            event("cpu_op", name, host, host + 50, pid=10),
            call(host + 10, host + 20, 10 * number + 1),
            kernel(start, middle - gap, launch=10 * number + 1),
            call(host + 20, host + 30, 10 * number + 2),
            kernel(middle, end, launch=10 * number + 2),
            kernel(
                end, end + 5, name="ncclDevKernel_SendRecv()", stream=20,
                **GROUP, **{"Collective name": "send", "Src Rank": rank, "Dst Rank": 1 - rank},
            ),
            kernel(
                start + 30, start + 35, name="ncclDevKernel_SendRecv()", stream=22,
                **GROUP, **{"Collective name": "recv", "Src Rank": 1 - rank, "Dst Rank": rank},
            ),
        ]  # fmt: skip
    events += [
        event("user_annotation", "Optimizer.step#SGD.step", 1100, 1200, pid=10),
        event("cpu_op", "aten::add_", 1110, 1150, pid=10),
        call(1120, 1130, 99),
        kernel(2500, 2600, launch=99),
    ]
    return events


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return load(tmp_path_factory.mktemp("pipeline"), stage(0), stage(1))


def test_a_bubble_is_the_schedule_without_the_passes_of_the_stage(traces):
    frame = analysis.pipeline_bubbles(traces, clock="host")
    times = ["schedule_ns", "forward_ns", "backward_ns", "bubble_ns", "before_ns", "after_ns"]
    assert frame[times].to_numpy().tolist() == [
        [1000, 200, 400, 400, 0, 0],
        [1000, 200, 400, 400, 100, 200],
    ]
    assert frame[["pipeline", "stage", "stages"]].to_numpy().tolist() == [
        ["0, 1", 0, 2],
        ["0, 1", 1, 2],
    ]
    assert frame.attrs["bubble_share"] == 0.4


def test_gaps_within_passes_count_and_one_rank_is_compared_with_all_stages(tmp_path):
    frame = analysis.pipeline_bubbles(load(tmp_path, stage(0), stage(1, gap=10)), ranks=[1])
    assert frame[["rank", "schedule_ns", "bubble_ns"]].to_numpy().tolist() == [[1, 1000, 440]]


def test_passes_are_cut_at_messages_and_directions(traces):
    frame = analysis.pipeline_passes(traces, clock="host")
    passes = frame[["direction", "start_ns", "end_ns"]].to_numpy().tolist()
    names = {"F": "forward", "B": "backward"}
    assert passes == [[names[way], start, end] for rows in STAGES for way, start, end in rows]
    assert (frame["compute_ns"] == frame["end_ns"] - frame["start_ns"]).all()


@pytest.mark.parametrize("start", [1310, 1750])
def test_passes_of_steps_that_overlap_keep_their_directions(tmp_path, start):
    """The forward pass of step 1 runs on another stream before the last backward pass of step 0."""
    records = [
        *(event("user_annotation", "ProfilerStep#0", 500, 1080, pid=10), *stage(0)[1:]),
        event("user_annotation", "ProfilerStep#1", 1090, 3000, pid=10),
        event("cpu_op", "aten::mm", 1300, 1350, pid=10),
        call(1310, 1320, 200),
        kernel(start, start + 40, stream=9, launch=200),
    ]
    frame = analysis.pipeline_passes(load(tmp_path, records, stage(1)), ranks=[0], clock="host")
    names = {"F": "forward", "B": "backward"}
    expected = [[0, names[way], begin, end] for way, begin, end in STAGES[0]]
    assert frame[["step", "direction", "start_ns", "end_ns"]].to_numpy().tolist() == [
        *expected,
        [1, "forward", start, start + 40],
    ]


def test_a_window_cuts_schedules(traces):
    frame = analysis.pipeline_bubbles(traces, window=(1050, 1550), clock="host")
    assert frame[["schedule_ns", "bubble_ns"]].to_numpy().tolist() == [[500, 300], [500, 100]]


def test_jobs_without_pipelines_or_steps_say_so(tmp_path):
    alone = load(tmp_path, [kernel(10, 20)])
    assert "no process group is a pipeline" in analysis.pipeline_bubbles(alone).attrs["note"]
    without_steps = [stage(rank)[1:] for rank in range(2)]
    frame = analysis.pipeline_passes(load(tmp_path, *without_steps))
    assert "no steps with forward and backward" in frame.attrs["note"]


@pytest.mark.parametrize(
    ("pairs", "pipelines"),
    [
        ([[0, 1], [1, 2], [2, 3]], ["0-3"] * 4),
        ([[0, 1], [1, 2], [2, 3], [3, 0]], ["0-3"] * 4),
        ([[2, 3], [0, 1]], ["0, 1"] * 2 + ["2, 3"] * 2),
        ([[2, 4], [0, 2], [1, 3], [3, 5]], ["0, 2, 4", "1, 3, 5"] * 3),
    ],
)
def test_pairs_of_stages_are_one_pipeline(tmp_path, pairs, pipelines):
    """DeepSpeed uses a separate group for each pair of neighbors."""
    ranks = []
    for rank in range(len(pipelines)):
        records = stage(rank % 2)[:4]
        for number, pair in enumerate(pairs):
            if rank in pair:
                group = {"Process Group Name": f"p2p{number}", "Process Group Ranks": str(pair)}
                records.append(
                    kernel(
                        1100 + 50 * number, 1140 + 50 * number, name="ncclDevKernel_SendRecv()",
                        stream=20 + number, **group, **{"Group size": 2, "Collective name": "send"},
                        **{"Src Rank": pair[0], "Dst Rank": pair[1]},
                    )
                )  # fmt: skip
        ranks.append(records)
    frame = analysis.pipeline_bubbles(load(tmp_path, *ranks))
    assert frame["pipeline"].tolist() == pipelines
    for ranks_text, of_pipeline in frame.groupby("pipeline"):
        size = pipelines.count(ranks_text)
        assert of_pipeline["stages"].tolist() == [size] * size
        assert of_pipeline["stage"].tolist() == list(range(size))


@pytest.mark.parametrize(
    ("pairs", "pipelines"),
    [
        # Four stages, then two replicas of three.
        ([(0, 1), (1, 2), (2, 3)], {0: (0, 1, 2, 3), 2: (0, 1, 2, 3)}),
        ([(0, 2), (2, 4), (1, 3), (3, 5)], {0: (0, 2, 4), 3: (1, 3, 5)}),
        # A ring, and two ranks, which may be a ring.
        ([(0, 1), (1, 2), (2, 3), (0, 3)], {0: (), 3: ()}),
        ([(0, 1)], {0: (), 1: ()}),
        # One rank that exchanges with three others.
        ([(0, 1), (1, 2), (1, 3)], {1: (), 3: ()}),
    ],
)
def test_stages_that_send_within_the_group_of_all_ranks_are_a_pipeline(tmp_path, pairs, pipelines):
    ranks = [[kernel(0, 50)] for _ in range(max(map(max, pairs)) + 1)]
    for number, (low, high) in enumerate(pairs):
        for start, source, target in ((100, low, high), (200, high, low)):
            send(ranks, source, target, 1_000 * number + start)
        ranks[high].append(kernel(1_000 * number + 160, 1_000 * number + 190))
    found = parallel_groups.pipelines(read_job(tmp_path, ranks))
    assert {rank: found[rank] for rank in pipelines} == pipelines


def send(ranks, source, target, start, *, stream=20):
    """Add a message of 50 ns in the group of all ranks."""
    world = list(range(len(ranks)))
    group = {"Process Group Name": "0", "Group size": len(world), "Process Group Ranks": str(world)}
    ends = {"Src Rank": source, "Dst Rank": target}
    for rank, name in ((source, "send"), (target, "recv")):
        ranks[rank].append(
            kernel(
                start, start + 50, stream=stream, name="ncclDevKernel_SendRecv()", **group, **ends,
                **{"Collective name": name},
            )
        )  # fmt: skip


def read_job(tmp_path, ranks):
    for path in write(tmp_path, *ranks).glob("*.json"):
        document = json.loads(path.read_text())
        document["distributedInfo"]["world_size"] = len(ranks)
        path.write_text(json.dumps(document))
    return read(tmp_path)


@pytest.mark.parametrize("answer_after", [0, 50])
def test_neighbors_that_exchange_borders_are_no_pipeline(tmp_path, answer_after):
    """Each of four ranks computes, then exchanges with its neighbors, all together or in turn."""
    ranks = [[] for _ in range(4)]
    for step in range(3):
        start = 1_000 * step
        for rank in range(4):
            ranks[rank].append(kernel(start, start + 100))
        for low in range(3):
            first = start + 150 + 200 * low
            send(ranks, low, low + 1, first)
            send(ranks, low + 1, low, first + answer_after, stream=21)
    traces = read_job(tmp_path, ranks)
    assert set(parallel_groups.pipelines(traces).values()) == {()}
    assert analysis.pipeline_bubbles(traces).empty
