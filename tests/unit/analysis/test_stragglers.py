"""Waits in collectives, late ranks, their cost and cause, in small jobs with known answers."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from support.collective_job import US, collective
from support.recorded import DATA
from support.small import call, copy, event, kernel, load, nccl, read, write

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.analysis import stragglers, stragglers_by_step
from hta_widgets.analysis.cross_rank.stragglers import straggler_report
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.formats.mpi.ranks import mpi_stragglers
from hta_widgets.panels.headline import headline
from hta_widgets.trace.traceset import TraceSet

pytestmark = pytest.mark.slow

STEP = 10_000  # µs


def idling(rank, start, delay):
    return []


def profiler_step(step):
    start = step * STEP * US
    return event("user_annotation", f"ProfilerStep#{step}", start, start + STEP * US - 1, pid=10)


def job(tmp_path, delays, *, ranks=4, before=idling, has_calls=True):
    """Load steps in which every rank computes, waits in an all-reduce, and continues.

    `delays` gives the lateness of each rank in each step, in µs. `before` returns the work on the
    device and host in that time.
    """
    events = [[] for _ in range(ranks)]
    for step, late in enumerate(delays):
        start = step * STEP
        worst = max(late)
        for rank in range(ranks):
            arrival = start + 6_000 + late[rank]
            number = 2 * step + 1
            events[rank] += [
                profiler_step(step),
                call((start + 10) * US, (start + 20) * US, launch=number),
                kernel((start + 100) * US, (start + 6_000) * US, launch=number),
                *before(rank, start + 6_000, late[rank]),
                call((start + 30) * US, (start + 40) * US, launch=number + 1),
                collective(arrival * US, (start + 6_500 + worst) * US, ranks=tuple(range(ranks)),
                           seq=step, correlation=number + 1),
            ]  # fmt: skip
    if not has_calls:
        events = [[row for row in rank if row["cat"] != "cuda_runtime"] for rank in events]
    return load(tmp_path, *events)


def computing(rank, start, delay):
    return [kernel(start * US, (start + delay) * US, name="gemm")] if delay else []


def test_scores_lateness_and_imposed_waits(tmp_path):
    # Rank 2 alone is last twice; ranks 0 and 3 are last together once.
    traces = job(tmp_path, [[0, 10, 500, 20], [300, 0, 0, 300], [0, 0, 40, 0]])
    frame = stragglers(traces)
    assert frame["rank"].tolist() == [0, 1, 2, 3]
    assert frame.collectives.tolist() == [3, 3, 3, 3]
    assert frame.score.tolist() == pytest.approx([0, 0, 2 / 3, 0])
    waits = (500 + 490 + 480) + (40 * 3)
    # If several ranks arrive last together, the lowest is charged.
    assert frame.imposed_wait_ns.tolist() == [600 * US, 0, waits * US, 0]
    assert frame.wait_ns.tolist() == [540 * US, 830 * US, 300 * US, 520 * US]
    # The medians are 15, 150 and 0 µs.
    assert frame.late_ns_mean.tolist() == pytest.approx(
        [(-15 + 150) / 3 * US, (-5 - 150) / 3 * US, (485 - 150 + 40) / 3 * US, (5 + 150) / 3 * US]
    )
    assert frame.attrs["matched"]["matched"] == 3
    assert frame.attrs["clock"] == "fitted"


def test_a_straggler_is_named(tmp_path):
    traces = job(tmp_path, [[0, 0, 1_500, 0]] * 4, before=computing)
    frame = stragglers(traces)
    assert frame.is_straggler.tolist() == [False, False, True, False]
    assert frame.pattern.tolist() == ["", "", "consistent", ""]
    assert frame.lost_share[2] == pytest.approx(0.15, abs=0.02)
    # The waiting ranks do not compute, so the whole wait is lost.
    assert frame.lost_ns[2] == frame.imposed_wait_ns[2] == 4 * 3 * 1_500 * US
    delays = [[0, 0, 0, 0] for _ in range(12)]
    delays[7] = [0, 3_900, 0, 0]
    assert stragglers(job(tmp_path, delays)).pattern.tolist() == ["", "occasional", "", ""]


def test_chance_makes_no_straggler(tmp_path):
    # Ranks take turns at being last by far.
    turns = [[900 if rank == step % 4 else 0 for rank in range(4)] for step in range(12)]
    assert not stragglers(job(tmp_path, turns)).is_straggler.any()
    # The same rank is always last by a little.
    assert not stragglers(job(tmp_path, [[0, 0, 150, 0]] * 8)).is_straggler.any()


def test_waits_under_compute_cost_nothing(tmp_path):
    """All ranks compute on another stream until the collective has ended."""

    def busy(rank, start, delay):
        return [kernel(start * US, (start + 3_000) * US, stream=8)]

    frame = stragglers(job(tmp_path, [[0, 0, 1_500, 0]] * 4, before=busy))
    assert frame.imposed_wait_ns[2] == 4 * 3 * 1_500 * US
    assert frame.lost_ns.tolist() == [0, 0, 0, 0]
    assert not frame.is_straggler.any()


def loading(rank, start, delay):
    name = "enumerate(DataLoader)#_Iter.__next__"
    return [event("user_annotation", name, start * US, (start + delay) * US, pid=10)]


def more(rank, start, delay):
    # The same kernels as on the other ranks, but more of them.
    return [
        kernel((start + k * 100) * US, (start + k * 100 + 95) * US, name="embedding")
        for k in range(delay // 100)
    ]


def longer(rank, start, delay):
    """Rank 2's second kernel takes much longer than on the other ranks."""
    return [kernel(start * US, (start + max(delay - 5, 0)) * US + 1, name="gemm2")]


def launching(rank, start, delay):
    return [event("cpu_op", "aten::mm", start * US, (start + delay) * US, pid=10)]


def sleeping(rank, start, delay):
    names = "train.py(7): step", "<built-in function sleep>"
    return [
        event("python_function", name, start * US, (start + delay) * US, pid=10) for name in names
    ]


def saving(name, category="python_function"):
    return lambda _, start, delay: [event(category, name, start * US, (start + delay) * US, pid=10)]


def copying(rank, start, delay):
    return [copy(start * US, (start + delay) * US)] if delay else []


@pytest.mark.parametrize(
    ("before", "cause", "column"),
    [
        (copying, "memory copies", "late_copies_ns"),
        (longer, "slower kernels", "late_compute_ns"),
        (more, "extra work", "late_compute_ns"),
        (loading, "data loading", "late_data_loading_ns"),
        (launching, "launch-bound host", "late_host_ns"),
        (idling, "idle host", "late_host_ns"),
        (sleeping, "idle host", "late_host_ns"),
        (saving("<method 'acquire' of '_thread.lock' objects>"), "idle host", "late_host_ns"),
        (saving("torch::save", "cpu_op"), "host inside torch::save", "late_host_ns"),
        (saving("gc.collect", "user_annotation"), "host inside gc.collect", "late_host_ns"),
    ],
)
def test_causes(tmp_path, before, cause, column):
    frame = stragglers(job(tmp_path, [[0, 0, 1_500, 0]] * 5, before=before))
    assert frame.cause.tolist() == ["", "", cause, ""]
    parts = [name for name in frame if name.startswith("late_") and name != "late_ns_mean"]
    assert max(parts, key=lambda name: frame[name][2]) == column
    # The first collective has no earlier one to measure from.
    assert frame[column][2] == pytest.approx(4 * 1_500 * US, rel=0.06)


@pytest.mark.parametrize(
    ("late_us", "pattern"),
    [
        ([2_000, 60, 60, 60] * 3, "consistent"),
        ([3_000, 70, 70] * 4, "consistent"),
        ([5] * 11 + [20_000], "occasional"),
    ],
)
def test_a_rank_that_costs_at_all_collectives_is_no_occasional_straggler(
    tmp_path, late_us, pattern
):
    """Without steps in the files, each collective counts as a step of 1.3 ms."""
    events = [[] for _ in range(4)]
    start = 0
    for number, late in enumerate(late_us):
        for rank in range(4):
            begin = start + 1_000 + (late if rank == 1 else 0)
            end = start + 1_300 + late
            events[rank] += [
                kernel(start * US, begin * US),
                collective(begin * US, end * US, ranks=(0, 1, 2, 3), seq=number),
            ]
        start += 1_400 + late
    frame = stragglers(load(tmp_path, *events))
    assert frame["score"].tolist() == [0, 1, 0, 0]
    assert frame["pattern"].tolist() == ["", pattern, "", ""]


