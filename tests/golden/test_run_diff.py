"""Comparisons of real runs, checked against independent sums, and comparisons with themselves."""

import gzip
import itertools
import json
import re

import pytest
from support import golden, recorded
from support.turned import assert_mirrored

import hta_widgets as hw
from hta_widgets import diff as hd

#: Pairs of runs that differ in the number of calls of an operator.
CASES = golden.GOLDEN.parent / "cases/diff-gone"

needs_golden = pytest.mark.skipif(not golden.GOLDEN.is_dir(), reason=golden.MISSING)

#: Folders without readable traces: files that were never flushed, and other profilers' formats.
EMPTY = {"byteps/real_pslite_server_tiny", "hta_tests/memory_analysis"} | {
    f"profilers/{name}"
    for name in ("flight_recorder", "memory_snapshot", "nsight", "perfetto", "rocm")
}

#: All other folders: several ranks, AMD, MTIA, BytePS, MPI, traces without devices or steps.
TRACES = sorted(
    f"{folder.parent.name}/{folder.name}"
    for folder in recorded.SHARED.glob("*/*")
    if folder.is_dir()
)


@pytest.mark.parametrize("path", recorded.paths(*(name for name in TRACES if name not in EMPTY)))
def test_a_run_differs_in_nothing_from_itself(path):
    traces = recorded.load(path)
    diff = hd.compare(traces, traces)
    assert diff.cautions == []
    assert hd.findings(diff) == []
    assert hd.changes(diff).empty
    result = hd.pairs(diff)
    is_mpi = set(traces.formats) == {"mpi-profile"}
    assert (len(result) > 0) is not is_mpi
    assert (result["status"] == "same").all()
    assert (result["before_id"] == result["after_id"]).all()
    tables = hd.tables(diff)
    assert len(tables) >= 4
    for frame in (
        *tables.values(), hd.names(diff, device="all"), hd.operators_diff(diff), hd.icicle(diff),
        hd.icicle(diff, "host"),
    ):  # fmt: skip
        columns = [c for c in frame if c.startswith("diff_") or c.endswith("_diff_ns")]
        # The mean of an empty group is NaN.
        assert ((frame[columns] == 0) | frame[columns].isna()).all(axis=None)
    assert (hd.names(diff, device="all")["change"] == "same").all()
    for by in ("kind", "cause", "operator", "kernel"):
        assert (hd.waterfall(diff, by)["diff_ns"] == 0).all()
    for base in hd.BASES:
        assert hd.align(diff, base).gaps.empty


RECORDINGS = golden.GOLDEN / "efficiency/recorded"


