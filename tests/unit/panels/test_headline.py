"""A job's headline; it names no rank if none stands out."""

import json
import shutil

import pytest
from support import small
from support.collective_job import US, collective

import hta_widgets as hw
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.live.job import PanelEngine
from hta_widgets.panels.headline import headline, text_of
from hta_widgets.panels.run_times import run_times

pytestmark = pytest.mark.slow

THIN = "\u202f"


def said(traces) -> str:
    return str(headline(traces)).replace(THIN, " ")


def ranks_named(found) -> set[int]:
    pieces = [part for parts in (found.text_parts, *found.sentences) for part in parts]
    return {part["rank"] for part in pieces if isinstance(part, dict)}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_healthy_job_names_no_rank(tmp_path, seed):
    write_demo(tmp_path / "job", ranks=4, steps=3, seed=seed, straggler=None)
    result = headline(hw.load(tmp_path / "job", cache=False, progress=False))
    assert result.text
    assert ranks_named(result) == set()
    assert len(result.sentences) <= 2


def test_the_slow_rank_of_a_demo_job(tmp_path):
    write_demo(tmp_path / "job", ranks=4, steps=3, seed=4, straggler=2, factor=1.4)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    result = headline(traces)
    assert result.text_parts[0] == "3 of 4 ranks wait for "
    assert ranks_named(result) == {2}
    assert result.to_json()["late_ranks"] == [2]
    assert PanelEngine(traces).frame("steps").attrs["late_ranks"] == [2], "for charts in Python"


@pytest.fixture(scope="module")
def slow_job(tmp_path_factory):
    """A job of 4 ranks; rank 3 is slow."""
    folder = tmp_path_factory.mktemp("slow") / "job"
    write_demo(folder, ranks=4, steps=4, seed=4, straggler=3, factor=1.4, events_per_step=900)
    return folder


def test_without_the_file_of_the_slow_rank_nobody_is_named_as_cause(tmp_path, slow_job):
    """A neighbor of the slow rank then comes last, which is only a fact."""
    assert ranks_named(headline(hw.load(slow_job, cache=False, progress=False))) == {3}
    part = hw.load(slow_job, ranks=[0, 1, 2], cache=False, progress=False)
    hw.export_trace(part, tmp_path / "part.json.gz")
    for traces in (part, hw.load(tmp_path / "part.json.gz", cache=False, progress=False)):
        result = headline(traces)
        assert [finding for finding in result.findings if finding.kind == "waiting"] == []
        named = [part for parts in result.sentences for part in parts if isinstance(part, dict)]
        assert named == [{"rank": 2, "text": "Rank 2", "fact": True}]
        assert "Rank 2 arrives last of the 3 ranks loaded (of 4) at " in said(traces)
        assert "for rank" not in said(traces)


@pytest.mark.parametrize(
    ("spans_us", "idle_us", "text"),
    [
        # 60 of 1 100 µs; the mean of the shares is 32 %.
        ((1_000, 100), (0, 60), "5.5 % of all GPU spans together, up to 60 % of a rank's"),
        ((2_000, 200, 200), (100, 100, 20), "9.2 % of all GPU spans together, 5.0 % to 50 % of"),
        ((1_000, 1_000), (0, 600), "30 % of each rank's GPU span on average"),
    ],
)
def test_spans_of_very_different_lengths(tmp_path, spans_us, idle_us, text):
    """Each rank has two kernels with idle time between them."""
    ranks = []
    for span, idle in zip(spans_us, idle_us, strict=True):
        half = (span - idle) // 2
        records = []
        for start in (0, half + idle):
            launch = start + 1
            launched = max((start - 5) * US, 0)
            records += [
                small.call(launched, launched + 100, launch=launch),
                small.kernel(start * US + 200, (start + half) * US + 200, launch=launch),
            ]
        ranks.append(records)
    assert f"GPUs are idle {text}" in said(small.load(tmp_path, *ranks))


