"""Injected changes are each found once, and nothing else is found."""

import itertools
import re

import numpy as np
import pytest
from support.collective_job import collective
from support.small import call, copy, event, kernel, load
from support.turned import assert_mirrored

import hta_widgets as hw
from hta_widgets import diff as hd
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.training_step import CHANGES
from hta_widgets.diff.causes import step_times_by_cause
from hta_widgets.diff.changes import how_replaced

pytestmark = pytest.mark.slow


def op(name, start, end):
    return event("cpu_op", name, start, end, pid=10)


def changes_of(diff):
    result = hd.changes(diff)
    return set(zip(result["change"], result["name"], strict=True))


@pytest.mark.parametrize("seeds", [(0, 1), (2, 3)])
def test_each_injected_change_is_found_and_nothing_else(jobs, seeds):
    (before, _), (after, truth) = jobs(seeds[0]), jobs(seeds[1], CHANGES)
    diff = hd.compare(before, after)
    expected = {(item["change"], item["name"]) for item in truth["changes"]}
    assert len(expected) == len(CHANGES)
    assert changes_of(diff) == expected
    frame = hd.changes(diff).set_index("name")
    slow = frame.loc["aten::gelu"]
    assert slow["measure"] == "device and host"
    assert slow["after_ns"] / slow["before_ns"] == pytest.approx(2, rel=0.05)
    assert slow["before_count"] == slow["after_count"] > 0
    fused = frame.loc["aten::native_layer_norm_backward"]
    assert fused["before_count"] == 2 * fused["after_count"] > 0
    assert len(fused["before_names"].split("; ")) == 2
    assert "layer_norm_backward_fused" in fused["after_names"]
    assert fused["how"] == "fused"
    assert set(frame.loc[["aten::gelu", "c10d::allreduce_"], "how"]) == {""}
    moved = frame.loc["c10d::allreduce_"]
    assert moved["before_count"] == moved["after_count"] == 1
    # The same collective, so the same transfer, without waiting.
    assert abs(moved["diff_ns"]) < 0.1 * moved["before_ns"]
    copied = frame.loc["aten::contiguous"]
    assert (copied["before_count"], copied["after_count"]) == (0, 1)
    names = hd.names(diff).set_index("name")
    copies = names.loc["Memcpy DtoD (Device -> Device)"]
    assert (copies["change"], copies["after_count_per_step"]) == ("added", 1)
    assert copied["after_ns"] == pytest.approx(copies["after_ns_per_step"])
    fused_name = fused["after_names"]
    assert names.loc[fused_name, "change"] == "replaced"
    assert names.loc[fused_name, "replaced_by"] in fused["before_names"]


@pytest.mark.parametrize("change", CHANGES)
def test_one_change_alone_is_found_alone(jobs, change):
    (before, _), (after, truth) = jobs(0), jobs(4, [change])
    expected = {(item["change"], item["name"]) for item in truth["changes"]}
    assert changes_of(hd.compare(before, after)) == expected


@pytest.mark.parametrize("turned", [False, True])
def test_a_straggler_that_appears_or_vanishes_is_the_finding(jobs, turned):
    slow, truth = jobs(21, (), (("straggler", 2), ("factor", 1.5)))
    healthy, _ = jobs(22, (), (("straggler", None),))
    assert truth["straggler"] == 2
    sides = (healthy, slow) if turned else (slow, healthy)
    diff = hd.compare(*sides)
    findings = hd.findings(diff)
    clause = f"rank 2 {'now keeps' if turned else 'no longer keeps'} the others waiting"
    assert [item.kind for item in findings[:2]] == ["headline", "straggler"]
    cause = re.escape(f"(mean over ranks): {clause} (compute ") + r"[+−]\d+ %\)\."
    assert re.search(f"{cause}$", findings[0].text.replace("\u202f", " "))
    text = findings[1].text.replace("\u202f", " ")
    way = "longer" if turned else "less"
    assert re.fullmatch(
        rf"R{clause[1:]}: its compute [+−]\d+ % \(the others \S+ % to \S+ %\); ranks 0, 1, 3 wait "
        rf"\S+ ms to \S+ ms {way} each a step\.",
        text,
    ), text
    compute = [
        sum(
            times.sum() / 5
            for cause, times in step_times_by_cause(diff, side)[2].items()
            if cause == "compute"
        )
        for side in diff.sides
    ]
    late = findings[1]
    assert (late.ranks, late.measure, late.unit) == ((2,), "compute", "ns")
    expected = [*compute, compute[1] - compute[0]]
    assert [late.before, late.after, late.diff_ns] == pytest.approx(expected)
    others = {part.ranks: part.measure for part in late.parts if part.kind == "other_rank"}
    assert others == dict.fromkeys([(0,), (1,), (3,)], "compute")
    # The headline names the rank as the cause.
    assert findings[0].parts[0].ranks == (2,)
    assert "straggler" not in [item.kind for item in hd.findings(hd.compare(slow, slow))]