@pytest.mark.parametrize("later_us", [10_000_000, 60_000])
@pytest.mark.parametrize("steps", [6, 5])
def test_verdicts_on_two_runs_in_one_folder_are_those_of_each(tmp_path, later_us, steps):
    """Rank 2 is late in both runs; the second has the same step numbers or one step less."""

    def run(folder, start_us, steps):
        for rank in range(4):
            records = []
            for step in range(steps):
                start = start_us + step * STEP
                arrival = start + 6_000 + 1_500 * (rank == 2)
                records += [
                    event("user_annotation", f"ProfilerStep#{step}", start * US,
                          (start + STEP) * US, pid=10),
                    kernel(start * US, arrival * US),
                    collective(arrival * US, (start + 8_000) * US, ranks=(0, 1, 2, 3)),
                ]  # fmt: skip
            folder.mkdir(exist_ok=True)
            stated = {"rank": rank, "world_size": 4}
            text = json.dumps({"traceEvents": records, "distributedInfo": stated})
            (folder / f"rank{rank}.json").write_text(text)

    run(tmp_path / "first", 0, 6)
    run(tmp_path / "second", later_us, steps)
    alone = hw.load(tmp_path / "first", cache=False, progress=False)
    assert "one run at a time" not in str(headline(alone))
    both = hw.load(tmp_path, cache=False, progress=False)
    columns = ["lost_share", "is_straggler", "pattern", "cause"]
    expected = stragglers(alone)[columns]
    frame = stragglers(both)[columns]
    assert expected["is_straggler"].tolist() == [False, False, True, False]
    assert frame["is_straggler"].tolist() == [False, False, True, False] * 2
    assert frame["lost_share"][2] == pytest.approx(expected["lost_share"][2], rel=0.2)
    text = "Ranks 4–7 are files that state the rank of another file, perhaps of another run"
    assert text in str(headline(both))


def test_the_host_event_that_makes_a_rank_late_is_named(tmp_path):
    """All hosts also idle between steps, so the event covers less than half of the idle time."""
    name = "torch/serialization.py(450): save"
    traces = job(tmp_path, [[0, 0, 1_500, 0]] * 5, before=saving(name))
    assert stragglers(traces).cause.tolist() == ["", "", f"host inside {name}", ""]
    text = str(headline(traces)).replace("\u202f", " ")
    assert f"Rank 2 arrives last at 5 of 5 collectives, while its host was inside {name}." in text


@pytest.mark.parametrize(("slower", "is_straggler"), [(0, False), (100, True)])
def test_devices_that_wait_for_their_own_hosts_anyway_lose_little(tmp_path, slower, is_straggler):
    """Hosts launch ten collectives per step and keep devices idle; rank 1 is 300 µs later."""
    events = [[profiler_step(step) for step in range(5)] for _ in range(4)]
    for number in range(50):
        step, k = divmod(number, 10)
        launched = [step * STEP + 800 * k] * 4
        launched[1] += 300 + slower * k
        for rank, start in enumerate(launched):
            events[rank] += [
                call(start * US, (start + 5) * US, launch=number),
                collective((start + 10) * US, (launched[1] + 30) * US, ranks=(0, 1, 2, 3),
                           seq=number, correlation=number),
            ]  # fmt: skip
    frame = stragglers(load(tmp_path, *events))
    assert frame.lost_share[1] >= 10 * 300 / STEP - 0.01
    assert frame.is_straggler.tolist() == [False, is_straggler, False, False]


def test_a_host_without_recorded_calls_is_not_blamed(tmp_path):
    traces = job(tmp_path, [[0, 0, 0, 1_700]] * 6, has_calls=False)
    assert stragglers(traces).cause.tolist() == ["", "", "", "host not recorded"]
    text = "Rank 3 arrives last at 6 of 6 collectives, for an unknown cause, because its host was"
    assert text in str(headline(traces)).replace("\u202f", " ")
    # The device work is still recorded.
    slower = stragglers(job(tmp_path, [[0, 0, 1_500, 0]] * 5, before=longer, has_calls=False))
    assert slower.cause[2] == "slower kernels"


def test_no_cause_is_stated_that_explains_little(tmp_path):
    """Rank 2 transfers alone for most of its 1 500 µs and idles for 100 or 600 of them."""

    def sending(idle):
        group = {"Process Group Name": "1", "Process Group Ranks": "[2]", "Group size": 1}
        return lambda _, start, delay: (
            [nccl(start * US, (start + delay - idle) * US, stream=8, **group)] if delay else []
        )

    for idle, cause in ((100, ""), (600, "idle host")):
        frame = stragglers(job(tmp_path, [[0, 0, 1_500, 0]] * 5, before=sending(idle)))
        assert frame.late_host_ns[2] == 4 * idle * US
        assert frame.is_straggler.tolist() == [False, False, True, False]
        assert frame.cause[2] == cause

    # All kernels are the same, but on rank 2 they run one after the other instead of together.
    def after(rank, start, delay):
        first = start + delay // 2
        return [kernel(begin * US, (begin + 750) * US, stream=stream)
                for begin, stream in ((first - 750, 7), (first, 8))]  # fmt: skip

    frame = stragglers(job(tmp_path, [[0, 0, 1_500, 0]] * 5, before=after))
    assert frame.late_compute_ns[2] == 4 * 750 * US
    assert frame.cause[2] == ""


def test_what_the_others_do_while_they_wait_is_not_extra_work(tmp_path):
    """Gradients are reduced in two parts; rank 2's loader takes 3 000 instead of 100 µs.

    The other ranks run their second kernel while they wait for rank 2's first part.
    """
    events = [[] for _ in range(4)]
    for step in range(5):
        start = step * STEP
        for rank in range(4):
            begin = start + (3_000 if rank == 2 else 100)
            second = start + (6_000 if rank == 2 else 4_800)
            number = 2 * step
            events[rank] += [
                profiler_step(step),
                *loading(rank, start, begin - start),
                call((start + 10) * US, (start + 20) * US, launch=number),
                kernel(begin * US, (begin + 1_500) * US),
                kernel((begin + 1_500) * US, (begin + 3_000) * US),
                collective((begin + 1_500) * US, (start + 4_800) * US, ranks=(0, 1, 2, 3),
                           seq=number, correlation=number),
                call((start + 30) * US, (start + 40) * US, launch=number + 1),
                collective(second * US, (start + 6_300) * US, ranks=(0, 1, 2, 3), seq=number + 1,
                           correlation=number + 1),
            ]  # fmt: skip
    frame = stragglers(load(tmp_path, *events))
    assert frame.cause.tolist() == ["", "", "data loading", ""]
    assert frame.late_data_loading_ns[2] == 4 * 2_900 * US
    assert frame.late_compute_ns[2] == 0
    # On time, the first collective would end at 1 900 µs, while the others compute until 3 100. It
    # ends at 4 800, so they lose 1 700 of their 2 900 µs of waiting, plus the whole 1 200 of the
    # second.
    assert frame.lost_ns[2] == 5 * 3 * (1_700 + 1_200) * US


def test_who_waited_elsewhere_is_not_to_blame(tmp_path):
    """Rank 1 is slow. Rank 0 waits for it in their pair and is then the last of all by 5 µs."""
    events = [[] for _ in range(4)]
    for step in range(5):
        start = step * STEP
        for rank in range(4):
            delay = 2_000 if rank == 1 else 0
            late = 2_000 + (5 if rank == 0 else 0) if rank < 2 else 0
            pair = (0, 1) if rank < 2 else (2, 3)
            number = 2 * step + 1
            events[rank] += [
                profiler_step(step),
                call((start + 10) * US, (start + 20) * US, launch=number),
                collective((start + 3_000 + delay) * US,
                           (start + 3_050 + (2_000 if rank < 2 else 0)) * US, ranks=pair,
                           group=str(pair), seq=step, stream=9, correlation=number),
                call((start + 30) * US, (start + 40) * US, launch=number + 1),
                collective((start + 6_000 + late) * US, (start + 9_000) * US, ranks=(0, 1, 2, 3),
                           seq=step, correlation=number + 1),
            ]  # fmt: skip
    frame = stragglers(load(tmp_path, *events))
    # By definition, rank 0 imposes the waits of all four ranks ...
    assert frame.imposed_wait_ns.tolist() == [5 * (5 + 2 * 2_005) * US, 5 * 2_000 * US, 0, 0]
    # ... but rank 1 is the one that costs time.
    assert frame.is_straggler.tolist() == [False, True, False, False]
    assert frame.cause.tolist() == ["waiting elsewhere", "idle host", "", ""]
    assert frame.lost_ns[0] < 0.01 * frame.imposed_wait_ns[0]


