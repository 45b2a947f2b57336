"""Launch geometry, tensor cores and chains of pointwise operators, checked by hand."""

import json
import math

import pytest
from support.small import call, event, kernel, load, read, write

from hta_widgets import devices
from hta_widgets.analysis import fusion_candidates, kernel_details
from hta_widgets.analysis.efficiency.kernel_names import kernel_category, kernel_units

GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8"
DEVICE = {
    "id": 0, "name": "A100-SXM4-40GB", "totalGlobalMem": 42 << 30, "numSms": 100, "warpSize": 32,
    "maxThreadsPerMultiprocessor": 2048,
}  # fmt: skip
GEOMETRY = {
    "grid": [20, 20, 1], "block": [256, 1, 1], "registers per thread": 64, "shared memory": 4096,
    "blocks per SM": 4.0, "est. achieved occupancy %": 25,
}  # fmt: skip


def op(name, start, end, *shapes):
    args = {"Input Dims": list(shapes), "Input type": ["float"] * len(shapes)}
    return event("cpu_op", name, start, end, pid=10, **args)


def job(path, *events):
    document = json.loads((write(path, events) / "rank-0.json").read_text())
    (path / "rank-0.json").write_text(json.dumps(document | {"deviceProperties": [DEVICE]}))
    return read(path)


def test_a_kernel_has_its_launch_and_the_operator_with_the_most_time(tmp_path):
    events = [
        op("aten::mm", 10, 40, [4, 4], [4, 4]), call(20, 25, 1),
        op("aten::bmm", 50, 90, [4, 4], [4, 4]), call(60, 65, 2),
        kernel(100, 30_100, launch=1, name=GEMM, **GEOMETRY),
        kernel(40_000, 90_000, launch=2, name=GEMM, **GEOMETRY),
    ]  # fmt: skip
    frame = kernel_details(job(tmp_path, *events))
    row = frame.iloc[0]
    assert (row["count"], row["sum_ns"], row["mean_ns"]) == (2, 80_000, 40_000)
    assert (row["grid"], row["threads"], row["registers"]) == ("[20, 20, 1]", 256, 64)
    # A quarter of 2048 threads is 2 blocks of 256, so 4 blocks take two waves.
    assert (row["warps_per_sm"], row["waves"], row["occupancy_share"]) == (32, 2, 0.25)
    assert (row["operator"], row["operators"], row["short"]) == ("aten::bmm", 2, False)
    assert (row["tensor_core"], row["precision"]) == ("yes", "bf16")
    assert frame.attrs["tensor_core_share"] == 1


def test_geometry_of_amd_is_on_the_call_and_what_is_missing_is_unknown(tmp_path):
    launch = call(20, 25, 1, grid=[50, 1, 1], block=[64, 1, 1], **{"shared memory": 8})
    frame = kernel_details(job(tmp_path, launch, kernel(100, 200, launch=1, name="my_kernel")))
    row = frame.iloc[0]
    assert (row["blocks_per_sm"], row["sm_efficiency_share"], row["shared_memory"]) == (0.5, 0.5, 8)
    assert (row["registers"], row["limited_by"], row["tensor_core"]) == (-1, "", "unknown")
    assert math.isnan(row["occupancy_share"])
    assert frame.attrs["unknown_tensor_core_share"] == 1
    assert frame.attrs["short_kernels"] == 1


@pytest.mark.parametrize(
    ("api", "grid", "per_unit"),
    [
        ("hipExtModuleLaunchKernel", "[50, 2, 1]", 1),
        ("hipModuleLaunchKernel", "[12800, 2, 1]", 256),
    ],
)
def test_one_call_of_hip_has_its_grid_in_threads(tmp_path, api, grid, per_unit):
    launch = event("cuda_runtime", api, 20, 25, pid=10, tid=1, correlation=1)
    launch["args"] |= {"grid": [12_800, 2, 1], "block": [256, 1, 1]}
    row = kernel_details(job(tmp_path, launch, kernel(100, 200, launch=1))).iloc[0]
    assert (row["grid"], row["blocks_per_sm"]) == (grid, per_unit)


def test_a_kernel_of_an_operator_without_matrix_work_uses_no_tensor_cores(tmp_path):
    events = [
        op("aten::exp", 10, 40, [4, 4]),
        call(20, 25, 1),
        kernel(100, 200, launch=1, name="k"),
    ]
    assert kernel_details(load(tmp_path, events))["tensor_core"].tolist() == ["no"]


