"""Matching of events, compared with pairs chosen by hand."""

import numpy as np
import pytest
from support.small import call, event, kernel, load

from hta_widgets import diff as hd
from hta_widgets.diff.sequences import align_positions


class Program:
    """Writes consecutive calls of `length` ns inside a step."""

    def __init__(self, tid=1):
        self.records, self.now, self.tid, self.launches = [], 1000, tid, 0

    def op(self, name, *inside, length=100, category="cpu_op"):
        start = self.now
        self.now += 10
        for step in inside:
            step()
        self.now += length
        self.records.append(event(category, name, start, self.now, pid=10, tid=self.tid))
        self.now += 10
        return self

    def launch(self, name, length=50):
        def write():
            self.launches += 1
            number = self.launches + 1000 * self.tid
            self.records.append(call(self.now, self.now + 20, launch=number, tid=self.tid))
            start = self.now + 5000
            self.records.append(kernel(start, start + length, name=name, launch=number))
            self.now += 40

        return write

    def step(self, name, *inside, **options):
        return lambda: self.op(name, *inside, **options)

    def whole(self):
        records = sorted(self.records, key=lambda record: record["ts"])
        return [event("user_annotation", "ProfilerStep#1", 0, self.now + 1000, pid=10), *records]


def statuses(tmp_path, before, after):
    """Return (name, status) of all events except runtime calls, in frame order."""
    sides = (side.whole() if isinstance(side, Program) else side for side in (before, after))
    frame = hd.pairs(hd.compare(*(load(tmp_path, side) for side in sides)))
    remaining = frame[~frame["name"].isin(["cudaLaunchKernel", "aten::origin"])]
    return list(zip(remaining["name"], remaining["status"], strict=True)), remaining


def layer(program, name="aten::linear", inner="aten::addmm", work="gemm", **options):
    program.op(name, program.step(inner, program.launch(work, **options)))


def test_a_call_put_between_others_of_its_name_shifts_none(tmp_path):
    before, after = Program(), Program()
    for program, bias in ((before, [0, 0, 0]), (after, [0, 1, 0, 0])):
        for flag in bias:
            layer(program, inner="aten::bias" if flag else "aten::addmm")
    result, frame = statuses(tmp_path, before, after)
    added = [name for name, status in result if status == "added"]
    assert added == ["aten::linear", "aten::bias", "gemm"]
    assert sum(status == "same" for _, status in result) == 9
    # Work is matched like its operator, and its path names the operator.
    same = frame[(frame["name"] == "gemm") & (frame["status"] == "same")]
    assert set(same["path"]) == {"aten::linear > aten::addmm"}
    new = frame.loc[frame["status"] == "added", ["before_id", "before_ns"]]
    assert new.to_numpy().tolist() == [[-1, 0]] * 3


def test_an_operator_within_another_is_not_the_same_alone(tmp_path):
    before, after = Program(), Program()
    before.op("aten::copy_")
    after.op("aten::to", after.step("aten::copy_"))
    result, _ = statuses(tmp_path, before, after)
    assert result == [("aten::copy_", "removed"), ("aten::to", "added"), ("aten::copy_", "added")]


def test_what_stands_elsewhere_has_moved_with_all_below_it(tmp_path):
    before, after = Program(), Program()
    for program, order in ((before, "abc"), (after, "bca")):
        for name in order:
            layer(program, name=f"aten::{name}", work=f"kernel_{name}")
    result, frame = statuses(tmp_path, before, after)
    moved = [name for name, status in result if status == "moved"]
    assert moved == ["aten::a", "aten::addmm", "kernel_a"]
    assert (frame[["before_id", "after_id"]] >= 0).all(axis=None)


