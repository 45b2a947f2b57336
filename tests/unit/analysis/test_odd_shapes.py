"""Files with odd shapes, arguments and devices: analyses neither raise nor guess."""

import json
import math

import pytest
from support.small import ORIGIN, call, event, kernel, load, nccl, read

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.analysis.efficiency.calls import OperatorCall
from hta_widgets.analysis.efficiency.work import call_work

BF16, FLOAT, COMPLEX = "c10::BFloat16", "float", "c10::complex<float>"
NOT_NUMBERS, NO_VALUES = "sizes that are not integers", "no concrete inputs"
A100 = {
    "id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 84_987_740_160, "computeMajor": 8,
    "computeMinor": 0, "numSms": 108, "warpSize": 32, "maxThreadsPerMultiprocessor": 2048,
}  # fmt: skip
SQUARES, TYPES = [[64, 64], [64, 64]], [BF16, BF16]
PRODUCT, SUM = ("aten::mm", SQUARES, TYPES), ("aten::add", [*SQUARES, []], [*TYPES, "Scalar"])
KEYS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
CONVOLUTION = [[1, 3, 8, 8], [4, 3, 3, 3], *[[]] * 7], [FLOAT, FLOAT, *[""] * 7]


def job(*operators, work_ns=1000, **kernel_args):
    """Load one kernel per operator, which is given by its name and arguments."""
    events = []
    for number, (name, *arguments) in enumerate(operators, 1):
        start = number * 10_000
        args = {key: value for key, value in zip(KEYS, arguments, strict=False) if value != "gone"}
        events += [
            event("cpu_op", name, start, start + 100, pid=10, tid=1, **args),
            call(start + 10, start + 20, number),
            kernel(start + 200, start + 200 + work_ns, launch=number,
                   name="ampere_bf16_s16816gemm_bf16", **kernel_args),
        ]  # fmt: skip
    return events


GRAPH = [
    event("cpu_op", "aten::mm", 100, 200, pid=10, tid=1),
    call(300, 340, 7, name="cudaGraphLaunch"),
    *(kernel(400 + 10 * n, 405 + 10 * n, launch=7) for n in range(5)),
]
STEPS = [
    event("user_annotation", name, 50 + 20_000 * n, 15_000 + 20_000 * n, pid=10, tid=1)
    for n, name in enumerate(["execute_context_0(0)_generation_0(0)", "step[EXTEND bs=2 toks=]",
                              "step[DECODE bs=0]", "prefill[bs=2 tok=x"])
]  # fmt: skip
ALL_TO_ALL = [
    nccl(100, 200, **{"Collective name": "all_to_allv", "In msg nelems": "s0", "dtype": None,
                      "In split size": ["a", 0], "Out split size": "[1, ", "Group size": "2",
                      "Process Group Ranks": [0, 1]}),
    nccl(300, 400, **{"Collective name": "all_to_all", "In msg nelems": 7, "Out msg nelems": 7,
                      "dtype": "Float", "In split size": "[]", "Group size": 0}),
]  # fmt: skip
ODD_LAUNCH = {"grid": "[1, 2]", "block": [10**12] * 3, "blocks per SM": "Infinity",
              "est. achieved occupancy %": -1, "registers per thread": "x", "shared memory": 1.5,
              "occupancy": {"limitingFactors": [1, None]}}  # fmt: skip
