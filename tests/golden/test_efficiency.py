"""FLOPs, bytes, devices and kernels, compared with independent reference figures."""

import csv
import gzip
import json
import math

import numpy as np
import pandas as pd
import pytest
from support.golden import GOLDEN, MISSING, SHARED

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.analysis.cross_rank.all_to_all import split_bytes
from hta_widgets.analysis.efficiency.calls import OperatorCall
from hta_widgets.analysis.efficiency.devices import device_of_entry
from hta_widgets.analysis.efficiency.engine_steps import parse_step_name
from hta_widgets.analysis.efficiency.kernel_names import kernel_units
from hta_widgets.analysis.efficiency.work import call_work

FOLDER = GOLDEN / "efficiency"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=MISSING)
RESNET = SHARED / "traces/kineto/resnet50_num_workers_0_a"


def reference(name):
    path = FOLDER / name
    return pd.read_csv(path) if path.is_file() else pd.DataFrame()


def load(path):
    return hw.load(path, cache=False, progress=False)


def test_every_vector_has_its_flops_and_bytes():
    wrong = []
    for row in reference("formula_vectors.csv").itertuples():
        texts = (row.input_dims, row.input_types, row.input_strides, row.concrete_inputs)
        args = [json.loads(text) if isinstance(text, str) else [] for text in texts]
        work = call_work(OperatorCall(row.operator, *args))
        model = row.model_flops if work.kind == "matrix" else np.nan
        model_flops = work.model_flops if work.kind == "matrix" else np.nan
        figures = [work.flops, work.min_bytes, work.flops * 0 + model_flops]
        expected = [row.exact_flops, row.least_bytes, row.exact_flops * 0 + model]
        if work.kind != row.flops_kind or not np.array_equal(figures, expected, equal_nan=True):
            wrong.append((row.id, figures, expected))
    assert wrong == []


def shared_traces():
    rows = reference("shared_operators.csv")
    return sorted(set(rows["trace"])) if len(rows) else []


@pytest.mark.parametrize("trace", shared_traces())
def test_matrix_products_of_shared_traces(trace):
    expected = reference("shared_operators.csv").query("trace == @trace")
    frame = analysis.operator_efficiency(load(SHARED / "traces" / trace))
    frame = frame[(frame["category"] == "gemm") & frame["flops"].notna()]
    dims = [json.dumps(json.loads(text), separators=(",", ":")) for text in frame["input_shapes"]]
    keys = ["name", "dims", "types", "strides"]
    types = [json.dumps(json.loads(text), separators=(",", ":")) for text in frame["input_types"]]
    strides = [
        text and json.dumps(json.loads(text), separators=(",", ":"))
        for text in frame["input_strides"]
    ]
    frame = frame.assign(dims=dims, types=types, strides=strides)
    sums = frame.groupby(keys)[["count", "device_ns", "kernels", "total_flops"]].sum()
    columns = ["operator", "input_dims", "input_types", "input_strides"]
    of_file = expected.fillna({"input_strides": ""})
    of_file = of_file.assign(total_flops=of_file["flops_per_call"] * of_file["count"])
    of_file = of_file.groupby(columns)[["count", "device_ns", "kernels", "total_flops"]].sum()
    of_file.index.names = keys
    difference = (sums - of_file).dropna()
    assert len(sums) == len(of_file) == len(difference)
    assert (difference == 0).all(axis=None)
    per_call = frame.set_index(keys)["least_bytes"].groupby(level=keys).first()
    least = expected.fillna({"input_strides": ""}).groupby(columns)["least_bytes_per_call"].first()
    least.index.names = keys
    assert (per_call - least == 0).all()


