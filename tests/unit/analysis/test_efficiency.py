"""FLOPs, rooflines and MFU, calculated by hand."""

import json
import math
from dataclasses import replace

import pandas as pd
import pytest
from support.small import call, copy, event, kernel, load, nccl, write

import hta_widgets as hw
from hta_widgets import TraceError, analysis
from hta_widgets.analysis import operator_efficiency, step_efficiency
from hta_widgets.analysis.efficiency.calls import CallContext, OperatorCall
from hta_widgets.analysis.efficiency.devices import device_of_entry
from hta_widgets.analysis.efficiency.work import call_work

BF16 = "c10::BFloat16"
PEAKS = {"bf16": 1.0, "fp32": 0.5, "memory_gb_s": 100.0}
#: 2 · 64³ FLOPs and 3 · 64² elements of 2 bytes.
FLOPS, BYTES = 524_288, 24_576


def op(name, start, end, *shapes, types=None, tid=1, **args):
    args |= (
        {"Input Dims": list(shapes), "Input type": types or [BF16] * len(shapes)} if shapes else {}
    )
    return event("cpu_op", name, start, end, pid=10, tid=tid, **args)


def square(name, start, end, **args):
    return op(name, start, end, [64, 64], [64, 64], **args)


#: aten::linear encloses aten::mm, which launches a kernel of 1 µs.
LINEAR = [
    square("aten::linear", 100, 200),
    square("aten::matmul", 110, 190),
    square("aten::mm", 120, 180),
    call(140, 145, 1),
    kernel(1_000, 2_000, launch=1),
]


def shown(frame):
    return frame[frame["name"] != "aten::origin"].set_index("name")


def test_nested_operators_count_once_with_their_roofline(tmp_path):
    frame = operator_efficiency(load(tmp_path, LINEAR), peaks=PEAKS)
    row = frame.iloc[0]
    assert frame["name"].tolist() == ["aten::mm"]
    assert (row["flops"], row["least_bytes"], row["device_ns"]) == (FLOPS, BYTES, 1_000)
    assert (row["m"], row["n"], row["k"], row["batch"]) == (64, 64, 64, 1)
    assert (row["roofline_ns"], row["saving_ns"]) == (524, 251)  # 1000 - 524.288 / 0.7
    assert row["tflop_per_s"] == pytest.approx(0.524288)
    assert row["gb_per_s"] == pytest.approx(24.576)
    assert (row["bound"], row["above_peak"], row["precision"]) == ("compute", False, "bf16")
    assert frame.attrs["known_share"] == 1


def test_work_without_operators_has_a_row_for_each_kernel(tmp_path):
    replay = [
        event("cuda_runtime", "cudaGraphLaunch", 300, 310, pid=10, tid=1, correlation=7),
        kernel(3_000, 3_040, name="ampere_bf16_s16816gemm_bf16_64x64", launch=7),
        kernel(3_040, 3_050, name="ampere_bf16_s16816gemm_bf16_64x64", launch=7),
        kernel(4_000, 4_030, name="void reshape_and_cache_flash_kernel<bf16>"),
    ]
    frame = operator_efficiency(load(tmp_path, [*LINEAR, *replay]), peaks=PEAKS)
    assert frame[["category", "count", "device_ns", "precision", "reason"]].to_numpy().tolist() == [
        ["gemm", 1, 1_000, "bf16", ""],
        ["gemm", 2, 50, "bf16", "replayed from a graph"],
        ["copy", 1, 30, "bf16", "no launching call in the file"],
    ]
    assert frame["device_ns"].sum() == frame.attrs["device_ns"]
    assert frame["flops"].isna().tolist() == [False, True, True]


def expert_kernels(up_tiles, down_tiles, blocks):
    name = "bmm_{}_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_rM_TN_transOut_{}dynBatch_sm100f"
    return (
        (name.format("MxE4m3", "swiGlu_"), (up_tiles, blocks, 1)),
        (name.format("Bfloat16", ""), (down_tiles, blocks, 1)),
    )


