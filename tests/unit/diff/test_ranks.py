"""Ranks that changed while all others did not, late or not."""

import pytest
from support.collective_job import collective
from support.small import call, copy, event, kernel, load
from support.turned import assert_mirrored

from hta_widgets import diff as hd
from hta_widgets.trace.traceset import TraceSet

pytestmark = pytest.mark.slow

STEP_NS = 1_000_000


def texts(diff):
    return [finding.text.replace("\u202f", " ") for finding in hd.findings(diff)]


def independent_job(tmp_path, *work_ns, steps=3, varying=None):
    """Load ranks without collectives, whose steps end 100 µs after their only kernel.

    In the last step, the work of rank `varying` takes 300 µs longer.
    """
    ranks = []
    for rank, work in enumerate(work_ns):
        records, now = [], 0
        for number in range(steps):
            # Each step takes 1 ns more than the one before, so that times have a spread.
            length = work + number + 300_000 * (rank == varying and number == steps - 1)
            records += [
                event("user_annotation", f"ProfilerStep#{number}", now, now + length + 100_000),
                call(now + 10, now + 20, launch=number + 1),
                kernel(now + 1000, now + 1000 + length, launch=number + 1),
            ]
            now += length + 100_000
        ranks.append(records)
    return load(tmp_path, *ranks)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_rank_that_nobody_waits_for_changed_alone(tmp_path, steps):
    even = independent_job(tmp_path, 900_000, 900_000, 900_000, 900_000, steps=steps)
    slow = independent_job(tmp_path, 900_000, 900_000, 1_125_000, 900_000, steps=steps)
    first, second, *_ = texts(assert_mirrored(even, slow)[0])
    # A quarter of 225 µs, as the mean over ranks: 56.25 µs.
    assert first.startswith(
        "After takes 56.3 µs longer a step: 1.00 ms → 1.06 ms, +5.6 % (mean over ranks): "
        "rank 2 changed alone (compute +25 %)"
    )
    assert second == "Rank 2 changed alone: its compute +25 % (the others ±0 %)."


def test_ranks_that_changed_alike_are_one_finding(tmp_path):
    even = independent_job(tmp_path, *[900_000] * 6)
    both = independent_job(tmp_path, 909_000, 1_080_000, 909_000, 909_000, 1_080_000, 909_000)
    _, ranks, *_ = hd.findings(assert_mirrored(even, both)[0])
    assert (ranks.ranks, ranks.measure) == ((1, 4), "compute")
    assert ranks.text.replace("\u202f", " ") == (
        "Ranks 1, 4 changed alone: their compute +20 % (the others +1.0 %)."
    )
    # If the whole job changed, no rank is named.
    most = independent_job(tmp_path, *[1_080_000] * 4, 900_000, 1_080_000)
    named = [findings.ranks for findings in hd.findings(hd.compare(even, most)) if findings.ranks]
    assert named == [(4,)]
    every = independent_job(tmp_path, *range(1_080_000, 1_380_000, 50_000))
    assert not any(findings.ranks for findings in hd.findings(hd.compare(even, every)))


def synchronous_job(tmp_path, work_ns, *, copied_ns):
    """Load ranks that meet in a collective in each step; the first rank copies afterwards."""
    ranks = []
    for rank, work in enumerate(work_ns):
        records, end = [], max(work_ns) + 100_000
        for number in range(6):
            now = number * STEP_NS
            records += [
                event("user_annotation", f"ProfilerStep#{number}", now, now + STEP_NS),
                call(now + 10, now + 20, launch=number + 1),
                kernel(now + 1000, now + 1000 + work, launch=number + 1),
                collective(now + 1000 + work, now + end, ranks=(0, 1, 2, 3)),
            ]
            if copied_ns and rank == 0:
                records.append(copy(now + end, now + end + copied_ns, stream=9))
        ranks.append(records)
    return load(tmp_path, *ranks)


def test_waits_are_not_for_a_rank_that_changed_in_another_way(tmp_path):
    before = synchronous_job(tmp_path, [600_000] * 4, copied_ns=0)
    after = synchronous_job(tmp_path, [600_000] * 2 + [750_000, 600_000], copied_ns=120_000)
    late, copying = [finding for finding in hd.findings(hd.compare(before, after)) if finding.ranks]
    assert late.text.replace("\u202f", " ") == (
        "Rank 2 now keeps the others waiting: its compute +25 % (the others ±0 %); "
        "ranks 0, 1, 3 wait 150 µs longer each a step."
    )
    assert copying.text.replace("\u202f", " ") == (
        "Rank 0 changed unlike the others: its exposed copies 0 ns → 120 µs (the others ±0 %)."
    )