def test_a_function_alone_is_never_the_headline(tmp_path):
    def side(*, logs):
        records = []
        for number, now in enumerate(range(0, 400_000, 100_000)):
            records += [
                event("user_annotation", f"ProfilerStep#{number}", now, now + 100_000, pid=10),
                event("python_function", "train.py(1): step", now + 1, now + 99_000, pid=10),
                op("aten::mm", now + 10, now + 90_000),
            ]
            if logs:
                span = (now + 99_100, now + 99_900)
                records.append(event("python_function", "log.py(1): log", *span, pid=10))
        return load(tmp_path, records)

    diff = hd.compare(side(logs=False), side(logs=True))
    assert hd.changes(diff)[["change", "measure"]].to_numpy().tolist() == [["added", "function"]]
    assert [finding.kind for finding in hd.findings(diff)] == ["slight", "added"]


@pytest.mark.parametrize("seeds", list(itertools.combinations(range(4), 2)))
def test_two_runs_of_one_job_differ_in_nothing(jobs, seeds):
    (before, _), (after, _) = (jobs(seed) for seed in seeds)
    diff = hd.compare(before, after)
    assert hd.changes(diff).empty
    assert hd.changes(diff).attrs["note"] == "nothing changed by more than noise"
    assert hd.findings(diff) == []
    assert hd.changes(diff).attrs["tested"] > 20
    # Every event is matched, although all times differ.
    counts = hd.pairs(diff).attrs["matched"]
    assert counts["same"] > 15_000
    assert not any(counts[word] for word in ("added", "removed", "moved", "replaced"))
    assert counts["changed"] < 0.03 * counts["same"]


def test_findings_are_sentences_with_numbers(changed):
    before, after, _ = changed
    texts = {
        finding.kind: finding.text.replace("\u202f", " ")
        for finding in hd.findings(hd.compare(before, after))
    }
    assert texts["slower"].startswith("aten::gelu is slower on the device and host: ")
    assert texts["moved"] == "c10d::allreduce_ moved to another place (1 a step)."
    assert texts["added"].startswith("aten::contiguous is new: 1 a step, +")
    assert texts["replaced"].startswith("Kernels of aten::native_layer_norm_backward were replaced")
    assert all(text.endswith(".") for text in texts.values())


@pytest.mark.parametrize(("ranks", "mean"), [(4, "0.25"), (40, "0.025"), (2, "0.5")])
def test_calls_of_few_ranks_are_not_rounded_away(tmp_path, ranks, mean):
    """Only the first rank runs the new operator."""

    def job(*, logs):
        return load(tmp_path, *(records(logs=logs and not rank) for rank in range(ranks)))

    def records(*, logs):
        for start in range(0, 400_000, 100_000):
            yield event("user_annotation", f"ProfilerStep#{start}", start, start + 100_000, pid=10)
            yield op("aten::mm", start + 10, start + 50_000)
            if logs:
                yield op("aten::log", start + 50_100, start + 99_900)

    texts = [finding.text for finding in hd.findings(hd.compare(job(logs=False), job(logs=True)))]
    assert any(text.startswith(f"aten::log is new: {mean} a step") for text in texts)


@pytest.mark.parametrize(
    ("operator", "dtype", "change", "end"),
    [
        ("c10d::allreduce_", "Float", "takes longer", "; its collectives move 4.00 MB → 8.00 MB."),
        ("", "BFloat16", "takes longer", "; its collectives move 2.00 MB → 4.00 MB."),
        ("", "unlisted", "is slower", "."),
    ],
)
def test_a_collective_that_moves_more_is_not_called_slower(tmp_path, operator, dtype, change, end):
    def job(elements, time_ns):
        return load(tmp_path, *[[*records(elements, time_ns)] for _ in range(2)])

    def records(elements, time_ns):
        for number in range(6):
            now = number * 2_000_000
            yield event("user_annotation", f"ProfilerStep#{number}", now, now + 1_990_000, pid=10)
            if operator:
                yield op(operator, now + 40, now + 90)
                yield call(now + 50, now + 60, launch=number + 1)
            start = now + 500_000 + 200 * number
            yield collective(
                start, start + time_ns, elements=elements, dtype=dtype, seq=number,
                **({"correlation": number + 1} if operator else {}),
            )  # fmt: skip

    sentences = [
        finding.text.replace("\u202f", " ")
        for finding in hd.findings(hd.compare(job(1_000_000, 300_000), job(2_000_000, 580_000)))
    ]
    change = f"{operator or 'NCCL collective'} {change} on the device"
    assert f"{change}: 300 µs → 580 µs a step, +93 %{end}" in sentences


