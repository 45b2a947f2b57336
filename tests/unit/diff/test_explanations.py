"""Explanations of a difference, compared with sums calculated by hand."""

import numpy as np
import pytest
from support.small import call, copy, event, kernel, load, nccl

import hta_widgets as hw
from hta_widgets import diff as hd
from hta_widgets.diff.stats import mean_parts, welch_p_value

pytestmark = pytest.mark.slow


def step(number, start, end):
    return event("user_annotation", f"ProfilerStep#{number}", start, end, pid=10)


def op(name, start, end):
    return event("cpu_op", name, start, end, pid=10)


@pytest.fixture
def pair(tmp_path):
    both = [
        op("aten::mm", 10, 100), call(20, 40, launch=1),
        op("aten::all_reduce", 110, 200), call(120, 140, launch=2),
    ]  # fmt: skip
    before = [
        *(step(1, 0, 1000), *both, kernel(100, 300, launch=1), nccl(250, 400, launch=2)),
        *(op("aten::to", 210, 300), call(220, 240, launch=3, name="cudaMemcpyAsync")),
        *(copy(380, 450, launch=3), call(500, 700, name="cudaDeviceSynchronize")),
    ]
    after = [
        *(step(1, 0, 1200), *both, kernel(100, 500, launch=1), nccl(250, 600, launch=2)),
        *(op("aten::mul", 210, 300), call(220, 240, launch=3)),
        kernel(550, 800, launch=3, name="mul", stream=9),
    ]
    return hd.compare(load(tmp_path, before), load(tmp_path, after))


def times(frame, key="cause"):
    return {
        row[key]: (row["before_ns"], row["after_ns"])
        for row in frame.to_dict("records")
        if row["before_ns"] or row["after_ns"]
    }


def test_every_moment_counts_once(pair):
    result = hd.waterfall(pair)
    assert times(result) == {
        "compute": (200, 650),  # 100..300; 100..500 and 550..800
        "communication": (100, 50),  # 300..400; 500..550
        "copies": (50, 0),  # 400..450
        "idle": (650, 500),
    }
    assert result["diff_ns"].tolist() == [450, -150, -50, -50]
    assert (result.attrs["before_ns"], result.attrs["after_ns"]) == (1000, 1200)
    assert result.set_index("cause").loc["compute", "change_share"] == 2.25


def test_idle_time_by_what_the_device_waited_for(pair):
    result = times(hd.waterfall(pair, "cause"))
    # Before the first kernel: host until its call at 20, the call until 40, then latency.
    expected = {
        "host_operator": (10, 10),  # `aten::mm`, from 10 on
        "host_nothing": (10, 10),
        "launch_call": (20, 20),
        "launch_latency": (60, 60),
        "nothing_launched": (550, 400),
    }
    assert result | expected == result
    assert "kernel_wait" not in result


def test_idle_time_has_the_causes_that_the_analysis_has(tmp_path):
    def job(loads):
        rank = [
            step(1, 0, loads + 150_000), op("enumerate(DataLoader)#_Iter.__next__", 0, loads),
            call(loads, loads + 10, launch=1), kernel(loads + 30, loads + 50_000, launch=1),
            call(loads + 20, loads + 25, name="cudaStreamWaitEvent"),
            call(loads + 30, loads + 40, launch=2),
            kernel(loads + 100_000, loads + 150_000, launch=2),
        ]  # fmt: skip
        return load(tmp_path, rank)

    pair = hd.compare(job(10_000), job(90_000))
    result = times(hd.waterfall(pair, "cause"))
    assert result["host_data_loading"] == (10_000, 90_000)
    assert result["stream_wait"] == (50_000, 50_000)
    assert not {"host_wait", "blocked"} & result.keys()
    text = hd.findings(pair)[0].text
    assert text.endswith("idle time while the host loads data grows by 80.0\u202fµs.")


