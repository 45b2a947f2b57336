"""Phases of steps: which ranges they are, and how far ranks are from each other."""

import pytest
from support import small

from hta_widgets import analysis
from hta_widgets.analysis.steps import phase_label


def mark(name, start, end, *, tid=1):
    return small.event("user_annotation", name, start, end, pid=10, tid=tid)


def steps(*, slow: int = 0):
    """Two steps of 1000 ns with a data loader, a forward pass within a frame, and noise."""
    found = []
    for number in (0, 1):
        at = 100 + 1000 * number
        found += [
            mark(f"ProfilerStep#{number}", at, at + 990),
            mark("enumerate(DataLoader)#_Iter.__next__", at + 5, at + 50),
            mark("## forward ##", at + 100, at + 300 + slow),
            mark("DistributedDataParallel.forward", at + 110, at + 290 + slow),
            mark("nccl:all_reduce", at + 700, at + 710),
            mark("Optimizer.step#SGD.step", at + 800, at + 900),
            mark("elsewhere", at + 100, at + 200, tid=2),
            mark("twice", at + 910, at + 920),
            mark("twice", at + 930, at + 940),
        ]
    return found


def test_phases_are_the_outermost_ranges_that_occur_once_a_step(tmp_path):
    traces = small.load(tmp_path, steps(), steps(slow=20), steps())
    found = analysis.phase_times(traces)
    assert found.groupby(["phase", "name"], sort=False).size().to_dict() == {
        ("data loading", "enumerate(DataLoader)#_Iter.__next__"): 6,
        ("forward", "## forward ##"): 6,
        ("optimizer", "Optimizer.step#SGD.step"): 6,
    }
    forward = found[found["phase"] == "forward"]
    assert forward["rank"].tolist() == [0, 0, 1, 1, 2, 2]
    assert forward["step"].tolist() == [0, 1, 0, 1, 0, 1]
    assert forward["start_ns"].tolist() == [200, 1200] * 3
    assert forward["dur_ns"].tolist() == [200, 200, 220, 220, 200, 200]
    assert forward["deviation_ns"].tolist() == [0, 0, 20, 20, 0, 0]
    assert forward["deviation_share"].tolist() == pytest.approx([0, 0, 0.1, 0.1, 0, 0])


def test_a_window_cuts_phases(tmp_path):
    traces = small.load(tmp_path, steps(), steps())
    found = analysis.phase_times(traces, window=(250, 1150), ranks=[1])
    assert found[["phase", "rank", "step", "start_ns", "dur_ns"]].to_numpy().tolist() == [
        ["data loading", 1, 1, 1105, 45],
        ["forward", 1, 0, 250, 150],
        ["optimizer", 1, 0, 900, 100],
    ]


def test_what_occurs_in_one_step_of_three_is_no_phase(tmp_path):
    events = [mark(f"ProfilerStep#{n}", 100 * n + 1, 100 * n + 99) for n in range(3)]
    events.append(mark("evaluation", 110, 120))
    found = analysis.phase_times(small.load(tmp_path, events))
    assert not len(found)
    assert "record_function" in found.attrs["note"]


def test_why_there_are_none(tmp_path):
    found = analysis.phase_times(small.load(tmp_path, [mark("forward", 1, 2)]))
    assert not len(found)
    assert "no ProfilerStep" in found.attrs["note"]
    traces = small.load(tmp_path, steps())
    assert "holds no phase" in analysis.phase_times(traces, window=(5, 6)).attrs["note"]
    assert analysis.phase_times(traces, ranks=[]).attrs["note"] == "no ranks are selected"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("## forward ##", "forward"),
        ("DistributedDataParallel.forward", "forward"),
        ("## backward ##", "backward"),
        ("Optimizer.step#AdamW.step", "optimizer"),
        ("Optimizer.zero_grad#AdamW.zero_grad", "zero grad"),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "data loading"),
        ("## sparse_data_dist ##", "sparse_data_dist"),
        ("## optimizer ##", "optimizer"),
        ("feed-forward block", "feed-forward block"),
    ],
)
def test_what_a_phase_is_called(name, label):
    assert phase_label(name) == label
