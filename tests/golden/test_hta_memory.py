"""Memory over time, compared with HTA's."""

import gzip
import json

import pytest
from support import recorded

from hta_widgets.analysis.memory import MEMORY_CATEGORIES, memory_timeline
from hta_widgets.compat.memory_analysis import MemoryAnalysis

ASK_HTA = """
import json, sys
from hta.memory_analysis import MemoryAnalysis
print("RESULT" + json.dumps(MemoryAnalysis(sys.argv[1])._process_raw_events()))
"""


EXPORTS = [recorded.DATA / "memory/memory.raw.json.gz"]
if recorded.SHARED.is_dir():
    EXPORTS.append(recorded.SHARED / "hta_tests/memory_analysis/memory_timeline.raw.gz")


@pytest.fixture(scope="module", params=EXPORTS, ids=lambda path: path.name)
def export(request):
    return request.param


@pytest.fixture(scope="module")
def frame(export):
    return memory_timeline(export)


def test_every_size_is_hta_s(export, frame, ask_hta):
    times, sizes = ask_hta(ASK_HTA, export)
    # HTA adds a row with the initial memory at the time of the first event.
    assert times[0] == times[1]
    assert (frame["time_ns"] + frame.attrs["origin_ns"]).tolist() == times[1:]
    assert frame[list(MEMORY_CATEGORIES)].to_numpy().tolist() == sizes[1:]
    assert list(frame.attrs["preexisting_bytes"].values()) == sizes[0]


def test_every_size_is_the_running_sum_of_the_events(export, frame):
    now, expected = dict.fromkeys(range(8), 0), {}
    first = None
    for time, _, amount, category in json.loads(gzip.decompress(export.read_bytes())):
        now[category] += amount
        if time > 0:
            first = first or time
            expected[time - first] = tuple(now.values())
    got = frame.set_index("time_ns")
    assert dict(zip(got.index, got.itertuples(index=False, name=None), strict=True)) == expected
    totals = {time: sum(row) for time, row in expected.items()}
    assert frame.attrs["peak_total_bytes"] == max(totals.values())
    assert totals[frame.attrs["peak_time_ns"]] == max(totals.values())
    assert frame.attrs["peak_bytes"]["Activation"] == max(row[4] for row in expected.values())


def test_the_chart_is_written_where_hta_writes_it(export, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    analysis = MemoryAnalysis(str(export))
    assert analysis.plot_memory_timeline() is None
    assert not (tmp_path / "images").exists()
    analysis.plot_memory_timeline(save_graph=True)
    page = (tmp_path / "images/memory_plot.html").read_text("utf-8")
    assert "Activation" in page