def test_time_counts_once_where_steps_overlap(tmp_path):
    def side(*steps):
        ranges = [
            event("user_annotation", f"ProfilerStep#{place + 1}", *bounds, pid=10, tid=place + 1)
            for place, bounds in enumerate(steps)
        ]
        work = [kernel(20, 60, launch=1), kernel(80, 120, launch=2), kernel(180, 240, launch=3)]
        calls = [call(10, 15, launch=1), call(50, 55, launch=2), call(150, 155, launch=3)]
        return load(tmp_path, [*ranges, *calls, *work])

    apart, overlapping = side((0, 100), (100, 200)), side((0, 120), (80, 200))
    diff = hd.compare(apart, overlapping)
    # 20..60, 80..120 and 180..200 on both sides.
    expected = {"compute": (100, 100), "idle": (100, 100)}
    assert times(hd.waterfall(diff)) == expected
    assert times(hd.waterfall(diff, "kernel"), "name")["gemm"] == (100, 100)
    assert not hd.waterfall(diff, "kernel")["diff_ns"].any()
    # The overlap, 80..120, counts for the second step.
    lengths = hd.steps(diff)[["before_ns", "after_ns", "compute_diff_ns"]]
    assert lengths.to_numpy().tolist() == [[100, 80, -20], [100, 120, 20]]
    texts = [caution.text.replace("\u202f", " ") for caution in diff.cautions]
    assert [text.partition(" overlap ")[2] for text in texts] == [
        "by 40 ns: that time counts for the later step only"
    ]
    assert hd.findings(diff) == []
    # A step inside another: the rest of the outer step counts for the inner one.
    within = hd.compare(apart, side((0, 200), (50, 100)))
    assert times(hd.waterfall(within)) == expected
    assert hd.steps(within)["after_ns"].tolist() == [50, 150]
    # A step has the same time if it is compared alone.
    alone = hd.compare(apart, overlapping, steps={1: 1})
    assert hd.steps(alone)["after_ns"].tolist() == [80]
    # 200..240 is work of the last step, but outside of all steps unless this step ends later.
    later = hd.compare(apart, side((0, 100), (100, 250)))
    assert times(hd.waterfall(later)) == {"compute": (100, 140), "idle": (100, 110)}
    assert [caution.text.replace("\u202f", " ") for caution in later.cautions] == [
        "device work outside the compared steps counts in no step: 40 ns → 0 ns"
    ]


def test_steps_are_the_devices_if_the_host_is_ahead_of_it(tmp_path):
    def side(*kernels, until=()):
        """Load steps that the host leaves after 100 ns, or once it has waited for the device."""
        events, now = [], 1000
        for number, (start, end) in enumerate(kernels):
            last = until[number] if until else now + 100
            events += [step(number, now, last), call(now + 10, now + 20, launch=number + 1)]
            events.append(kernel(start, end, launch=number + 1))
            # A copy for this step that runs while the device still works on an earlier step.
            events += [call(now + 30, now + 40, launch=number + 91)]
            events.append(copy(now + 50, now + 60, stream=9, launch=number + 91))
            now = last
        return load(tmp_path, events)

    before = side((1200, 2200), (2210, 3200), (3210, 4200))
    after = side((1200, 2400), (2410, 3600), (3610, 4800))
    diff = hd.compare(before, after)
    # Each step lasts until a kernel ends; the first starts at its copy at 1050.
    assert diff.before.windows[0].tolist() == [[1050, 2200], [2200, 3200], [3200, 4200]]
    assert hd.steps(diff)["after_ns"].tolist() == [1350, 1200, 1200]
    # The first kernel hides the third copy.
    parts = {"compute": (2980, 3580), "copies": (20, 20), "idle": (150, 150)}
    assert times(hd.waterfall(diff)) == parts
    first, *_, last = (finding.text.replace("\u202f", " ") for finding in hd.findings(diff))
    assert first.startswith("After takes 200 ns longer a step: 1.05 µs → 1.25 µs, +19 %")
    assert last == "Hosts are ahead of their devices: a step ends with its last device work."
    assert diff.cautions == []
    # The steps of the other side are also those of the device: 1000 ns of work, then 300 ns idle.
    waiting = side((1200, 2200), (2500, 3500), (3800, 4800), until=(2300, 3600, 4900))
    mixed = hd.compare(before, waiting)
    assert mixed.after.windows[0].tolist() == [[1050, 2200], [2200, 3500], [3500, 4800]]
    assert hd.compare(waiting, waiting).before.windows[0].tolist() == [
        [1000, 2300], [2300, 3600], [3600, 4900]
    ]  # fmt: skip
    # The same applies to a single step.
    alone = hd.compare(before.select("step == 1"), after.select("step == 1"))
    assert hd.steps(alone)[["before_ns", "after_ns"]].values.tolist() == [[1000, 1200]]