@pytest.mark.parametrize(
    ("tokens", "blocks", "chosen"),
    [(888, 342, 4), (2, 8, 4)],  # 128 + (3552 - 128) // 16; fewer pairs than experts
)
def test_experts_follow_from_the_grids_of_their_kernels(tokens, blocks, chosen):
    dims, kernels = [[tokens, 3072], [tokens, 128], []], expert_kernels(8, 24, blocks)
    args = dims, [BF16, BF16, ""]
    work = call_work(OperatorCall("vllm::moe_forward", *args, context=CallContext(kernels=kernels)))
    pairs = tokens * chosen
    assert work.flops == 2 * pairs * (3072 * 1024 + 512 * 3072)
    weights = min(pairs, 128) * (3072 * 1024 + 512 * 3072) * 4.25 / 8
    assert work.min_bytes == weights + 2 * tokens * (2 * 3072 + 128)
    assert work.certainty == "estimate"
    assert math.isnan(call_work(OperatorCall("vllm::moe_forward", *args)).flops)


def triton_experts(up_grid, down_grid, *, prefix="_", gate="_swiglu"):
    name = prefix + "matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1"
    return CallContext(kernels=((name + gate, (up_grid, 1, 1)), (name, (down_grid, 1, 1))))


@pytest.mark.parametrize(
    ("tokens", "grids", "chosen", "columns"),
    [
        (32, (1748, 912), 4, 5888),  # 38 = 32 + (128 - 32) // 16 tiles, times 46 and 24
        (2, (368, 192), 4, 5888),  # 8 pairs, fewer than experts
        (32, (646, 912), 4, 2176),  # 17 tiles of columns
        (31, (1748, 912), 0, 0),  # 128 to 143 contains no multiple of 31
        (4, (1748, 912), 0, 0),  # 32 to 35 experts per token
        (32, (1749, 912), 0, 0),  # not a multiple of 38 tiles
    ],
)
def test_experts_of_triton_follow_from_one_dimensional_grids(tokens, grids, chosen, columns):
    call = OperatorCall("vllm::moe_forward", [[tokens, 3072], [tokens, 32], []], [BF16, BF16, ""])
    work = call_work(replace(call, context=triton_experts(*grids)))
    assert call_work(replace(call, context=triton_experts(*grids, prefix="_p_"))).reason
    if not chosen:
        assert math.isnan(work.flops)
        assert work.reason
        return
    weights = 3072 * (columns + columns // 2)
    assert (work.flops, work.certainty) == (2 * tokens * chosen * weights, "estimate")
    reached = min(tokens * chosen, 32)
    assert work.min_bytes == reached * weights * 4.25 / 8 + 2 * tokens * (2 * 3072 + 32)
    plain = call_work(replace(call, context=triton_experts(*grids, gate="")))
    assert plain.flops == 2 * tokens * chosen * 3072 * 2 * columns  # without a gate


def test_attention_of_an_engine_follows_from_the_lengths_of_its_step(tmp_path):
    """2 heads of 4 share a key head: 2 · 2 · pairs · 8 FLOPs; two steps of 9 and 7 pairs."""
    shapes = [[4, 2, 4], [4, 1, 4], [4, 1, 4], [4, 2, 4]]
    names = [
        "execute_2_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq2sk9sqsq2sqsk9)",
        "step[DECODE bs=2 g_sq=2 g_sqsq=2 g_sqsk=7 g_sk=7]",
        "step[DECODE bs=2]",
        "execute_context_1(8_64)_generation_0(0)",  # more tokens than queries
    ]
    events = [
        each
        for at, name in enumerate(names)
        for start in (100 * at + 100,)
        for each in (
            event("user_annotation", name, start, start + 90, pid=10),
            op("vllm::unified_attention_with_output", start + 10, start + 80, *shapes),
            call(start + 20, start + 30, at + 1), kernel(start + 40, start + 50, launch=at + 1),
        )
    ]  # fmt: skip
    rows = shown(operator_efficiency(load(tmp_path, events), peaks=PEAKS))
    assert rows["count"].tolist() == [2, 1, 1]
    known = rows[rows["flops"].notna()].iloc[0]
    assert (known["flops"], known["total_flops"]) == (32 * 8, 32 * 16)  # mean and sum
    assert known["least_bytes"] == 2 * 2 * 4 * 2 * 4 + 8 * 2 * 4 * 2  # q, out; 8 keys and values
    assert known["certainty"] == "upper bound"
    assert set(rows.loc[rows["flops"].isna(), "reason"]) == {
        "the engine's step does not state the sums of lengths",
        "the engine's step has more tokens than the call",
    }


def test_a_convolution_counts_not_the_matrix_product_below_it(tmp_path):
    shapes = [[1, 1, 4, 4], [2, 1, 3, 3], [], [], [], [], [], [], []]
    values = ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"]
    convolution = op("aten::convolution", 100, 200, *shapes, **{"Concrete Inputs": values})
    frame = operator_efficiency(load(tmp_path, [convolution, *LINEAR[2:]]), peaks=PEAKS)
    assert frame["name"].tolist() == ["aten::convolution"]
    assert frame["flops"].tolist() == [2 * 9 * 2 * 4]


def test_an_operator_that_launched_nothing_computed_nothing(tmp_path):
    frame = operator_efficiency(load(tmp_path, [*LINEAR, square("aten::mm", 300, 310)]))
    assert frame["count"].tolist() == [1]
    assert frame.attrs["launched_nothing"] == 1


def test_unknown_work_has_a_reason_and_no_figure(tmp_path):
    events = [
        op("my::op", 100, 200, [4]), call(110, 120, 1), kernel(300, 400, launch=1),
        op("aten::bmm", 210, 220), call(211, 212, 2), kernel(400, 500, launch=2),
    ]  # fmt: skip
    frame = operator_efficiency(load(tmp_path, events + LINEAR[:0]), peaks=PEAKS)
    rows = shown(frame)
    assert rows["reason"].to_dict() == {"my::op": "unlisted operator", "aten::bmm": "no shapes"}
    assert rows["flops"].isna().all()
    assert (rows["saving_ns"] == -1).all()
    assert (frame.attrs["unknown_ns"], frame.attrs["known_share"]) == (200, 0)


def test_a_window_counts_the_part_of_a_call_that_it_holds(tmp_path):
    frame = operator_efficiency(load(tmp_path, LINEAR), peaks=PEAKS, window=(1_500, 3_000))
    assert frame["device_ns"].tolist() == [500]
    assert frame["total_flops"].tolist() == [FLOPS / 2]


def test_work_of_one_call_that_overlaps_counts_once_and_communication_is_seen(tmp_path):
    events = [*LINEAR, call(150, 155, 2), kernel(1_500, 2_500, launch=2, stream=8)]
    frame = operator_efficiency(load(tmp_path, [*events, nccl(2_200, 9_000)]), peaks=PEAKS)
    assert frame[["device_ns", "kernels", "overlapped_ns"]].to_numpy().tolist() == [
        [6_800, 1, 0],  # the collective, not launched by an operator
        [1_500, 2, 300],
    ]


def test_a_copy_from_the_host_has_no_share_of_memory_bandwidth(tmp_path):
    events = [op("aten::copy_", 100, 200, [64], [64]), call(110, 120, 1), copy(300, 400, launch=1)]
    row = operator_efficiency(load(tmp_path, events), peaks=PEAKS).iloc[0]
    assert (row["least_bytes"], row["bound"], row["saving_ns"]) == (256, "unknown", -1)
    assert math.isnan(row["memory_share"])
    assert row["reason"] == "limited by the link to the host"


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("cutlass_80_tensorop_s1688gemm_128x128_nn_align4", "tf32"),
        ("ampere_sgemm_128x64_nn", "fp32"),
        ("my_own_kernel", ""),
    ],
)
def test_float_inputs_run_in_the_precision_of_the_kernel(tmp_path, name, precision):
    events = [
        op("aten::mm", 100, 200, [64, 64], [64, 64], types=["float", "float"]),
        call(110, 120, 1), kernel(300, 400, launch=1, name=name),
    ]  # fmt: skip
    frame = operator_efficiency(load(tmp_path, events), peaks={"tf32": 2, "fp32": 1})
    assert frame["precision"].tolist() == [precision]
    assert frame["compute_share"].isna().tolist() == [not precision]


