"""Dashboard panels in saved pages, compared with Python's for the same selections."""

import json
import random
from functools import partial

import numpy as np
import pytest
from support import page_engine, recorded, small
from support.brushes import BINS, EVERYTHING, IDS, brushes
from support.examples import ALL
from support.page_engine import NO_STATE
from support.random_job import write_job

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.analysis.clusters import HEATMAP_METRICS
from hta_widgets.demo.job import write_demo
from hta_widgets.live.job import PanelEngine, TileEngine

#: Floats are equal up to rounding, because sums have different orders.
agree = partial(page_engine.agree, rel=1e-9)


class Pair:
    """Sends requests about one job to both engines and compares the replies."""

    def __init__(self, traces, page):
        self.traces, self.page = traces, page
        self.kernel = PanelEngine(traces)
        self.low, self.high = int(traces.start_ns), max(int(traces.end_ns), 1)

    def same(self, selection, top=None, panels=IDS):
        request = {"panels": panels, "selection": selection, "top": top}
        ours, _ = self.kernel.answer({"op": "panels", **request})
        theirs = self.page.ask("panels", **request)
        assert theirs["ok"], (selection, theirs.get("error"), theirs.get("stack"))
        ours = json.loads(json.dumps(ours))
        for panel in panels:
            agree(ours["panels"][panel], theirs["reply"]["panels"][panel], (panel, selection))
        return ours["panels"]

    def same_heatmap(self, metric, selection, start, end):
        request = {
            "metric": metric,
            "selection": selection,
            "start": start,
            "end": end,
            "bins": BINS,
        }
        reply, buffer = self.kernel.answer({"op": "heatmap", **request})
        theirs = self.page.ask("heatmap", **request)
        assert theirs["ok"], (request, theirs.get("error"))
        agree(json.loads(json.dumps(reply)), theirs["reply"], request)
        ours = np.frombuffer(buffer, "<f8")
        np.testing.assert_array_equal(np.frombuffer(theirs["buffer"], "<f8"), ours, str(request))
        return ours


def compared(pair, seed, count):
    rng = random.Random(seed)
    rows = dict.fromkeys(IDS, 0)
    for number, selection in enumerate(brushes(rng, pair.traces, count=count)):
        frames = pair.same(selection, top=rng.choice((None, 3)))
        for panel, frame in frames.items():
            rows[panel] += frame["rows"]
        start = rng.randrange(pair.low, pair.high)
        metric = HEATMAP_METRICS[number % len(HEATMAP_METRICS)]
        pair.same_heatmap(metric, selection, start, start + rng.randrange(1, pair.high))
    return rows


def load(path):
    return hw.load(path, progress=False, cache=False)


@pytest.fixture
def paired(saved):
    return lambda traces, **options: Pair(traces, saved(TileEngine(traces), **options))


@pytest.mark.parametrize("seed", range(1, 9 if ALL else 3))
def test_random_jobs(tmp_path, paired, seed):
    traces = load(write_job(tmp_path, seed, ranks=1 + seed % 4, events=150))
    count = 14 if ALL else 6
    assert compared(paired(traces), seed, count)["summary"] > count


SHARED = ("made/ddp_8rank", "hta_tests/amd_trace", "hta_tests/cpu_only",
          "hta_tests/mtia_inference_trace", "hta_tests/rank_non_gpu",
          "tracelens/inference_sglang_decode", "tracelens/mi300_resnet_act_checkpoint")  # fmt: skip


@pytest.mark.parametrize("path", recorded.paths(*SHARED))
def test_real_traces(paired, path):
    compared(paired(recorded.load(path), max_mb=100), path.name, 6 if ALL else 1)


def test_collectives_on_the_host_are_no_device_work(tmp_path, paired):
    events = [
        small.event("user_annotation", "gloo:all_reduce", 10_000, 60_000, pid=1),
        small.event("cpu_op", "c10d::allreduce_", 5_000, 70_000, pid=1),
        small.event("cpu_op", "aten::mm", 80_000, 100_000, pid=1),
    ]
    pair = paired(small.load(tmp_path, events))
    compared(pair, "host", 4)
    assert not pair.same(EVERYTHING, panels=["breakdown"])["breakdown"]["columns"]["rank"]


def test_collectives_of_hosts_that_are_matched(tmp_path, paired):
    ranks = [
        [
            small.event("user_annotation", "gloo:all_reduce", start + late, start + 60_000, pid=1),
            small.event("cpu_op", "aten::mm", start + 70_000, start + 90_000, pid=1),
            small.event("user_annotation", f"ProfilerStep#{k}", start, start + 95_000, pid=1),
        ]
        for late in (5_000, 25_000)
        for k, start in [(0, 0)]
    ]
    pair = paired(small.load(tmp_path, *ranks))
    compared(pair, "gloo", 6)
    assert pair.same(EVERYTHING, panels=["summary"])["summary"]["columns"]["collectives"] == [1]


def test_device_time_without_an_operator(tmp_path, paired):
    events = [
        small.event("cpu_op", "aten::mm", 0, 2_000, pid=10), small.call(500, 900, 1),
        small.kernel(1_000, 2_000, launch=1), small.kernel(3_000, 6_000),
    ]  # fmt: skip
    pair = paired(small.load(tmp_path, events, events))
    text = pair.same(EVERYTHING, panels=["operators"])["operators"]["attrs"]["note"]
    assert text.startswith("no operator launched 75 % of the device time; ")
    compared(pair, "outside", 6)