def test_one_step_a_side_names_differences_that_may_be_chance(tmp_path):
    def side(end, last):
        return load(
            tmp_path, [step(1, 0, last), call(10, 20, launch=1), kernel(100, end, launch=1)]
        )

    diff = hd.compare(side(300, 1000), side(350, 1060))
    first, *texts = (finding.text.replace("\u202f", " ") for finding in hd.findings(diff))
    words = "After takes 60 ns longer a step: 1.00 µs → 1.06 µs, +6.0 %: compute grows by 50 ns; "
    assert first == f"{words}one step on each side is too few to tell a change from noise."
    assert texts == [
        "gemm differs most: 200 ns → 250 ns, +25 %.",
        "With one step on each side, normal variation looks like a change.",
    ]
    assert hd.findings(hd.compare(side(300, 1000), side(300, 1000))) == []
    equal = hd.findings(hd.compare(side(300, 1000), side(350, 1000)))
    assert [finding.text.replace("\u202f", " ") for finding in equal[:2]] == [
        "After takes the same time: 1.00 µs a step.",
        (
            "gemm differs most: 200 ns → 250 ns, +25 %; "
            "one step on each side is too few to tell a change from noise."
        ),
    ]


def test_the_variants_of_a_kernel_differ_together(tmp_path):
    def side(last, **tiles):
        names = [name for name, count in tiles.items() for _ in range(count)]
        work = [
            kernel(100 * k + 200, 100 * k + 290, launch=k + 1, name=f"ampere_sgemm{name}_nn")
            for k, name in enumerate(names)
        ]
        calls = [call(10 + k, 11 + k, launch=k + 1) for k in range(len(names))]
        return load(tmp_path, [step(1, 0, last), *calls, *work])

    # Two of three tiles exist on one side only; none of them shows the 4 additional calls.
    diff = hd.compare(side(1000, _32x32=2, _64x64=1), side(1600, _32x32=1, _128x64=6))
    texts = [finding.text.replace("\u202f", " ") for finding in hd.findings(diff)]
    assert "gemm goes from 3 to 7 a step (+360 ns)." in texts


def test_work_by_operator_and_by_kernel(pair):
    by_kernel = times(hd.waterfall(pair, "kernel"), "name")
    # The kernel on the other stream gets the time in which no other kernel computes.
    assert (by_kernel["gemm"], by_kernel["mul"]) == ((200, 400), (0, 250))
    by_operator = times(hd.waterfall(pair, "operator"), "name")
    assert (by_operator["aten::all_reduce"], by_operator["aten::to"]) == ((100, 50), (50, 0))
    for by in ("kind", "cause", "operator", "kernel"):
        frame = hd.waterfall(pair, by, step=0)
        assert (frame["before_ns"].sum(), frame["after_ns"].sum()) == (1000, 1200)
    with pytest.raises(hw.TraceError, match="no pair of steps 1"):
        hd.waterfall(pair, step=1)
    words = "by= takes 'kind', 'cause', 'operator' or 'kernel', not 'stream'"
    with pytest.raises(hw.TraceError, match=words):
        hd.waterfall(pair, "stream")


def test_waiting_for_other_ranks_is_parted_from_transfer(tmp_path):
    def rank(arrives, end):
        return [step(1, 0, 1000), call(5, 9, launch=1), nccl(arrives, end, launch=1)]

    before = load(tmp_path, rank(100, 500), rank(400, 500))
    after = load(tmp_path, rank(100, 700), rank(600, 700))
    diff = hd.compare(before, after)
    result = times(hd.waterfall(diff, "cause"))
    # Rank 0 waits 300 and then 500 ns, rank 1 never; the figures are means over both ranks.
    assert result["communication_wait"] == (150, 250)
    assert result["communication_transfer"] == (100, 100)
    alone = hd.compare(before[0], after[0])
    # A single rank cannot show this: its collectives have no group, so any rank may have waited.
    assert not hd.waterfall(alone).attrs["communication_split"]
    assert times(hd.waterfall(alone, "cause"))["communication"] == (400, 600)
    assert times(hd.waterfall(diff))["communication"] == (250, 350)