def test_the_headline_states_the_waits_that_no_compute_hides(tmp_path):
    """In steps of 10 ms, rank 2 computes 2 000 µs longer; the others compute for 500 µs of this."""
    ranks = []
    for rank in range(4):
        events = []
        for at in range(0, 80_000, 10_000):
            ready = at + 6_000 + 2_000 * (rank == 2)
            events += [
                small.kernel(at * US, (at + 6_000) * US),
                small.kernel((at + 6_000) * US, (ready if rank == 2 else at + 6_500) * US),
                collective(ready * US, (at + 9_000) * US, ranks=(0, 1, 2, 3), seq=at // 10_000),
            ]
        ranks.append(events)
    # Three ranks wait for 8 · 1.5 ms; each of the four spans lasts from 0 to 79 ms.
    assert said(small.load(tmp_path, *ranks)).startswith(
        "3 of 4 ranks wait for rank 2: exposed waiting takes 11 % of each rank's GPU span, 9.00 ms"
        " a rank. "
    )


@pytest.mark.parametrize("alone", [0, 2])
def test_the_headline_counts_waits_beside_a_rank_without_communication(tmp_path, alone):
    """One of four ranks does not communicate; the last of the others is 2 ms late in each step."""
    members = tuple(rank for rank in range(4) if rank != alone)
    ranks = [[] for _ in range(4)]
    for step in range(8):
        start = 10_000 * step
        for rank, events in enumerate(ranks):
            ready = start + 6_000 + 2_000 * (rank == 3)
            events.append(small.kernel(start * US, ready * US))
            if rank != alone:
                events.append(collective(ready * US, (start + 9_000) * US, ranks=members, seq=step))
    assert said(small.load(tmp_path, *ranks)).startswith("2 of 4 ranks wait for rank 3: ")


def test_the_headline_states_which_part_of_the_waiting_is_for_the_late_rank(tmp_path):
    """In steps of 10 ms, all wait 2 ms for rank 2, then 1 ms for one other rank in turn."""
    ranks = [[] for _ in range(4)]
    for step in range(8):
        start, other = 10_000 * step, (0, 1, 3)[step % 3]
        for rank, events in enumerate(ranks):
            first = start + 6_000 + 2_000 * (rank == 2)
            second = start + 8_500 + 1_000 * (rank == other)
            events += [
                small.kernel(start * US, first * US, name=f"gemm_{step}"),
                collective(first * US, (start + 8_200) * US, ranks=(0, 1, 2, 3), seq=2 * step),
                small.kernel((start + 8_200) * US, second * US, name=f"add_{step}"),
                collective(second * US, (start + 9_800) * US, ranks=(0, 1, 2, 3), seq=2 * step + 1),
            ]
    # 3 ranks wait 2 ms for rank 2, then 3 ranks 1 ms for another rank; spans are 79.8 ms.
    assert said(small.load(tmp_path, *ranks)).startswith(
        "3 of 4 ranks wait for rank 2: exposed waiting takes 23 % of each rank's GPU span, 18.0 ms"
        " a rank; 67 % of that is for rank 2. "
    )


@pytest.mark.parametrize(("late_us", "named"), [(300, True), (80, False)])
def test_a_rank_that_is_always_last_is_a_fact_from_one_per_cent_on(tmp_path, late_us, named):
    """In steps of 10 ms, rank 2 computes longer than the others, which keep computing."""
    ranks = []
    for rank in range(4):
        late = late_us if rank == 2 else 0
        events = []
        for at in range(1_000, 80_000, 10_000):
            ready, seq = at + 8_000 + late, at // 10_000
            events += [
                small.kernel(at * US, ready * US, name="gemm"),
                small.kernel(ready * US, (at + 8_700) * US, name="gemm", stream=8),
                collective(ready * US, (at + 9_000) * US, ranks=(0, 1, 2, 3), seq=seq),
            ]
        ranks.append(events)
    traces = small.load(tmp_path, *ranks)
    result = headline(traces)
    assert not hw.analysis.stragglers(traces).is_straggler.any()
    assert [finding for finding in result.findings if finding.kind == "waiting"] == []
    # Between arrivals, all ranks compute 8 700 µs in equally many kernels: no cause is stated.
    text = "Rank 2 arrives last at 8 of 8 collectives; compute hides all waits."
    assert (text in said(traces)) == named
    assert ranks_named(result) == ({2} if named else set())
    attrs = PanelEngine(traces).frame("kernel_durations").attrs
    assert (attrs["late_ranks"], attrs["fact_ranks"]) == ([], [2] if named else [])


def test_communication_without_partners_is_not_data_transfer(tmp_path):
    """Steps of 10 ms: rank 1 is 2 ms late, both transfer 1 ms, rank 0 communicates 0.5 ms alone."""
    ranks = [[], []]
    for step in range(8):
        start = 10_000 * step
        for rank, ready in enumerate((start + 6_000, start + 8_000)):
            ranks[rank] += [
                small.kernel(start * US, ready * US, name=f"gemm_{step}"),
                collective(ready * US, (start + 9_000) * US, ranks=(0, 1), seq=step),
            ]
        alone = collective((start + 9_000) * US, (start + 9_500) * US, ranks=(0, 1), seq=100 + step)
        ranks[0].append(alone)
    # The spans are 79.5 and 79 ms; the transfers take 16 ms.
    assert (
        "Exposed transfer takes 10 % of each rank's GPU span, communication without partners 2.5 %."
    ) in said(small.load(tmp_path, *ranks))


def names(count: int, length: int, *, start: int = 1000):
    """Return consecutive kernels with different names."""
    return [
        small.kernel(start + k * length, start + (k + 1) * length, name=f"kernel_{k}")
        for k in range(count)
    ]


def test_nothing_stands_out(tmp_path):
    # The time before the first kernel, 1 % of the run, does not count as idle time.
    traces = small.load(tmp_path, names(9, 11_000))
    assert said(traces) == "No single cause stands out: compute 100 %."
    assert headline(traces).findings == []


def test_the_variants_of_a_kernel_are_one_finding(tmp_path):
    """Two products with the short name `gemm bf16` and one with a tile: 150, 300 and 200 ns."""
    spans = {
        "sm90_xmma_gemm_bf16_bwd": (0, 150),
        "sm90_xmma_gemm_bf16": (150, 450),
        "ampere_sgemm_64x32_tn": (450, 650),
        "softmax": (650, 1000),
    }
    work = [small.kernel(*span, name=name) for name, span in spans.items()]
    result = headline(small.load(tmp_path, work))
    assert result.text.replace(THIN, " ") == (
        "gemm takes 65 % of GPU work, in 3 calls; 30 % in its largest variant, gemm bf16"
        " (sm90_xmma_gemm_bf16)."
    )
    selection = result.findings[0].selection
    assert (result.findings[0].label, len(selection.query.split(","))) == (
        "Select these kernels",
        3,
    )


@pytest.mark.parametrize(("end", "is_capture"), [(80_000, True), (40_000, False)])
def test_a_host_that_captures_graphs_is_not_slow(tmp_path, end, is_capture):
    work = [
        small.event("cpu_op", "model", 0, 99_000, pid=10),
        small.call(0, 100, 1), small.kernel(1_000, 2_000, launch=1),
        small.call(5_000, 5_100, name="cudaStreamBeginCapture"),
        small.call(end - 100, end, name="cudaStreamEndCapture"),
        small.call(99_000, 99_100, 2), small.kernel(100_000, 101_000, launch=2),
    ]  # fmt: skip
    text = (
        "for 77 % of that, the host captures graphs, whose kernels run only when the graphs are"
        " replayed."
    )
    assert (text in said(small.load(tmp_path, work))) == is_capture


def test_a_variant_with_nearly_all_of_a_kernels_time_is_named_alone(tmp_path):
    work = [
        small.kernel(0, 930, name="ampere_sgemm_64x32_tn"),
        small.kernel(930, 1000, name="ampere_sgemm_32x32_tn"),
    ]
    assert (
        said(small.load(tmp_path, work)) == "gemm f32 64x32 tn takes 93 % of GPU work, in 1 call."
    )


def test_one_kernel(tmp_path):
    traces = small.load(tmp_path, [*names(5, 10_000), small.kernel(51_000, 101_000, name="gemm")])
    result = headline(traces)
    assert result.text.replace(THIN, " ") == "gemm takes 50 % of GPU work, in 1 call."
    assert result.findings[0].selection.query == "name in ['gemm']"


def test_an_idle_device_and_what_for(tmp_path):
    events = []
    for k in range(10):
        at = 1000 + k * 10_000
        events += [
            small.call(at, at + 100, k + 1),
            small.kernel(at + 200, at + 6_000, launch=k + 1),
        ]
        events[-1]["name"] = f"kernel_{k}"
    result = headline(small.load(tmp_path, events))
    # The span is 9 · 10 000 + 5 800 ns, with 58 000 of 95 800 busy. In each of 9 gaps of 4 200 ns,
    # 4 000 come before the call: 36 000 of 37 800.
    assert result.text.replace(THIN, " ").startswith(
        "The GPU is idle 39 % of its span; for 95 % of"
    )
    assert "the host has not launched the next work yet" in result.text
    shown = result.findings[0].selection
    assert shown.end_ns - shown.start_ns == 4_200
    assert shown.ranks == (0,)


def test_ranks_that_lack_steps_are_named(tmp_path):
    """Five steps; ranks 1 and 2 stop after the third, rank 4 lacks the first."""

    def rank(*steps):
        return [
            item
            for n in steps
            for item in (
                small.event("user_annotation", f"ProfilerStep#{n}", n * 1000, n * 1000 + 900),
                small.kernel(n * 1000, n * 1000 + 900),
            )
        ]

    all_of_them = rank(2, 3, 4, 5, 6)
    ranks = [all_of_them, *[rank(2, 3, 4)] * 2, all_of_them, rank(3, 4, 5, 6)]
    text = "Ranks 1, 2 have 3 of 5 steps (2–4); rank 4 has 4 of 5 steps (3–6)."
    assert said(small.load(tmp_path, *ranks)).endswith(text)
    assert "5 steps" not in said(small.load(tmp_path, all_of_them, all_of_them))
    single = small.load(tmp_path, all_of_them, rank())
    assert "5 steps" not in said(single), "a rank without device work"


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("<built-in function sleep>", "the host sleeps in Python or waits for another thread"),
        ("<built-in method acquire of _thread.lock object at 0x7f>", "waits for another thread"),
        ("train.py(12): asleep", "the host is inside Python functions and has not launched"),
    ],
)
def test_a_host_that_pauses_in_python_does_not_run_it(tmp_path, name, cause):
    rank = [small.event("python_function", "train.py(3): main", 0, 100_000, pid=10)]
    for at in range(1000, 91_000, 10_000):
        rank += [
            small.call(at, at + 100, at),
            small.kernel(at + 200, at + 1000, launch=at),
            small.event("python_function", name, at + 2000, at + 9900, pid=10),
        ]
    assert cause in said(small.load(tmp_path, rank))