def test_groups_add_up_and_keep_what_agrees(tmp_path):
    other = [
        op("aten::mm", 300, 310, [32, 64], [64, 64]),
        call(301, 302, 3),
        kernel(3_000, 4_000, launch=3),
    ]
    frame = operator_efficiency(load(tmp_path, LINEAR + other), peaks=PEAKS, group_by=["category"])
    row = frame.iloc[0]
    assert (row["category"], row["count"], row["total_flops"]) == ("gemm", 2, FLOPS * 1.5)
    assert (row["k"], row["m"], row["name"]) == (64, -1, "aten::mm")
    assert math.isnan(row["flops"])


def test_without_shapes_one_sentence_says_so(tmp_path):
    job = load(tmp_path, [op("aten::mm", 100, 200), call(110, 120, 1), kernel(300, 400, launch=1)])
    note = "no operator has the shapes of its inputs: record them with record_shapes=True"
    assert operator_efficiency(job).attrs["note"] == note
    steps = step_efficiency(job)
    assert steps.attrs["note"] == note
    assert steps["mfu"].isna().all()


def test_mfu_of_a_step(tmp_path):
    step = event("user_annotation", "ProfilerStep#3", 50, 4_050, pid=10)
    row = step_efficiency(load(tmp_path, [step, *LINEAR]), peaks=PEAKS).iloc[0]
    assert (row["step"], row["step_ns"], row["model_flops"]) == (3, 4_000, FLOPS)
    assert row["mfu"] == row["hfu"] == pytest.approx(524.288 / 4_000)
    assert (row["busy_share"], row["matrix_share"]) == (0.25, 1)
    ours = step_efficiency(load(tmp_path, [step, *LINEAR]), peaks=PEAKS, model_flops=2 * FLOPS)
    assert ours["mfu"][0] == pytest.approx(2 * row["mfu"])


