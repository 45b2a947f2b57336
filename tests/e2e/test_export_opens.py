"""Exported files open in Perfetto's UI without errors."""

import pytest
from support import recorded

import hta_widgets as hw
from hta_widgets.analysis import with_counters
from hta_widgets.export.traces.files import export_trace

RESNET = "kineto/resnet50_num_workers_0_a"


# Perfetto leaves out overlapping events, and the file with stacks has some.
@pytest.fixture(params=recorded.paths(RESNET, "made/ddp_8rank", jobs=["gpu"]))
def traces(request):
    return hw.load(request.param, progress=False)


def _windows(traces):
    length = traces.end_ns - traces.start_ns
    for place in (0.07, 1 / 3, 0.71):
        start_ns = traces.start_ns + int(length * place)
        yield traces.select(start_ns=start_ns, end_ns=start_ns + length // 9)


def _slices(perfetto):
    """Return the number of complete events in Perfetto, without instants."""
    return int(perfetto.query("SELECT count(*) FROM slice WHERE dur > 0")[0][0])


_COUNTERS = """
    SELECT counter_track.name, count(*) FROM counter
    JOIN counter_track ON counter.track_id = counter_track.id GROUP BY 1
"""


def _samples(traces, rank):
    """Count the samples of all counters, also derived ones; Perfetto appends the series name."""
    frame = with_counters(traces)[rank].counters.astype({"name": str, "series": str})
    return (frame["name"].str.partition("[")[0] + " " + frame["series"]).value_counts().to_dict()


def test_windows_open_without_complaint(traces, perfetto, tmp_path):
    for number, window in enumerate(_windows(traces)):
        report = export_trace(traces, tmp_path / f"window-{number}.json.gz", window)
        assert perfetto(report.path) == {}
        back = hw.load(report.path, progress=False)
        assert _slices(perfetto) == sum(int((t.events["dur_ns"] > 0).sum()) for t in back.values())


def test_a_clipped_window_opens(traces, perfetto, tmp_path):
    window = list(_windows(traces))[1]
    report = export_trace(traces, tmp_path / "window.json", window, clip=True)
    complaints = perfetto(report.path)
    # Perfetto reads times as floats, so among events clipped at the same edge an inner one may end
    # later than an outer one.
    assert set(complaints) <= {"slice_drop_overlapping_complete_event"}
    cut = report.path.read_text().count('"hta_clipped"')
    assert sum(complaints.values()) < cut
    assert int(perfetto.query("SELECT count(*) FROM flow")[0][0]) == report.flows


def test_one_rank_opens_without_complaint(traces, perfetto, tmp_path):
    rank = traces.ranks[-1]
    selection = traces.select(ranks=[rank])
    report = export_trace(traces, tmp_path / "rank.json", selection, counters=True)
    assert perfetto(report.path) == {}
    assert _slices(perfetto) == int((traces[rank].events["dur_ns"] > 0).sum())
    counted = {(name, count) for name, count in perfetto.query(_COUNTERS)}
    assert counted == {(name, str(count)) for name, count in _samples(traces, rank).items()}


def test_arrows_of_a_merged_file_stay_within_a_rank(traces, perfetto, tmp_path):
    if len(traces) == 1:
        pytest.skip("one rank has nothing to mix with")
    half = traces.select(end_ns=(traces.start_ns + traces.end_ns) // 2)
    report = export_trace(traces, tmp_path / "half.json.gz", half)
    assert perfetto(report.path) == {}
    ranks = perfetto.query(
        """
        WITH place AS (
          SELECT slice.id, substr(process.name, 1, instr(process.name, '·')) AS rank
          FROM slice
          JOIN thread_track ON slice.track_id = thread_track.id
          JOIN thread USING (utid) JOIN process USING (upid)
        )
        SELECT a.rank, b.rank, count(*) FROM flow
        JOIN place a ON a.id = flow.slice_out JOIN place b ON b.id = flow.slice_in
        GROUP BY 1, 2
        """
    )
    assert {source for source, _, _ in ranks} == {f"rank {rank} ·" for rank in traces}
    assert all(source == target for source, target, _ in ranks)


def test_arrows_leave_from_launches(shared, perfetto, tmp_path):
    """The file mixes two notations of thread ids; an exported part uses only one."""
    traces = hw.load(shared / "traces" / RESNET, progress=False)
    report = export_trace(traces, tmp_path / "window.json", list(_windows(traces))[1])
    perfetto(report.path)
    sources = perfetto.query(
        "SELECT DISTINCT slice.name FROM flow JOIN slice ON slice.id = flow.slice_out"
    )
    assert sources
    assert all(name.startswith("cuda") for (name,) in sources)