@pytest.mark.parametrize(("ranks", "share"), [(4, 3), (6, 2.5)])
def test_a_rank_that_changed_by_a_few_percent_is_named(tmp_path, ranks, share):
    work = [900_000] * ranks
    even = independent_job(tmp_path, *work)
    work[1] += round(9_000 * share)
    slow = independent_job(tmp_path, *work)
    _, second, *_ = texts(assert_mirrored(even, slow)[0])
    assert second == f"Rank 1 changed alone: its compute +{share:.1f} % (the others ±0 %)."


@pytest.mark.parametrize(("share", "is_named"), [(4, False), (6, True)])
def test_one_of_two_ranks_is_named_from_5_percent_on(tmp_path, share, is_named):
    even = independent_job(tmp_path, 900_000, 900_000)
    slow = independent_job(tmp_path, 900_000, 900_000 + 9_000 * share)
    findings = texts(assert_mirrored(even, slow)[0])
    assert any("Rank 1 changed alone" in text for text in findings) == is_named


@pytest.mark.parametrize("varying", [None, 0, 5])
def test_no_rank_changed_alone_beside_one_that_changed_as_much_in_one_step(tmp_path, varying):
    even = independent_job(tmp_path, *[900_000] * 6)
    slow = independent_job(tmp_path, *[900_000] * 3, 990_000, *[900_000] * 2, varying=varying)
    named = [finding.ranks for finding in hd.findings(hd.compare(even, slow)) if finding.ranks]
    assert named == ([(3,)] if varying is None else [])


def meeting_job(tmp_path, ranks, steps, work_ns, *, idle_ns=lambda *_: 100_000):
    """Load ranks that idle, compute and meet in each step; functions return the times.

    A collective ends 100 µs after its last arrival, and the step 50 µs later.
    """
    members = range(ranks)
    records, now = [[] for _ in members], 0
    for number in range(steps):
        starts = [now + idle_ns(rank, number) for rank in members]
        ends = [starts[rank] + work_ns(rank, number) for rank in members]
        done = max(ends) + 100_000
        for rank in members:
            launched = starts[rank] - 2_000
            records[rank] += [
                event("user_annotation", f"ProfilerStep#{number}", now, done + 50_000, pid=10),
                call(launched, launched + 1_000, launch=number + 1),
                kernel(starts[rank], ends[rank], launch=number + 1),
                collective(ends[rank], done, ranks=tuple(members)),
            ]
        now = done + 50_000
    return load(tmp_path, *records)


@pytest.mark.parametrize(("slow_rank", "factor"), [(1, 1_000), (0, 600)])
def test_no_rank_is_named_for_the_chance_of_its_host(tmp_path, slow_rank, factor):
    """The data loading times of two hosts in three steps come from the same distribution."""

    def side(*loading):
        return meeting_job(
            tmp_path, 2, 3, lambda rank, _: factor * (7_500 if rank == slow_rank else 6_000),
            idle_ns=lambda rank, number: factor * loading[rank == slow_rank][number],
        )  # fmt: skip

    before = side((2_730, 1_668, 1_944), (2_009, 1_692, 1_744))
    after = side((1_414, 1_225, 1_440), (2_373, 2_844, 2_545))
    for diff in assert_mirrored(before, after):
        assert not any(finding.ranks for finding in hd.findings(diff))


def test_a_rank_of_many_is_named_after_three_steps(tmp_path):
    """Times vary by 1 %, so a change of 12 % has a p-value of 0.001."""
    scatter = (-9_000, 0, 9_000, -9_000)

    def side(rank_3_ns):
        return meeting_job(
            tmp_path, 8, 3, lambda rank, number: (rank_3_ns if rank == 3 else 900_000)
            + scatter[number + rank % 2],
        )  # fmt: skip

    findings = texts(hd.compare(side(900_000), side(792_000)))
    assert any("Rank 3 changed alone: its compute −12 %" in text for text in findings)


def test_the_only_compared_rank_is_late(tmp_path):
    even, late = (
        meeting_job(tmp_path, 3, 4, lambda rank, _, ns=ns: ns if rank == 1 else 900_000)
        for ns in (900_000, 1_500_000)
    )
    findings = hd.findings(hd.compare(even, late, ranks={1: 1}))
    assert [finding.ranks for finding in findings if finding.kind == "straggler"] == [(1,)]