def pair_then_all(tmp_path, lates, *, busy=False):
    """Ranks 0 and 1 meet from 3 000 to 5 050 µs of a step, then all four meet several times.

    In the pair, rank 0 waits 2 000 µs for rank 1, and computes meanwhile if `busy`. `lates` holds
    by how much ranks 0 and 1 are late at each collective of all ranks, 1 000 µs apart. All ranks
    leave 50 µs after the last arrival. Rank 0 spends any additional lateness on computing.
    """
    events = [[] for _ in range(4)]
    for step in range(5):
        start = step * STEP
        for rank in range(4):
            pair = (0, 1) if rank < 2 else (2, 3)
            arrival = start + (5_000 if rank == 1 else 3_000)
            number = 100 * step
            events[rank] += [
                profiler_step(step),
                call((start + 10) * US, (start + 20) * US, launch=number),
                collective(arrival * US, (start + (5_050 if rank < 2 else 3_050)) * US, ranks=pair,
                           group=str(pair), seq=step, stream=9, correlation=number),
            ]  # fmt: skip
            if busy and rank == 0:
                events[0].append(kernel((start + 3_000) * US, (start + 5_050) * US))
            for place, late in enumerate(lates):
                number, usual = number + 1, start + 3_060 + 3_000 * place
                arrival = usual + (late + (rank == 0) * 5 if rank < 2 else 0)
                events[rank] += [
                    call((start + 30) * US, (start + 40) * US, launch=number),
                    collective(arrival * US, (usual + late + 55) * US, ranks=(0, 1, 2, 3),
                               seq=len(lates) * step + place, correlation=number),
                ]  # fmt: skip
                if place and rank == 0:
                    events[0].append(kernel((arrival - late) * US, (arrival - 1) * US))
    return load(tmp_path, *events)


def test_only_waits_in_which_a_rank_does_nothing_excuse_it(tmp_path):
    assert stragglers(pair_then_all(tmp_path, [2_000])).cause[0] == "waiting elsewhere"
    frame = stragglers(pair_then_all(tmp_path, [2_000], busy=True))
    # Rank 1 is 2 000 µs late by itself, too: the others would wait for it if rank 0 were faster.
    assert frame.is_straggler.tolist() == [True, True, False, False]
    # In each of five steps, ranks 2 and 3 wait 2 005 µs and rank 1 waits 5.
    assert frame.lost_ns[0] == frame.imposed_wait_ns[0] == 5 * (2 * 2_005 + 5) * US


def test_an_excuse_ends_when_the_others_have_caught_up(tmp_path):
    """Rank 0 is late because of its pair, then twice by 500 µs of its own; the others idle."""
    frame = stragglers(pair_then_all(tmp_path, [2_000, 500, 500]))
    assert frame.imposed_wait_ns[0] == 5 * (2 * (2_005 + 2 * 505) + 3 * 5) * US
    # The wait for rank 1 explains the first 2 005 µs. Rank 1 is late by itself, so it is charged.
    assert frame.lost_ns[0] == 5 * 2 * (2 * 505 + 5) * US
    # Rank 1 takes over at most the 5 µs that it waits for rank 0 at each of three collectives.
    assert frame.lost_ns[1] == pytest.approx(5 * (2_000 + 2 * 2_005 + 5) * US, abs=5 * 15 * US)


def test_the_excuse_lasts_while_the_others_run_ahead(tmp_path):
    """Gradients are reduced in three parts; rank 0 is 2 000 µs late because of its pair.

    Ranks 2 and 3 have finished computing when rank 0 arrives for the first part. Their next parts
    follow in stream order, each only 960 µs before rank 0's.
    """
    events = [[] for _ in range(4)]
    for step in range(5):
        start = step * STEP
        for rank in range(4):
            pair = (0, 1) if rank < 2 else (2, 3)
            begin = start + (5_060 if rank < 2 else 3_060)
            number = 10 * step + 1
            events[rank] += [
                profiler_step(step),
                call((start + 10) * US, (start + 20) * US, launch=number),
                collective((start + (5_000 if rank == 1 else 3_000)) * US, (begin - 10) * US,
                           ranks=pair, group=str(pair), seq=step, stream=9, correlation=number),
                kernel(begin * US, (begin + 3_000) * US),
            ]  # fmt: skip
            ends = [start + 6_100, start + 7_100, start + 8_100]
            for place, end in enumerate(ends):
                arrival = end - 40 - 5 * (rank == 1)
                if rank > 1:
                    arrival = begin + 1_000 if place == 0 else ends[place - 1]
                number += 1
                events[rank] += [
                    call((start + 30) * US, (start + 40) * US, launch=number),
                    collective(arrival * US, end * US, ranks=(0, 1, 2, 3), seq=3 * step + place,
                               correlation=number),
                ]  # fmt: skip
    frame = stragglers(load(tmp_path, *events))
    assert frame.imposed_wait_ns[0] == 5 * (2 * (2_000 + 960 + 960) + 3 * 5) * US
    assert frame.lost_ns[0] == 0
    assert frame.is_straggler.tolist() == [False, True, False, False]


def pipeline(tmp_path, factors, *, steps=4, batches=8):
    """Load pipeline stages: 500 µs × factor forward, 60 per message, 1 000 × factor back."""
    ranks, step_ends = len(factors), [0] * len(factors)
    events = [[] for _ in factors]
    numbers, freed = Counter(), Counter()
    for step in range(steps):
        begins, at = step_ends, list(step_ends)
        for way, lasting in ((1, 500), (-1, 1_000)):
            ready = []
            for rank in range(ranks)[::way]:
                passed = []
                for batch in range(batches):
                    if ready:
                        # The message starts when both ranks are there; only the receiver waits.
                        pair = (rank - way, rank)
                        args = {"Src Rank": pair[0], "Dst Rank": rank}
                        start = max(ready[batch], freed[pair])
                        freed[pair] = max(start, at[rank]) + 60
                        for name, own, arrival in (("send", *pair[:1], start),
                                                   ("recv", rank, at[rank])):  # fmt: skip
                            numbers[own] += 1
                            events[own] += [
                                call((begins[own] + 10) * US, (begins[own] + 20) * US,
                                     launch=numbers[own]),
                                collective(arrival * US, freed[pair] * US, name=name, group="5",
                                           ranks=(min(pair), max(pair)), seq=step * batches + batch,
                                           stream=30 + 2 * way + (name == "send"),
                                           correlation=numbers[own], **args),
                            ]  # fmt: skip
                        at[rank] = freed[pair]
                    end = at[rank] + round(lasting * factors[rank])
                    events[rank].append(kernel(at[rank] * US, end * US))
                    at[rank] = end
                    passed.append(end)
                ready = passed
        step_ends = [
            max([at[rank], *(end for pair, end in freed.items() if pair[0] == rank)])
            for rank in range(ranks)
        ]
        for rank in range(ranks):
            name, (begin, end) = f"ProfilerStep#{step}", (begins[rank], step_ends[rank])
            events[rank].append(event("user_annotation", name, begin * US, end * US, pid=10))
    return load(tmp_path, *events)


@pytest.mark.parametrize("batches", [8, 16])
def test_the_bubble_of_a_pipeline_is_nobodys_fault(tmp_path, batches):
    """Sends wait while their ranks compute; only the receiver of a message is held up."""
    traces = pipeline(tmp_path, [1, 1, 1, 1], batches=batches)
    frame = stragglers(traces)
    assert frame.imposed_wait_ns.min() > 0
    assert set(frame.cause) <= {"", "waiting elsewhere"}
    assert not frame.is_straggler.any()
    frame = stragglers(pipeline(tmp_path, [1, 1, 1.5, 1], batches=batches))
    assert frame.is_straggler.tolist() == [False, False, True, False]
    assert frame.cause[2] == "slower kernels"


@pytest.mark.parametrize("seed", [9, 101])
def test_the_neighbor_of_a_slow_rank_is_not_to_blame(tmp_path, seed):
    """Gradients are reduced while layers wait in tensor groups; these waits begin earlier."""
    shape = {"ranks": 4, "steps": 5, "tensor_ranks": 2, "strided": True, "events_per_step": 500}
    write_demo(tmp_path / "job", straggler=1, factor=1.47, seed=seed, format="json", **shape)
    traces = stragglers(hw.load(tmp_path / "job", cache=False, progress=False))
    assert traces["rank"][traces.is_straggler].tolist() == [1]


@pytest.mark.parametrize(
    "shape",
    [
        {"ranks": 4, "steps": 3, "seed": 38, "strided": True, "events_per_step": 500},
        {"ranks": 16, "steps": 1, "seed": 0, "events_per_step": 1600},
    ],
)
def test_few_slow_steps_are_chance(tmp_path, shape):
    """Healthy jobs in which one rank loaded data for longer: 11 % of one step, 7 % of three."""
    write_demo(tmp_path / "job", straggler=None, format="json", **shape)
    traces = stragglers(hw.load(tmp_path / "job", cache=False, progress=False))
    assert traces.lost_share.max() > 0.065
    assert not traces.is_straggler.any()