def test_ranks_without_device_work_are_named_and_do_not_wait(tmp_path, slow_job):
    """Rank 3 of 4 is slow; one or two additional files of coordinators have host events only."""
    shutil.copytree(slow_job, tmp_path / "job")
    host = [small.event("python_function", "serve.py(3): step", 0, 5_000, pid=10)]
    start = "3 of 4 ranks wait for rank 3"
    missing = "no GPU work in the files, and are not included in these figures."
    for names, text in (
        ((), ""),
        (("a.async_llm",), f"Rank 4 has {missing.replace('are', 'is')}"),
        (("a.async_llm", "b.async_llm"), f"Ranks 4, 5 have {missing}"),
    ):
        for name in names:
            path = tmp_path / "job" / f"{name}.pt.trace.json"
            path.write_text(json.dumps({"traceEvents": host}))
        result = said(hw.load(tmp_path / "job", cache=False, progress=False))
        assert result.startswith(start)
        assert text in result
        assert ("no GPU work" in result) == bool(text)


@pytest.mark.parametrize("name", ["hipGraphLaunch", "cudaGraphLaunch", "cuGraphLaunch"])
def test_graphs_without_kernels_in_the_file_keep_the_device_busy(tmp_path, name):
    """Launches of 9 ms every 10 ms; ten in the middle have no kernels in the file."""
    ms = 1_000_000
    rank = []
    for number in range(30):
        at = number * 10 * ms
        rank.append(small.call(at, at + 9 * ms, number + 1, name=name))
        if not 10 <= number < 20:
            rank.append(small.kernel(at + ms, at + 10 * ms, launch=number + 1))
    text = said(small.load(tmp_path, rank))
    assert "probably busy with work that is not in the files for 30 % of its span" in text
    assert "inside operators" not in text


@pytest.mark.parametrize(
    ("category", "outer", "inner"),
    [
        ("python_function", "torch/serialization.py(450): save", "<built-in method write of File>"),
        ("python_function", "train.py(9): clean", "<built-in function collect>"),
        ("cpu_op", "torch::save", "write_record"),
        ("user_annotation", "checkpoint", "async_save"),
    ],
)
@pytest.mark.parametrize("pieces", [1, 60])
def test_the_innermost_event_in_which_a_host_stalls_is_named(
    tmp_path, category, outer, inner, pieces
):
    """Kernels of 900 µs in sequence, except for 36 ms, with or without small kernels."""
    us = 1000
    rank = [small.event("python_function", "train.py(3): main", 0, 100_000 * us, pid=10)]
    ids = iter(range(1, 1000))

    def launched(at, length):
        number = next(ids)
        return [
            small.event("cpu_op", "aten::mm", at * us, (at + 20) * us, pid=10),
            small.call((at + 2) * us, (at + 12) * us, number),
            small.kernel((at + 15) * us, (at + 15 + length) * us, launch=number),
        ]

    for at in (*range(1_000, 21_000, 1_000), *range(57_000, 77_000, 1_000)):
        rank += launched(at, 900)
    rank.append(small.event(category, outer, 21_000 * us, 57_000 * us, pid=10))
    piece = 36_000 // pieces
    for number, at in enumerate(range(21_000, 57_000, piece)):
        name = inner.replace(">", f" object at 0x{number:x}>") if "method" in inner else inner
        rank.append(small.event(category, name, (at + 30) * us, (at + piece - 30) * us, pid=10))
        if pieces > 1:
            rank += launched(at, 5)
    text = said(small.load(tmp_path, rank))
    assert "launch-bound" not in text
    assert "host-bound" not in text
    assert "has not launched the next work yet; " in text
    assert f" % of the idle time is within {inner}." in text