def moved(document, what):
    """Rewrite a recording in place as if its code had moved to other lines."""
    for event in document["traceEvents"]:
        name = event["name"]
        if event.get("cat") != "python_function":
            continue
        if line := re.fullmatch(r"(.+)\((\d+)\): (.+)", name):
            number = int(line[2])
            # Each added line moves everything below it further down.
            number += (3 + number // 50) * ("lines" in what)
            name = f"{'/opt/app/' * ('folder' in what)}{line[1]}({number}): {line[3]}"
        elif name.startswith("nn.Module: ") and "modules" in what:
            kind, _, number = name.rpartition("_")
            name = f"{kind}_{int(number) + 7}"
        event["name"] = name
    return document


@pytest.mark.parametrize(
    ("name", "what"),
    [
        *itertools.product(("", "mlp"), ("lines", "folder", "modules")),
        *((name, "lines, folder, modules") for name in ("conv", "decoder", "mlp_checkpoint")),
    ],
)
def test_code_that_moved_is_no_change(tmp_path, name, what):
    recording = RECORDINGS / f"{name}.json.gz" if name else recorded.DATA / "cpu_stacks.json.gz"
    if not recording.exists():
        pytest.skip(golden.MISSING)
    document = moved(json.loads(gzip.decompress(recording.read_bytes())), what)
    (tmp_path / "moved.json").write_text(json.dumps(document), "utf-8")
    sides = [
        hw.load(item, cache=False, progress=False) for item in (recording, tmp_path / "moved.json")
    ]
    names = [side.events(columns=["name"])["name"].astype(str) for side in sides]
    assert (names[0] != names[1]).sum() > 10
    diff = hd.compare(*sides)
    result = hd.pairs(diff)
    assert (result["status"] == "same").all()
    assert (result["before_id"] == result["after_id"]).all()
    assert (hd.names(diff, device="all")["change"] == "same").all()
    assert hd.changes(diff).empty
    assert hd.findings(diff) == []


@needs_golden
@pytest.mark.parametrize("recording", ["conv", "decoder", "mlp_checkpoint"])
def test_with_and_without_stacks_the_operators_are_the_same(recording):
    names = (f"{recording}.json.gz", f"{recording}_no_stack.json.gz")
    diff = hd.compare(*(hw.load(RECORDINGS / name, cache=False, progress=False) for name in names))
    result = hd.pairs(diff)
    assert set(result["status"]) <= {"same", "changed"}
    assert len(result) > 400
    assert "stacks" in [caution.kind for caution in diff.cautions]


@pytest.fixture(scope="module")
def pair():
    sides = (golden.whole(f"hta_tests__trace_diff__{side}") for side in ("control", "test"))
    return hd.compare(*sides)


@needs_golden
def test_steps_of_two_real_jobs(pair):
    # Durations of the steps in the files, in µs, computed without our code.
    before = [75_473, 76_940, 76_212, 76_727, 78_473, 81_120]
    after = [100_298, 122_149, 166_403, 81_971, 107_230, 166_350]
    result = hd.steps(pair)
    assert result["before_ns"].tolist() == [1000 * length for length in before]
    assert result["after_ns"].tolist() == [1000 * length for length in after]
    slots = hd.align(pair).slots
    # Each slot extends to the next step of the longer run.
    assert slots["delta_ns"].tolist() == result["diff_ns"].tolist()
    for by in ("kind", "cause", "operator", "kernel"):
        frame = hd.waterfall(pair, by)
        assert frame["before_ns"].sum() == 1000 * sum(before)
        assert frame["diff_ns"].sum() == 1000 * (sum(after) - sum(before))
    assert [caution.kind for caution in pair.cautions] == ["gpu", "world_size", "rank"]
    texts = [result.text.replace("\u202f", " ") for result in hd.findings(pair)]
    # The text of shared/design/diff.png, divided by its six steps.
    assert texts[:6] == [
        "After takes 46.6 ms longer a step: 77.5 ms → 124 ms, +60 %: compute grows by 44.3 ms.",
        (
            "The runs differ: different GPUs: NVIDIA A100-PG509-200 → Tesla V100-SXM2-16GB; "
            "world size 8 → 2."
        ),
        # 12 graph launches account for 5 046 of the 15 018 pieces of device work that have a call.
        "Graphs launch 0 % → 34 % of device work.",
        (
            "Compute grows by 44.3 ms and exposed copies by 12.9 ms; idle time of the device "
            "shrinks by 8.19 ms and exposed communication by 2.44 ms a step."
        ),
        "Memcpy DtoD goes from 3 to 774.2 a step (+15.0 ms).",
        "Every step is slower; step 1011 most, +90.2 ms.",
    ]
    assert texts[-2] == "Different rank: 3 → 1."
    assert any(text.startswith("CompiledFunction is new: 1 a step") for text in texts)
    # A name that became slower in one place and faster in another is reported with the place.
    twice = [text for text in texts if text.startswith("nccl:all_to_all")]
    assert [text.split(" on the")[0] for text in twice] == [
        "nccl:all_to_all in record_param_comms takes longer",
        "nccl:all_to_all in ## all2all_data:lengths ## takes less",
    ]


@needs_golden
def test_turned_round_two_real_jobs_tell_the_same():
    sides = [golden.whole(f"hta_tests__trace_diff__{side}") for side in ("control", "test")]
    present, back = assert_mirrored(*sides)
    texts = [
        next(finding.text for finding in hd.findings(both) if finding.kind == "pace")
        for both in (present, back)
    ]
    words = [text.replace("\u202f", " ") for text in texts]
    assert words[0].startswith(
        "12 operators are slower by a similar factor, +60 % in the median: +4.96 ms"
    )
    assert words[1].startswith(
        "12 operators are faster by a similar factor, −37 % in the median: −4.96 ms"
    )


@needs_golden
def test_names_of_two_real_jobs(pair):
    """Compared with pandas sums over the events that start or were launched within a step."""
    frame = hd.names(pair).set_index("name")
    for word, side in zip(("before", "after"), pair.sides, strict=True):
        (part,) = side.parts.values()
        events = part.trace.events
        work = events[(events["stream"] >= 0) & (events["kind"] != "annotation")]
        low, high = side.windows[part.rank].min(), side.windows[part.rank].max()
        launched = work["step"] >= 0
        unknown = ~launched & work["start_ns"].between(low, high, inclusive="left")
        # All recorded launches are within steps; events without a step have no launch in the file.
        assert (part.trace.launch_of[work.index[unknown]] < 0).all()
        sums = (
            work[launched | unknown].groupby("name", observed=True)["dur_ns"].agg(["size", "sum"])
        )
        ours = frame[frame[f"{word}_count"] > 0]
        assert set(ours.index) == set(sums.index.astype(str))
        assert (ours[f"{word}_count"] == sums["size"].rename(index=str)[ours.index]).all()
        assert (ours[f"{word}_ns"] == sums["sum"].rename(index=str)[ours.index]).all()


@needs_golden
def test_ranks_and_steps_of_one_job():
    traces = golden.whole("made__ddp_8rank")
    # Rank 5 is slower by the same factor everywhere, which is reported once.
    diff = hd.compare(traces.select(ranks=[0]), traces.select(ranks=[5]))
    result = hd.pairs(diff)
    assert not set(result["status"]) & {"added", "removed", "moved", "replaced"}
    kinds = [finding.kind for finding in hd.findings(diff)]
    assert kinds.count("pace") == 1
    steps = hd.compare(traces.select("step == 4", ranks=[0]), traces.select("step == 6", ranks=[0]))
    assert (steps.matched_by, steps.after.steps.tolist()) == ("order", [6])
    means = hd.compare(traces, traces.select(ranks=[0, 1]))
    assert means.by_rank_means
    assert hd.waterfall(means).attrs["before_ranks"] == 8
    assert isinstance(hd.waterfall(means).attrs["before_ns"], int)


@needs_golden
@pytest.mark.parametrize(
    "name",
    [
        "kineto__resnet50_num_workers_0_a",
        "hta_tests__trace_diff__control",
        "hta_tests__trace_diff__test",
    ],
)
@pytest.mark.parametrize("halves", [lambda s: (s[::2], s[1::2]), lambda s: (s[:3], s[3:])])
def test_steps_of_one_run_differ_by_noise_alone(name, halves):
    traces = golden.whole(name)
    steps = traces.events(columns=["step"])["step"].unique().tolist()
    steps = sorted(set(steps) - {-1})
    assert len(steps) == 6
    before, after = (traces.select(f"step in {tuple(half)}") for half in halves(steps))
    diff = hd.compare(before, after)
    assert diff.step_count == 3
    assert hd.changes(diff).empty
    assert hd.findings(diff) == []
    counts = hd.pairs(diff).attrs["matched"]
    assert counts["same"] > 10 * sum(counts[word] for word in ("added", "removed", "moved"))


@pytest.mark.skipif(not CASES.is_dir(), reason=golden.MISSING)
@pytest.mark.parametrize(("before", "after"), [("a1", "b1"), ("a5", "b5")])
def test_fewer_calls_are_not_gone(before, after):
    # Call counts from the README of the case: 7 and 3 calls in steps of equal length.
    fewer, more = (
        hw.load(CASES / f"{name}.json", cache=False, progress=False) for name in (after, before)
    )
    texts = [
        [finding.text.replace("\u202f", " ") for finding in hd.findings(diff)]
        for diff in assert_mirrored(fewer, more)
    ]
    assert [result[0] for result in texts] == ["After takes the same time: 900 µs a step."] * 2
    words = ["aten::permute: 7 → 3 a step, 4 fewer in aten::attention, −80.0 µs a step."]
    words += ["aten::permute: 3 → 7 a step, 4 more in aten::attention, +80.0 µs a step."]
    assert [word for word in words if word in texts[0] or word in texts[1]] == words


@pytest.mark.skipif(not CASES.is_dir(), reason=golden.MISSING)
def test_the_change_of_a_single_step_comes_first():
    # Steps of 4.007 and 4.426 ms.
    sides = [hw.load(CASES / f"one{k}.json", cache=False, progress=False) for k in (0, 1)]
    first = hd.findings(hd.compare(*sides))[0]
    assert (round(first.before, -3), round(first.after, -3)) == (4_007_000, 4_426_000)
    words = "After takes 419 µs longer a step: 4.01 ms → 4.43 ms, +10 %"
    assert first.text.replace("\u202f", " ").startswith(words)