@pytest.mark.parametrize("numbered", [True, False])
def test_a_window_holds_work_of_operators_that_ran_before_it(tmp_path, numbered):
    """The host is 1.3 µs ahead: half of the kernel is in the window, but not its operator."""
    step = event("user_annotation", "ProfilerStep#3", 50, 4_050, pid=10)
    job = load(tmp_path, [step] * numbered + LINEAR)
    row = step_efficiency(job, peaks=PEAKS, window=(1_500, 2_000)).iloc[0]
    assert (row["step_ns"], row["matrix_device_ns"]) == (500, 500)
    assert (row["model_flops"], row["known_share"]) == (FLOPS / 2, 1)
    assert row["mfu"] == pytest.approx(0.524288)
    others = job.select("name != 'aten::mm'")
    row = step_efficiency(job, peaks=PEAKS, window=(1_500, 2_000), selection=others).iloc[0]
    assert row["model_flops"] == 0


@pytest.mark.parametrize("twin", [True, False])
def test_a_forward_within_the_backward_is_recomputation_if_it_ran_before(tmp_path, twin):
    node = event(
        "cpu_op", "autograd::engine::evaluate_function: CheckpointBackward", 300, 400, pid=10, tid=2
    )
    numbers = {"Sequence number": 7, "Fwd thread id": 0}
    again = [node, square("aten::mm", 310, 390, tid=2, **numbers), call(320, 330, 9, tid=2)]
    job = load(tmp_path, LINEAR * twin + again + [kernel(3_000, 3_500, launch=9)])
    row = step_efficiency(job, peaks=PEAKS).iloc[0]
    assert row["recompute_flops"] == FLOPS * twin
    assert row["model_flops"] == FLOPS
    assert row["flops"] == FLOPS * (1 + twin)