def test_truth_and_bytes_of_a_changed_job(jobs, tmp_path):
    truth = jobs(1, CHANGES)[1]
    assert [item["injected"] for item in truth["changes"]] == list(CHANGES)
    assert jobs(0)[1]["changes"] == []
    with pytest.raises(hw.TraceError, match="changes= takes a list of 'slow_operator'"):
        write_demo(tmp_path / "job", ranks=2, steps=1, changes=["faster"])
    with pytest.raises(hw.TraceError, match="no collective to move"):
        write_demo(tmp_path / "job", ranks=1, steps=1, changes=["moved_collective"])


@pytest.mark.parametrize(
    ("before", "after", "counts", "how"),
    [
        (["volta_sgemm_128x64_tn"], ["triton_mm_0"], (2, 1), "other library"),
        (
            ["void at::native::mul<float>()", "mine"],
            ["void at::native::fma<float>()"],
            (2, 1),
            "fused",
        ),
        (["mine"], ["mine_part_1", "mine_part_2"], (1, 2), "split"),
        (["cutlass_80_tensorop_a"], ["cutlass_80_tensorop_b"], (3, 3), "other kernels"),
    ],
)
def test_how_work_was_replaced(before, after, counts, how):
    assert how_replaced(before, after, *counts) == how


# --- by hand --------------------------------------------------------------------------------------


def steps(count, body):
    """Return `count` steps of 1 ms, each with the events that `body(start, number)` returns."""
    records = []
    for number in range(count):
        start = 1_000_000 * (number + 1)
        span = (start, start + 1_000_000)
        records.append(event("user_annotation", f"ProfilerStep#{number}", *span, pid=10))
        records += body(start, number)
    return records


def test_what_happens_in_few_steps_is_no_change(tmp_path):
    def body(start, number, *, extra):
        yield op("aten::mm", start + 1000, start + 100_000)
        if number in extra:
            yield op("aten::zero_", start + 200_000, start + 300_000)

    before, twice, thrice = (
        load(tmp_path, steps(4, lambda s, n, extra=extra: body(s, n, extra=extra)))
        for extra in ((), (1, 2), (1, 2, 3))
    )
    assert changes_of(hd.compare(before, twice)) == set()
    assert changes_of(hd.compare(before, thrice)) == {("added", "aten::zero_")}


def test_of_one_step_only_its_calls_tell_what_is_noise(tmp_path):
    def side(*lengths):
        starts = np.cumsum([1000, *(length + 1000 for length in lengths)]).tolist()
        spans = list(zip(starts, lengths, strict=False))

        def body(s, _):
            return [op("aten::mm", s + start, s + start + length) for start, length in spans]

        return load(tmp_path, steps(1, body))

    # With a single call, only a large change is reported.
    assert changes_of(hd.compare(side(100_000), side(130_000))) == set()
    assert changes_of(hd.compare(side(10_000), side(100_000))) == {("slower", "aten::mm")}
    # The same ratio, but less than 5 % of the step, so it is unimportant.
    assert changes_of(hd.compare(side(4_000), side(40_000))) == set()
    # Four calls: all of them longer, or only one.
    diff = hd.compare(side(*[50_000] * 4), side(70_000, 72_000, 71_000, 69_000))
    assert changes_of(diff) == {("slower", "aten::mm")}
    # Student's t of 20, 22, 21 and 19 µs is 20.5 / (1.291 / 2) = 31.8, so p = 6.9e-5 by tables.
    assert hd.changes(diff)["p_value"].tolist() == pytest.approx([6.9e-5], rel=0.02)
    single = side(150_000, 50_000, 50_100, 49_000)
    assert changes_of(hd.compare(side(*[50_000] * 4), single)) == set()


def test_work_without_a_known_operator_is_told_by_its_own_name(tmp_path):
    def body(start, _, *, extra):
        yield op("aten::mm", start, start + 20_000)
        yield call(start + 1000, start + 5000, launch=start)
        yield kernel(start + 6000, start + 50_000, launch=start)
        if extra:
            yield call(start + 30_000, start + 35_000, launch=start + 1)
            yield copy(start + 60_000, start + 90_000, launch=start + 1)

    before = load(tmp_path, steps(3, lambda s, n: body(s, n, extra=False)))
    after = load(tmp_path, steps(3, lambda s, n: body(s, n, extra=True)))
    frame = hd.changes(hd.compare(before, after))
    columns = ["change", "measure", "name", "after_ns"]
    assert frame[columns].to_numpy().tolist() == [["added", "kernel", "Memcpy HtoD", 30_000.0]]