@pytest.mark.parametrize("turned", [False, True])
def test_ranks_that_only_one_side_has(tmp_path, turned):
    def side(*arrivals):
        """Load ranks of three steps that compute until they arrive at one of two collectives."""
        ranks, last = [], max(arrivals)
        for arrival in arrivals:
            records = []
            for number, now in enumerate(range(0, 3_000_000, 1_000_000)):
                launch = 3 * number + 1
                records += [
                    step(number, now, now + 1_000_000), op("aten::mm", now + 10, now + 50),
                    call(now + 20, now + 40, launch=launch),
                    kernel(now + 1000, now + arrival, launch=launch),
                    op("nccl:all_reduce", now + 60, now + 200),
                    call(now + 70, now + 90, launch=launch + 1),
                    nccl(now + arrival, now + last + 1000, launch=launch + 1),
                    call(now + 100, now + 120, launch=launch + 2),
                    nccl(now + last + 2000, now + last + 3000, launch=launch + 2),
                ]  # fmt: skip
            ranks.append(records)
        return load(tmp_path, *ranks)

    # Rank 3 computes 350 µs more than the other ranks, which compute 50 µs more than before.
    two, four = side(101_000, 101_000), side(151_000, 151_000, 151_000, 501_000)
    sides, labels = ((four, two), ("four", "two")) if turned else ((two, four), ("two", "four"))
    diff = hd.compare(*sides, labels=labels)
    texts = {finding.kind: finding.text.replace("\u202f", " ") for finding in hd.findings(diff)}
    # The three other ranks wait 350 µs per step.
    assert texts["straggler"] == (
        "Rank 3, which exists only in four, keeps the others waiting there: slower kernels; "
        "the others wait 350 µs on average a step."
    )
    late = next(finding for finding in hd.findings(diff) if finding.kind == "straggler")
    assert late.diff_ns == (-350_000 if turned else 350_000)
    word, times = ("faster", "150 µs → 100 µs") if turned else ("slower", "100 µs → 150 µs")
    share = "−33 %" if turned else "+50 %"
    assert texts[word] == (
        f"aten::mm is {word} on the device: {times} a step, {share} (mean over ranks 0, 1)."
    )
    # 3 · 100 µs on each of two ranks; 3 · 150 µs on three ranks and 3 · 500 µs on one.
    kinds = hd.waterfall(diff).set_index("cause")
    columns = ["after_ns", "before_ns"] if turned else ["before_ns", "after_ns"]
    assert kinds.loc["compute", columns].tolist() == [300_000, 712_500]
    ranks = "4 ranks against 2" if turned else "2 ranks against 4"
    assert texts["caution"].startswith(f"{ranks}: times are means over all ranks of each side")
    # The comparison is restricted to ranks 0 and 1, which also wait for rank 3.
    some = hd.compare(*sides, ranks="number", labels=labels)
    assert texts["straggler"] in [
        finding.text.replace("\u202f", " ") for finding in hd.findings(some)
    ]
    # The same job without the rank, which is late on both sides.
    itself = hd.findings(hd.compare(four, four.select(ranks=[0, 1, 2])))
    assert "straggler" not in [finding.kind for finding in itself]


def test_a_host_without_a_device(tmp_path):
    traces = load(tmp_path, [step(1, 0, 500), op("aten::mm", 10, 100)])
    longer = load(tmp_path, [step(1, 0, 700), op("aten::mm", 10, 100)])
    diff = hd.compare(traces, longer)
    assert times(hd.waterfall(diff)) == {"host": (500, 700)}
    assert hd.steps(diff)["cpu_diff_ns"].tolist() == [200]
    # If one side has device work, a rank without any counts as an idle device, not as a busy host.
    records = [step(1, 0, 500), call(20, 40, launch=1), kernel(100, 300, launch=1)]
    mixed = hd.compare(load(tmp_path, records), traces)
    assert times(hd.waterfall(mixed)) == {"compute": (200, 0), "idle": (300, 500)}
    texts = [finding.text.replace("\u202f", " ") for finding in hd.findings(mixed)]
    assert texts[0] == (
        "The step takes the same time, 500 ns a step, but compute shrinks by 200 ns (−100 %) and "
        "idle time of the device grows by 200 ns (+67 %)."
    )


