"""The sides of a comparison: ranks, steps and windows, and the findings about them."""

import json

import pytest
from support.small import call, event, kernel, load, read

import hta_widgets as hw
from hta_widgets import diff as hd
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.mpi import write_mpi_job


def job(tmp_path, *ranks, steps=(1, 2, 3), length=100):
    """Load ranks with steps of `length` ns that contain a kernel of `rank + 1` ns."""
    files = []
    for rank in ranks:
        records = []
        for place, number in enumerate(steps):
            start = 10 + place * length
            name = f"ProfilerStep#{number}"
            records.append(event("user_annotation", name, start, start + length, pid=10))
            records.append(event("cpu_op", "aten::mm", start + 5, start + 20, pid=10))
            records.append(kernel(start + 10, start + 11 + rank))
        files.append(records)
    return load(tmp_path, *files)


def test_ranks_pair_by_number_by_hand_or_as_the_only_ones(tmp_path):
    four = job(tmp_path, 0, 1, 2, 3)
    assert hd.compare(four, four).rank_pairs == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert hd.compare(four[0], four[3]).rank_pairs == [(0, 3)]
    by_hand = hd.compare(four, four, ranks={0: 3, 2: 1})
    assert by_hand.rank_pairs == [(0, 3), (2, 1)]
    assert (by_hand.before.ranks, by_hand.after.ranks) == ([0, 2], [3, 1])
    some = hd.compare(four.select(ranks=[0, 1]), four.select(ranks=[2, 3]))
    assert some.rank_pairs == [(0, 2), (1, 3)]
    ways = "'representative' or a mapping of whole numbers to whole numbers, not 'size'"
    for sides, ranks, words in (
        ((four, four), {0: 7}, "no rank 7 after"),
        ((four[0], four[3]), "number", "no rank has the same number"),
        ((four, four), "size", ways),
    ):
        with pytest.raises(hw.TraceError, match=words):
            hd.compare(*sides, ranks=ranks)


def test_representatives_pair_by_size_of_their_clusters(jobs):
    traces, truth = jobs(0)
    diff = hd.compare(traces, traces, ranks="representative")
    # One rank is slow; one of the other, similar ranks represents them all.
    assert truth["straggler"] == 3
    assert len(diff.rank_pairs) == 2
    assert diff.rank_pairs[0][0] in {0, 1, 2}
    assert diff.rank_pairs[1] == (3, 3)


def test_other_numbers_of_ranks_give_means_and_say_so(tmp_path):
    four, two = job(tmp_path, 0, 1, 2, 3), job(tmp_path, 0, 1)
    diff = hd.compare(four, two)
    assert diff.by_rank_means
    assert diff.rank_pairs == [(0, 0), (1, 1)]
    assert diff.before.ranks == [0, 1, 2, 3]
    expected = "4 ranks against 2: times are means over all ranks of each side"
    calls = "and calls are matched on ranks 0, 1"
    assert [caution.text for caution in diff.cautions] == [f"{expected}, {calls}"]
    assert hd.compare(job(tmp_path, 0), two).cautions[0].text.startswith("1 rank against 2: ")
    # Kernels of 1, 2, 3 and 4 ns in three steps: 30 / 4 and 9 / 2 ns. With the idle time, both
    # sides add up to 300; of two halves, the first is rounded up.
    result = hd.waterfall(diff).set_index("cause")
    assert result.loc["compute", ["before_ns", "after_ns"]].tolist() == [8, 5]
    assert result.loc["idle", ["before_ns", "after_ns"]].tolist() == [292, 295]
    assert (result.attrs["before_ns"], result.attrs["after_ns"]) == (300, 300)
    names = hd.names(diff)
    assert names["before_count_per_step"].tolist() == [1.0]
    assert names["after_ns_per_step"].tolist() == [5 / 3]


def test_ranks_that_both_sides_have_pair_where_each_lacks_another(tmp_path):
    four = job(tmp_path, 0, 1, 2, 3)
    diff = hd.compare(four.subset(ranks=[1, 2, 3]), four.subset(ranks=[0, 1, 2]))
    assert diff.rank_pairs == [(1, 1), (2, 2)]
    (caution,) = diff.cautions
    assert caution.text == (
        "2 of 3 ranks are on both sides: times are means over all ranks of each side, and calls are"
        " matched on ranks 1, 2"
    )
    # Kernels of 2, 3 and 4 ns, and of 1, 2 and 3 ns, in three steps.
    compute = hd.waterfall(diff).set_index("cause").loc["compute"]
    assert compute[["before_ns", "after_ns"]].tolist() == [9, 6]


