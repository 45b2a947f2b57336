"""The last ready ranks in Horovod's negotiations, found by hand."""

import json

import pytest

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.panels.headline import headline


def tensor(pid, ready_us, *, operation="ALLREDUCE", end=True):
    """Return the negotiation of a tensor; `ready_us` holds pairs of rank and time in µs."""
    first, last = ready_us[0][1], max(time for _, time in ready_us)
    yield {"ph": "B", "name": f"NEGOTIATE_{operation}", "ts": first, "pid": pid}
    for rank, time in ready_us:
        yield {"ph": "X", "name": str(rank), "ts": time, "dur": 0, "pid": pid}
    if end:
        yield {"ph": "E", "ts": last + 1, "pid": pid}


@pytest.fixture
def write(tmp_path):
    def write(*tensors):
        path = tmp_path / "timeline.json"
        records = [record for negotiation in tensors for record in negotiation]
        path.write_text("[\n" + ",\n".join(map(json.dumps, records)) + ",\n")
        return hw.load(path, cache=False)

    return write


def rows(frame):
    columns = ["rank", "negotiations", "score", "wait_ns", "imposed_wait_ns", "blocked_ns"]
    return list(frame[columns].itertuples(index=False, name=None))


def test_the_case(shared):
    """Six tensors, two at a time; ranks 0 to 3 are ready at 0, 10, 20 and 3000 µs."""
    traces = hw.load(shared / "cases/horovod/timeline.json", cache=False)
    assert rows(analysis.horovod_readiness(traces)) == [
        (0, 6, 0.0, 18_000_000, 0, 0),
        (1, 6, 0.0, 17_940_000, 0, 0),
        (2, 6, 0.0, 17_880_000, 0, 0),
        (3, 6, 1.0, 0, 6 * 8_970_000, 3 * 3_100_000),
    ]
    text = str(headline(traces)).replace("\u202f", " ")
    assert text.startswith("Rank 3 is ready last for 6 of 6 tensors; the others wait for it during")
    assert "GPU is" not in text


def test_ties_alone_and_repeated_marks(write):
    traces = write(
        tensor(1, [(10, 5), (2, 9), (10, 9)]),  # ready twice: the first time counts
        tensor(2, [(2, 20), (10, 24)], operation="ALLGATHER"),
        tensor(1, [(2, 30), (10, 30)]),  # tied, so no rank is last
        tensor(2, [(2, 50)]),  # no other rank
    )
    assert rows(analysis.horovod_readiness(traces)) == [
        (2, 3, 1 / 3, 4_000, 4_000, 4_000),
        (10, 3, 1 / 3, 4_000, 4_000, 4_000),
    ]


def test_a_window_counts_the_tensors_with_a_mark_in_it(write):
    traces = write(tensor(1, [(0, 0), (1, 10)]), tensor(1, [(0, 20), (1, 25)]))
    frame = analysis.horovod_readiness(traces, window=("9us", "11us"))
    assert rows(frame) == [(0, 1, 0.0, 10_000, 0, 0), (1, 1, 1.0, 0, 10_000, 10_000)]


def test_a_negotiation_that_does_not_end_is_no_phase(write):
    traces = write(tensor(1, [(0, 0), (1, 10)]), tensor(1, [(0, 20), (1, 25)], end=False))
    frame = analysis.horovod_readiness(traces)
    assert frame["negotiations"].tolist() == [1, 1]
    assert "unpaired" in set(traces.problems["kind"])
