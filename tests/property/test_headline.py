"""Shares in a headline must be possible and equal to those on the timeline."""

import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import random_job, recorded, small
from support.examples import ALL, examples

import hta_widgets as hw
from hta_widgets.analysis import collectives
from hta_widgets.demo.job import write_demo
from hta_widgets.live.job import PanelEngine, TileEngine
from hta_widgets.panels.headline import headline
from hta_widgets.panels.run_times import run_times
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import duration, share
from hta_widgets.trace.intervals import subtract, total_length, union

#: Folders without a trace.
EMPTY = {"memory_analysis", "real_pslite_server_tiny"}
SHARE = re.compile(r"([\d.]+)\u202f%")
SPAN = 100_000

TIMES = st.tuples(st.integers(0, SPAN), st.integers(1, SPAN // 3))
KERNELS = st.builds(
    lambda time, name, stream: small.kernel(time[0], sum(time), name=name, stream=stream),
    TIMES, st.sampled_from(["gemm", "softmax", "ncclDevKernel_AllReduce"]), st.integers(7, 10),
)  # fmt: skip
HOST = st.builds(
    lambda time, name: small.event("cpu_op", name, time[0], sum(time), pid=1),
    TIMES, st.sampled_from(["enumerate(DataLoader)", "aten::mm"]),
)  # fmt: skip
PROFILER = st.just(small.event("Trace", "PyTorch Profiler (0)", 0, 3 * SPAN, pid=2))
RANK = st.lists(KERNELS | HOST | PROFILER, min_size=1, max_size=12)
STEPS = st.lists(st.integers(1, SPAN), min_size=0, max_size=5)


def steps(lasting):
    """Yield consecutive steps of these lengths."""
    at = 0
    for number, dur in enumerate(lasting):
        yield small.event("user_annotation", f"ProfilerStep#{number}", at, at + dur, pid=1)
        at += dur


def check(found):
    text = str(found)
    assert all(float(number) <= 100 for number in SHARE.findall(text)), text
    # The rank in red on the page is named, however long the run around its steps is.
    least = {"operator": 0, "waiting": 0}
    assert all(least.get(finding.kind, 0.02) <= finding.share <= 1 for finding in found.findings), (
        text
    )
    for finding in found.to_json()["findings"]:
        shares = [float(number) for number in SHARE.findall(finding["text"])]
        assert all(0 < number <= 100 for number in shares), finding["text"]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(RANK, min_size=1, max_size=3), STEPS)
def test_no_share_is_more_than_the_whole_and_no_finding_nothing(ranks, lasting):
    with tempfile.TemporaryDirectory() as folder:
        traces = small.load(Path(folder), *[[*events, *steps(lasting)] for events in ranks])
        check(headline(traces))


@pytest.mark.parametrize("seed", range(3))
def test_shares_of_random_jobs(tmp_path, seed):
    folder = random_job.write_job(tmp_path, seed, ranks=3)
    check(headline(hw.load(folder, cache=False, progress=False)))


RECORDED = [
    f"{folder}/{path.name}"
    for folder in ("hta_tests", "byteps", "mpitrace")
    for path in sorted((recorded.SHARED / folder).glob("*"))
    if path.is_dir() and path.name not in EMPTY
][:: 1 if ALL else 4]


@pytest.mark.parametrize("path", recorded.paths(*RECORDED))
def test_shares_of_recorded_jobs(path):
    check(headline(recorded.load(path)))


@pytest.mark.parametrize("seed", [1, 5])
def test_the_timeline_and_the_headline_agree_on_waiting(tmp_path, seed):
    write_demo(tmp_path / "job", ranks=5, steps=3, seed=seed, straggler=3, factor=1.5)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    engine = TileEngine(traces)
    start, end = engine.scene()["range"]
    reply, _ = engine.answer({"op": "lateness", "start": start, "end": end})
    assert reply["late"] == [3]
    limit = 0.02 * (end - start)
    waiting = zip(reply["wait_for_late"], reply["exposed_wait"], strict=True)
    assert sum(min(waits) >= limit for waits in waiting) == 4
    stats, _ = engine.answer({"op": "stats", "start": start, "end": end})
    traces, exposed = traces.with_clock("fitted"), 0
    for rank, of_rank in collectives(traces).groupby("rank"):
        table, arrival = traces[rank].table, of_rank["arrival_ns"].to_numpy()
        rows = (table.kind == KINDS.index("compute")) & (table.stream >= 0)
        begin = table.start_ns[rows] + traces[rank].shift_ns
        compute = union(begin, begin + table.dur_ns[rows])
        exposed += total_length(subtract(union(arrival, arrival + of_rank["wait_ns"]), compute))
    assert sum(reply["exposed_wait"]) == exposed
    assert headline(traces).text.startswith(
        f"4 of 5 ranks wait for rank 3: exposed waiting takes {share(exposed / sum(stats['span']))}"
        f" of each rank's GPU span, {duration(exposed / 5)} a rank"
    )


@pytest.mark.parametrize("seed", range(3))
def test_all_places_of_a_page_have_the_same_idle_and_waiting_time(tmp_path, seed):
    write_demo(tmp_path / "job", ranks=3, steps=2, seed=seed)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    tiles, panels = TileEngine(traces), PanelEngine(traces)
    window = {"start": int(traces.start_ns), "end": int(traces.end_ns)}
    stats, _ = tiles.answer({"op": "stats", **window})
    late, _ = tiles.answer({"op": "lateness", **window})
    bars = panels.frame("breakdown")
    times = run_times(traces)
    span, idle = sum(stats["span"]), sum(stats["idle"])
    assert (span, idle) == (
        bars["span_ns"].sum(),
        (bars["idle_ns"] - bars["unrecorded_ns"]).sum(),
    )
    assert (span, idle) == (times.all_ns, times.idle_ns)
    assert idle == sum(times.idle_by_cause.values())
    assert sum(stats["exposed"]) == times.exposed_ns
    assert sum(late["exposed_wait"]) == bars["exposed_wait_ns"].fillna(0).sum()
    for metric, full in (("idle", idle), ("waiting", sum(late["wait"]))):
        request = {"op": "heatmap", "metric": metric, "bins": 7, "selection": None, **window}
        reply, values = panels.answer(request)
        assert sum(reply["attrs"]["span_ns"]) == span
        assert np.frombuffer(values, "<f8").sum() == full
