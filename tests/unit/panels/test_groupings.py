"""Tables of kernels and operators by shape, module and source line, calculated by hand."""

import json

import pytest
from support.small import call, event, kernel, load

from hta_widgets.panels.frames import panel_task, panels
from hta_widgets.panels.groupings import GROUPED_FRAMES

TYPES = ["c10::BFloat16"] * 2


def mm(start, number, rows, duration):
    """Return a call of mm with (rows, 64) and (64, 64) in a source line, and its kernel."""
    shapes = {"Input Dims": [[rows, 64], [64, 64]], "Input type": TYPES}
    begin = 1_000 * number
    return [
        event("cpu_op", "aten::mm", start + 20, start + 80, pid=10, **shapes),
        event("python_function", "<built-in function mm>", start + 10, start + 90, pid=10),
        call(start + 30, start + 40, number),
        kernel(begin, begin + duration, launch=number),
    ]


#: Two products with the same shape and one with another, each in a module and a source line.
EVENTS = [
    event("python_function", "nn.Module: Net_0", 90, 400, pid=10),
    event("python_function", "net.py(7): forward", 95, 390, pid=10),
    *mm(100, 1, 64, 300), *mm(200, 2, 8, 100), *mm(300, 3, 64, 200),
    kernel(9_000, 9_900),
]  # fmt: skip


@pytest.mark.parametrize(
    ("panel", "rows"),
    [
        ("kernels by shape", [["gemm", "64×64", 500, 2], ["gemm", "8×64 · 64×64", 100, 1]]),
        ("operators by shape", [["mm", "64×64", 500, 2], ["mm", "8×64 · 64×64", 100, 1]]),
        ("work by module", [["", "Net_0", 600, 3]]),
        ("work by source line", [["", "net.py(7): forward", 600, 3]]),
    ],
)
def test_work_is_grouped_by_what_launched_it(tmp_path, panel, rows):
    traces = load(tmp_path, EVENTS)
    make, selection = panel_task(panel, None)
    frame = make(traces, selection, None)
    assert frame[["name", "label", "sum_ns", "count"]].to_numpy().tolist() == rows
    events = traces[0].events
    for listed, name_rows in zip(frame["events"], rows, strict=True):
        ids = [row for rank, row in json.loads(listed)]
        assert events.loc[ids, "dur_ns"].sum() == name_rows[2]


def test_a_job_without_the_labels_says_what_records_them(tmp_path):
    traces = load(tmp_path, [event("cpu_op", "my::op", 0, 50, pid=10), call(10, 20, 1)])
    for name in GROUPED_FRAMES:
        make, selection = panel_task(name, None)
        assert make(traces, selection, None).attrs["note"]
    assert set(GROUPED_FRAMES) <= set(panels())