def test_steps_match_by_number_or_by_order(tmp_path):
    first, other = job(tmp_path, 0, steps=(1, 2, 3)), job(tmp_path, 0, steps=(2, 3, 4, 5))
    diff = hd.compare(first, other)
    assert (diff.before.steps.tolist(), diff.after.steps.tolist()) == ([2, 3], [2, 3])
    assert (diff.before_alone.tolist(), diff.after_alone.tolist()) == ([1], [4, 5])
    assert [first.text for first in diff.cautions] == ["3 steps against 4: 2 are compared"]
    diff = hd.compare(first, other, steps="order")
    assert diff.after.steps.tolist() == [2, 3, 4]
    assert diff.cautions[-1].text == "step numbers differ: steps are matched in order"
    diff = hd.compare(first, job(tmp_path, 0, steps=(7, 8)))
    assert (diff.matched_by, diff.after.steps.tolist()) == ("order", [7, 8])
    assert not hd.compare(first, first, steps="order").cautions
    diff = hd.compare(first, other, steps={1: 5})
    assert (diff.before.steps.tolist(), diff.after.steps.tolist()) == ([1], [5])
    for wrong, words in (({1: 5, 2: 4}, "crosses steps"), ({1: 9}, "has no step 9")):
        with pytest.raises(hw.TraceError, match=words):
            hd.compare(first, other, steps=wrong)


def test_calls_without_a_duration_are_not_faster(tmp_path):
    before, after = (
        load(tmp_path, [event("cpu_op", name, 0, 0, pid=10) for name in names])
        for names in (["aten::detach", "aten::t"], ["aten::detach"])
    )
    assert not hd.changes(hd.compare(before, after))["change"].isin(["slower", "faster"]).any()


def test_two_steps_of_a_rank_and_two_windows(tmp_path):
    traces = job(tmp_path, 0)
    diff = hd.compare(traces.select("step == 1"), traces.select("step == 3"))
    assert (diff.before.steps.tolist(), diff.after.steps.tolist()) == ([1], [3])
    assert (hd.waterfall(diff)["diff_ns"] == 0).all()
    # Only steps that are completely inside a window count.
    windows = traces.select(start_ns=10, end_ns=250), traces.select(start_ns=110, end_ns=310)
    diff = hd.compare(*windows)
    assert (diff.before.steps.tolist(), diff.matched_by) == ([2], "number")
    # Without a complete step, the windows themselves are compared.
    windows = traces.select(start_ns=20, end_ns=90), traces.select(start_ns=118, end_ns=400)
    diff = hd.compare(*windows)
    assert (diff.matched_by, diff.step_count) == ("whole", 1)
    assert hd.steps(diff)[["before_ns", "after_ns"]].to_numpy().tolist() == [[70, 282]]


def test_steps_of_one_side_only_are_not_compared_and_said(tmp_path):
    without = load(tmp_path, [event("cpu_op", "aten::mm", 10, 90, pid=10)])
    diff = hd.compare(job(tmp_path, 0), without, labels=("a", "b"))
    assert (diff.matched_by, diff.step_count) == ("whole", 1)
    texts = [caution.text for caution in diff.cautions]
    assert "only a has steps: each side is compared as a whole" in texts
    assert not any("has steps" in caution.text for caution in hd.compare(without, without).cautions)


def test_what_must_be_known_is_said(tmp_path):
    def one(name, world, *records):
        path = tmp_path / f"{name}.json"
        step = event("user_annotation", "ProfilerStep#1", 0, 100, pid=10)
        document = {
            "deviceProperties": [{"id": 0, "name": name}],
            "distributedInfo": {"rank": 0, "world_size": world},
            "traceEvents": [step, event("cpu_op", "aten::mm", 5, 20, pid=10), *records],
        }
        path.write_text(json.dumps(document))
        return read(path)

    stacks = [event("python_function", "train.py(1): main", 1, 50, pid=10)]
    nvidia = one("NVIDIA H100", 8, kernel(30, 40), *stacks)
    diff = hd.compare(nvidia, one("AMD Instinct MI300X", 4))
    assert [tuple(caution) for caution in diff.cautions] == [
        ("vendor", "different GPU vendors: NVIDIA → AMD"),
        ("gpu", "different GPUs: NVIDIA H100 → AMD Instinct MI300X"),
        ("world_size", "world size 8 → 4"),
        ("stacks", f"only {diff.before.label} holds Python functions: they are left out"),
        ("device", f"no device work in {diff.after.label}"),
    ]
    # If Python functions are left out, they do not keep operators from being matched.
    result = hd.pairs(diff).set_index("name")
    assert result.loc["aten::mm", "status"] == "same"
    assert "train.py(1): main" not in result.index
    both = hd.pairs(hd.compare(nvidia, nvidia))
    assert set(both["path"][both["name"] == "aten::mm"]) == {"train.py(1): main"}