def test_a_stall_does_not_change_the_share_of_the_cause(tmp_path):
    """The device idles from 20 to 100 µs: 50 µs before a launch, then 30 µs of launch latency."""
    rank = [
        small.call(0, 5_000, 1), small.kernel(10_000, 20_000, launch=1),
        small.event("user_annotation", "save", 22_000, 99_000, pid=10),
        small.event("cpu_op", "aten::copy_", 22_000, 69_000, pid=10),
        small.call(70_000, 70_500, 2), small.kernel(100_000, 300_000, launch=2),
    ]  # fmt: skip
    text = said(small.load(tmp_path, rank))
    assert "for 59 % of that, the host is inside operators" in text  # 47 of 80 µs
    assert "yet; 96 % of the idle time is within save." in text  # 77 of 80 µs


def test_a_range_of_the_host_around_the_longest_gap_is_named(tmp_path):
    """The gap (10 to 90 µs) is most of the range `save`, inside a step and a longer range."""

    def text(*ranges):
        calls = [small.call(1_000, 1_100, 1), small.call(89_000, 89_500, 2)]
        work = [small.kernel(1_000, 10_000, launch=1), small.kernel(90_000, 100_000, launch=2)]
        events = [small.event("user_annotation", *item, pid=10) for item in ranges]
        return said(small.load(tmp_path, [*calls, *work, *events]))

    step, train = ("ProfilerStep#1", 0, 100_000), ("train", 0, 200_000)
    named = "the host has not launched the next work yet; most of the longest gap is within the"
    assert f"{named} range save." in text(step, train, ("save", 12_000, 80_000))
    unknown = "the host has not launched the next work yet, and the files do not show what it does."
    assert unknown in text(step, train)  # the gap is less than half of 200 µs
    assert unknown in text(step, ("save", 12_000, 52_000))  # 40 of 80 µs is not most of it


def test_the_rank_that_idles_is_named(tmp_path):
    """Spans of 100 µs: rank 1 idles for 80 µs, three other ranks for 2 µs, 21.5 % on average."""
    even = [small.kernel(1_000, 50_000), small.kernel(52_000, 101_000)]
    single = [small.kernel(1_000, 11_000), small.kernel(91_000, 101_000)]
    text = said(small.load(tmp_path, even, single, even, even))
    mean = "GPUs are idle 22 % of each rank's GPU span on average"
    assert f"{mean}, most of it on rank 1 (80 % of its span); for " in text
    # No rank is named for two ranks, or for three that all idle for 80 %.
    text = said(small.load(tmp_path, even, single))
    assert "GPUs are idle 41 % of each rank's GPU span on average; for " in text
    text = said(small.load(tmp_path, single, single, single))
    assert "GPUs are idle 80 % of each rank's GPU span; for " in text


def test_a_device_without_work_at_either_end(tmp_path):
    events = [small.kernel(40_000, 50_000), small.event("cpu_op", "later", 90_000, 100_000, pid=1)]
    result = headline(small.load(tmp_path, events))
    assert "idle" not in [finding.kind for finding in result.findings]
    assert said(small.load(tmp_path, events)) == (
        "No single cause stands out: compute 100 %. The GPU span is 10.0 µs:"
        " 90 % of the run of 100 µs is before the first work or after the last."
    )


def test_clocks_that_differ_do_not_lengthen_the_run(tmp_path):
    # All ranks work together for 90 µs without a gap, but their clocks are off.
    ranks = [
        [
            item
            for start in range(off, off + 90_000, 30_000)
            for item in (
                small.kernel(start, start + 20_000),
                small.nccl(start + 20_000, start + 30_000),
            )
        ]
        for off in (50_000, 100_000, 0, 50_000)
    ]
    traces = small.read(small.write(tmp_path, *ranks))
    assert traces.span_ns == (0, 190_000)
    assert run_times(traces).run_ns == 90_000
    assert "of the run" not in said(traces)
    assert said(traces.with_clock("fitted")) == said(traces)


def test_device_work_that_takes_no_time(tmp_path):
    traces = small.load(tmp_path, *[[small.nccl(10, 10)]] * 2)
    assert said(traces).startswith("There is hardly any GPU work in these files.")


def test_a_device_that_hardly_works(tmp_path):
    events = [small.kernel(40_000, 50_000), small.event("cpu_op", "on", 90_000, 2_000_000, pid=1)]
    assert said(small.load(tmp_path, events)).startswith(
        "There is hardly any GPU work in these files. on takes 96 % of the time on the host, "
        "1.91 ms. The GPU span is 10.0 µs: >99 % of the run"
    )


def test_nearly_all_is_not_all(tmp_path):
    events = [small.kernel(40_000, 40_100), small.kernel(90_000, 90_100)]
    assert said(small.load(tmp_path, events)).startswith("The GPU is idle >99 % of its span; for")


def test_of_two_ranks_none_is_the_median(tmp_path):
    write_demo(tmp_path / "job", ranks=2, steps=3, seed=4, straggler=1, factor=1.5)
    text = said(hw.load(tmp_path / "job", cache=False, progress=False))
    assert "for rank 1" in text
    assert "median rank" not in text