def test_a_few_slow_steps_among_equal_ones_are_said(tmp_path):
    """For Welch's test of the means, the spread is too large."""

    def side(*slow):
        records, now = [], 0
        for number in range(1, 10):
            length = 100_000 + 100 * (number % 3) + 60_000 * (number in slow)
            records += [
                event("user_annotation", f"ProfilerStep#{number}", now, now + length, pid=10),
                op("aten::mm", now + 10, now + length - 10),
            ]
            now += length
        return load(tmp_path, records)

    cause = ": time on the host grows by 60.0 µs."
    for slow, expected in (
        ((5,), f"Only 1 of 9 steps stands out as slower; step 5 most, +60.0 µs{cause}"),
        ((2, 8), f"Only 2 of 9 steps stand out as slower (2, 8), by 60.0 µs at most{cause}"),
    ):
        present, back = assert_mirrored(side(), side(*slow))
        first, second = (finding.text.replace("\u202f", " ") for finding in hd.findings(present))
        assert first.startswith("After takes ")
        causes = "cause" if len(slow) > 1 else "causes"
        assert first.endswith(f"; {len(slow)} of 9 steps {causes} most of it.")
        assert second == expected
        turned = expected.replace("slower", "faster").replace("grows", "shrinks").replace("+", "−")
        assert hd.findings(back)[1].text.replace("\u202f", " ") == turned
    # Four of nine steps are not an exception, and too few for the test.
    assert hd.findings(hd.compare(side(), side(1, 3, 6, 9))) == []


def test_rounded_ends_of_steps_do_not_overlap(tmp_path):
    def side(end):
        spans = [(0, end), (100, 200), (200, 300)]
        ranges = [
            event("user_annotation", f"ProfilerStep#{place + 1}", *bounds, pid=10)
            for place, bounds in enumerate(spans)
        ]
        return load(tmp_path, [*ranges, op("aten::mm", 210, 290)])

    assert hd.compare(side(100), side(101)).cautions == []
    assert len(hd.compare(side(100), side(110)).cautions) == 1


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("range_name", ["decode", "ProfilerRange"])
def test_work_that_moves_into_operators_makes_their_caller_no_faster(tmp_path, turned, range_name):
    """A range calls an operator for each of four kernels, or launches them itself faster."""

    def job(eager):
        records = []
        for step in range(6):
            now, length = step * 1_000_000, (400_000 if eager else 100_000) + step
            records += [
                event("user_annotation", f"ProfilerStep#{step}", now, now + 900_000),
                event("cpu_op", range_name, now + 1_000, now + 1_000 + length),
            ]
            for place in range(4):
                start = now + 2_000 + place * (length // 4)
                number = 4 * step + place + 1
                if eager:
                    records.append(event("cpu_op", "aten::mm", start, start + 95_000))
                records += [
                    call(start + 10, start + 5_000, launch=number),
                    kernel(start + 6_000, start + 20_000, launch=number),
                ]
        return load(tmp_path, records)

    sides = [job(eager=True), job(eager=False)]
    table = hd.changes(hd.compare(*(sides[::-1] if turned else sides)))
    # The range itself takes up to 20 µs in one run, and 100 µs in the other, which is shorter.
    assert "aten::mm" in table["name"].tolist()
    assert not table["change"].isin(["slower", "faster"]).any()


@pytest.mark.parametrize("on_device", [False, True])
def test_where_operators_changed_by_one_factor_is_said(tmp_path, on_device):
    def job(factor):
        records = []
        for step in range(6):
            now = step * 1_000_000
            records.append(event("user_annotation", f"ProfilerStep#{step}", now, now + 900_000))
            for place in range(6):
                start, number = now + 1_000 + 140_000 * place, 6 * step + place + 1
                host_ns = 20_000 * (1 if on_device else factor) + step
                device_ns = 20_000 * (factor if on_device else 1) + step
                records += [
                    event("cpu_op", f"aten::op{place}", start, start + host_ns),
                    call(start + 10, start + 100, launch=number),
                    kernel(start + 200, start + 200 + device_ns, name=f"k{place}", launch=number),
                ]
        return load(tmp_path, records)

    diff = hd.compare(job(1), job(3))
    (pace,) = [finding for finding in hd.findings(diff) if finding.kind == "pace"]
    where = "device" if on_device else "host"
    assert pace.text.startswith(f"6 operators are slower on the {where} by a similar factor, +200")