def test_nothing_to_compare(tmp_path):
    traces = job(tmp_path, 0)
    nothing = traces.select("name == 'none of them'")
    diff = hd.compare(nothing, nothing)
    full = hd.compare(traces, traces)
    for function in (hd.pairs, hd.names, hd.icicle, hd.operators_diff, hd.changes):
        frame = function(diff)
        assert frame.empty
        assert frame.attrs["note"]
        types = [
            each.dtypes.astype(str).replace("category", "") for each in (frame, function(full))
        ]
        assert (types[0] == types[1]).all()
    both = "No events in before and after: there is nothing to compare."
    assert [(each_finding.kind, each_finding.text) for each_finding in hd.findings(diff)] == [
        ("caution", both)
    ]
    for word, sides in {"before": (nothing, traces), "after": (traces, nothing)}.items():
        each_finding, text = hd.compare(*sides), f"no events in {word}"
        # The missing device work is not reported separately.
        assert [caution.kind for caution in each_finding.cautions if caution.kind != "steps"] == [
            "empty"
        ]
        assert each_finding.cautions[0].text.startswith(text)
        assert any(finding.text.lower().startswith(text) for finding in hd.findings(each_finding))
    for wrong, words in (
        (traces.subset(ranks=[]), "no ranks before"),
        (hw.Selection(), "is not bound to traces"),
    ):
        with pytest.raises(hw.TraceError, match=words):
            hd.compare(wrong, traces)


def test_ranks_without_steps_are_left_out_and_said(tmp_path):
    step = event("user_annotation", "ProfilerStep#1", 10, 90, pid=10)
    both = load(tmp_path, [step], [event("cpu_op", "aten::mm", 10, 90, pid=10)])
    diff = hd.compare(both, both)
    assert diff.before.ranks == [0]
    texts = [f"1 rank of {word} without steps is left out: 1" for word in ("before", "after")]
    assert sorted(caution.text for caution in diff.cautions) == sorted(texts)


def windows_job(tmp_path, name, *, work_ns=600_000, annotated=True, apart_ns=1_000_000_000):
    """Write two windows per rank, 1 s apart, with two steps each; hosts are ahead of devices.

    Without work, the windows have host events only.
    """
    folder = tmp_path / name
    folder.mkdir()
    for window in range(2):
        origin, records, call_number = window * apart_ns, [], 100 * window
        for number in range(2):
            host, device = origin + 100_000 * number, origin + 50_000 + work_ns * number
            call_number += 1
            step = f"ProfilerStep#{2 * window + number}" if annotated else "phase"
            records += [
                event("user_annotation", step, host, host + 100_000, pid=10),
                call(host + 10_000, host + 20_000, call_number),
                *([kernel(device, device + work_ns, launch=call_number)] if work_ns else []),
            ]
        document = {"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": records}
        (folder / f"worker0.{1700000000000 + window}.pt.trace.json").write_text(
            json.dumps(document)
        )
    return read(folder)


def test_the_time_between_two_windows_is_in_no_step(tmp_path):
    sides = [windows_job(tmp_path, f"run{work}", work_ns=work) for work in (600_000, 900_000)]
    diff = hd.compare(*sides)
    assert len(sides[0].windows) == 2
    assert diff.before.on_device
    lengths = hd.steps(diff)[["before_ns", "after_ns"]].to_numpy().tolist()
    assert lengths == [[600_000, 900_000]] * 4