def test_an_idle_device_while_the_host_loads_data(tmp_path):
    # Idle for 80 000 of 90 000 between kernels; the host loads data for 60 000 of this.
    events = [
        small.kernel(5_000, 10_000),
        small.event("cpu_op", "enumerate(DataLoader)", 15_000, 75_000, pid=10),
        small.call(88_000, 89_000, 1),
        small.kernel(90_000, 95_000, launch=1),
        small.event("cpu_op", "later", 99_000, 100_000, pid=1),
    ]
    assert said(small.load(tmp_path, events)).startswith(
        "The GPU is idle 89 % of its span; for 75 % of that, the host loads data."
    )


def test_even_steps_are_no_finding(tmp_path):
    steps = [
        small.event("user_annotation", f"ProfilerStep#{k}", 25_000 * k, 25_000 * (k + 1), pid=1)
        for k in range(4)
    ]
    result = headline(small.load(tmp_path, [*names(9, 11_000), *steps]))
    assert [finding.kind for finding in result.findings] == []


def test_the_run_is_as_long_as_the_timeline_says(tmp_path):
    events = [
        small.event("cpu_op", "aten::mm", 100, 900, pid=1),
        small.event("Trace", "PyTorch Profiler (0)", 50, 5_000, pid=2),
    ]
    traces = small.load(tmp_path, events)
    length = f"{(traces.end_ns - traces.start_ns) / 1000:.2f} µs"
    assert said(traces).startswith(f"No GPU work in these files: 3 events of 1 rank over {length}.")


def test_communication_that_nothing_hides(tmp_path):
    """40 of 100 µs on rank 0 and none on rank 1, so 20 % on average."""
    traces = small.load(
        tmp_path, [*names(6, 10_000), small.nccl(61_000, 101_000)], names(10, 10_000)
    )
    text = said(traces)
    assert text.startswith(
        "Exposed communication takes 20 % of each rank's GPU span on average, 20.0 µs a rank; "
        "all of it in all-reduce."
    )


def test_the_operation_is_that_of_the_range_where_kernels_only_send(tmp_path):
    """NCCL runs all-to-all with the send kernel: 30 of 40 µs of communication."""
    rank = [
        *names(6, 10_000),
        small.event("user_annotation", "nccl:all_to_all", 500, 900, pid=10),
        small.call(600, 700, launch=90),
        small.kernel(61_000, 91_000, name="ncclKernel_SendRecv_RING_SIMPLE(ncclWork)", launch=90),
        small.nccl(91_000, 101_000),
    ]
    text = said(small.load(tmp_path, rank))
    assert text.startswith(
        "Exposed communication takes 40 % of the GPU span, 40.0 µs; 75 % of it in all-to-all."
    )


def test_impossible_times_are_named(tmp_path):
    """A kernel of allegedly 5 s, followed by nine on its stream, is cut at the next start."""
    rank = [small.kernel(k * 10_000, k * 10_000 + 9_000, name=f"gemm_{k}") for k in range(10)]
    rank[4]["dur"] = 5_000_000
    assert "1 time in the files cannot be right and is cut or left out" in said(
        small.load(tmp_path, rank)
    )


def test_work_whose_times_are_all_impossible_is_not_called_missing(tmp_path):
    """All kernels start at 0, 50 years before the calls that launch them."""
    start = small.EPOCH_NS
    calls = [small.call(start + k * 1000, start + k * 1000 + 500, launch=k) for k in range(9)]
    kernels = [small.kernel(0, 1000, launch=k) for k in range(4)]
    folder = small.write(tmp_path, [*calls, *kernels])
    assert str(headline(small.read(folder))).replace("\u202f", " ") == (
        "Apart from times that cannot be right, there is no GPU work in these files: "
        "9 events of 1 rank over 8.50 µs. "
        "4 times in the files cannot be right and are cut or left out; the problems have details."
    )


def test_files_without_calls_that_wait_say_so(tmp_path):
    rank = [row for k in range(5) for row in (
        small.call(k * 100, k * 100 + 50, launch=k),
        small.kernel(k * 900_000 + 1000, k * 900_000 + 101_000, launch=k),
    )]  # fmt: skip
    missing = "does not start for an unknown reason, as they contain no calls that wait."
    assert missing in said(small.load(tmp_path, rank))
    waits = small.call(3_000_000, 3_000_100, name="cudaDeviceSynchronize")
    assert missing not in said(small.load(tmp_path, [*rank, waits]))


def test_what_takes_little_does_not_come_first(tmp_path):
    # 3 % communication, 80 % idle time.
    events = [*names(8, 2_000), small.nccl(17_000, 20_000), small.kernel(99_000, 100_000)]
    result = headline(small.load(tmp_path, events))
    assert [finding.kind for finding in result.findings] == ["idle", "exposed_communication"]


@pytest.mark.parametrize(
    ("communicated_us", "kinds"),
    [(20, ["idle", "exposed_communication"]), (50, ["exposed_communication", "idle"])],
)
def test_the_largest_loss_of_time_comes_first(tmp_path, communicated_us, kinds):
    """The first 20 and the last of 100 µs are compute; communication and idle time are between."""
    communication = small.nccl(21_000, 21_000 + 1_000 * communicated_us)
    events = [*names(10, 2_000), communication, small.kernel(100_000, 101_000)]
    assert [item.kind for item in headline(small.load(tmp_path, events)).findings] == kinds


def healthy_rank():
    """Return a rank with 97 of 100 µs of compute and 10 of communication, 7 of them hidden."""
    return [*names(9, 10_000), small.kernel(91_000, 98_000), small.nccl(91_000, 101_000)]


def test_a_busy_job_that_hides_its_communication_is_healthy(tmp_path):
    for ranks, subject in ((1, "the GPU is busy 100 % of its"), (2, "GPUs are busy 100 % of each")):
        result = headline(small.load(tmp_path, *[healthy_rank()] * ranks))
        assert f"{result.text.replace(THIN, ' ')} ".startswith(
            f"No single cause stands out: {subject} "
        )
        assert result.text.replace(THIN, " ").endswith(
            " span, and compute hides 70 % of communication."
        )
        assert [finding.kind for finding in result.findings] == ["exposed_communication"]