FILES = {
    "no strides": job(PRODUCT, SUM),
    "strides of other lengths": job(("aten::mm", SQUARES, TYPES, [[1], []])),
    "lists": job(("aten::cat", [[[4, 6], [4]], []], ["TensorList", "Scalar"]),
                 ("aten::stack", [[], []], ["TensorList", "Scalar"])),
    "cut values": job(("aten::convolution", *CONVOLUTION, [], ["", "", "", "[1, ", "[0", "[1"])),
    "strings": job(("aten::mm", "[[64, 64], [64, 64]]", "['float', 'float']"),
                   ("aten::mm", ["[64, 64]", "[64, 64]"], TYPES)),
    "symbols": job(("aten::bmm", [["s0", "s0 + 1", 4], ["s0", 4, 5]], TYPES)),
    "no elements": job(("aten::mm", [[0, 64], [64, 64]], TYPES), ("aten::topk", [[4, 0], []]),
                       ("aten::convolution", [[1, 0, 8], [0, 1, 3]], TYPES)),
    "complex": job(("aten::mm", SQUARES, [COMPLEX] * 2), ("aten::_fft_c2c", [[64]], [COMPLEX])),
    "other JSON": job(("aten::mm", {"a": 1}, 7), ("aten::mm", None, None), ("aten::mm", 7, [])),
    "a graph": GRAPH,
    "no time": job(PRODUCT, SUM, work_ns=0),
    "serving": [*STEPS, *job(PRODUCT, SUM)],
    "splits": ALL_TO_ALL,
    "launches": job(PRODUCT, **ODD_LAUNCH),
    "another launch": job(PRODUCT, grid=None, block={}, occupancy=[]),
}  # fmt: skip
DEVICES = {
    "unknown": [{"id": 0, "name": "Foo 9000"}],
    "renamed": [{**A100, "name": "GPU-0"}],
    "a MIG slice": [{**A100, "name": f"{A100['name']} MIG 1g.10gb", "numSms": 14}],
    "several": [A100, {**A100, "id": 1, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
    "no list": {"0": A100},
    "odd values": [{"id": "0", "name": None, "totalGlobalMem": "80 GB", "numSms": -3}],
}
ANALYSES = [
    analysis.operator_efficiency, analysis.step_efficiency, analysis.modules,
    analysis.kernel_details, analysis.serving_steps, analysis.all_to_all_matrix,
    analysis.traffic, analysis.pipeline_bubbles, analysis.fusion_candidates,
    analysis.graph_replays,
]  # fmt: skip


def load_on(tmp_path, devices, events):
    document = {"distributedInfo": {"rank": 0}, "deviceProperties": devices}
    document["traceEvents"] = [ORIGIN, *events]
    (tmp_path / "rank-0.json").write_text(json.dumps(document))
    return read(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_no_analysis_raises_on_odd_arguments(tmp_path, name):
    traces = load(tmp_path, FILES[name])
    for analyse in ANALYSES:
        frame = analyse(traces)
        assert len(frame) or frame.attrs["note"]
    operators = analysis.operator_efficiency(traces)
    unknown = operators["flops"].isna() | operators["least_bytes"].isna()
    assert (operators.loc[unknown, "reason"] != "").all()


@pytest.mark.parametrize("name", DEVICES)
def test_peaks_are_known_or_a_note_says_that_they_are_not(tmp_path, name):
    traces = load_on(tmp_path, DEVICES[name], job(PRODUCT, SUM))
    for analyse in ANALYSES:
        analyse(traces)
    frame = analysis.operator_efficiency(traces)
    is_known = frame["peak_source"] != ""
    assert is_known.all() == frame["roofline_share"].notna().all()
    assert is_known.all() or "name it with peaks=" in (note := frame.attrs["note"]) or "add" in note
    if name in {"renamed", "a MIG slice"}:
        assert set(frame["peak_certainty"]) == {"uncertain"}


def test_a_slice_has_a_part_of_the_peaks(tmp_path):
    """14 of 108 units give a bandwidth of 264.3 of 2039 GB/s."""
    row = hw.devices.of(load_on(tmp_path, DEVICES["a MIG slice"], job(PRODUCT))).iloc[0]
    assert (row["scaled"], row["certainty"]) == (14 / 108, "uncertain")
    assert row["memory_gb_s"] == pytest.approx(264.3, abs=0.1)


@pytest.mark.parametrize("shape", [["s0", 64], [-1, 64], [64.0, 64], [True, 64], "64, 64"])
@pytest.mark.parametrize("name", ["aten::mm", "aten::add", "aten::cat"])
def test_sizes_that_are_not_numbers_are_unknown(name, shape):
    """The size of one operand does not determine the other."""
    dims, types = ([[shape, [64, 64]]], ["TensorList"]) if name == "aten::cat" else (
        [shape, [64, 64]], TYPES)  # fmt: skip
    work = call_work(OperatorCall(name, dims, types))
    assert (math.isnan(work.flops), math.isnan(work.min_bytes)) == (True, True)
    assert work.reason == NOT_NUMBERS


@pytest.mark.parametrize(
    ("name", "dims", "values"),
    [
        ("aten::convolution", CONVOLUTION[0],
         ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "Fal", "[0, 0]", "1"]),
        ("aten::convolution", CONVOLUTION[0],
         ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1e"]),
        ("aten::native_layer_norm_backward", [[4, 6], [4, 6], [], [4, 1], [4, 1], [6], [6], []],
         ["", "", "[6]", "", "", "", "", "[True, Tr"]),
        ("aten::topk", [[4, 6], [], []], ["", "..", "-1"]),
        ("aten::_softmax", [[4, 6], [], []], ["", "-1", "Fa"]),
    ],
)  # fmt: skip
def test_values_that_are_cut_are_not_replaced_by_defaults(name, dims, values):
    work = call_work(OperatorCall(name, dims, [FLOAT] * len(dims), [], values))
    assert (math.isnan(work.flops), work.reason) == (True, NO_VALUES)


@pytest.mark.parametrize(
    ("name", "dims", "values", "flops"),
    [
        ("aten::mm", SQUARES, [], 8 * 64**3),
        ("aten::convolution", [[1, 2, 8], [4, 2, 3], *[[]] * 7],
         ["", "", "", "[1]", "[0]", "[1]", "False", "[0]", "1"], 8 * 4 * 2 * 3 * 6),
    ],
)  # fmt: skip
@pytest.mark.parametrize("type_name", [COMPLEX, "c10::complex<double>"])
def test_a_complex_multiply_add_is_eight_operations(name, dims, values, flops, type_name):
    work = call_work(OperatorCall(name, dims, [type_name] * len(dims), [], values))
    assert (work.flops, work.model_flops, work.certainty) == (flops, flops, "exact")


def test_a_rank_without_shapes_is_named(tmp_path):
    without = job(("aten::mm", "gone"), ("aten::add", "gone"))
    traces = load(tmp_path, job(PRODUCT, SUM), without, without)
    for analyse in (analysis.operator_efficiency, analysis.step_efficiency):
        note = analyse(traces).attrs["note"]
        assert "no operator of ranks 1, 2 has the shapes of its inputs" in note


@pytest.mark.parametrize("model_flops", [None, 1e15])
def test_more_than_the_peak_is_flagged(tmp_path, model_flops):
    """2 · 8192³ FLOPs in 1 µs, or 1e15 model FLOPs in 12 µs, on a device with 312 TFLOP/s."""
    size = 8192 if model_flops is None else 64
    product = ("aten::mm", [[size, size]] * 2, TYPES)
    traces = load_on(tmp_path, [A100], job(product))
    frame = analysis.step_efficiency(traces, model_flops=model_flops)
    assert frame["mfu"].iloc[0] > 1
    assert "FLOPs of 1 row exceed the peak" in frame.attrs["note"]
    assert analysis.operator_efficiency(traces)["above_peak"].tolist() == [model_flops is None]


def test_less_than_the_peak_is_not_flagged(tmp_path):
    frame = analysis.step_efficiency(load_on(tmp_path, [A100], job(PRODUCT)))
    assert 0 < frame["mfu"].iloc[0] < 1
    assert "peak" not in frame.attrs.get("note", "")