def test_a_host_that_waits_for_work_outside_of_the_files(tmp_path, paired):
    events = [small.call(0, 100, 1), small.kernel(500, 1_000, launch=1)]
    for k, name in enumerate(("cudaStreamSynchronize", "cudaMemcpy", "cudaMemcpyAsync"), start=1):
        low, high = 10_000_000 * k, 10_000_000 * (k + 1)
        is_copy = k > 1  # launches the work; the other thread is idle meanwhile
        events += [
            small.call(low, high - 900, 2 * k if is_copy else None, name=name),
            small.kernel(high - 1_000, high, launch=2 * k),
            *([] if is_copy else [small.call(high - 1_200, high - 1_100, 2 * k, tid=2)]),
            small.call(high - 600, high - 500, 2 * k + 1), small.kernel(high, high + 900_000),
        ]  # fmt: skip
    pair = paired(small.load(tmp_path, events))
    columns = pair.same(EVERYTHING, panels=["breakdown"])["breakdown"]["columns"]
    assert columns["unrecorded_ns"][0] > 25_000_000
    compared(pair, "unrecorded", 8)


def test_operators_with_their_launches(tmp_path, paired):
    write_demo(tmp_path / "job", ranks=2, steps=2)
    traces = load(tmp_path / "job")
    pair = paired(traces)
    for name in ("aten::linear", "aten::mm", "no such operator"):
        query = f"name in [{name!r}]"
        chosen = {**EVERYTHING, "query": query, "launches": True}
        kernels = pair.same(chosen)["kernels"]["columns"]
        by_name = analysis.operators(traces).groupby("name")["device_total_ns"].sum()
        assert sum(kernels["sum_ns"]) == by_name.get(name, 0)
        pair.same({**chosen, "start_ns": 5_000_000, "end_ns": 20_000_000})


def test_communication_without_time(tmp_path, paired):
    brief = [small.kernel(0, 9_000), small.nccl(2_000, 2_000)]
    pair = paired(small.load(tmp_path, brief, [small.kernel(0, 9_000)], [small.nccl(0, 4_000)]))
    text = pair.same(EVERYTHING, panels=["overlap"])["overlap"]["attrs"]["note"]
    assert text.endswith("on rank 1; communication kernels last 0 ns on rank 0")
    compared(pair, "brief", 6)


def test_a_demo_job_with_phases(tmp_path, paired):
    write_demo(tmp_path / "job", ranks=4, steps=3)
    pair = paired(load(tmp_path / "job"))
    assert all(compared(pair, "demo", 6).values())
    phases = pair.same(EVERYTHING, panels=["steps"])["steps"]["columns"]["phase"]
    assert {"step", "forward", "backward"} <= set(phases)


def test_a_reopened_window(tmp_path, paired):
    """Figures cover only the window, even if events cross its edges or none is inside."""
    write_demo(tmp_path / "job", ranks=3, steps=2)
    full = load(tmp_path / "job")
    for start, end in ((12_000_000, 25_000_000), (0, 9_000_000), (36_000_000, 37_000_000)):
        window = full.select(start_ns=start, end_ns=end, ranks=[0, 2])
        hw.export_trace(full, tmp_path / "part.json.gz", window)
        traces = load(tmp_path / "part.json.gz")
        pair = paired(traces)
        request = dict(zip(("start", "end"), traces.span_ns, strict=True))
        stats, _ = TileEngine(traces).answer({"op": "stats", **request})
        theirs = pair.page.ask("stats", **request)["reply"]
        assert (theirs["span"], theirs["idle"]) == (stats["span"], stats["idle"])
        text = str(pair.same(EVERYTHING)["breakdown"]["attrs"].get("note"))
        assert ("were launched before" in text) == (start > 0), text
        pair.same({**EVERYTHING, "start_ns": pair.low, "end_ns": traces.span_ns[0] + 5_000_000})
        pair.same({**EVERYTHING, "query": "kind in ['compute']"})
        pair.same({**EVERYTHING, "query": "prelaunched == False"})
        pair.same_heatmap("idle", EVERYTHING, *traces.span_ns)


def test_ranks_without_events_are_missing_and_named(tmp_path, saved):
    traces = load(write_job(tmp_path, 1, ranks=3, events=3000))
    complete = saved(TileEngine(traces))
    state = {**NO_STATE, "selected_event": [1, 0]}
    page = saved(TileEngine(traces), state, max_mb=complete.room(0.75))
    scene = page.ask("document")["reply"]["scene"]
    full = scene["embedded"]["ranks_full"]
    missing = [rank for rank in traces.ranks if rank not in full]
    assert 1 in full
    assert missing
    theirs = page.ask("panels", panels=IDS, selection=EVERYTHING)["reply"]["panels"]
    only = {**EVERYTHING, "ranks": full}
    some = traces.subset(ranks=full)
    for panel in IDS:
        assert theirs[panel]["attrs"].pop("left_out") == missing, panel
        if panel in ("kernels", "operators", "kernel_types"):
            exact = PanelEngine(traces).answer(
                {"op": "panels", "panels": [panel], "selection": only}
            )
            agree(json.loads(json.dumps(exact[0]["panels"][panel])), theirs[panel], (panel,))
    assert theirs["overlap"]["columns"]["rank"] == full
    window = {"start": int(some.start_ns), "end": int(traces.end_ns)}
    reply = page.ask("heatmap", metric="busy", bins=BINS, selection=None, **window)
    assert (reply["reply"]["ranks"], reply["reply"]["attrs"]["left_out"]) == (full, missing)