def test_a_healthy_mean_does_not_hide_a_rank_that_idles(tmp_path):
    """One of eight ranks idles for 30 %, so the mean is 3.8 %."""
    idle = [*names(6, 10_000), small.kernel(91_000, 101_000)]
    text = said(small.load(tmp_path, idle, *[names(10, 10_000)] * 7))
    assert text.startswith("GPUs are idle 3.8 % of each rank's GPU span on average, most of it on")


def all_reduces(*, rank=0, late_us=0, elements=1_000_000):
    """Return steps of 60 µs with an all-reduce from 10 to 50 µs; both ranks are late in turn."""
    return [
        event
        for step in range(6)
        for start in [60 * step]
        for ready in [start + 10 + late_us * ((step + rank) % 2)]
        for event in (
            small.kernel(start * US, ready * US, name=f"kernel_{step}"),
            collective(ready * US, (start + 50) * US, elements=elements, seq=step),
        )
    ]


def test_bus_bandwidth_where_communication_leads(tmp_path):
    """With two ranks, each link carries 2 (n - 1) / n = 1 of the 4 MB."""
    text = said(small.load(tmp_path, all_reduces()))  # in 40 µs
    assert "; all-reduce of 4.00 MB at 100 GB/s bus bandwidth, waits included. " in text
    both = [all_reduces(rank=rank, late_us=20) for rank in (0, 1)]
    # The transfer takes 20 µs from the last arrival.
    assert "; all-reduce of 4.00 MB at 200 GB/s bus bandwidth. " in said(
        small.load(tmp_path, *both)
    )
    assert "GB/s" not in said(small.load(tmp_path, all_reduces(elements=0)))


def launches(gap_ns, *, stall_ns=0, work_ns=1_000):
    """Return 30 kernels of 1 µs, each launched by an operator that makes the device wait."""
    events, at = [small.call(-100, 0, 100), small.kernel(0, work_ns, launch=100)], work_ns
    for k in range(29):
        start, at = at, at + gap_ns + stall_ns * (k == 7)
        events += [
            small.event("cpu_op", f"aten::op_{k}", start, at, pid=10),
            small.call(at - 500, at - 100, k + 1),
            small.kernel(at, at + work_ns, launch=k + 1, name=f"kernel_{k}"),
        ]
        at += work_ns
    return events


def test_a_launch_bound_job(tmp_path):
    """Spans of 29 · 10 + 1 µs with 30 µs of work."""
    text = ", launch-bound: 30 launches of 1.00 µs, one every 9.70 µs; for "
    assert f"The GPU is idle 90 % of its span{text}" in said(small.load(tmp_path, launches(9_000)))
    both = said(small.load(tmp_path, launches(9_000), launches(9_000)))
    assert text.replace("launches of", "launches a rank of") in both
    for others in (launches(800), launches(9_000, stall_ns=2_000_000), launches(9_000)[:30]):
        assert "launch-bound" not in said(small.load(tmp_path, others))


@pytest.mark.parametrize(("work_ns", "bound"), [(20_000, "launch-bound"), (20_001, "host-bound")])
def test_a_host_that_is_slow_is_not_called_launch_bound(tmp_path, work_ns, bound):
    """29 gaps of 180 µs between 30 kernels."""
    text = said(small.load(tmp_path, launches(180_000, work_ns=work_ns)))
    assert f"span, {bound}: 30 launches of 20.0 µs, one every 194 µs; for >99 % of the" in text


def test_a_kernel_in_hardly_any_work_is_no_finding(tmp_path):
    events = [small.kernel(k * 5_000, k * 5_000 + 4_000) for k in range(2)]
    later = small.event("cpu_op", "on", 9_000, 2_000_000, pid=1)
    result = headline(small.load(tmp_path, [*events, later]))
    assert result.text == "There is hardly any GPU work in these files."
    assert [finding.kind for finding in result.findings] == ["operator"]


def test_a_step_takes_as_long_as_its_device_if_the_host_is_ahead(tmp_path):
    """The host leaves four steps within 4 µs; the device needs 10 µs for each, once 20."""
    events, at = [], 10_000
    for step, dur in enumerate((10_000, 20_000, 10_000, 10_000)):
        start = 1_000 * step
        events += [
            small.event("user_annotation", f"ProfilerStep#{step}", start, start + 900, pid=10),
            small.call(start + 100, start + 200, step + 1),
            small.kernel(at, at + dur, launch=step + 1, name=f"kernel_{step}"),
        ]
        at += dur
    assert "Step 1 takes 20.0 µs, 2.0 times the median step." in said(small.load(tmp_path, events))


def test_no_device(tmp_path):
    traces = small.load(tmp_path, [small.event("cpu_op", "aten::mm", 100, 900, pid=1)])
    assert said(traces) == (
        "No GPU work in these files: 2 events of 1 rank over 900 ns. "
        "aten::mm takes 89 % of the time on the host, 800 ns."
    )


def test_without_a_device_little_of_the_wall_time_is_no_finding(tmp_path):
    events = [
        small.event("user_annotation", "gloo:all_reduce", 10_000, 60_000, pid=1, tid=2),
        small.event("user_annotation", "gloo:all_reduce", 20_000, 80_000, pid=1, tid=3),
        small.event("cpu_op", "c10d::allreduce_", 5_000, 10_000, pid=1),
        small.event("cpu_op", "aten::empty", 99_000, 100_000, pid=1),
    ]
    result = headline(small.load(tmp_path, events))
    assert str(result).replace(THIN, " ") == (
        "The host communicates 75 % of the time, 75.0 µs, in gloo:all_reduce (2 calls) and others. "
        "No GPU work in these files: 5 events of 1 rank over 100 µs."
    )
    assert [finding.kind for finding in result.findings] == ["host_communication"]
    names = result.findings[0].selection.query
    assert "gloo:all_reduce" in names
    assert "c10d::allreduce_" in names