def chain(*names, start=0, shape=(1000,)):
    """Return consecutive operators that each launch a kernel of 100 ns."""
    for at, name in enumerate(names):
        begin, number = 10 + 20 * (start + at), start + at + 1
        yield op(name, begin, begin + 15, list(shape))
        yield call(begin + 2, begin + 4, number)
        yield kernel(5_000 + 100 * number, 5_100 + 100 * number, launch=number)


@pytest.mark.parametrize("times", [1, 3])
def test_pointwise_operators_in_a_row_could_be_one_kernel(tmp_path, times):
    events = []
    for at in range(times):
        events += chain("aten::exp", "aten::relu", "aten::neg", "aten::mm", start=4 * at)
    frame = fusion_candidates(job(tmp_path, *events))
    assert frame[["operators", "shape", "length", "count"]].to_numpy().tolist() == [
        ["aten::exp → aten::relu → aten::neg", "1000", 3, times]
    ]
    # Two results of 4000 bytes are neither written nor read, which saves 10.3 ns at 1555 GB/s.
    assert frame[["saved_bytes", "total_saved_bytes"]].to_numpy().tolist() == [
        [16_000, 16_000 * times]
    ]
    assert frame["saving_ns"].tolist() == [int(16_000 * times / 1555)]
    assert frame["device_ns"].tolist() == [300 * times]


def test_a_comparison_in_a_chain_saves_a_byte_for_each_element(tmp_path):
    frame = fusion_candidates(load(tmp_path, chain("aten::gt", "aten::logical_not")))
    assert frame["saved_bytes"].tolist() == [2 * 1000]


def test_results_of_other_shapes_end_a_chain(tmp_path):
    events = [*chain("aten::exp"), *chain("aten::exp", start=1, shape=(10,))]
    frame = fusion_candidates(load(tmp_path, events))
    assert frame.empty
    assert frame.attrs["note"].startswith("no two pointwise operators of the same shape")


@pytest.mark.parametrize(
    ("arguments", "precision"),
    [
        ("__hip_bfloat16, __hip_bfloat16, (vllm::Fp8KVCacheDataType)0", "bf16"),
        ("__half, unsigned char, (vllm::Fp8KVCacheDataType)1", "fp8"),
        ("float, float, vllm::Fp8KVCacheDataType::kAuto", ""),
        ("(ns::Tf32Mode)3, __half", "fp16"),
    ],
)
def test_the_value_of_an_enumeration_decides_not_the_name_of_its_type(arguments, precision):
    assert kernel_units(f"void write_cache<{arguments}>(long const*)").precision == precision


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("aiter::fmoe_bf16_pertokenFp8_g1u1_vs_silu_1tg_ps_32x256", "gemm"),
        ("void wvSplitKrc_<__hip_bfloat16>", "gemm"),
        ("void marlin_moe_wna16::Marlin<nv_bfloat16>", "gemm"),
        ("void deep_ep::internode::dispatch<false, 8>", "communication"),
        ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<2u>", "attention"),
        ("void moe::dev::finalize::finalizeKernel<>", "other"),
    ],
)
def test_kernels_of_libraries_have_the_category_of_their_name(name, category):
    assert kernel_category(name) == category


@pytest.mark.parametrize("value", ["108", True, 1.5, -3, {}, None, 10**30])
def test_properties_that_are_no_numbers_are_unknown(tmp_path, value):
    keys = ("numSms", "warpSize", "maxThreadsPerMultiprocessor", "totalGlobalMem", "computeMajor")
    properties = DEVICE | dict.fromkeys(keys, value)
    path = write(tmp_path, [call(10, 20, 1), kernel(30, 40, launch=1, name=GEMM, grid=[4, 1, 1])])
    document = json.loads((path / "rank-0.json").read_text()) | {"deviceProperties": [properties]}
    (path / "rank-0.json").write_text(json.dumps(document))
    row = kernel_details(read(path)).iloc[0]
    assert row["grid"] == "[4, 1, 1]"
    assert math.isnan(row["blocks_per_sm"])
    assert devices.of(read(path))["units"].tolist() == [-1]


@pytest.mark.parametrize("size", [10**30, 2**62])
def test_geometry_beyond_64_bits_is_unknown(tmp_path, size):
    args = {"grid": [size, size, 1], "block": [size, 2, 1], "shared memory": 10**30}
    row = kernel_details(job(tmp_path, call(10, 20, 1), kernel(30, 40, launch=1, **args))).iloc[0]
    assert (row["grid"], row["block"], row["threads"], row["shared_memory"]) == ("", "", -1, -1)