@pytest.mark.parametrize("off_ns", [-3_000_000, 3_000_000])
def test_the_verdict_does_not_depend_on_recorded_clocks(tmp_path, off_ns):
    # Ends disagree by 2 ms, so the shift is not much larger.
    recorded = hw.load(DATA / "nccl", cache=False, progress=False)
    for rank in (0, 1):
        text = gzip.decompress((DATA / f"nccl/rank-{rank}.json.gz").read_bytes())
        full = json.loads(text)
        full["baseTimeNanoseconds"] += rank * off_ns
        (tmp_path / f"rank-{rank}.json").write_text(json.dumps(full))
    moved = hw.load(tmp_path, cache=False, progress=False)
    assert stragglers(moved).equals(stragglers(recorded))
    assert headline(moved).late_ranks == headline(recorded).late_ranks == [1]


def test_skewed_clocks_are_fitted_first(tmp_path):
    def shifted(events, off):
        return [{**event_dict, "ts": event_dict["ts"] + off} for event_dict in events]

    def rank(late):
        return [
            collective((k * 1000 + late) * US, (k * 1000 + 300) * US, ranks=(0, 1, 2), seq=k)
            for k in range(6)
        ]

    traces = load(tmp_path, rank(0), shifted(rank(100), -400), rank(20))
    frame = stragglers(traces)
    assert frame.attrs["clock"] == "fitted"
    assert frame.score.tolist() == [0, 1, 0]
    assert frame.imposed_wait_ns[1] == 6 * 180 * US
    assert stragglers(traces, clock="host").score.tolist() == [0, 0, 1]
    assert stragglers(traces.with_clock("fitted")).equals(frame)


@pytest.mark.parametrize("off_ms", [20, 3_000])
def test_clocks_further_apart_than_the_run_cost_no_more_than_all_time(tmp_path, off_ms):
    ranks = [
        [
            collective(
                (k * 1000 + rank * off_ms * 1000) * US,
                (k * 1000 + 300 + rank * off_ms * 1000) * US,
                ranks=(0, 1),
                seq=k,
            )
            for k in range(6)
        ]
        for rank in (0, 1)
    ]
    traces = load(tmp_path, *ranks)
    assert stragglers(traces, clock="host").lost_share.between(0, 1).all()
    assert stragglers_by_step(traces, clock="host").lost_share.between(0, 1).all()


def test_by_step_and_window(tmp_path):
    traces = job(tmp_path, [[0, 0, 800, 0], [100, 0, 0, 0], [0, 0, 500, 0]])
    frame = stragglers_by_step(traces)
    assert frame["rank"].tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert frame.step.tolist() == [0, 1, 2] * 4
    second = frame[frame["rank"] == 2]
    assert second.imposed_wait_ns.tolist() == [2_400 * US, 0, 1_500 * US]
    assert second.score.tolist() == [1, 0, 1]
    # Steps start 9.3 to 10.4 ms apart.
    assert second.lost_share.tolist() == pytest.approx([0.08, 0, 0.05], rel=0.1)
    full = stragglers(traces)
    assert frame.groupby("rank").imposed_wait_ns.sum().tolist() == full.imposed_wait_ns.tolist()
    assert frame.groupby("rank").lost_ns.sum().tolist() == full.lost_ns.tolist()
    assert frame.attrs["steps"] == "ProfilerStep"
    frame = stragglers(traces, window=(0, STEP * US), ranks=[2, 3])
    columns = ["rank", "collectives", "imposed_wait_ns"]
    assert frame[columns].to_numpy().tolist() == [[2, 1, 2_400 * US], [3, 1, 0]]
    assert "note" not in frame.attrs
    for function in (stragglers, stragglers_by_step):
        assert (
            "selection or window contains no collective"
            in function(traces, window=(5, 5)).attrs["note"]
        )


@pytest.mark.parametrize(
    ("before", "after"),
    [((), ()), (("broadcast",) * 3, ()), ((), ("allgather",)), (("allgather",), ("broadcast",))],
)
def test_collectives_that_prepare_or_end_a_run_are_in_no_step(tmp_path, before, after):
    """20 rounds of 1 ms without steps; rank 2 computes 80 µs longer in each round."""
    events = [[] for _ in range(4)]
    names = [*before, *["allreduce"] * 20, *after]
    for number, name in enumerate(names):
        start = number * 1000
        for rank, of_rank in enumerate(events):
            is_round = name == "allreduce"
            late = 80 if rank == 2 and is_round else 0
            of_rank += [
                kernel(start * US, (start + 900 + late) * US),
                collective((start + 900 + late) * US, (start + 990) * US, name=name, seq=number,
                           ranks=(0, 1, 2, 3), elements=1000 if is_round else number + 1),
            ]  # fmt: skip
    traces = load(tmp_path, *events)
    frame = stragglers(traces)
    assert frame["rank"][frame["is_straggler"]].tolist() == [2]
    by_step = stragglers_by_step(traces)
    assert by_step.attrs["steps"] == "stretches"
    assert by_step["step"].nunique() == 20 + bool(before or after)
    assert by_step.loc[by_step["step"] >= 0, "collectives"].tolist() == [1] * 80


@pytest.mark.parametrize("is_first", [True, False])
def test_a_burst_of_collectives_does_not_take_the_place_of_the_steps(tmp_path, is_first):
    """20 all-reduces in 20 ms, before or after 30 broadcasts in 1.5 ms."""
    rounds = [("allreduce", 1000)] * 20
    burst = [("broadcast", 50)] * 30
    events, start = [[] for _ in range(4)], 0
    for number, (name, length) in enumerate(burst + rounds if is_first else rounds + burst):
        for of_rank in events:
            of_rank.append(
                collective((start + 10) * US, (start + 40) * US, name=name, seq=number,
                           ranks=(0, 1, 2, 3))
            )  # fmt: skip
        start += length
    by_step = stragglers_by_step(load(tmp_path, *events))
    assert by_step["step"].min() == 0
    assert by_step.groupby("rank")["collectives"].sum().tolist() == [50] * 4


def test_a_stall_is_a_share_of_its_own_step(tmp_path):
    """Ten steps of 10 ms; rank 1 delays the fifth by 200 ms."""
    events = [[] for _ in range(4)]
    for step in range(10):
        stall = 200_000 if step == 4 else 0
        start = step * STEP + (200_000 if step > 4 else 0)
        for rank in range(4):
            name, end = f"ProfilerStep#{step}", (start + STEP + stall) * US
            late = stall if rank == 1 else 0
            events[rank] += [
                event("user_annotation", name, start * US, end - 1, pid=10),
                call((start + 10) * US, (start + 20) * US, launch=step + 1),
                collective((start + 6_000 + late) * US, (start + 6_500 + stall) * US,
                           ranks=(0, 1, 2, 3), seq=step, correlation=step + 1),
            ]  # fmt: skip
    traces = load(tmp_path, *events)
    frame = stragglers(traces)
    assert frame.pattern.tolist() == ["", "occasional", "", ""]
    assert frame.lost_ns[1] == 3 * 200_000 * US
    # The others lose 200 of 10 · 10 + 200 ms, and 200 of 210 ms in that step.
    assert frame.lost_share[1] == pytest.approx(200 / 300)
    by_step = stragglers_by_step(traces)
    shares = by_step.loc[by_step["rank"] == 1, "lost_share"]
    assert shares.tolist() == pytest.approx([0] * 4 + [200 / 210] + [0] * 5)


def test_nothing_to_compare(tmp_path):
    single = [collective(0, 10 * US)]
    for ranks, note in (
        ([single], "load several"),
        ([single, []], "no collective is found on two"),
    ):
        frame = stragglers(load(tmp_path, *ranks))
        assert len(frame) == 0
        assert note in frame.attrs["note"]


