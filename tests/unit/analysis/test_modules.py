"""The module tree: small cases by hand, and generated jobs with known truth."""

import numpy as np
import pandas as pd
import pytest
from support.small import call, event, kernel, load

import hta_widgets as hw
from hta_widgets.analysis import modules, step_efficiency
from hta_widgets.analysis.efficiency.modules import longest_repeat
from hta_widgets.demo import write_demo
from hta_widgets.panels.layers import module_bars

NODE = "autograd::engine::evaluate_function: MmBackward0"
DEVICE = ["forward_device_ns", "backward_device_ns", "recompute_device_ns"]


def module(name, start, end, tid=1):
    return event("python_function", f"nn.Module: {name}", start, end, pid=10, tid=tid)


def mm(start, end, *, number=-1, thread=0, name="aten::mm", tid=1):
    numbers = {"Sequence number": number, "Fwd thread id": thread} if number >= 0 else {}
    return event("cpu_op", name, start, end, pid=10, tid=tid, **numbers)


#: Net_0 calls Block_0 and Block_1, whose mm launch kernels of 10 and 20 ns. The autograd thread
#: runs the nodes in reverse, with 30 and 40 ns. An operator whose number exists on another thread
#: launches 5 ns.
NET = [
    module("Net_0", 100, 500),
    module("Block_0", 110, 200), mm(120, 190, number=3), call(130, 140, 1),
    module("Block_1", 210, 300), mm(220, 290, number=4), call(230, 240, 2),
    mm(600, 690, number=4, thread=1, name=NODE, tid=2), call(610, 620, 3, tid=2),
    mm(700, 790, number=3, thread=1, name=NODE, tid=2), call(710, 720, 4, tid=2),
    mm(130, 135, number=4, tid=3), mm(800, 810, tid=2), call(802, 804, 5, tid=2),
    kernel(1_000, 1_010, launch=1), kernel(1_020, 1_040, launch=2),
    kernel(1_100, 1_130, launch=3), kernel(1_200, 1_240, launch=4), kernel(1_300, 1_305, launch=5),
]  # fmt: skip


def times(frame):
    return frame.set_index("path")[DEVICE].to_numpy().tolist()


def test_backward_belongs_to_the_module_that_made_the_node(tmp_path):
    frame = modules(load(tmp_path, NET), fold=False)
    assert frame["path"].tolist() == [
        "Net_0",
        "Net_0.Block_0",
        "Net_0.Block_1",
        "(outside modules)",
    ]
    assert times(frame) == [[30, 70, 0], [10, 40, 0], [20, 30, 0], [5, 0, 0]]
    assert frame["host_ns"].tolist() == [400, 90, 90, 0]
    assert frame["host_self_ns"].tolist() == [220, 90, 90, 0]
    assert frame["parent"].tolist() == [-1, 0, 0, -1]
    assert frame.attrs["device_ns"] == 105


def test_classes_whose_names_differ_in_a_digit_are_not_folded(tmp_path):
    events = [
        module("Net_0", 100, 500),
        *(each for at, name in enumerate(("Conv1d_0", "Conv2d_0"))
          for each in (module(f"{name[:6]}Block_0", 110 + 100 * at, 190 + 100 * at),
                       module(name, 120 + 100 * at, 180 + 100 * at),
                       call(130 + 100 * at, 140 + 100 * at, at + 1),
                       kernel(1_000 + 100 * at, 1_010 + 100 * at, launch=at + 1))),
    ]  # fmt: skip
    frame = modules(load(tmp_path, events))
    names = ["Net", "Conv1dBlock", "Conv1d", "Conv2dBlock", "Conv2d"]
    assert frame["class_name"].tolist() == names
    assert frame["instances"].tolist() == [1] * 5


def test_modules_of_two_classes_with_one_name_are_apart(tmp_path):
    events = [
        module("LSTM_0", 100, 500), module("Linear_0", 110, 150),
        module("LSTM_0", 200, 400), mm(210, 290), call(220, 230, 1), kernel(1_000, 1_010, launch=1),
    ]  # fmt: skip
    frame = modules(load(tmp_path, events))
    assert frame["path"].tolist() == ["LSTM_0", "LSTM_0.Linear_0", "LSTM_0.LSTM_0"]
    assert frame["calls"].tolist() == [1, 1, 1]
    assert frame["device_self_ns"].tolist() == [0, 0, 10]