@pytest.mark.parametrize(
    ("ranks", "slow", "words"),
    [
        (4, {1: 0.25, 3: 0.25}, "their compute +25 % (the others ±0 %); ranks 0, 2 wait 150 µs"),
        (6, {0: 0.20, 5: 0.24}, "their compute +22 % (the others ±0 %); ranks 1–4 wait 144 µs"),
    ],
)
def test_equally_late_ranks_are_named_together(tmp_path, ranks, slow, words):
    def work_ns(rank, number):
        return round(600_000 * (1 + slow.get(rank, 0))) + 300 * (number % 3)

    even = meeting_job(tmp_path, ranks, 6, lambda _, number: 600_000 + 300 * (number % 3))
    late = meeting_job(tmp_path, ranks, 6, work_ns)
    first, second, *rest = texts(hd.compare(even, late))
    numbers = ", ".join(map(str, slow))
    assert second == f"Ranks {numbers} now keep the others waiting: {words} longer each a step."
    assert f": ranks {numbers} now keep the others waiting (compute +" in first
    assert not any(text.startswith("Rank") for text in rest)
    back = texts(hd.compare(late, even))
    assert back[1].startswith(f"Ranks {numbers} no longer keep the others waiting: their compute −")


@pytest.mark.parametrize(("ranks", "other"), [(6, 3), (8, 5)])
def test_ranks_that_are_late_in_turn_are_one_finding(tmp_path, ranks, other):
    """Rank 1 is last in half of the steps, another rank in the other half."""

    def work_ns(rank, number):
        late_ns = {1: 160_000, other: 170_000 - 20_000 * (number % 2)}.get(rank, 0)
        return 600_000 + late_ns + 300 * (number % 3)

    even = meeting_job(tmp_path, ranks, 6, lambda _, number: 600_000 + 300 * (number % 3))
    first, *rest = hd.findings(hd.compare(even, meeting_job(tmp_path, ranks, 6, work_ns)))
    numbers = tuple(sorted((1, other)))
    assert [finding.ranks for finding in rest if finding.ranks] == [numbers]
    assert [part.ranks for part in first.parts] == [numbers]


def test_ranks_that_changed_by_very_different_amounts_are_two_findings(tmp_path):
    even = independent_job(tmp_path, *[900_000] * 6)
    slow = independent_job(tmp_path, 900_000, 1_170_000, 900_000, 963_000, *[900_000] * 2)
    named = [finding for finding in hd.findings(hd.compare(even, slow)) if finding.ranks]
    assert [(finding.ranks, finding.diff_ns) for finding in named] == [
        ((1,), 270_000), ((3,), 63_000)
    ]  # fmt: skip


def test_a_late_rank_without_a_file_before_is_in_the_first_sentence(tmp_path):
    even = meeting_job(tmp_path, 4, 6, lambda _, number: 600_000 + 300 * (number % 3))
    late = meeting_job(
        tmp_path, 4, 6, lambda rank, number: 600_000 + 150_000 * (rank == 2) + 300 * (number % 3)
    )
    without = TraceSet([even[rank] for rank in (0, 1, 3)], like=even)
    first, second, *_ = texts(hd.compare(without, late, labels=("old", "new")))
    clause = "ank 2, which exists only in new, keeps the others waiting there"
    assert first.endswith(f": r{clause}.")
    assert second.startswith(f"R{clause}: ")


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_host_that_is_ahead_is_not_a_change_of_its_rank(tmp_path, ahead):
    """The rank's device waits in the collective instead of idling before its kernel."""

    def idle_ns(rank, number):
        return (200_000 if rank == ahead else 300_000) + 300 * (number % 3)

    together = meeting_job(
        tmp_path, 3, 6, lambda *_: 300_000, idle_ns=lambda _, number: 300_000 + 300 * (number % 3)
    )
    diff = hd.compare(together, meeting_job(tmp_path, 3, 6, lambda *_: 300_000, idle_ns=idle_ns))
    assert [finding.ranks for finding in hd.findings(diff) if finding.ranks] == []
    # A host that is behind delays all ranks.
    behind = meeting_job(
        tmp_path, 3, 6, lambda *_: 300_000,
        idle_ns=lambda rank, number: (400_000 if rank == ahead else 300_000) + 300 * (number % 3),
    )  # fmt: skip
    named = [finding for finding in hd.findings(hd.compare(together, behind)) if finding.ranks]
    assert [(finding.ranks, finding.measure) for finding in named] == [((ahead,), "idle")]