@pytest.mark.parametrize("delay", [1_500, 300])
def test_nobody_is_named_where_files_of_the_group_are_missing(tmp_path, delay):
    """The 5 % that rank 2 costs may be due to rank 3, which is later but may have no file."""
    traces = job(tmp_path, [[0, 0, delay, delay + 100]] * 5, before=computing)
    three = TraceSet([traces[rank] for rank in range(3)])
    full, part = straggler_report(traces), straggler_report(three)
    # Rank 2 is nearly as late: without rank 3, the others would wait for rank 2.
    assert full.stragglers == ([3, 2] if delay == 1_500 else [])
    assert (full.loaded_rank_count, full.rank_count) == (4, 4)
    assert (part.loaded_rank_count, part.rank_count) == (3, 4)
    assert (part.stragglers, part.causes) == ([], {})
    assert [(item.rank, item.cause) for item in part.last_ranks] == [(2, "")]
    result = stragglers(three)
    assert not result.is_straggler.any()
    assert set(result.cause) == {""}
    assert "files of 1 rank are missing" in result.attrs["note"]
    # Ranks in complete groups are judged even if other ranks are missing.
    traces = job(tmp_path, [[0, 0, 1_500, 0]] * 5, before=computing)
    for trace in traces.values():
        trace.metadata["distributedInfo"] = {"world_size": 8}
    result = straggler_report(traces)
    assert (result.loaded_rank_count, result.rank_count, result.stragglers) == (4, 8, [2])


def test_nobody_is_named_where_a_rank_lacks_the_events(tmp_path):
    """Rank 3 is always last, but its file has only its first collective."""
    traces = job(tmp_path, [[0, 0, 1_500, 1_600]] * 6, before=computing)
    assert straggler_report(traces).stragglers == [3, 2]
    path = Path(traces[3].path)
    document = json.loads(path.read_text())
    kernels = [item for item in document["traceEvents"] if item["name"].startswith("nccl")]
    document["traceEvents"] = [item for item in document["traceEvents"] if item not in kernels[1:]]
    path.write_text(json.dumps(document))
    traces = hw.load(path.parent, cache=False, progress=False)
    frame = stragglers(traces)
    assert frame.collectives.tolist() == [6, 6, 6, 1]
    assert not frame.is_straggler.any()
    assert set(frame.cause) == {""}
    # In steps 1 to 5, two ranks wait for rank 2.
    assert frame.imposed_wait_ns.tolist() == [0, 0, 5 * 2 * 1_500 * US, (2 * 1_600 + 100) * US]
    assert frame.attrs["note"] == (
        "5 collectives without events of some ranks do not count for the verdict,"
        " because those ranks may be later"
    )
    result = straggler_report(traces)
    assert (result.stragglers, result.last_ranks) == ([], [])


def gathering(rank, start, delay):
    """Return PyTorch's call of Gloo; the root stays in it until the last rank has sent."""
    end = start + max(delay, 20)
    return [
        event("cpu_op", "c10d::gather_", start * US, (start + 15) * US, pid=10),
        event("user_annotation", "gloo:gather", (start + 2) * US, (end - 2) * US, pid=10, tid=30),
    ]


def test_waits_on_the_host_are_not_blamed_on_the_rank(tmp_path):
    traces = job(tmp_path, [[0, 0, 1_500, 0]] * 5, before=gathering)
    frame = stragglers(traces)
    assert not frame.is_straggler.any()
    assert frame.cause.tolist() == ["", "", "waiting elsewhere", ""]
    # Of the 1 500 µs before rank 2 arrives, it is in Gloo for 1 496; all others arrive at once. The
    # first collective has no earlier one to measure from.
    assert frame.late_waiting_ns[2] == 4 * 1_496 * US
    assert frame.late_host_ns[2] == 4 * 4 * US
    # The time counts once for each rank and step, not again for the call.
    text = "the hosts have 20 communication events, such as gloo:gather, which are not"
    assert frame.attrs["note"].startswith(f"{text} matched")
    assert analysis.collectives(traces).attrs["note"].startswith(f"{text} device work")
    assert straggler_report(traces).stragglers == []
    # A rank that Gloo does not delay is still named.
    traces = job(tmp_path, [[0, 0, 1_500, 0]] * 5, before=lambda rank, start, delay: [
        *gathering(rank, start, 0), *computing(rank, start, delay)
    ])  # fmt: skip
    assert stragglers(traces).is_straggler.tolist() == [False, False, True, False]


def test_calls_that_launch_kernels_are_not_communication_of_the_host(tmp_path):
    def calling(rank, start, delay):
        return [event("cpu_op", "c10d::allreduce_", start * US, (start + 15) * US, pid=10)]

    traces = job(tmp_path, [[0, 0, 0, 0]] * 2, before=calling)
    assert "note" not in stragglers(traces).attrs
    none = analysis.collectives(traces, selection="kind == 'compute'")
    assert none.attrs["note"] == "no communication on a device is selected"


def test_who_is_nearly_always_last_is_a_fact_from_one_per_cent_on(tmp_path):
    """In steps of 10 ms, 0.3 ms is 3 %, too little for a straggler; 0.08 ms is under 1 %."""
    result = straggler_report(job(tmp_path, [[0, 0, 300, 0]] * 8, before=longer))
    assert result.stragglers == []
    (last,) = result.last_ranks
    assert (last.rank, last.wait_ns, last.cause) == (2, 8 * 300 * US, "slower kernels")
    assert last.hidden_share == pytest.approx(0, abs=1e-5)
    assert straggler_report(job(tmp_path, [[0, 0, 80, 0]] * 8, before=computing)).last_ranks == []
    # Last at 7 of 8 collectives.
    often = [[0, 0, 300, 0]] * 7 + [[0, 350, 300, 0]]
    assert straggler_report(job(tmp_path, often, before=computing)).last_ranks == []


def test_one_long_wait_does_not_hide_who_is_always_last(tmp_path):
    """In steps of 10 ms, rank 2 is 10 µs late and once 3.9 ms, in total 4.3 of 410 ms."""
    delays = [[0, 0, 3_900, 0]] + [[0, 0, 10, 0]] * 40
    (last,) = straggler_report(job(tmp_path, delays, before=longer)).last_ranks
    assert (last.rank, last.last, last.collectives) == (2, 41, 41)


@pytest.mark.parametrize("late", [2, 0])
@pytest.mark.parametrize("followers", [1, 3])
def test_collectives_without_waits_do_not_hide_who_is_always_last(tmp_path, late, followers):
    """As in FSDP, all ranks leave one collective and arrive at the next ones together."""
    ranks = [[] for _ in range(4)]
    for step in range(8):
        start = step * STEP
        for rank, events in enumerate(ranks):
            arrival = start + 6_000 + (300 if rank == late else 0)
            events += [
                profiler_step(step),
                kernel((start + 100) * US, arrival * US),
                collective(arrival * US, (start + 6_500) * US, ranks=(0, 1, 2, 3), seq=8 * step),
            ]
            for number in range(followers):
                begin = start + 6_510 + 110 * number
                # Arrivals differ by up to 3 µs.
                lag = (rank + step + number) % 4
                events.append(
                    collective((begin + lag) * US, (begin + 100) * US, name="_allgather_base",
                               ranks=(0, 1, 2, 3), seq=8 * step + number + 1)
                )  # fmt: skip
    (last,) = straggler_report(load(tmp_path, *ranks)).last_ranks
    # The rank is last by chance at a quarter of the other collectives.
    assert (last.rank, last.last, last.collectives) == (late, 8 + 2 * followers, 8 + 8 * followers)
    assert last.cause == "slower kernels"


@pytest.mark.parametrize("rank", [0, 3])
def test_clocks_that_differ_do_not_hide_who_is_always_last(tmp_path, rank):
    """One clock is an hour ahead, which must not count toward the run of 80 ms."""
    traces = job(tmp_path, [[0, 0, 300, 0]] * 8, before=longer)
    path = Path(traces[rank].path)
    document = json.loads(path.read_text())
    for record in document["traceEvents"]:
        record["ts"] += 3_600_000_000
    path.write_text(json.dumps(document))
    (last,) = straggler_report(hw.load(path.parent, cache=False, progress=False)).last_ranks
    assert (last.rank, last.wait_ns) == (2, 8 * 300 * US)


@pytest.mark.parametrize("lines", [False, True])
def test_mpi_ranks_are_told_by_time_lines_or_else_by_profiles(tmp_path, lines):
    write_mpi_job(tmp_path / "job", ranks=4, slow_rank=2, steps=8, traces=lines)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    assert mpi_stragglers(traces) == {("90001", 2)}
    # The timeline and the profile count as one rank.
    assert straggler_report(traces).stragglers == [2]


@pytest.fixture
def pair(tmp_path):
    """Rank 0 waits from 1 000 to 2 000 and computes from 1 200 to 1 500; both leave at 3 000."""
    return load(
        tmp_path,
        [kernel(200, 700), nccl(1000, 3000), kernel(1200, 1500)],
        [kernel(200, 1900), nccl(2000, 3000)],
    )