def test_other_work_below_a_matched_operator_was_replaced(tmp_path):
    before, after = Program(), Program()
    work = [before.launch(name) for name in ("mul", "tanh", "copy")]
    before.op("aten::gelu", *work, length=4000)
    after.op("aten::gelu", after.launch("fused", 80), after.launch("copy"), length=4000)
    result, frame = statuses(tmp_path, before, after)
    replaced = [("fused", "replaced"), ("tanh", "replaced")]
    assert result == [("aten::gelu", "same"), *replaced, ("copy", "same")]
    fused = frame[frame["name"] == "fused"].iloc[0]
    assert (fused["before_ns"], fused["after_ns"], fused["diff_ns"]) == (50, 80, 30)
    assert frame.loc[frame["name"] == "tanh", "after_id"].tolist() == [-1]
    # Work that a matched operator no longer launches is removed.
    before, after = Program(), Program()
    before.op("aten::mm", before.launch("memset"), before.launch("gemm"), length=4000)
    after.op("aten::mm", after.launch("gemm"), length=4000)
    result, _ = statuses(tmp_path, before, after)
    assert result == [("aten::mm", "same"), ("memset", "removed"), ("gemm", "same")]


def test_threads_pair_by_what_they_run(tmp_path):
    def side(first, second):
        threads = {name: Program(tid) for tid, name in ((first, "main"), (second, "loader"))}
        for name, program in threads.items():
            for _ in range(3):
                program.op(f"aten::{name}")
        program = threads["main"]
        program.records += threads["loader"].records
        return program.whole()

    result, _ = statuses(tmp_path, side(1, 2), side(2, 1))
    assert {status for _, status in result} == {"same"}


def test_a_pair_is_changed_beyond_what_its_likes_differ_by(tmp_path):
    def side(lengths):
        program = Program()
        for length in lengths:
            layer(program, length=length)
        return program

    # Eleven kernels with the same path, all but one between 100 and 110 % of "before".
    mixed = [1000, 1100, 1000, 1090, 1010, 1100, 1000, 1100, 1000, 1080, 1600]
    for after, expected in (
        (mixed, ["same"] * 10 + ["changed"]),
        # All changed by the same amount, so each counts as changed.
        ([1200] * 11, ["changed"] * 11),
        # Within 5 %, or within the resolution of the times, none counts as changed.
        ([1049] * 11, ["same"] * 11),
    ):
        _, frame = statuses(tmp_path, side([1000] * 11), side(after))
        assert frame.loc[frame["name"] == "gemm", "status"].tolist() == expected


def test_digits_do_not_part_calls_that_touch(tmp_path):
    """In whole µs, a call may start when the previous one ends and seem to be nested in it."""

    def side(inside):
        last = 20_000 if inside else 21_000
        return [
            event("user_annotation", "ProfilerStep#1", 0, 100_000, pid=10),
            event("cpu_op", "aten::transpose", 10_000, 20_000, pid=10),
            event("cpu_op", "aten::as_strided", 19_000, last, pid=10),
            call(19_000, last, launch=1),
            kernel(30_000, 40_000, name="copy", launch=1),
            event("cpu_op", "aten::as_strided", 50_000, 51_000, pid=10),
        ]

    for sides in ((True, False), (False, True)):
        result, frame = statuses(tmp_path, *(side(inside) for inside in sides))
        assert {status for _, status in result} <= {"same", "changed"}, sides
        assert len(result) == 4
        # The call far from any operator is not confused with the other one.
        strided = frame[frame["name"] == "aten::as_strided"]
        assert strided["diff_ns"].abs().tolist() == [1000, 0]


def test_addresses_in_names_are_not_compared(tmp_path):
    names = [f"<built-in method run of Engine object at 0x7f{k}a0b1c2d>" for k in (1, 2)]
    result, _ = statuses(tmp_path, *(Program().op(name) for name in names))
    assert [status for _, status in result] == ["same"]


def frame(program, name, *inside):
    return program.step(name, *inside, category="python_function")


def test_a_function_is_the_same_on_another_line_and_in_another_folder(tmp_path):
    def side(folder, line, number):
        program = Program()
        body = program.step("aten::mm", program.launch("gemm"))
        module = frame(program, f"nn.Module: Linear_{number}", body)
        frame(program, f"{folder}model.py({line}): forward", module)()
        return program.whole()

    result, rows = statuses(tmp_path, side("", 31, 0), side("/opt/app/", 57, 3))
    assert {status for _, status in result} == {"same"}
    assert set(rows.loc[rows["name"] == "gemm", "path"]) == {
        "model.py: forward > nn.Module: Linear > aten::mm"
    }
    both = hd.compare(load(tmp_path, side("", 31, 0)), load(tmp_path, side("/opt/app/", 57, 3)))
    assert set(hd.names(both, device="cpu")["change"]) == {"same"}