def test_a_call_below_a_node_is_recomputation(tmp_path):
    again = [module("Block_0", 705, 760, tid=2), mm(708, 755, number=4, tid=2)]
    frame = modules(load(tmp_path, [*NET, *again]), fold=False)
    assert times(frame)[:2] == [[30, 30, 40], [10, 0, 40]]
    assert frame["calls"].tolist()[:2] == [1, 1]


def test_equal_layers_are_folded_and_rows_of_leaves_are_not(tmp_path):
    leaves = [module(f"Linear_{at}", 121 + at, 122 + at) for at in range(2)]
    more = [module(f"Linear_{at + 2}", 221 + at, 222 + at) for at in range(2)]
    frame = modules(load(tmp_path, [*NET, *leaves, *more]))
    assert frame["path"].tolist()[1:4] == [
        "Net_0.Block ×2", "Net_0.Block ×2.Linear_0", "Net_0.Block ×2.Linear_1",
    ]  # fmt: skip
    row = frame.iloc[1]
    assert (row["instances"], row["min_device_ns"], row["max_device_ns"]) == (2, 50, 50)
    assert row["events"] == "nn.Module: Block_0\nnn.Module: Block_1"
    assert len(modules(load(tmp_path, NET), depth=1)) == 2


@pytest.mark.parametrize("with_modules", [False, True])
def test_a_demo_job_has_the_modules_and_recomputation_of_its_truth(tmp_path, with_modules):
    options = {"ranks": 1, "steps": 2, "events_per_step": 2_000}
    truth = write_demo(tmp_path / "job", modules=with_modules, checkpoint=True, **options)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    facts = pd.DataFrame(truth["module_ns"]).explode("device_ns")
    frame = modules(traces, fold=False)
    layers = frame["class_name"].isin(["Layer", "Block"])
    flops = truth["step_flops"]
    assert step_efficiency(traces)["recompute_flops"].tolist() == [flops["recompute_flops"]] * 2
    assert frame.loc[layers, "recompute_flops"].sum() == 2 * flops["recompute_flops"]
    recomputed = facts.loc[facts["phase"] == "recompute", "device_ns"].sum()
    assert frame.loc[layers, "recompute_device_ns"].sum() == recomputed
    assert frame.loc[frame["parent"] < 0, "device_ns"].sum() == frame.attrs["device_ns"]
    if with_modules:
        own = frame.set_index("path").groupby(level=0)["device_self_ns"].sum()
        expected = facts.groupby("module")["device_ns"].sum()
        assert own[expected.index[1:]].to_dict() == expected.iloc[1:].to_dict()


def test_operators_that_repeat_are_layers_and_annotations_name_them(tmp_path):
    names = ["a", "b", "b"] * 4
    events = [mm(100 + 10 * at, 105 + 10 * at, name=name) for at, name in enumerate(names)]
    frame = modules(load(tmp_path, events))
    assert frame[["path", "calls", "source"]].to_numpy().tolist() == [["Layer ×4", 4, "sequence"]]
    named = [
        event("user_annotation", f"mlp {at}", 99 + 60 * at, 155 + 60 * at, pid=10)
        for at in range(2)
    ]
    frame = modules(load(tmp_path, [*events, *named]))
    assert frame[["module", "instances", "source"]].to_numpy().tolist() == [
        ["mlp # ×2", 2, "annotation"]
    ]
    note = modules(load(tmp_path, events[:2])).attrs["note"]
    assert note.startswith("no module, annotation or repeated layer")


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([1, 2, 1, 2], (0, 1, 0)),
        ([1, 1, 1, 1], (0, 1, 0)),
        ([9, 9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 8], (2, 3, 3)),
    ],
)
def test_a_layer_repeats_three_times_over_half_of_the_sequence(codes, expected):
    assert longest_repeat(np.array(codes)) == expected


def test_bars_are_means_of_ranks_in_the_order_of_calls(tmp_path):
    bars = module_bars(modules(load(tmp_path, NET, NET), fold=False))
    columns = ["depth", "short", "left_ns", "right_ns", "own_ns"]
    assert bars[columns].to_numpy().tolist() == [
        [0, "Net_0", 0, 100, 0], [0, "(outside modules)", 100, 105, 5],
        [1, "Block_0", 0, 50, 50], [1, "Block_1", 50, 100, 50],
    ]  # fmt: skip