@pytest.mark.parametrize("copied", [60_000, 120_000])
def test_a_copy_that_is_no_longer_hidden_is_not_a_change_of_its_rank(tmp_path, copied):
    """All ranks copy the same. Rank 1's copy used to be hidden by a kernel, at least in part."""

    def job(hidden):
        ranks = []
        for rank in range(4):
            records = []
            for number in range(6):
                now = number * STEP_NS
                start = now + 1_000 if rank == 1 and hidden else now + 700_000
                if rank != 1:
                    start = now + 650_000
                records += [
                    event("user_annotation", f"ProfilerStep#{number}", now, now + STEP_NS),
                    call(now + 10, now + 20, launch=number + 1),
                    kernel(now + 1000, now + 601_000 + number, launch=number + 1),
                    collective(now + 610_000, now + 640_000, ranks=(0, 1, 2, 3)),
                    copy(start, start + copied, stream=9),
                ]
            ranks.append(records)
        return load(tmp_path, *ranks)

    diff = hd.compare(job(hidden=True), job(hidden=False))
    assert [finding.ranks for finding in hd.findings(diff) if finding.ranks] == []


@pytest.mark.parametrize(("steps", "first", "last"), [(8, 4, 7), (9, 0, 3), (7, 4, 6)])
def test_steps_that_changed_together_are_named_with_their_rank(tmp_path, steps, first, last):
    """Rank 2 takes 50 % longer from one step on, or up to one step."""
    even = meeting_job(tmp_path, 4, steps, lambda _, number: 600_000 + 300 * (number % 3))

    def work_ns(rank, number):
        return 600_000 + 300_000 * (rank == 2 and first <= number <= last) + 300 * (number % 3)

    diff = hd.compare(even, meeting_job(tmp_path, 4, steps, work_ns))
    sentences = texts(diff)
    assert ": rank 2 now keeps the others waiting (compute +" in sentences[0]
    assert sentences[0].endswith(f"); {last - first + 1} of {steps} steps cause most of it.")
    run = f"{first}–{last}"
    assert any(
        text.startswith(f"Only {last - first + 1} of {steps} steps stand out as slower ({run}), by "
                        "300 µs at most: waiting for other ranks grows by 225 µs")
        for text in sentences
    )  # fmt: skip


def waiting_job(tmp_path, work_ns, ranks):
    """Load some ranks of a job in which all ranks meet in a collective in each step."""
    whole = synchronous_job(tmp_path, work_ns, copied_ns=0)
    return TraceSet([whole[rank] for rank in ranks], like=whole)


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        (2, "Rank 2, which exists only in after, keeps the others"),
        (0, "Rank 2 changed alone: its comp"),
    ],
)
def test_a_late_rank_is_named_if_the_other_side_lacks_a_file(tmp_path, missing, text):
    """In "after", rank 2 computes 150 µs longer; in "before", it or rank 0 has no file."""
    even, late = [600_000] * 4, [600_000, 600_000, 750_000, 600_000]
    before = waiting_job(tmp_path, even, [rank for rank in range(4) if rank != missing])
    after = waiting_job(tmp_path, late, range(4))
    diff = hd.compare(before, after, labels=("before", "after"))
    (finding,) = [finding for finding in hd.findings(diff) if finding.ranks]
    assert (finding.ranks, finding.diff_ns) == ((2,), 150_000)
    assert finding.text.startswith(text)


@pytest.mark.parametrize("late", [1, 3])
def test_a_rank_that_is_as_slow_as_before_is_not_named(tmp_path, late):
    """Of two slow ranks, the lower one is charged; then the other one remains slow alone."""
    both = synchronous_job(tmp_path, [600_000, 750_000, 600_000, 750_000], copied_ns=0)
    work_ns = [750_000 if rank == late else 600_000 for rank in range(4)]
    alone = synchronous_job(tmp_path, work_ns, copied_ns=0)
    for sides in ((both, alone), (alone, both)):
        named = [finding.ranks for finding in hd.findings(hd.compare(*sides)) if finding.ranks]
        assert named == [(4 - late,)]


def gloo_job(tmp_path, work_ns, steps=4):
    """Load hosts without devices that meet in Gloo and leave 50 µs after the last arrival."""
    ranks = []
    for work in work_ns:
        records = []
        for number in range(steps):
            now = number * STEP_NS
            arrival, end = now + work + number, now + max(work_ns) + 50_000
            records += [
                event("user_annotation", f"ProfilerStep#{number}", now, now + STEP_NS, pid=10),
                event("cpu_op", "aten::mm", now, arrival, pid=10),
                event("cpu_op", "gloo:all_reduce", arrival, end, pid=10),
            ]
        ranks.append(records)
    return load(tmp_path, *ranks)