def test_an_added_device_comes_first_and_can_be_removed(tmp_path):
    hw.devices.add("mine", pattern="^$", bf16=1.0, memory_gb_s=100)
    try:
        job = load(tmp_path, LINEAR)
        assert hw.devices.of(job)[["device", "matched_by"]].to_numpy().tolist() == [
            ["mine", "user"]
        ]
        assert operator_efficiency(job)["roofline_ns"].tolist() == [524]
        assert hw.devices.peak("mine", "bf16") == 1
    finally:
        hw.devices.reset()
    assert "mine" not in set(hw.devices.table["device"])
    assert operator_efficiency(job)["roofline_ns"].tolist() == [-1]


@pytest.mark.parametrize(
    ("name", "units", "gib", "device", "clock_ghz"),
    [
        ("NVIDIA A800-SXM4-80GB", 108, 79.2, "A800 80 GB SXM", 1.41),
        ("NVIDIA A800 80GB PCIe", 108, 79.2, "A800 80 GB PCIe", 1.41),
        ("NVIDIA A30", 56, 23.5, "A30", 1.44), ("NVIDIA A40", 84, 44.4, "A40", 1.74),
        ("NVIDIA RTX A6000", 84, 47.5, "RTX A6000", 1.8), ("NVIDIA L20", 92, 44.5, "L20", 2.52),
    ],
)  # fmt: skip
def test_peaks_of_devices_follow_from_units_and_clocks(
    tmp_path, name, units, gib, device, clock_ghz
):
    """16-bit FLOPs per unit and clock cycle: A100 2048, A40 1024, L20 512."""
    folder = write(tmp_path, LINEAR)
    path = folder / "rank-0.json"
    stated = {"id": 0, "name": name, "numSms": units, "totalGlobalMem": int(gib * (1 << 30))}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"deviceProperties": [stated]}))
    found = hw.devices.of(hw.load(folder, cache=False, progress=False)).iloc[0]
    assert (found["device"], found["matched_by"]) == (device, "name")
    rate = {"A40": 1024, "RTX A6000": 1024, "L20": 512}.get(device, 2048)
    assert hw.devices.peak(device, "bf16") == pytest.approx(
        units * rate * clock_ghz / 1e3, rel=0.01
    )


def test_the_note_names_unknown_devices_and_those_without_a_name(tmp_path):
    folder = write(tmp_path, LINEAR, LINEAR)
    path = folder / "rank-1.json"
    stated = {"id": 0, "name": "Card 7"}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"deviceProperties": [stated]}))
    note = step_efficiency(hw.load(folder, cache=False, progress=False)).attrs["note"]
    assert "no peaks are known for devices without a name, 'Card 7': add them" in note


@pytest.mark.parametrize(
    ("name", "units", "gib", "device", "scaled"),
    [
        # ROCm uses the same name for two devices.
        ("AMD Instinct MI250X/MI250", 104, 64.0, "MI210; MI250, one GCD", 1),
        ("AMD Instinct MI250X/MI250", 110, 64.0, "MI250X, one GCD", 1),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 60, 39.4, "H100 SXM", 60 / 132),
        # Other devices whose names start like listed names.
        ("NVIDIA GeForce RTX 3090 Ti", 84, 23.7, "", 1),
        ("NVIDIA GeForce RTX 5090 D", 170, 31.8, "", 1),
        ("NVIDIA L40", 142, 44.5, "", 1),
    ],
)  # fmt: skip
def test_devices_with_similar_names(name, units, gib, device, scaled):
    entry = {"name": name, "numSms": units, "totalGlobalMem": int(gib * (1 << 30))}
    used = device_of_entry(entry)
    assert (used.row.device, used.scaled) == (device, scaled)