def test_what_compute_hides_is_not_exposed(pair):
    frame = analysis.exposed_waits(pair)
    columns = ["rank", "collectives", "wait_ns", "exposed_wait_ns", "exposed_communication_ns"]
    assert frame[columns].to_numpy().tolist() == [[0, 1, 1000, 700, 1700], [1, 1, 0, 0, 1000]]
    assert frame.attrs["matched"] == {"compute": 3, "communication": 2, "matched": 2}
    # Windows clip waits; selected ranks do not change which rank is last.
    frame = analysis.exposed_waits(pair, window=(1400, 2500), ranks=[0])
    assert frame[["wait_ns", "exposed_wait_ns"]].to_numpy().tolist() == [[600, 500]]
    without = analysis.exposed_waits(pair, selection="kind == 'communication'")
    assert without["exposed_wait_ns"].tolist() == [1000, 0]


def test_exposed_communication_without_a_match_is_counted_apart(tmp_path):
    other = {"Process Group Name": "1", "Process Group Ranks": "[0, 1]"}
    traces = load(
        tmp_path,
        [nccl(1000, 3000), nccl(4000, 4500, **other), kernel(4100, 4200)],
        [nccl(2000, 3000)],
    )
    frame = analysis.exposed_waits(traces, clock="host")
    columns = ["exposed_wait_ns", "exposed_communication_ns", "unmatched_exposed_ns"]
    assert frame[columns].to_numpy().tolist() == [[1000, 2400, 400], [0, 1000, 0]]
    window = analysis.exposed_waits(traces, clock="host", window=(4150, 4300))
    assert window["unmatched_exposed_ns"].tolist() == [100, 0]
    # A rank that leaves before the last arrival waits until it leaves.
    traces = load(tmp_path, [nccl(1000, 1400)], [nccl(2000, 3000)], [nccl(1000, 3000)])
    assert analysis.exposed_waits(traces, clock="host")["wait_ns"].tolist() == [400, 0, 1000]
    # Unknown waits are not zero.
    frame = analysis.exposed_waits(load(tmp_path, [nccl(10, 20)]))
    columns = ["wait_ns", "exposed_wait_ns", "exposed_communication_ns"]
    assert frame[columns].to_numpy().tolist() == [[-1, -1, 10]]
    assert "waits are unknown" in frame.attrs["note"]


@pytest.mark.parametrize(
    ("metric", "rank_0", "rank_1"),
    [
        ("busy", [500, 1000, 1000], [800, 900, 1000]),
        ("compute", [500, 300, 0], [800, 900, 0]),
        ("communication", [0, 1000, 1000], [0, 0, 1000]),
        ("exposed_communication", [0, 700, 1000], [0, 0, 1000]),
        ("waiting", [0, 1000, 0], [0, 0, 0]),
        ("idle", [300, 0, 0], [0, 100, 0]),
    ],
)
def test_bins(pair, metric, rank_0, rank_1):
    frame = analysis.rank_time_heatmap(pair, metric=metric, bins=3, window=(0, 3000))
    edges = [(0, 1000), (1000, 2000), (2000, 3000)]
    assert list(zip(frame["start_ns"], frame["end_ns"], strict=True)) == edges * 2
    assert frame["value_ns"].tolist() == rank_0 + rank_1
    assert frame["share"].tolist() == pytest.approx([x / 1000 for x in rank_0 + rank_1])