@pytest.mark.parametrize("late", [0, 2])
def test_a_rank_whose_host_keeps_the_others_waiting_in_gloo(tmp_path, late):
    even = [500_000] * 3
    slow = [700_000 if rank == late else 500_000 for rank in range(3)]
    diff = hd.compare(gloo_job(tmp_path, even), gloo_job(tmp_path, slow))
    causes = hd.waterfall(diff, "cause").set_index("cause")["diff_ns"]
    # Means of three ranks over four steps of 1 ms: two ranks wait 200 µs longer and one works
    # longer, so less time is left after the collective.
    assert causes["communication_wait"] == 4 * 2 * 200_000 // 3
    assert causes["host"] == -causes["communication_wait"]
    (rank,) = [finding for finding in hd.findings(diff) if finding.ranks]
    assert (rank.ranks, rank.measure) == ((late,), "cpu")
    assert "0 ns" not in rank.text
    operators = hd.waterfall(diff, "operator")
    assert "gloo:all_reduce" in set(operators["name"])


@pytest.mark.parametrize("turned", [False, True])
def test_a_late_rank_that_becomes_later_is_named(jobs, turned):
    late, later = (jobs(seed, (), (("straggler", 2), ("factor", factor)))[0]
                   for seed, factor in ((31, 1.25), (32, 1.6)))  # fmt: skip
    first, second, *_ = texts(hd.compare(*((later, late) if turned else (late, later))))
    assert ": rank 2 changed alone (compute " in first
    way = "less" if turned else "longer"
    assert second.startswith("Rank 2 changed alone: its compute ")
    assert second.endswith(f"{way} each a step.")
    assert "; ranks 0, 1, 3 wait " in second


def test_one_step_is_enough_for_a_rank_that_is_slower_by_a_quarter(jobs):
    before, _ = jobs(22, (), (("straggler", None),))
    after, _ = jobs(23, (), (("straggler", 2), ("factor", 1.25)))
    first, second, *_ = texts(hd.compare(before.select("step == 2"), after.select("step == 2")))
    assert "rank 2 changed alone (compute +2" in first
    assert "too few to tell a change from noise" in first
    assert second.startswith("Rank 2 changed alone: its compute +2")


@pytest.mark.parametrize("around", ["", "c10d::reduce_", "record_param_comms"])
def test_a_collective_that_waits_for_a_missing_rank_is_not_called_slower(tmp_path, around):
    def job(communication_ns):
        """Ranks 0 and 1 of 3; the missing rank 2 may arrive last."""
        ranks = []
        for _ in range(2):
            records = []
            for at in range(0, 4 * STEP_NS, STEP_NS):
                end = at + 500_000 + communication_ns + at // STEP_NS
                records += [
                    event("user_annotation", f"ProfilerStep#{at // STEP_NS}", at, at + STEP_NS),
                    call(at + 20, at + 30, launch=at + 1),
                    collective(at + 500_000, end, ranks=(0, 1, 2), launch=at + 1),
                ]
                records += [event("cpu_op", around, at + 10, at + 40, pid=10)] * bool(around)
            ranks.append(records)
        return load(tmp_path, *ranks)

    (change,) = [
        finding
        for finding in hd.findings(hd.compare(job(100_000), job(200_000)))
        if finding.kind == "slower"
    ]
    assert (around or "nccl") in change.name
    assert "takes longer on the device, including waits for other ranks: 100" in change.text


def linked_job(tmp_path, transfer_ns, *, hidden=False):
    """Load pairs of ranks that compute for 500 µs, then transfer for `transfer_ns` of the pair.

    With `hidden`, the first rank of the last pair computes meanwhile.
    """
    ranks = []
    for rank in range(2 * len(transfer_ns)):
        records, pair = [], rank // 2
        length = 510_000 + transfer_ns[pair]
        for number in range(5):
            now = number * length
            end = now + 501_000 + transfer_ns[pair]
            records += [
                event("user_annotation", f"ProfilerStep#{number}", now, now + length),
                event("cpu_op", "record_param_comms", now + 30, now + 90, pid=10),
                call(now + 10, now + 20, launch=2 * number + 1),
                kernel(now + 1000, now + 501_000 + number, launch=2 * number + 1),
                call(now + 40, now + 80, launch=2 * number + 2),
                collective(now + 501_000 + number, end, ranks=(2 * pair, 2 * pair + 1),
                           group=str(pair), seq=number, correlation=2 * number + 2),
            ]  # fmt: skip
            if hidden and rank == 2 * len(transfer_ns) - 2:
                records.append(kernel(now + 502_000, end, stream=9))
        ranks.append(records)
    return load(tmp_path, *ranks)