def test_a_layer_put_in_the_middle_shifts_no_other(tmp_path):
    def side(layers):
        program = Program()
        blocks = [
            frame(program, f"nn.Module: Block_{k}", program.step(f"aten::{name}"))
            for k, name in enumerate(layers)
        ]
        frame(program, "model.py(7): forward", *blocks)()
        return program

    result, _ = statuses(tmp_path, side("abcd"), side("axbcd"))
    alone = [(name, status) for name, status in result if status not in {"same", "changed"}]
    assert alone == [("nn.Module: Block", "added"), ("aten::x", "added")]


def test_full_names_tell_which_of_two_alike_is_gone(tmp_path):
    def side(lines):
        program = Program()
        for line in lines:
            frame(program, f"layers.py({line}): forward", program.step("aten::relu"))()
        return program.whole()

    _, rows = statuses(tmp_path, side([10, 20, 30]), side([20, 30]))
    removed = rows.loc[rows["status"] == "removed", ["before_id", "name"]]
    assert removed.to_numpy().tolist() == [[2, "layers.py: forward"], [3, "aten::relu"]]


def test_a_function_more_in_between_parts_nothing(tmp_path):
    def side(*, wrapped):
        program = Program()
        body = program.step("aten::mm", program.launch("gemm")), program.launch("triton_add")
        inner = frame(program, "module.py(9): _call_impl", *body)
        if wrapped:
            inner = frame(program, "module.py(5): _wrapped_call_impl", inner)
        frame(program, "train.py(3): step", inner)()
        return program.whole()

    for sides in ((False, True), (True, False)):
        result, _ = statuses(tmp_path, *(side(wrapped=wrapped) for wrapped in sides))
        alone = [name for name, status in result if status not in {"same", "changed"}]
        assert alone == ["module.py(5): _wrapped_call_impl"], sides
        # Only the path to the same calls has changed.
        both = hd.compare(*(load(tmp_path, side(wrapped=wrapped)) for wrapped in sides))
        assert hd.changes(both).empty
        # The function makes the single step 120 ns longer, which proves nothing.
        slight, caution = hd.findings(both)
        assert (slight.kind, abs(slight.diff_ns), caution.kind) == ("slight", 120, "caution")


def test_without_functions_on_one_side_they_are_left_out(tmp_path):
    with_frames, without = Program(), Program()
    frame(with_frames, "train.py(3): step", with_frames.step("aten::mm"))()
    without.op("aten::mm")
    both = hd.compare(load(tmp_path, with_frames.whole()), load(tmp_path, without.whole()))
    assert set(hd.pairs(both)["status"]) == {"same"}
    assert "train.py: step" not in hd.names(both, device="cpu")["name"].tolist()
    assert [caution.kind for caution in both.cautions] == ["stacks"]


@pytest.mark.parametrize("names", [12, 400])
def test_long_sequences_are_parted_first(names):
    """Too long for a single table of prefixes; with few names, every name is repeated."""
    rng = np.random.default_rng(names)
    before = rng.integers(0, names, 12_000)
    remaining = np.flatnonzero(np.arange(len(before)) % 50)
    after = before[remaining]
    result = align_positions(before, after, before.astype(np.uint64), after.astype(np.uint64))
    assert (np.diff(result, axis=0) > 0).all()
    assert (before[result[:, 0]] == after[result[:, 1]]).all()
    assert len(result) == len(after)


def test_frames_are_the_caller_s_own(tmp_path):
    traces = load(tmp_path, Program().op("aten::mm").whole())
    diff = hd.compare(traces, traces)
    frame = hd.pairs(diff)
    frame["diff_ns"] = 7
    frame.attrs["matched"] = None
    assert (hd.pairs(diff)["diff_ns"] == 0).all()
    assert hd.pairs(diff).attrs["matched"]["same"] == len(frame)
    with pytest.raises(AttributeError):
        diff.before = None