def test_wrong_peaks_say_which_there_are(tmp_path):
    job = load(tmp_path, LINEAR)
    with pytest.raises(TraceError, match="no device is named 'H1000'"):
        operator_efficiency(job, peaks="H1000")
    with pytest.raises(TraceError, match="'bf61' is not a precision"):
        step_efficiency(job, peaks={"bf61": 1})
    with pytest.raises(TraceError, match="the rate of bf16 is 0"):
        hw.devices.add("mine", bf16=0)
    with pytest.raises(TraceError, match=r"the rate of memory_gb_s is 0.* Give GB/s above 0"):
        operator_efficiency(job, peaks={"bf16": 1, "memory_gb_s": 0})
    for bandwidth in ("memory_gb_s", "link_gb_s"):
        with pytest.raises(TraceError, match=f"the rate of {bandwidth} is -1"):
            hw.devices.add("mine", bf16=1, **{bandwidth: -1})
    assert "mine" not in set(hw.devices.table["device"])
    with pytest.raises(TraceError, match="model_flops= is -1"):
        step_efficiency(job, model_flops=-1)


def test_a_key_given_twice_groups_once(tmp_path):
    job = load(tmp_path, LINEAR)
    twice, once = (
        operator_efficiency(job, peaks=PEAKS, group_by=["category", "step"] * times)
        for times in (2, 1)
    )
    pd.testing.assert_frame_equal(twice, once)


@pytest.mark.parametrize("dims", ["[[[", 7, [None], [[-1, 2]], [["a"]], {"a": 1}])
def test_args_that_are_not_shapes_are_unknown(tmp_path, dims):
    odd = event(
        "cpu_op", "aten::mm", 100, 200, pid=10, tid=1, **{"Input Dims": dims, "Input type": 3}
    )
    events = [odd, call(110, 120, 1), kernel(300, 400, launch=1)]
    assert operator_efficiency(load(tmp_path, events))["flops"].isna().tolist() == [True]


@pytest.mark.parametrize(
    ("name", "dims", "values", "flops", "size"),
    [
        # (2, 3, 5) × (2, 5, 4): 2 · 2 · 3 · 5 · 4 FLOPs, (30 + 40 + 24) elements of 2 bytes.
        ("aten::bmm", [[2, 3, 5], [2, 5, 4]], [], 240, 188),
        # Causal attention of 3 tokens: 6 pairs, so 2 · 6 · (4 + 4) FLOPs; 3 floats of logsumexp.
        (
            "aten::_scaled_dot_product_flash_attention",
            [[1, 1, 3, 4]] * 3 + [[]] * 4, ["", "", "", "0.", "True", "False", ""], 96, 108,
        ),
        ("aten::mul", [[3, 4], [4]], [], 12, 56),
        ("_C::silu_and_mul", [[3, 4], [3, 8]], [], 24, 72),
        ("aten::cat", [[[2, 4], [1, 4]], []], ["", "0"], 0, 96),
    ],
)  # fmt: skip
def test_flops_and_bytes_of_a_call(name, dims, values, flops, size):
    types = ["TensorList" if shape and isinstance(shape[0], list) else BF16 for shape in dims]
    work = call_work(OperatorCall(name, dims, types, [], values))
    assert (work.flops, work.min_bytes) == (flops, size)


Q = [1, 4, 8, 16]
E4M3 = "c10::Float8_e4m3fn"
PAIRS = "Float4_e2m1fn_x2"


