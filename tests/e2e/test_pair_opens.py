"""Two runs in one file open in Perfetto's UI, each side under its name."""

import hta_widgets as hw
from hta_widgets.demo.job import write_demo
from hta_widgets.export.traces.files import export_pair

NAMES = """
    SELECT DISTINCT substr(process.name, 1, 6) FROM slice
    JOIN thread_track ON slice.track_id = thread_track.id
    JOIN thread USING (utid) JOIN process USING (upid)
"""

SIDES_OF_ARROWS = """
    WITH place AS (
      SELECT slice.id, substr(process.name, 1, 6) AS side FROM slice
      JOIN thread_track ON slice.track_id = thread_track.id
      JOIN thread USING (utid) JOIN process USING (upid)
    )
    SELECT a.side, b.side, count(*) FROM flow
    JOIN place a ON a.id = flow.slice_out JOIN place b ON b.id = flow.slice_in GROUP BY 1, 2
"""

STEPS = """
    SELECT count(DISTINCT ts), count(*) FROM slice WHERE name = 'ProfilerStep#0' AND ts = (
      SELECT min(ts) FROM slice WHERE name = 'ProfilerStep#0')
"""


def test_both_sides_open_named_and_in_line(perfetto, tmp_path):
    sides = []
    for seed in (0, 1):
        write_demo(tmp_path / f"run-{seed}", ranks=1, steps=2, seed=seed, events_per_step=700)
        sides.append(hw.load(tmp_path / f"run-{seed}", cache=False, progress=False))
    report = export_pair(*sides, tmp_path / "pair.json.gz")
    assert perfetto(report.path) == {}
    assert {name for (name,) in perfetto.query(NAMES)} == {"before", "after "}
    arrows = perfetto.query(SIDES_OF_ARROWS)
    assert {(source, target) for source, target, _ in arrows} == {
        ("before", "before"),
        ("after ", "after "),
    }
    assert sum(int(count) for *_, count in arrows) == report.flows
    # The step starts at the same instant on both hosts.
    assert perfetto.query(STEPS) == [["1", "2"]]