@pytest.mark.parametrize("pairs", [2, 3])
def test_ranks_whose_links_became_slower_are_named(tmp_path, pairs):
    even = linked_job(tmp_path, [100_000] * pairs)
    slow = linked_job(tmp_path, [100_000] * (pairs - 1) + [400_000])
    findings = texts(assert_mirrored(even, slow)[0])
    ranks = f"anks {2 * pairs - 2}, {2 * pairs - 1} changed alone"
    assert f"R{ranks}: their exposed transfer +300 % (the others ±0 %)." in findings
    change = next(text for text in findings if text.startswith("record_param_comms"))
    assert change.startswith("record_param_comms (all-reduce) is slower on the device: ")


def test_a_transfer_that_is_only_less_hidden_is_not_slower(tmp_path):
    hidden = linked_job(tmp_path, [100_000] * 3, hidden=True)
    exposed = linked_job(tmp_path, [100_000] * 3)
    named = [finding for finding in hd.findings(hd.compare(hidden, exposed)) if finding.ranks]
    assert all(finding.measure != "transfer" for finding in named)


@pytest.mark.parametrize("late", [1, 2])
def test_a_transfer_beside_a_wait_in_another_group_is_not_shorter(tmp_path, late):
    """Rank `late` computes 150 µs longer, so its partner waits in their collective.

    Meanwhile, a collective of all ranks transfers data for as long as before.
    """

    def job(delays):
        ranks = []
        for rank, delay in enumerate(delays):
            records = []
            for number in range(5):
                now = number * STEP_NS
                pair = (0, 1) if rank < 2 else (2, 3)
                end = now + 450_000 + max(delays[member] for member in pair)
                records += [
                    event("user_annotation", f"ProfilerStep#{number}", now, now + STEP_NS),
                    call(now + 10, now + 20, launch=3 * number + 1),
                    kernel(now + 1_000, now + 300_000 + delay + number, launch=3 * number + 1),
                    collective(now + 400_000 + delay, end, ranks=pair,
                               group=str(pair), seq=number, stream=20),
                    collective(now + 420_000, now + 800_000, ranks=(0, 1, 2, 3),
                               group="all", seq=number, stream=24),
                ]  # fmt: skip
            ranks.append(records)
        return load(tmp_path, *ranks)

    even = job([0] * 4)
    slow = job([150_000 * (rank == late) for rank in range(4)])
    named = [finding for finding in hd.findings(hd.compare(even, slow)) if finding.ranks]
    assert [(finding.ranks, finding.measure) for finding in named] == [((late,), "compute")]


@pytest.mark.parametrize(
    ("category", "name", "reason"),
    [
        ("python_function", "gc.collect", ", while its host was inside gc.collect"),
        ("user_annotation", "torch.save", ", while its host was inside torch.save"),
        ("user_annotation", "enumerate(DataLoader)#_Iter.__next__", ", after data loading"),
    ],
)
def test_why_the_device_of_a_late_rank_idles_is_said(tmp_path, category, name, reason):
    def job(pause_ns):
        ranks = []
        for rank in range(4):
            records = []
            for number in range(6):
                now = number * (525_000 + pause_ns)
                start = now + 1000 + (pause_ns if rank == 2 else 1000)
                end = now + 525_000 + pause_ns
                records += [
                    event("user_annotation", f"ProfilerStep#{number}", now, end),
                    event(category, name, now + 500, start - 200, pid=10),
                    call(start - 100, start - 10, launch=2 * number + 1),
                    kernel(start, start + 500_000, launch=2 * number + 1),
                    call(start - 9, start - 1, launch=2 * number + 2),
                    collective(start + 500_000, now + 520_000 + pause_ns, ranks=(0, 1, 2, 3),
                               seq=number, correlation=2 * number + 2),
                ]  # fmt: skip
            ranks.append(records)
        return load(tmp_path, *ranks)

    first, second, *_ = texts(hd.compare(job(1_000), job(301_000)))
    assert f"{reason})" in first
    assert second.startswith("Rank 2 now keeps the others waiting: its idle time of the device ")
    assert f"{reason} (the others" in second