def test_first_launches_that_load_code_are_named(tmp_path):
    ms = 1_000_000
    # Each kernel runs twice for 1 ms; only its first launch takes 20 ms.
    rank = [small.kernel(0, 1000, launch=1, name="start"), small.call(-200, -190, 1)]
    for k in range(6):
        at = k * 30 * ms + 2000
        rank += [
            small.call(at, at + (20 if k % 2 == 0 else 0.01) * ms, k + 2),
            small.kernel(at + 20 * ms, at + 21 * ms, launch=k + 2, name=f"k{k // 2}"),
        ]
    loads = "most of it in first launches of 3 kernels (60.0 ms), which probably load or compile"
    assert loads in said(small.load(tmp_path, rank))


@pytest.mark.parametrize("name", ["cudaFreeHost", "hipHostUnregister", "cuMemHostAlloc"])
def test_pinned_memory_is_none_of_the_caching_allocator(tmp_path, name):
    rank = [small.kernel(0, 1000, launch=1), small.call(-200, -190, 1)]
    for k in range(12):
        at = 1000 + 10_000 * k
        rank += [
            small.call(at, at + 8000, name=name),
            small.call(at + 8900, at + 9000, k + 2),
            small.kernel(at + 9000, at + 10_000, launch=k + 2),
        ]
    said_of_idle = f"allocates or frees pinned host memory (12 calls of {name})."
    assert said_of_idle in said(small.load(tmp_path, rank))


@pytest.mark.parametrize("name", ["hipMallocAsync", "aclrtMalloc", "cuMemCreate"])
def test_calls_that_allocate_memory_are_named(tmp_path, name):
    rank = [small.kernel(0, 1000, launch=1), small.call(-200, -190, 1)]
    for k in range(12):
        at = 1000 + 10_000 * k
        rank += [
            small.call(at, at + 8000, name=name),
            small.call(at + 8900, at + 9000, k + 2),
            small.kernel(at + 9000, at + 10_000, launch=k + 2),
        ]
    idle = f"the host allocates or frees device memory (12 calls of {name})."
    assert idle in said(small.load(tmp_path, rank))


def test_memory_that_is_freed_all_the_time_is_named(tmp_path):
    rank = [small.kernel(0, 1000, launch=1), small.call(-200, -190, 1)]
    for k in range(12):
        at = 1000 + 10_000 * k
        rank += [
            small.call(at, at + 8000, name="hipFree"),
            small.call(at + 8000, at + 8100, name="hipMalloc"),
            small.call(at + 8900, at + 9000, k + 2),
            small.kernel(at + 9000, at + 10_000, launch=k + 2),
        ]  # fmt: skip
    assert (
        "for 90 % of that, the host allocates or frees device memory (12 calls of hipFree):"
        " the caching allocator is off or emptied."
    ) in said(small.load(tmp_path, rank))
    for begin, ending in (
        (-580_000, "(500 µs)."),
        (-2e8, "(200 ms), which probably initializes the device."),
    ):
        call = small.call(begin, -80_000, name="hipFree")
        text = said(
            small.load(tmp_path, [*rank, call, small.kernel(begin - 20_000, begin - 10_000)])
        )
        assert f"device memory, most of it in one call of hipFree {ending}" in text


def test_ranks_that_are_last_together_are_never_last_at_none(shared):
    text = said(hw.load(shared / "cases/cycles", cache=False))
    assert "Rank 1 arrives last, together with others" in text


def test_a_device_that_is_busy_with_other_work_is_not_idle(tmp_path):
    rank = [
        small.kernel(0, 1_000_000, launch=1), small.call(-6_000_000, -5_000_000, 1),
        small.call(1_000_000, 1_010_000, 2), small.kernel(9_010_000, 10_000_000, launch=2),
        small.call(1_010_000, 10_000_000, name="cudaStreamSynchronize"),
    ]  # fmt: skip
    result = headline(small.load(tmp_path, rank))
    assert "idle" not in result.text
    assert result.text.replace(THIN, " ") == (
        "The GPU is probably busy with work that is not in the files for 80 % of its span, 8.00 ms;"
        " recorded work takes 1.99 ms."
    )
    kernel, around = (text_of(parts).replace(THIN, " ") for parts in result.sentences)
    assert kernel == "gemm takes 100 % of GPU work, in 2 calls."
    assert around.endswith("; for 5.00 ms of that, work that is not in the files probably runs.")


def test_analyses_of_device_communication_say_that_hosts_communicate(tmp_path):
    gloo = small.event("user_annotation", "gloo:all_reduce", 10_000, 60_000, pid=1, tid=2)
    traces = small.load(tmp_path, [gloo, gloo])
    for analysis in (hw.analysis.collectives, hw.analysis.communication_by_stream):
        frame = analysis(traces)
        assert frame.empty
        assert "2 communication events, such as gloo:all_reduce" in frame.attrs["note"]
    alone = small.load(tmp_path, [small.event("cpu_op", "aten::mm", 0, 9, pid=1)])
    assert "hosts" not in hw.analysis.collectives(alone).attrs["note"]


def test_no_events(tmp_path):
    path = tmp_path / "empty.json"
    path.write_text(json.dumps({"traceEvents": [], "deviceProperties": []}))
    result = headline(hw.load(path, cache=False, progress=False))
    assert result.to_json() == {
        "headline": [],
        "more": [],
        "late_ranks": [],
        "fact_ranks": [],
        "findings": [],
    }


def headline_of(folder):
    result = headline(hw.load(folder, cache=False, progress=False))
    return result, str(result)


def test_the_slow_worker_is_named_with_all_of_its_gpus(tmp_path):
    write_byteps_job(tmp_path / "job", workers=2, local_ranks=2, servers=1, steps=2, slow_worker=1)
    result, text = headline_of(tmp_path / "job")
    assert text.startswith("Worker 1 is last in 44 of 44 partitions and steps")
    assert result.findings[0].selection.ranks == (2, 3)


def test_the_slow_rank_is_the_one_with_least_time_in_mpi(tmp_path):
    write_mpi_job(tmp_path / "job", ranks=6, slow_rank=4, hosts=1, traces=False)
    result, text = headline_of(tmp_path / "job")
    assert text.startswith("Rank 4 spends the least time in MPI")
    assert "the other 5 wait for it" in text
    assert "Of all Allreduce calls, those of 5–8\u202fB are 60\u202f% by number" in text
    assert result.findings[0].selection.ranks == (4,)