def test_edges_are_rounded_down_and_lose_nothing(pair):
    frame = analysis.rank_time_heatmap(pair, bins=7, window=(5, 3001), ranks=[0])
    assert frame["start_ns"].tolist() == [5 + 2996 * k // 7 for k in range(7)]
    assert frame["end_ns"].iloc[-1] == 3001
    assert frame["value_ns"].sum() == 2500
    full = analysis.rank_time_heatmap(pair, bins=2)
    assert (full["start_ns"].min(), full["end_ns"].max()) == (0, 3000)
    assert analysis.rank_time_heatmap(pair, bins=3, window=(7, 7))["share"].isna().all()
    for wrong, words in (({"metric": "joy"}, "unknown metric 'joy'"), ({"bins": 0}, "bins: 0")):
        with pytest.raises(hw.TraceError, match=words):
            analysis.rank_time_heatmap(pair, **wrong)


@pytest.mark.parametrize(
    ("delays", "late"),
    [
        ([[0, 1_500, 0, 1_490, 0, 0]] * 4, [1, 3]),
        # Two ranks take turns at being last, so each is charged with half of the waits.
        ([[0, 900, 0, 0, 0, 890], [0, 890, 0, 0, 0, 900]] * 3, [1, 5]),
        # A rank that is half as late would delay the others if the last rank were on time.
        ([[0, 1_500, 0, 700, 0, 0]] * 4, [1, 3]),
        # The second rank is not named if it costs less than 5 %.
        ([[0, 1_500, 0, 300, 0, 0]] * 4, [1]),
    ],
)
def test_ranks_that_are_late_together_are_all_named(tmp_path, delays, late):
    traces = job(tmp_path, delays, ranks=6, before=longer)
    frame = stragglers(traces)
    assert frame["rank"][frame["is_straggler"]].tolist() == late
    assert set(frame["cause"][frame["is_straggler"]]) == {"slower kernels"}
    assert sorted(straggler_report(traces).stragglers) == late
    assert sorted(headline(traces).late_ranks) == late


@pytest.mark.parametrize(
    "delays",
    [
        # Rank 0 is last in three of five steps and first in the others.
        [[2_600, 900, 0, 1_400], [0, 2_400, 1_800, 900], [2_800, 1_200, 700, 0],
         [100, 0, 2_500, 1_900], [2_700, 1_300, 400, 900]],
        # Each of two ranks is last in some steps, and one of them delays the other for longer.
        [[0, 3_600], [3_000, 0], [0, 3_300], [3_100, 0], [0, 3_700], [0, 3_000], [2_900, 0]],
    ],
)  # fmt: skip
def test_uneven_work_that_moves_between_ranks_is_nobodys_fault(tmp_path, delays):
    """Batch lengths differ from step to step."""
    traces = job(tmp_path, delays, ranks=len(delays[0]), before=longer)
    assert not stragglers(traces)["is_straggler"].any()
    assert headline(traces).late_ranks == []


@pytest.mark.parametrize(("late_ms", "start_text"), [(40, "40.0 ms"), (7, "7.00 ms")])
def test_a_recording_that_starts_later_makes_no_straggler(tmp_path, late_ms, start_text):
    """All ranks arrive together, except at the first all-reduce, because rank 2 starts late."""
    events = [[] for _ in range(4)]
    for step in range(6):
        start = step * STEP + (late_ms * 1_000 if step else 0)
        for rank in range(4):
            begin = start + (late_ms * 1_000 if rank == 2 and not step else 0)
            number = 2 * step + 1
            events[rank] += [
                call((begin + 10) * US, (begin + 20) * US, launch=number),
                kernel((begin + 100) * US, (begin + 6_000) * US, launch=number),
                call((begin + 30) * US, (begin + 40) * US, launch=number + 1),
                collective((begin + 6_000) * US,
                           (start + 6_500 + (0 if step else late_ms * 1_000)) * US,
                           ranks=(0, 1, 2, 3), seq=step, correlation=number + 1),
            ]  # fmt: skip
    traces = read(write(tmp_path, *events))
    frame = stragglers(traces)
    assert not frame["is_straggler"].any()
    assert frame["cause"].tolist() == ["", "", "late start", ""]
    assert frame["lost_ns"].tolist() == [0, 0, 0, 0]
    text = str(headline(traces)).replace("\u202f", " ")
    assert "wait for rank 2" not in text
    assert f"Rank 2 starts {start_text} after the others, which wait for it at first." in text


def replicas(tmp_path, work_us, transfer_us, *, replica_count=2):
    """Load replicas of two ranks: each pair computes, moves data, then meets the other replicas.

    `work_us` and `transfer_us` have one item per replica.
    """
    world = range(2 * replica_count)
    events = [[] for _ in world]
    meeting = max(work + transfer for work, transfer in zip(work_us, transfer_us, strict=True))
    for step in range(6):
        start = step * STEP
        for rank in world:
            replica = rank // 2
            computed = start + work_us[replica]
            moved = computed + transfer_us[replica]
            peers = tuple(other for other in world if other % 2 == rank % 2)
            events[rank] += [
                profiler_step(step),
                kernel((start + 10) * US, computed * US),
                collective(computed * US, moved * US, ranks=(2 * replica, 2 * replica + 1),
                           group=f"tp{replica}", seq=step, stream=9, elements=10**6),
                collective(moved * US, (start + meeting + 100) * US, ranks=peers,
                           group=f"dp{rank % 2}", seq=step),
            ]  # fmt: skip
    return load(tmp_path, *events)


@pytest.mark.parametrize("replica_count", [2, 4])
def test_a_replica_that_is_slower_than_the_others_is_named(tmp_path, replica_count):
    """The last replica delays its counterparts, while its own ranks hardly wait."""
    work_us = [5_000] * (replica_count - 1) + [7_000]
    traces = replicas(tmp_path, work_us, [200] * replica_count, replica_count=replica_count)
    frame = stragglers(traces)
    late = [2 * replica_count - 2, 2 * replica_count - 1]
    assert frame["rank"][frame["is_straggler"]].tolist() == late
    # The counterparts wait 2 of 10 ms.
    assert frame["lost_share"][late[0]] == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("transfer_us", [[200, 2_400], [2_900, 100]])
def test_ranks_with_slow_links_are_no_stragglers(tmp_path, transfer_us):
    traces = replicas(tmp_path, [5_000, 5_000], transfer_us)
    frame = stragglers(traces)
    assert not frame["is_straggler"].any()
    slow = [0, 1] if transfer_us[0] > transfer_us[1] else [2, 3]
    assert frame["cause"][slow].tolist() == ["waiting elsewhere"] * 2
    # 4 MB per transfer; with two ranks, bus and algorithm bandwidth are equal.
    text = str(headline(traces)).replace("\u202f", " ")
    rates = [4_000 / time for time in (max(transfer_us), min(transfer_us))]
    ranks = "–".join(map(str, slow)) if slow[1] - slow[0] > 1 else f"{slow[0]}, {slow[1]}"
    assert f"at {rates[0]:.2f} GB/s bus bandwidth on ranks {ranks}, {rates[1]:.1f} GB/s on" in text


@pytest.mark.parametrize("late", [(0, 2), (1, 3)])
def test_the_spread_of_other_groups_does_not_hide_a_rank_that_is_always_late(tmp_path, late):
    """One rank of each pair computes 1.7 ms longer; batch lengths differ between pairs."""
    events = [[] for _ in range(4)]
    for step in range(4):
        start = step * STEP
        lengths = [5_000 + 900 * ((step + pair) % 2) for pair in (0, 1)]
        for rank in range(4):
            computed = start + lengths[rank // 2] + 1_700 * (rank in late)
            moved = start + lengths[rank // 2] + 1_800
            pair = (rank // 2 * 2, rank // 2 * 2 + 1)
            events[rank] += [
                profiler_step(step),
                kernel((start + 10) * US, computed * US),
                collective(computed * US, moved * US, ranks=pair, group=f"tp{pair[0]}", seq=step,
                           stream=9),
                collective(moved * US, (start + max(lengths) + 2_000) * US,
                           ranks=(rank % 2, rank % 2 + 2), group=f"dp{rank % 2}", seq=step),
            ]  # fmt: skip
    frame = stragglers(load(tmp_path, *events))
    assert frame["rank"][frame["is_straggler"]].tolist() == [*late]
    assert set(frame["pattern"][frame["is_straggler"]]) == {"consistent"}


@pytest.mark.parametrize(
    ("before_first", "before_second", "causes"),
    [
        (loading, longer, ("data loading", "slower kernels")),
        (longer, loading, ("slower kernels", "data loading")),
        (longer, copying, ("slower kernels", "memory copies")),
    ],
)
def test_slow_ranks_of_different_causes_are_all_named(
    tmp_path, before_first, before_second, causes
):
    """Rank 3 is 1 500 µs late and rank 1 700 µs, so rank 1 is never last."""

    def before(rank, start, delay):
        return {3: before_first, 1: before_second}.get(rank, longer)(rank, start, delay)

    frame = stragglers(job(tmp_path, [[0, 700, 0, 1_500, 0, 0]] * 6, ranks=6, before=before))
    assert frame.score.tolist() == [0, 0, 0, 1, 0, 0]
    assert frame.is_straggler.tolist() == [False, True, False, True, False, False]
    assert (frame.cause[3], frame.cause[1]) == causes


def test_compute_hides_waits_but_not_the_transfers_that_they_delay(tmp_path):
    """Rank 2 arrives 1 000 µs late while the others compute; 900 µs follow."""
    events = [[] for _ in range(4)]
    for step in range(8):
        start = step * STEP
        for rank in range(4):
            arrival = start + (7_000 if rank == 2 else 6_000)
            events[rank] += [
                profiler_step(step),
                call((start + 10) * US, (start + 20) * US, launch=step + 1),
                kernel((start + 100) * US, (start + 7_000) * US, launch=step + 1),
                collective(arrival * US, (start + 7_900) * US, ranks=(0, 1, 2, 3), seq=step),
            ]  # fmt: skip
    traces = load(tmp_path, *events)
    frame = stragglers(traces)
    # On time, it would end at 6 900 µs and not delay the others; it delays them by 900 µs.
    assert frame.lost_ns.tolist() == [0, 0, 8 * 3 * 900 * US, 0]
    assert frame.is_straggler.tolist() == [False, False, True, False]
    assert analysis.exposed_waits(traces).exposed_wait_ns.tolist() == [0, 0, 0, 0]
    # The spans are 7 × 10 000 + 7 800 µs: 2 700 * 8 / (4 * 77 800).
    (waiting,) = (part for part in headline(traces).findings if part.kind == "waiting")
    assert waiting.text.replace("\u202f", " ") == (
        "3 of 4 ranks wait for rank 2: waits and the transfers that they delay take 6.9 % of each"
        " rank's GPU span, 5.40 ms a rank."
    )


@pytest.mark.parametrize(
    ("delays", "late"),
    [
        # Rank 5 becomes slower in the second half of the run.
        ([[0] * 5 + [max(0, step - 5) * 350, 0, 0] for step in range(12)], [5]),
        # Ranks take turns at being slow.
        ([[1_500 * (rank == step % 8) for rank in range(8)] for step in range(12)], []),
        # Three of twelve steps may be chance.
        ([[0] * 5 + [(0, 0, 0, 1_500)[step % 4], 0, 0] for step in range(12)], []),
    ],
)
def test_a_rank_that_becomes_slow_is_named(tmp_path, delays, late):
    frame = stragglers(job(tmp_path, delays, ranks=8, before=longer))
    assert frame["rank"][frame["is_straggler"]].tolist() == late
    assert set(frame["pattern"][frame["is_straggler"]]) <= {"occasional"}


@pytest.mark.parametrize(("steps", "late"), [(2, []), (3, [2])])
def test_few_collectives_are_enough_if_chance_is_ruled_out(tmp_path, steps, late):
    delays = [[0, 10, 1_000 + 10 * step, 0, 10, 0, 10, 0] for step in range(steps)]
    frame = stragglers(job(tmp_path, delays, ranks=8, before=longer))
    assert frame["rank"][frame["is_straggler"]].tolist() == late


def test_a_rank_that_is_never_last_has_a_cause(tmp_path):
    """Ranks 0 and 5 transfer longer; rank 1 computes longer and arrives 5 µs before rank 0."""
    late_us = [2_000, 1_995, 0, 0, 0, 1_990]
    events = [[] for _ in range(6)]
    for step in range(6):
        start = step * STEP
        for rank, (late, pair) in enumerate(
            zip(late_us, [(0, 5), (1, 2), (1, 2), (3, 4), (3, 4), (0, 5)], strict=True)
        ):
            computed = start + 4_000 + (late if rank == 1 else 0)
            transferred = 3_000 if pair == (0, 5) else 1_000
            events[rank] += [
                profiler_step(step),
                call((start + 10) * US, (start + 20) * US, launch=step + 1),
                *([collective((start + 100) * US, (start + 100 + transferred) * US, ranks=pair,
                              group=str(pair), seq=step, stream=9)]),
                kernel((start + 100 + transferred) * US, (computed + transferred) * US,
                       launch=step + 1),
                collective((start + 6_000 + late) * US, (start + 9_000) * US,
                           ranks=(0, 1, 2, 3, 4, 5), seq=step),
            ]  # fmt: skip
    frame = stragglers(load(tmp_path, *events))
    assert frame.score.tolist() == pytest.approx([0.5, 0, 0, 0, 0, 0])
    assert frame.cause.tolist() == ["waiting elsewhere", "slower kernels", "", "", "", ""]
    assert frame.is_straggler.tolist() == [False, True, False, False, False, False]


def test_in_one_step_no_rank_is_late_together_with_the_last(tmp_path):
    """In a single step, some of 16 ranks are nearly as late as the last one by chance."""
    late_us = [0] * 8 + [300, 600, 900, 1_300, 2_000, 2_100, 2_200, 2_400]
    events = [[] for _ in range(16)]
    for rank in range(16):
        begin = 0
        for number, length_us in enumerate((500, 500, 500, 500 + late_us[rank])):
            end = 600 * number + length_us
            events[rank] += [
                call((10 + 10 * number) * US, (15 + 10 * number) * US, launch=number + 1),
                kernel(begin * US, end * US),
                collective(end * US, (600 * number + 500 + 2_450 * (number == 3)) * US,
                           ranks=tuple(range(16)), seq=number, correlation=number + 1),
            ]  # fmt: skip
            begin = 600 * (number + 1)
    traces = load(tmp_path, *([profiler_step(0), *records] for records in events))
    frame = stragglers(traces)
    assert frame["rank"][frame["is_straggler"]].tolist() == [15]


def groups_then_all(tmp_path, groups, late_us, steps=6):
    """Load steps in which each group meets, then all ranks; `late_us` has one item per rank.

    Arrivals at the second meeting differ by one microsecond, and the last rank of each group
    changes from step to step.
    """
    ranks = tuple(rank for group in groups for rank in group)
    events = [[] for _ in ranks]
    for step in range(steps):
        start = step * STEP
        for number, group in enumerate(groups):
            met = start + 5_000 + max(late_us[rank] for rank in group) + 100
            for place, rank in enumerate(group):
                again = met + 10 + (place == step % len(group))
                events[rank] += [
                    profiler_step(step),
                    kernel((start + 10) * US, (start + 5_000 + late_us[rank]) * US),
                    collective((start + 5_000 + late_us[rank]) * US, met * US, ranks=tuple(group),
                               group=f"g{number}", seq=step, stream=9),
                    collective(again * US, (start + 5_500 + max(late_us)) * US, ranks=ranks,
                               group="all", seq=step),
                ]  # fmt: skip
    return load(tmp_path, *events)


@pytest.mark.parametrize(
    ("groups", "late"),
    [([(0, 1, 2, 3, 4), (5, 6, 7)], 6), ([(0, 1, 2, 3, 4), (5, 6)], 5), ([(0, 1), (2, 3)], 2)],
)
def test_a_rank_that_makes_its_group_late_is_charged_with_the_waits_for_the_group(
    tmp_path, groups, late
):
    """One late rank makes all ranks of its group late for the meeting of all ranks."""
    late_us = [1_600 if rank == late else 0 for group in groups for rank in group]
    traces = groups_then_all(tmp_path, groups, late_us)
    frame = stragglers(traces)
    assert frame["rank"][frame["is_straggler"]].tolist() == [late]
    # All other ranks wait 1.6 ms in each step of 10 ms.
    assert frame["lost_share"][late] == pytest.approx(0.16, abs=0.01)
    count = len(late_us)
    text = str(headline(traces)).replace("\u202f", " ")
    assert f"{count - 1} of {count} ranks wait for rank {late}: " in text
    assert "of that is for" not in text


@pytest.mark.parametrize(("tensor", "late"), [(2, 3), (4, 6), (2, 4)])
def test_counterparts_of_ranks_that_waited_for_a_straggler_wait_for_it_too(tmp_path, tensor, late):
    """The late rank makes its tensor group late, and thus all counterparts in the data groups."""
    events = [[] for _ in range(8)]
    for step in range(5):
        start = step * STEP
        for rank in range(8):
            first = rank // tensor * tensor
            is_late = first <= late < first + tensor
            computed = start + 5_000 + 1_600 * (rank == late)
            met = start + 5_100 + 1_600 * is_late
            events[rank] += [
                profiler_step(step),
                kernel((start + 10) * US, computed * US),
                collective(computed * US, met * US, ranks=tuple(range(first, first + tensor)),
                           group=f"tp{first}", seq=step, stream=9),
                collective((met + 10) * US, (start + 7_000) * US, group=f"dp{rank % tensor}",
                           ranks=tuple(range(rank % tensor, 8, tensor)), seq=step),
            ]  # fmt: skip
    traces = load(tmp_path, *events)
    assert straggler_report(traces).stragglers == [late]
    text = str(headline(traces)).replace("\u202f", " ")
    assert f"7 of 8 ranks wait for rank {late}: " in text
    assert "of that is for" not in text


@pytest.mark.parametrize("early_us", [20_000, 4_000])
def test_a_recording_that_starts_earlier_excuses_no_rank(tmp_path, early_us):
    """The first recording starts earlier; rank 3 shows that its own started as usual."""
    events = [[] for _ in range(4)]
    for step in range(5):
        start = early_us + step * STEP
        for rank in range(4):
            late_us = 3_000 * (rank == 3)
            begins = rank in {0, 3} or step
            events[rank] += [
                *([kernel((start + 10) * US, (start + 5_000 + late_us) * US)] if begins else []),
                collective((start + 5_000 + late_us) * US, (start + 8_500) * US,
                           ranks=(0, 1, 2, 3), seq=step),
            ]  # fmt: skip
    events[0].append(kernel(0, 100 * US))
    frame = stragglers(read(write(tmp_path, *events)))
    assert frame["lost_ns"].tolist() == [0, 0, 0, 5 * 3 * 3_000 * US]


@pytest.mark.parametrize("first_us", [10, 400])
def test_a_late_first_send_is_no_late_recording(tmp_path, first_us):
    """Communication-only files begin with a send between neighbors, for which rank 2 is late."""
    events = [[] for _ in range(4)]
    for step in range(5):
        start = step * STEP
        for rank in range(4):
            low = rank // 2 * 2
            late_us = 3_000 * (rank == 2)
            sent = start + first_us + late_us
            events[rank] += [
                collective(sent * US, (start + first_us + 3_000 * (low == 2) + 50) * US,
                           name="allreduce", ranks=(low, low + 1), group=f"p{low}", seq=step,
                           stream=9),
                collective((start + first_us + 3_000 * (low == 2) + 60) * US, (start + 8_500) * US,
                           ranks=(0, 1, 2, 3), group="all", seq=step),
            ]  # fmt: skip
    frame = stragglers(load(tmp_path, *events))
    # One rank waits in the pair, and two in the group of all ranks.
    assert frame["lost_ns"].tolist() == [0, 0, 5 * 3 * 3_000 * US, 0]


@pytest.mark.parametrize(("late_ms", "is_longer"), [(20, True), (5, True), (20, False)])
def test_a_late_recording_does_not_make_slower_kernels_extra_work(tmp_path, late_ms, is_longer):
    """Rank 2's recording starts late; its kernels are slower, or there are more of them."""
    events = [[] for _ in range(4)]
    for step in range(6):
        start = step * STEP + late_ms * 1_000
        for rank in range(4):
            is_slow = rank == 2
            arrival = start + 5_000 + 1_600 * is_slow
            starts = range(start + 100, start + 5_000, 700)
            lengths = [700 * (arrival - start) // 5_000 if is_longer else 700] * len(starts)
            if is_longer and is_slow:
                starts = [start + 100 + place * lengths[0] for place in range(len(starts))]
            elif is_slow:
                starts, lengths = [*starts, start + 5_000, start + 5_700], [*lengths, 700, 700]
            events[rank] += [
                *(kernel(begin * US, (begin + length) * US)
                  for begin, length in zip(starts, lengths, strict=True)),
                collective(arrival * US, (start + 7_000) * US, ranks=(0, 1, 2, 3), seq=step),
            ]  # fmt: skip
    for rank in (0, 1, 3):
        events[rank].append(kernel(0, 10 * US))
    frame = stragglers(read(write(tmp_path, *events)))
    assert frame["is_straggler"].tolist() == [False, False, True, False]
    assert frame["cause"][2] == ("slower kernels" if is_longer else "extra work")


@pytest.mark.parametrize("late", [(1,), (2, 3)])
def test_a_late_recording_excuses_only_as_much_as_it_is_late(tmp_path, late):
    """Half of the ranks start 2 ms later, and one of them computes 3 ms longer."""
    ranks = 2 * len(late)
    slow = late[0]
    events = [[] for _ in range(ranks)]
    for step in range(5):
        start = step * STEP
        for rank in range(ranks):
            begin = start + (2_000 if rank in late and not step else 0)
            arrival = start + 3_000 + (2_000 if rank in late and not step else 0)
            arrival += 3_000 * (rank == slow)
            events[rank] += [
                kernel((begin + 10) * US, arrival * US),
                collective(arrival * US, (start + 9_000) * US, ranks=tuple(range(ranks)), seq=step),
            ]  # fmt: skip
    lost_ns = stragglers(read(write(tmp_path, *events)))["lost_ns"]
    # At the first collective the others wait 5 ms, or 3 ms if they also start later.
    first_us = sum(3_000 if rank in late else 5_000 for rank in range(ranks) if rank != slow)
    own_share = 3 / 5
    later_us = 4 * (ranks - 1) * 3_000
    assert lost_ns[slow] == pytest.approx((first_us * own_share + later_us) * US, rel=0.001)