def test_resnet_by_signature():
    expected = reference("resnet50_operators.csv")
    frame = analysis.operator_efficiency(load(RESNET))
    frame = frame[frame["flops_kind"] == "matrix"]
    shapes = [
        json.dumps([dims for dims in json.loads(text) if dims]) for text in frame["input_shapes"]
    ]
    measured = frame.assign(shapes=shapes).set_index("shapes")
    measured = measured.sort_index()
    expected = expected.set_index("input_dims").sort_index()
    assert measured.index.tolist() == expected.index.tolist()
    for ours, theirs in (("count", "count"), ("flops", "flops_per_call"), ("kernels", "kernels")):
        assert (measured[ours] - expected[theirs] == 0).all()
    assert (measured["device_ns"] - 1000 * expected["device_us"] == 0).all()
    above = expected["tflop_per_s"] > 1.02 * 15.7  # Winograd
    assert measured["above_peak"].tolist() == above.tolist()


def test_resnet_by_step():
    expected = reference("resnet50_steps.csv")
    steps = analysis.step_efficiency(load(RESNET))
    assert steps["forward_flops"].tolist() == [261_707_792_384] * 6
    assert steps["flops"].tolist() == [777_570_484_224] * 6
    assert steps["mfu"].round(5).tolist() == expected["mfu_of_fp32_15_7"].tolist()
    total = steps["flops"].sum() / steps["step_ns"].sum() / 15.7e3
    assert round(total, 3) == 0.283
    product = steps["busy_share"] * steps["matrix_share"] * steps["matrix_efficiency"]
    assert np.allclose(product, steps["mfu"])
    assert steps["busy_ns"].tolist() == (1000 * expected["device_busy_us"]).tolist()


def recorded():
    return reference("recorded/flops.csv").to_dict("records")


@pytest.mark.parametrize("row", recorded(), ids=lambda row: row["trace"])
def test_recorded_models(row):
    steps = analysis.step_efficiency(load(FOLDER / f"recorded/{row['trace']}.json.gz"))
    phases = ["forward_flops", "backward_flops", "recompute_flops"]
    assert steps[phases].to_numpy().tolist() == [[row[name] for name in phases]] * 2
    assert steps["flops"].tolist() == [row["flops_per_step"]] * 2


def test_devices_by_what_files_say():
    wrong = []
    rows = pd.read_csv(FOLDER / "devices.csv", keep_default_na=False)
    for row in rows.itertuples():
        major, _, minor = row.compute_capability.partition(".")
        texts = {
            "numSms": row.num_sms, "totalGlobalMem": row.total_global_mem,
            "warpSize": row.warp_size, "computeMajor": major, "computeMinor": minor,
        }  # fmt: skip
        numbers = {key: int(text) for key, text in texts.items() if text}
        matched = device_of_entry({"name": row.name, **numbers})
        name = matched.row.device if matched.row else ""
        peaks = [*matched.peaks(["bf16", "fp32"]), matched.memory_gb_s]
        texts = (row.bf16_tflop_per_s, row.fp32_tflop_per_s, row.memory_gb_s)
        expected = [float(text or "nan") for text in texts]
        is_same = np.array_equal(peaks, expected, equal_nan=True)
        if (name, matched.matched_by, is_same) != (row.device, row.matched_by, True):
            wrong.append((row.name, name, matched.matched_by, peaks))
    assert wrong == []


def test_kernels_by_name():
    wrong = []
    for row in reference("kernel_names.csv").fillna("").itertuples():
        units = kernel_units(row.kernel)
        is_right = units.tensor_core in row.tensor_core.split(" or ")
        precision = units.precision.removesuffix("_matrix")
        if not is_right or (row.precision and precision != row.precision.split()[0]):
            wrong.append((row.kernel, units, row.tensor_core, row.precision))
    assert wrong == []


def test_steps_of_hosts_that_run_ahead_last_as_long_as_on_the_device():
    steps = analysis.step_efficiency(load(SHARED / "traces/tracelens/mi300_resnet_act_checkpoint"))
    assert [round(ns / 1e6, 2) for ns in steps["step_ns"]] == [18.98, 18.98, 18.55]
    assert steps.attrs["ahead"] == [15, 16, 17]
    assert (steps["recompute_flops"] > 0).all()
    assert not math.isnan(steps.attrs["job_mfu"])