def test_the_message_size_with_most_time_for_its_bytes_is_told(shared):
    """Calls of 8 bytes are 60 % of all calls but 8.5 % of the time; those of 2 KiB cost most."""
    _, text = headline_of(shared / "traces/mpitrace/np16_all")
    assert "those of 1–2\u202fKiB are 5.0\u202f% by number, 36\u202f% by time" in text
    assert "and 0.02\u202f% by bytes" in text
    _, text = headline_of(shared / "traces/mpitrace/np1_single")
    assert "Allreduce" not in text, "if times follow bytes, no size is named"


def test_waiting_for_the_root_is_not_waiting_in_queues(tmp_path):
    """The queue of a GPU that does not use the servers contains the root's PUSH and PULL."""
    write_byteps_job(tmp_path / "job", workers=2, local_ranks=2, servers=1, steps=2, slow_worker=1)
    for folder, begins in (
        ("0", "% of a gradient's time is spent waiting for the GPU that talks"),
        ("1", ""),
    ):
        _, text = headline_of(tmp_path / "job" / "worker1" / "traces" / folder)
        assert begins in text
        assert " takes longest, " in text, "no headline is empty"
        assert "on worker" not in text, "there is one"
        assert hw.load(tmp_path / "job" / "worker1", cache=False)[0].worker == 1
    _, both = headline_of(tmp_path / "job" / "worker1")
    assert both == text, "the root's figures equal the worker's"


def test_a_single_rank_is_not_compared_with_others(tmp_path):
    truth = write_mpi_job(tmp_path / "job", ranks=1, hosts=1, slow_rank=None, traces=False)
    _, text = headline_of(tmp_path / "job")
    in_mpi = round(100 * truth["comm_s"][0] / truth["elapsed_s"][0])
    assert (
        text == f"The rank spends {in_mpi}\u202f% of its time in MPI, and waits for no other rank."
    )


def test_nobody_is_named_where_nobody_stands_out(tmp_path):
    write_mpi_job(tmp_path / "mpi", ranks=4, slow_rank=None, hosts=1, traces=False)
    write_byteps_job(tmp_path / "byteps", workers=2, servers=1, steps=2, slow_worker=None)
    for folder in ("mpi", "byteps"):
        result, text = headline_of(tmp_path / folder)
        assert result.findings == []
        assert "least time" not in text
        assert "is last in" not in text


A100 = {"id": 0, "name": "A100-SXM4-40GB", "totalGlobalMem": 42 << 30, "numSms": 108}


def test_the_operator_with_the_most_to_gain_is_named_where_files_have_shapes(tmp_path):
    """At 1555 GB/s, reading and writing 3.2 MB takes 4.1 of 100 µs; 5.9 µs at 70 % of that."""
    shapes = {"Input Dims": [[800, 1000]], "Input type": ["float"]}
    exp = small.event("cpu_op", "aten::exp", 100, 200, pid=10, **shapes)
    events = [exp, small.call(110, 120, 1), small.kernel(1_000, 101_000, launch=1)]
    path = small.write(tmp_path, events)
    document = json.loads((path / "rank-0.json").read_text()) | {"deviceProperties": [A100]}
    (path / "rank-0.json").write_text(json.dumps(document))
    main = headline(small.read(path))
    sentence = "exp runs at 4.1 % of what memory allows; 94.1 µs could be saved."
    assert main.text.replace(THIN, " ") == sentence
    assert [finding.label for finding in main.findings] == ["Select this operator"]
    # A faster kernel gains nothing if the device waits for its host.
    document["traceEvents"] += [
        small.call(980_000, 990_000, 2),
        small.kernel(999_000, 1e6, launch=2),
    ]
    (path / "rank-0.json").write_text(json.dumps(document))
    assert "idle 90" in headline(small.read(path)).text
    assert "could be saved" not in str(headline(small.read(path)))


def test_all_shapes_of_an_operator_count_for_what_it_would_gain(tmp_path):
    """exp needs 4.1 + 8.2 of 120 µs, so 120 - 12.3 / 0.7 can be saved; sin 90 - 4.1 / 0.7."""
    events = []
    calls = [("aten::sin", 800, 90_000), ("aten::exp", 800, 60_000), ("aten::exp", 1600, 60_000)]
    for number, (name, rows, dur_ns) in enumerate(calls, 1):
        call_ns, start_ns = 100 * number, 100_000 * number
        shapes = {"Input Dims": [[rows, 1000]], "Input type": ["float"]}
        events += [
            small.event("cpu_op", name, call_ns, call_ns + 90, pid=10, **shapes),
            small.call(call_ns + 10, call_ns + 20, number),
            small.kernel(start_ns, start_ns + dur_ns, name=f"kernel {number}", launch=number),
        ]
    path = small.write(tmp_path, events)
    document = json.loads((path / "rank-0.json").read_text()) | {"deviceProperties": [A100]}
    (path / "rank-0.json").write_text(json.dumps(document))
    text = str(headline(small.read(path))).replace(THIN, " ")
    assert "exp runs at 10 % of what memory allows; 102 µs could be saved." in text


@pytest.mark.parametrize(
    "name", ["hipMemcpyWithStream", "cudaStreamSynchronize", "cuCtxSynchronize"]
)
def test_a_host_that_waits_before_the_first_work_says_what_runs(tmp_path, name):
    """A call waits for 40 ms, although the file has no work before the kernel of 10 ms."""
    rank = [
        small.call(0, 40_000_000, name=name),
        small.call(40_000_000, 40_010_000, 1),
        small.kernel(40_010_000, 50_010_000, launch=1),
    ]
    text = said(small.load(tmp_path, rank))
    assert text.endswith(
        "80 % of the run of 50.0 ms is before the first work or after the last;"
        " for 40.0 ms of that, work that is not in the files probably runs."
    )
