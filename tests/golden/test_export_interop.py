"""Check that HTA opens our exports and finds their known contents."""

import json
from functools import partial

import pytest
from support import small

import hta_widgets as hw
from hta_widgets.demo.job import write_demo
from hta_widgets.export.traces.files import export_trace

# This runs in HTA's environment, whose pandas is older than ours.
_SCRIPT = """
import json, logging, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_dir=sys.argv[1], include_last_profiler_step=True)
symbols = analysis.t.symbol_table.get_sym_table()
found = {}
for rank, frame in analysis.t.traces.items():
    names = frame["name"].map(lambda code: symbols[code])
    found[rank] = {
        "events": len(frame),
        "counts": {n: int(c) for n, c in frame.groupby(names)["dur"].size().items()},
        "sums": {n: round(float(d), 3) for n, d in frame.groupby(names)["dur"].sum().items()},
        "columns": sorted(frame.columns),
    }
breakdown = None
if len(sys.argv) > 2:
    frame = analysis.get_temporal_breakdown(visualize=False)
    breakdown = dict(zip(frame["rank"].tolist(), frame["compute_time(us)"].tolist()))
print("RESULT" + json.dumps({"ranks": found, "breakdown": breakdown}))
"""


@pytest.fixture
def hta(ask_hta):
    """Return a function that runs HTA on a trace folder and returns what HTA finds."""
    return partial(ask_hta, _SCRIPT)


def _known(traces, selection):
    """Return what HTA should find per rank: the number and total µs of complete events, by name."""
    result = {}
    for rank, trace in traces.items():
        events = trace.events if selection is None else trace.events[selection.mask(trace)]
        # HTA leaves out the profiler's own span and device work without a launch.
        launches = events.loc[events["category"] == "cuda_runtime", "correlation"]
        orphan = (events["category"] == "kernel") & ~events["correlation"].isin(launches)
        events = events[(events["category"] != "Trace") & ~orphan]
        by_name = events.groupby(events["name"].astype(str))["dur_ns"]
        result[str(rank)] = (by_name.size().to_dict(), (by_name.sum() / 1000).to_dict())
    return result


@pytest.mark.parametrize("part", ["whole", "window", "clipped"])
def test_hta_reads_an_exported_job(hta, shared, tmp_path, part):
    traces = hw.load(shared / "traces/made/ddp_8rank", progress=False).subset(ranks=[0, 3, 5])
    length = traces.end_ns - traces.start_ns
    start_ns = traces.start_ns + length // 4
    window = traces.select(start_ns=start_ns, end_ns=start_ns + length // 3)
    selection = None if part == "whole" else window
    report = export_trace(
        traces, tmp_path / "out", selection, clip=part == "clipped", keep_parents=False
    )
    result = hta(report.path)["ranks"]
    assert sorted(result) == ["0", "3", "5"]
    for rank, (counts, sums) in _known(traces, selection).items():
        assert result[rank]["counts"] == counts
        assert {"correlation", "stream", "index_correlation"} <= set(result[rank]["columns"])
        if part != "clipped":
            # HTA uses whole microseconds, so each start and each end is off by up to one.
            off = {name: abs(result[rank]["sums"][name] - sums[name]) for name in sums}
            assert all(off[name] <= 2 * counts[name] for name in sums)


def test_hta_reads_a_rank_that_it_would_not_find_by_itself(hta, tmp_path):
    # Two files that state their ranks in their names only.
    folder = tmp_path / "nameless"
    folder.mkdir()
    events = [small.call(10_000, 12_000, 4), small.kernel(20_000, 25_000, launch=4)]
    for rank in (1, 2):
        document = {"schemaVersion": 1, "traceEvents": events}
        (folder / f"rank-{rank}.json").write_text(json.dumps(document))
    report = export_trace(hw.load(folder, progress=False), tmp_path / "out")
    assert sorted(hta(report.path)["ranks"]) == ["1", "2"]


def test_hta_analyses_a_demo_job(hta, tmp_path):
    write_demo(tmp_path / "job", ranks=2, steps=3)
    traces = hw.load(tmp_path / "job", progress=False)
    export_trace(traces, tmp_path / "out")
    present, here = hta(tmp_path / "job", "breakdown"), hta(tmp_path / "out", "breakdown")
    assert here["breakdown"] == present["breakdown"]
    assert min(here["breakdown"].values()) > 0
    assert here["ranks"] == present["ranks"]