@pytest.mark.parametrize(
    ("name", "dims", "types", "values", "flops", "size"),
    [
        # 2 · 6 · 8 · 10 FLOPs, (48 + 80) elements of 2 bytes, 60 of the requested 4 bytes.
        ("aten::mm", [[6, 8], [8, 10], []], [BF16] * 2, ["", "", "6"], 960, 496),
        ("aten::mm", [[6, 8], [8, 10], [6, 10]], [BF16] * 3, [""] * 3, 960, 376),  # out=
        ("aten::addmm", [[10], [6, 8], [8, 10], [], [], []], ["float", BF16, BF16],
         ["", "", "", "6", "1", "1"], 960, 536),
        ("aten::baddbmm", [[2, 3, 4], [2, 3, 5], [2, 5, 4], [], []], ["float"] * 3,
         ["", "", "", "0", "1"], 240, 376),  # beta = 0
        ("aten::addmv", [[6], [6, 8], [8], [], []], ["float"] * 3, ["", "", "", "1", "1"], 96, 272),
        ("aten::_int_mm", [[17, 8], [8, 16]], ["signed char"] * 2, ["", ""], 4352, 1352),
        # Two values per element, a one-byte scale per 16 of them; the output has 2 bytes each.
        *(("aten::_scaled_mm", [[16, 16], [16, 64], [32], [128], [], [], [], []],
           [prefix + PAIRS] * 2 + [E4M3] * 2, [""] * 6 + ["15", "False"], 65_536, 3_488)
          for prefix in ("c10::", "")),
        ("aten::_scaled_mm_v2", [[16, 32], [32, 64], [[16, 1]], [], [], [[1, 64]], [], [], [], []],
         [E4M3, E4M3, "TensorList", "", "", "TensorList"], [""] * 9 + ["15"], 65_536, 4_928),
        ("aten::_scaled_grouped_mm", [[96, 16], [3, 16, 32], [96], [3, 32], [3], [], [], []],
         [E4M3, E4M3, "float", "float", "int"], [""] * 7 + ["15"], 98_304, 9_996),
        # Causal attention of 8 tokens has 36 pairs, with the arguments of 2.0, 2.4 and today.
        ("aten::_scaled_dot_product_efficient_attention", [Q] * 3 + [[]] * 3, [BF16] * 3,
         ["", "", "", "False", "True", ""], 9_216, 4_096),
        ("aten::_scaled_dot_product_efficient_attention", [Q] * 3 + [[]] * 5, [BF16] * 3,
         ["", "", "", "", "False", "0.", "True", ""], 9_216, 4_096),
        ("aten::_scaled_dot_product_cudnn_attention", [Q] * 3 + [[]] * 4, [BF16] * 3,
         ["", "", "", "0.", "True", "False", ""], 9_216, 4_224),
        ("aten::_efficient_attention_forward", [[1, 8, 4, 16]] * 3 + [[]] * 8, [BF16] * 3,
         [""] * 6 + ["8", "8", "0.", "2", "False"], 9_216, 4_096),
        # A window of 2 earlier tokens and 1 later token leaves 8 · 4 - 3 - 1 pairs.
        ("flash_attn::_flash_attn_forward", [[1, 8, 4, 16]] * 3 + [[]] * 5, [BF16] * 3,
         ["", "", "", "0.", "0.25", "False", "2", "1"], 2 * 4 * 28 * 32, 4_224),
        ("aten::_conv_depthwise2d", [[2, 6, 8, 8], [6, 1, 3, 3]] + [[]] * 5, ["float"] * 2,
         ["", "", "[3, 3]", "", "[1, 1]", "[1, 1]", "[1, 1]"], 13_824, 6_360),
        ("aten::miopen_convolution_transpose", [[2, 3, 9, 9], [3, 5, 3, 3]] + [[]] * 8,
         ["float"] * 2, ["", "", "", "[1, 1]", "[1, 1]", "[2, 2]", "[1, 1]", "1", "", ""],
         43_740, 15_444),
        # 40 rows of 16 elements, summed into 8.
        ("aten::_embedding_bag", [[100, 16], [40], [8], [], [], [], [], [], []],
         ["float", "long int", "long int"], [""] * 7 + ["False", "-1"], 640, 3_456),
    ],
)  # fmt: skip
def test_arguments_of_versions_of_pytorch(name, dims, types, values, flops, size):
    types += [""] * (len(dims) - len(types))
    work = call_work(OperatorCall(name, dims, types, [], values))
    assert (work.flops, work.min_bytes) == (flops, size)


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("flashinfer::single_prefill_with_kv_cache", "attention"), ("sgl_kernel::fwd", "attention"),
        ("tex_ts::te_gemm_ts", "gemm"), ("deep_gemm::fp8_gemm_nt", "gemm"),
        ("_moe_C::moe_wna16_marlin_gemm", "gemm"), ("sgl_kernel::fp8_scaled_mm", "gemm"),
        ("aiter::fused_moe_bf16_asm", "gemm"), ("triton_tem_fused_mm_2", "triton"),
        ("amp_C::multi_tensor_lamb", "optimizer"), ("deep_ep::dispatch", "communication"),
        ("aten::_scaled_dot_product_flash_attention", "attention"),
        ("xformers_flash::flash_bwd", "attention"), ("xformers_flash3::flash_fwd", "attention"),
        ("npu::npu_moe_gating_top_k", "reduction"), ("_moe_C::moe_permute", "copy"),
        ("te_moe::moe_unpermute", "copy"),
    ],
)  # fmt: skip
def test_what_is_not_listed_has_a_category_and_no_figure(name, category):
    args = [[1, 4, 8, 16]] * 3 + [[]], [BF16] * 3 + [""], [], ["", "", "", "0."]
    work = call_work(OperatorCall(name, *args))
    assert (work.category, work.certainty, bool(work.reason)) == (category, "unknown", True)
    assert math.isnan(work.flops)