def test_steps_and_their_kinds(tmp_path):
    def side(*lengths):
        records = []
        for number, length in enumerate(lengths):
            start = sum(lengths[:number])
            records += [step(number, start, start + length), call(start + 1, start + 5, number + 1)]
            records.append(kernel(start + 10, start + length - 20, launch=number + 1))
        return load(tmp_path, records)

    diff = hd.compare(side(100, 110, 105, 100), side(200, 210, 190, 205))
    result = hd.steps(diff)
    columns = ["diff_ns", "compute_diff_ns", "idle_diff_ns"]
    assert result[columns].to_numpy().tolist() == [[by, by, 0] for by in (100, 100, 85, 105)]
    assert result.attrs["is_significant"]
    assert result.attrs["p_value"] < 1e-4
    assert result.attrs["may_be_chance"] is False
    texts = [finding.text.replace("\u202f", " ") for finding in hd.findings(diff)]
    assert texts[:2] == [
        "After takes 97.5 ns longer a step: 104 ns → 201 ns, +94 %: compute grows by 97.5 ns.",
        "Every step is slower; step 3 most, +105 ns.",
    ]
    headline, spread = hd.findings(diff)[:2]
    assert (headline.measure, headline.before, headline.after) == ("step", 415 / 4, 805 / 4)
    assert headline.p_value == result.attrs["p_value"]
    # Work takes 30 ns less than each of the four steps.
    cause = headline.parts[0]
    assert (cause.measure, cause.before, cause.after) == ("compute", 295 / 4, 685 / 4)
    assert (spread.step, spread.diff_ns) == (3, 105)
    even = hd.findings(hd.compare(side(100, 110, 105, 100), side(200, 210, 205, 200)))
    assert "Every step is slower, by 100 ns at most." in [
        finding.text.replace("\u202f", " ") for finding in even
    ]
    # Steps of different lengths, each compared with its partner.
    lengths = [12_200, 10_000, 8_600]
    more = [13_300, 10_520, 9_220]
    slower = hd.compare(side(*lengths), side(*more))
    assert (
        welch_p_value(*(np.array(finding, dtype=float)[:, None] for finding in (lengths, more)))[0]
        > 0.5
    )
    assert hd.steps(slower).attrs["is_significant"]
    assert hd.steps(slower).attrs["may_be_chance"]
    first = hd.findings(slower)[0]
    assert first.kind == "slight"
    assert first.text.replace("\u202f", " ") == (
        "After takes 747 ns longer a step: 10.3 µs → 11.0 µs, +7.3 %; that may be chance (p 0.043)."
    )
    assert hd.changes(slower).attrs["note"].startswith("the steps changed, but no single")
    # In another order, they are not partners.
    turned = hd.compare(side(*lengths), side(*more), steps={0: 0, 1: 1})
    assert hd.steps(turned).attrs["p_value"] > 0.05
    noise = hd.compare(side(100, 140, 105, 100), side(110, 105, 130, 115))
    assert not hd.steps(noise).attrs["is_significant"]
    assert hd.findings(noise) == []
    alone = hd.steps(hd.compare(side(100), side(200)))
    assert (alone.attrs["p_value"], alone.attrs["is_significant"]) == (None, None)


def test_steps_of_like_length_that_are_made_up_otherwise(tmp_path):
    def side(*transfers, length=1000):
        records = []
        for number, transfer in enumerate(transfers):
            start, launch = number * length, 2 * number + 1
            records += [
                step(number, start, start + length), call(start + 1, start + 5, launch),
                kernel(start + 100, start + 500, launch=launch),
                call(start + 6, start + 9, launch + 1),
                nccl(start + 500, start + 500 + transfer, launch=launch + 1),
            ]  # fmt: skip
        return load(tmp_path, records)

    def texts(before, after):
        findings = hd.findings(hd.compare(before, after))
        return [item.text.replace("\u202f", " ") for item in findings if item.kind == "composition"]

    before = side(300, 302, 298)
    less = side(200, 203, 197)
    (text,) = texts(before, less)
    assert text == (
        "The steps take the same time, 1.00 µs a step, but exposed communication shrinks by 100 ns "
        "(−33 %) and idle time of the device grows by 100 ns (+33 %)."
    )
    found = hd.findings(hd.compare(less, before))
    assert (found[0].kind, found[0].diff_ns) == ("composition", 100)
    assert texts(before, before) == []
    # 4.5 % of the step; then 10 %, which may be chance with three steps that vary this much.
    assert texts(before, side(255, 257, 253)) == []
    assert texts(before, side(100, 280, 220)) == []
    # With one step, chance cannot be ruled out: 21 % of the step is reported, 19 % is not.
    assert texts(side(300), side(90))[0].startswith(
        "The step takes the same time, 1.00 µs a step, but "
    )
    assert texts(side(300), side(110)) == []
    # If step times differ, the findings are a headline and kinds of time instead.
    longer = hd.findings(hd.compare(before, side(200, 203, 197, length=2000)))
    assert longer[0].kind == "headline"
    assert texts(before, side(200, 203, 197, length=2000)) == []