def test_names_are_read_as_in_the_reference():
    with (FOLDER / "serving_annotations.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        parsed = parse_step_name(row["annotation"])
        if not row["engine"]:
            assert parsed is None
            continue
        pairs = row.pop("attention_pairs")
        assert parsed.attention_pairs == float(pairs) if pairs else True
        assert {key: str(getattr(parsed, key)) for key in row if key != "annotation"} == {
            key: text for key, text in row.items() if key != "annotation"
        }


@pytest.mark.parametrize("flows", [True, False])
@pytest.mark.parametrize("name", ["mlp", "mlp_checkpoint", "mlp_checkpoint_reentrant", "decoder"])
def test_modules_have_the_flops_of_the_reference(tmp_path, name, flows):
    with gzip.open(FOLDER / f"recorded/{name}.json.gz") as file:
        document = json.load(file)
    if not flows:  # without flows, sequence numbers link both passes
        events = document["traceEvents"]
        document["traceEvents"] = [event for event in events if event["ph"] not in "sft"]
    (tmp_path / "trace.json").write_text(json.dumps(document))
    frame = analysis.modules(load(tmp_path / "trace.json"), fold=False)
    columns = ["forward_flops", "backward_flops", "recompute_flops"]
    below = frame[frame["parent"] >= 0].groupby("parent")[columns].sum()
    own = frame[columns].sub(below, fill_value=0).set_index(frame["path"]) / 2  # of two steps
    with (FOLDER / "recorded/modules.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["trace"] == name]
    for row in rows:
        assert own.loc[row["module"]].tolist() == [float(row[key]) for key in columns]


def test_all_to_all_bytes():
    for row in pd.read_csv(FOLDER / "all_to_all.csv", keep_default_na=False).itertuples():
        args = {
            "Collective name": row.collective_name,
            "In msg nelems": row.in_msg_nelems,
            "dtype": row.dtype,
            "In split size": row.in_split_size,
        }
        expected = json.loads(row.bytes_to_each_member or "null")
        members = len(json.loads(row.process_group_ranks))
        assert split_bytes(args, "In", members) == expected, row.note


#: Hand-computed FLOPs per call. MoE: pairs of token and expert × hidden size × (columns + half of
#: them). Attention: heads × pairs of query and key × their sizes.
SERVING = {
    "b200_eager_trace": {
        "vllm::moe_forward": 2 * (888 * 4) * 3072 * (1024 + 512),
        "vllm::unified_attention_with_output": 2 * 8 * (888 * 889 // 2) * (64 + 64),
    },
    "inference_vllm_decode_full": {
        "vllm::moe_forward": 2 * (32 * 4) * 3072 * (5888 + 2944),
        "vllm::unified_attention_with_output": 2 * 64 * 55086 * (64 + 64),
    },
    "inference_sglang_decode": {
        "sglang_profiler::attention_paged_attention_ragged_100": 2 * 32 * 32785 * (128 + 128),
    },
}


@pytest.mark.parametrize("trace", SERVING)
def test_device_time_of_serving_has_categories_and_figures(trace):
    folder = SHARED / "traces/tracelens"
    captures = folder / f"{trace}__capture_traces"
    traces = load(folder / trace)
    if captures.is_dir():
        traces = hw.load(folder / trace, capture=captures, cache=False, progress=False)
    frame = analysis.operator_efficiency(traces)
    device_ns = frame.attrs["device_ns"]
    assert frame.loc[frame["category"] != "other", "device_ns"].sum() >= 0.8 * device_ns
    assert frame.attrs["covered_ns"] >= 0.8 * device_ns
    assert frame.attrs["known_share"] > 0.99
    rows = frame[frame["name"].isin(SERVING[trace])]
    assert rows.groupby("name")["flops"].first().to_dict() == SERVING[trace]
    assert set(rows["certainty"]) <= {"estimate", "upper bound"}
    assert (rows["reason"] != "").all()