def test_experts_are_an_estimate_of_their_weights():
    """4 tokens of 8 elements, 2 of 3 experts each: 8 rows of 2 · 8 · (10 + 5) FLOPs."""
    dims = [[4, 8], [3, 10, 8], [3, 8, 5], [4, 2], [4, 2]]
    call = OperatorCall("vllm::outplace_fused_experts", dims, [BF16] * 4 + ["int"])
    work = call_work(call)
    assert (work.flops, work.certainty) == (8 * 2 * 8 * 15, "estimate")
    assert work.parameters["m"] == 8


@pytest.mark.parametrize("layout", [{"indent": 2}, {"separators": (",", ":")}])
def test_a_file_that_another_tool_wrote_anew_gives_the_same_frames(tmp_path, layout):
    values = {"Input Strides": [[64, 1], [1, 64]], "Concrete Inputs": ["", ""]}
    splits = {
        "Collective name": "all_to_allv", "dtype": "Float", "In msg nelems": 8,
        "Out msg nelems": 8, "In split size": [2, 6], "Out split size": [2, 6], "Group size": 2,
        "Process Group Name": "0", "Process Group Ranks": [0, 1],
    }  # fmt: skip
    events = [
        *LINEAR[:2], square("aten::mm", 120, 180, **values), call(140, 145, 1),
        kernel(1_000, 2_000, launch=1, grid=[4, 1, 1], block=[128, 1, 1]),
        op("aten::empty", 200, 210, [], []), nccl(2_000, 3_000, **splits),
    ]  # fmt: skip
    jobs = []
    for options in ({}, layout):
        path = tmp_path / f"job{len(jobs)}.json"
        path.write_text(json.dumps({"traceEvents": events}, **options))
        jobs.append(hw.load(path, cache=False, progress=False))
    for analyse in (
        operator_efficiency, analysis.kernel_details, analysis.fusion_candidates, analysis.modules,
        analysis.communication_by_group, analysis.all_to_all_matrix, analysis.collectives,
    ):  # fmt: skip
        expected, frame = map(analyse, jobs)
        pd.testing.assert_frame_equal(frame, expected)
    assert operator_efficiency(jobs[1])["input_shapes"][0] == "[[64, 64], [64, 64]]"