def test_without_steps_the_time_between_windows_is_left_out(tmp_path):
    works = {"old": 600_000, "new": 900_000}
    sides = [
        windows_job(tmp_path, name, work_ns=work, annotated=False) for name, work in works.items()
    ]
    diff = hd.compare(*sides)
    # Each second consists of 50 µs and two kernels of 600 or 900 µs in the window, then the gap.
    assert [caution.text.replace("\u202f", " ") for caution in diff.cautions] == [
        "without steps, the 999 ms between the windows of old are left out",
        "without steps, the 998 ms between the windows of new are left out",
    ]
    # Each window has 50 µs before its first kernel.
    times = hd.waterfall(diff).set_index("kind")[["before_ns", "after_ns"]]
    assert times.loc["compute"].tolist() == [2_400_000, 3_600_000]
    assert times.loc["idle"].tolist() == [100_000, 100_000]
    assert hd.steps(diff)[["before_ns", "after_ns"]].to_numpy().tolist() == [[2_500_000, 3_700_000]]
    first = hd.findings(diff)[0].text.replace("\u202f", " ")
    assert (
        first == "After takes 1.20 ms longer: 2.50 ms → 3.70 ms, +48 %: compute grows by 1.20 ms."
    )
    windows = [side.select(start_ns=side.windows[1][0]) for side in sides]
    assert hd.compare(*windows).cautions == []


def test_a_longer_time_between_windows_is_no_change(tmp_path):
    near = windows_job(tmp_path, "near", annotated=False)
    far = windows_job(tmp_path, "far", annotated=False, apart_ns=5_000_000_000)
    assert [finding.kind for finding in hd.findings(hd.compare(near, far))] == []
    host = [windows_job(tmp_path, f"host{apart}", annotated=False, apart_ns=apart, work_ns=0)
            for apart in (10**9, 5 * 10**9)]  # fmt: skip
    # Each window lasts from the start of the first annotation to the end of the second.
    lengths = hd.steps(hd.compare(*host))[["before_ns", "after_ns"]].to_numpy().tolist()
    assert lengths == [[400_000, 400_000]]


def test_tables_are_those_of_the_formats(tmp_path):
    traces = job(tmp_path, 0)
    result = hd.tables(hd.compare(traces, traces))
    assert list(result) == ["waterfall", "steps", "changes", "names", "operators"]
    write_mpi_job(tmp_path / "mpi", ranks=4, traces=False)
    profiles = read(tmp_path / "mpi")
    result = hd.tables(hd.compare(profiles, profiles))
    names = ("times", "routines", "message_sizes", "negotiation", "ranks", "imbalance")
    assert list(result) == [f"mpi_{name}" for name in names]
    assert len(result["mpi_routines"]) > 5
    assert set(result["mpi_routines"]["change"]) == {"same"}
    with pytest.raises(hw.TraceError, match="Kineto traces cannot be compared with MPI profiles"):
        hd.compare(traces, profiles)
    with pytest.raises(hw.TraceError, match="there is already a table 'steps'"):
        hd.add_table("steps", hd.steps)


def test_sides_are_called_by_what_they_differ_in(tmp_path):
    for word in ("calm", "late"):
        write_byteps_job(tmp_path / word, slow_worker=None)
    calm, late = (read(tmp_path / word) for word in ("calm", "late"))
    assert [side.label for side in hd.compare(calm, late).sides] == ["calm", "late"]
    write_demo(tmp_path / "job", ranks=1, steps=3, straggler=None)
    traces = read(tmp_path / "job")
    steps = hd.compare(traces.select("step == 1"), traces.select("step == 2"))
    assert [side.label for side in steps.sides] == ["step 1", "step 2"]
    assert [side.label for side in hd.compare(traces, traces).sides] == ["before", "after"]


def test_only_ranks_with_several_windows_have_time_between_them(tmp_path):
    """Rank 1 has a single file of 1.5 s."""
    sides = []
    for name in ("old", "new"):
        windows_job(tmp_path, name, annotated=False)
        records = [kernel(0, 1_000_000), kernel(1_400_000_000, 1_500_000_000)]
        document = {"distributedInfo": {"rank": 1, "world_size": 2}, "traceEvents": records}
        file = tmp_path / name / "worker1.1700000000000.pt.trace.json"
        file.write_text(json.dumps(document))
        sides.append(read(tmp_path / name))
    texts = [caution.text.replace("\u202f", " ") for caution in hd.compare(*sides).cautions]
    assert [text for text in texts if "between the windows" in text] == [
        f"without steps, the 999 ms between the windows of {name} are left out"
        for name in ("old", "new")
    ]