def test_names_by_count_and_time(pair):
    result = hd.names(pair).set_index("name")
    assert result.loc["gemm", ["before_count", "after_count", "diff_ns"]].tolist() == [1, 1, 200]
    words = result.loc[["gemm", "mul", "Memcpy HtoD"], "change"].tolist()
    assert words == ["slower", "added", "removed"]
    host = hd.names(pair, device="cpu").set_index("name")
    assert host.loc["cudaLaunchKernel", ["before_count", "after_count"]].tolist() == [2, 3]
    words = host.loc[["cudaLaunchKernel", "aten::mm"], "change"].tolist()
    assert words == ["changed", "same"]
    with pytest.raises(hw.TraceError, match=r"device= takes .*, not 'tpu'"):
        hd.names(pair, device="tpu")


def test_operators_alone_and_as_a_tree(tmp_path):
    def side(length):
        rank = [
            step(1, 5, 10_000), op("aten::linear", 10, 1000), op("aten::addmm", 100, 600),
            call(150, 200, launch=1), kernel(300, 300 + length, launch=1),
            call(700, 900, name="cudaStreamSynchronize"),
        ]  # fmt: skip
        return load(tmp_path, rank)

    diff = hd.compare(side(100), side(400))
    result = hd.operators_diff(diff).set_index("name")
    assert result.loc["aten::addmm", ["before_device_ns", "after_device_ns"]].tolist() == [100, 400]
    # 990 ns minus the operator below and minus waiting for the device.
    assert result.loc["aten::linear", "before_host_self_ns"] == 290
    assert result.loc["aten::addmm", "before_host_self_ns"] == 500
    tree = hd.icicle(diff)
    columns = ["parent", "depth", "name", "kind", "before_ns", "after_ns", "before_self_ns"]
    assert tree[columns].to_numpy().tolist() == [
        [-1, 0, "aten::linear", "cpu", 100, 400, 0],
        [0, 1, "aten::addmm", "cpu", 100, 400, 0],
        [1, 2, "gemm", "compute", 100, 400, 100],
    ]
    host = hd.icicle(diff, "host")
    assert host[["name", "before_ns", "before_self_ns"]].to_numpy().tolist() == [
        ["aten::linear", 990, 490],
        ["aten::addmm", 500, 500],
    ]
    with pytest.raises(hw.TraceError, match="measure= takes 'device' or 'host', not 'memory'"):
        hd.icicle(diff, "memory")


def test_means_add_up():
    assert mean_parts(np.array([1, 1, 1]), 3).tolist() == [1, 0, 0]
    assert mean_parts(np.array([5, 4]), 2).tolist() == [3, 2]
    assert mean_parts(np.array([-3, 8, 2]), 1).tolist() == [-3, 8, 2]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # Two-sided p-values of Student's t in closed form: 1 - 2/π·atan(t) for one degree of
        # freedom, 1 - t/√(t² + 2) for two, and 1 - (t/√(t²+4))(1 + 2/(t²+4)) with t = √6 for four.
        ([1, 2, 3], [3, 4, 5], 1 - np.sqrt(6 / 10) * (1 + 2 / 10)),
        ([0, 2], [10, 12], 1 - np.sqrt(50 / 52)),
        ([5, 5], [0, 2], 1 - 2 / np.pi * np.arctan(4)),
        ([1, 1, 1], [2, 2, 2], 0),
        ([1, 1], [1, 1], 1),
        ([1], [2, 3], np.nan),
    ],
)
def test_how_likely_a_difference_is_chance(before, after, expected):
    result = welch_p_value(np.array(before, float)[:, None], np.array(after, float)[:, None])
    assert result[0] == pytest.approx(expected, abs=1e-12, nan_ok=True)
