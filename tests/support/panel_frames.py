"""Made-up frames of the dashboard panels, as the page receives them."""

from typing import Any

import numpy as np
import pandas as pd


def plain(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a frame as the protocol represents it in JSON."""
    columns = frame.astype(object).where(frame.notna(), None).to_dict("list")
    return {"rows": len(frame), "columns": columns, "attrs": dict(frame.attrs)}


def made(ranks: int, bins: int = 120) -> dict[str, pd.DataFrame]:
    """Return frames of `ranks` ranks by panel; all ranks wait for the third from last."""
    draw = np.random.default_rng(7)
    slow = max(0, ranks - 3)
    rank = np.arange(ranks)
    span = np.full(ranks, 2_000_000_000)
    compute = draw.integers(900_000_000, 960_000_000, ranks)
    wait = np.where(rank == slow, 3_000_000, draw.integers(280_000_000, 320_000_000, ranks))
    compute[slow] += 200_000_000
    exposed = wait + 60_000_000
    memory = np.full(ranks, 21_000_000)
    other = exposed + memory
    total = exposed + draw.integers(90_000_000, 110_000_000, ranks)
    breakdown = pd.DataFrame({
        "rank": rank, "span_ns": span, "idle_ns": span - compute - other, "compute_ns": compute,
        "non_compute_ns": other, "busy_ns": compute + other, "communication_ns": total,
        "exposed_communication_ns": exposed, "exposed_memory_ns": memory,
        "exposed_wait_ns": wait if ranks > 1 else np.full(ranks, np.nan),
    })  # fmt: skip
    overlap = pd.DataFrame({
        "rank": rank, "communication_ns": total, "overlapped_ns": total - exposed,
        "overlap_share": (total - exposed) / total, "exposed_ns": exposed, "compute_ns": compute,
    })  # fmt: skip
    causes = (
        "sync_wait", "host_allocation", "host_data_loading", "host_operator", "host_python",
        "host_nothing", "launch_call", "launch_latency", "kernel_wait", "stream_wait", "blocked",
        "unrecorded", "unknown",
    )  # fmt: skip
    parts = draw.dirichlet((1, 8, 8, 3, 1, 3, 2, 2, 1, 0.5, 0.5), ranks)
    gaps = draw.integers(1, 4000, (ranks, parts.shape[1]))
    # No time in host_allocation and unrecorded.
    parts, gaps = (np.insert(values, (1, 10), 0, axis=1) for values in (parts, gaps))
    idle_ns = breakdown["idle_ns"].to_numpy()
    idle = pd.DataFrame({
        "rank": np.repeat(rank, len(causes)), "idle_category": np.tile(causes, ranks),
        "idle_ns": (parts * idle_ns[:, None]).astype(np.int64).ravel(),
        "gaps": gaps.ravel(), "idle_share": parts.ravel(),
    })  # fmt: skip
    queue = pd.DataFrame({
        "rank": np.repeat(rank, 2), "stream": np.tile([7, 20], ranks),
        "count": draw.integers(100, 9000, 2 * ranks),
        "time_weighted_mean": draw.uniform(0.001, 140, 2 * ranks),
        "max": draw.integers(200, 1000, 2 * ranks).astype(float), "span_ns": span.repeat(2),
    })  # fmt: skip
    kernel_types = pd.DataFrame(
        {
            "kernel_type": ["COMPUTATION", "COMMUNICATION", "COMPUTATION overlapping MEMORY"],
            "sum_ns": [int(compute.sum()), int(exposed.sum()), int(memory.sum())],
        }
    )
    kernel_types["share"] = kernel_types["sum_ns"] / kernel_types["sum_ns"].sum()
    result = {
        "breakdown": breakdown,
        "overlap": overlap,
        "idle": idle,
        "queue": queue,
        "kernel_types": kernel_types,
        "kernel_durations": _kernels(draw, ranks, slow),
        "steps": _steps(draw, ranks, slow),
        "heatmap": _heatmap(draw, ranks, slow, bins),
    }
    for frame in result.values():
        frame.attrs["late_ranks"] = [slow]
    return result


def _kernels(draw: np.random.Generator, ranks: int, slow: int) -> pd.DataFrame:
    long = "void cutlass::device_kernel<" + "cute::tuple<cute::C<128>, " * 7 + ">>(Params)"
    names = [*(f"kernel_{k}<float>" for k in range(9)), long, "add<float>", "add<c10::Half>"]
    mean = draw.uniform(20_000, 400_000, len(names))
    by_rank = mean[:, None] * draw.uniform(0.99, 1.01, (len(names), ranks))
    by_rank[:, slow] *= [0.2, *[1.2] * 8, *[1.02] * 3]
    return pd.DataFrame({
        "name": np.repeat(names, ranks),
        "short": np.repeat([*names[:9], long, "add", "add"], ranks),
        "kind": np.repeat(["communication", *["compute"] * 9, "memory", "other"], ranks),
        "rank": np.tile(np.arange(ranks), len(names)),
        "count": np.repeat(draw.integers(10, 4000, len(names)), ranks), "mean_ns": by_rank.ravel(),
        "min_ns": (by_rank.ravel() * 0.9).astype(np.int64),
        "max_ns": (by_rank.ravel() * 1.1).astype(np.int64),
    })  # fmt: skip


def _steps(draw: np.random.Generator, ranks: int, slow: int) -> pd.DataFrame:
    result = []
    for phase, usual, late in (
        ("step", 400e6, 1.0),
        ("forward", 120e6, 1.15),
        ("backward", 230e6, 0.93),
        ("optimizer", 30e6, 1.02),
    ):
        for step in range(5):
            dur = usual * draw.normal(1, 0.004, ranks)
            dur[slow] *= late
            result.append(
                pd.DataFrame(
                    {
                        "phase": phase,
                        "step": step,
                        "rank": np.arange(ranks),
                        "start_ns": int(step * 400e6),
                        "dur_ns": dur.astype(np.int64),
                        "deviation_share": dur / np.median(dur) - 1 if ranks > 1 else np.nan,
                    }
                )
            )
    return pd.concat(result, ignore_index=True)


def _heatmap(draw: np.random.Generator, ranks: int, slow: int, bins: int) -> pd.DataFrame:
    edges = np.linspace(0, 2_000_000_000, bins + 1).astype(np.int64)
    share = np.clip(np.sin(np.arange(bins) / 6) * 1.4, 0, 1) * draw.uniform(0.8, 1, (ranks, bins))
    share[slow] *= 0.02
    frame = pd.DataFrame({
        "rank": np.repeat(np.arange(ranks), bins), "bin": np.tile(np.arange(bins), ranks),
        "start_ns": np.tile(edges[:-1], ranks), "end_ns": np.tile(edges[1:], ranks),
    })  # fmt: skip
    size = frame["end_ns"] - frame["start_ns"]
    frame["value_ns"] = (share.ravel() * size).astype(np.int64)
    frame["share"] = frame["value_ns"] / size
    frame.attrs["metric"] = "waiting"
    return frame


def added() -> dict[str, pd.DataFrame]:
    """Return frames for the panels that users can add."""
    tree = pd.DataFrame({
        "depth": [0, 0, 1], "name": ["aten::linear", "aten::copy_", "aten::addmm"],
        "short": ["aten::linear", "aten::copy_", "aten::addmm"], "left_ns": [0, 900, 0],
        "right_ns": [900, 1200, 600], "own_ns": [300, 300, 600], "count": [2, 1, 2],
        "host_ns": [900, 300, 600], "device_ns": [5000, 0, 5000],
    })  # fmt: skip
    tree.attrs = {"left_out": 3}
    roofline = pd.DataFrame({
        "name": ["aten::mm", "aten::native_layer_norm"], "short": ["mm", "native_layer_norm"],
        "shapes": ["64×64 · 64×32", "64×64"], "precision": ["bf16", "fp32"],
        "bound": ["compute", "memory"], "certainty": ["exact", "linked"], "count": [4, 2],
        "device_ns": [9000, 700], "roofline_ns": [3000, 800], "saving_ns": [4714, 0],
        "tflop_per_s": [104.0, 0.5], "gb_per_s": [300.0, 1700.0], "roofline_share": [1 / 3, 8 / 7],
    })  # fmt: skip
    roofline.attrs = {
        "others": 3, "ranks": 2, "device": "A100", "source": "data sheet", "known_share": 0.9,
    }  # fmt: skip
    layers = tree.assign(
        tflop_per_s=[1.5, float("nan"), 2.0],
        instances=[1, 1, 12],
        events=["nn.Module: A_0", "", "nn.Module: B_0\nnn.Module: B_1"],
        **dict.fromkeys(("forward_device_ns", "backward_device_ns", "recompute_device_ns"), 900),
    )
    layers.attrs = {"left_out": 2, "measure": "GPU time", "ranks": 2, "note": "no stacks"}
    serving = pd.DataFrame({
        "rank": [0, 0, 1], "step": [0, 1, 0], "name": ["step[DECODE bs=4]", "a", "b"],
        "phase": ["decode", "prefill", "decode"], "tokens": [4, 100, -1],
        "start_ns": [0, 500, 20], "end_ns": [100, 900, 140], "time_ns": [100, 400, 120],
        "device_span_ns": [100, 400, 120], "device_ns": [90, 300, 110], "host_ns": [50, 60, 70],
        "tokens_per_s": [4e7, 2.5e8, float("nan")],
    })  # fmt: skip
    serving.attrs = {"all_tokens_per_s": 2.08e8}
    nan = float("nan")
    kernel_details = pd.DataFrame({
        "name": ["gemm<1>", "add<2>"], "short": ["gemm", "add"], "count": [4, 900],
        "sum_ns": [90_000, 800], "blocks_per_sm": [2.5, nan], "occupancy_share": [0.38, nan],
        "registers": [168.0, nan], "tensor_core": ["yes", "unknown"], "precision": ["bf16", ""],
    })  # fmt: skip
    kernel_details.attrs = {
        "others": 2, "ranks": 2, "tensor_core_share": 0.9, "short_kernels": 900,
    }  # fmt: skip
    fusion = pd.DataFrame({
        "operators": ["aten::mul → aten::add", "aten::exp → aten::exp"], "shape": ["64×64", "8"],
        "short": ["mul → add", "exp → exp"], "length": 2, "count": [40, 1],
        "device_ns": [90_000, 500], "total_saved_bytes": [1 << 24, 32], "saving_ns": [8000, -1],
    })  # fmt: skip
    fusion.attrs = {"others": 1, "ranks": 2}
    pipeline = pd.DataFrame({
        "rank": [0, 0, 4, 4], "stage": [0, 0, 1, 1], "stages": 2, "step": 3,
        "direction": ["forward", "backward"] * 2, "start_ns": [1000, 5000, 2000, 3000],
        "end_ns": [2000, 7000, 3000, 5000], "compute_ns": [900, 2000, 1000, 1800],
        "share": [0.5, 0.5, 0.52, 0.52],
    })  # fmt: skip
    pipeline.attrs = {"steps": 4, "bubble_share": 0.51, "others": 1}
    device_tree = tree.copy()
    device_tree.attrs = {"left_out": 3, "outside": 0.77}
    calls = pd.DataFrame({"operation": ["all_reduce", "all_reduce", "all_gather"]}).assign(
        size_bytes=[4096, 4096, 1 << 20],
        ranks=[4, 4, 2],
        start_ns=[10, 50, 90],
        end_ns=[20, 70, 190],
        busbw_gb_s=[12.5, 8.25, 96.0],
    )
    calls.attrs = {"others": 2}
    parts = pd.DataFrame({"rank": [5, 4], "cause": ["compute", "data loading"]}).assign(
        count=[7, 1], dur_ns=[900_000, 100_000], share=[0.9, 0.1]
    )
    launches = pd.DataFrame({"outlier": ["late start", "short kernel"], "kernel": ["a<1>", "b"]})
    groups = pd.DataFrame(
        {"label": ["ranks 0\u20133", "rank 4"], "members": ["0,1,2,3", "4"], "ranks": [4, 1]}
    )
    times = {"step_ns": 9e6, "compute_ns": 6e6, "idle_ns": 1e6}
    waits = {"exposed_communication_ns": 2e6, "exposed_wait_ns": 1.5e6}
    return {
        "call_tree": tree,
        "call_tree_device": device_tree,
        "critical_path": parts,
        "arrivals": pd.DataFrame({"rank": [0, 1, 0, 1], "lag_ns": [0, 400, 100, 0]}).assign(
            last=[False, True, True, False]
        ),
        "bandwidth": calls,
        "clusters": groups.assign(**times, **waits, spread=[0.02, 0.0], why=["", "computes more"]),
        "clocks": pd.DataFrame({"rank": [0, 1], "offset_ns": [0, -92_085]}).assign(
            residual_ns=[10, 3], recorded_residual_ns=[44_500, 20_000], collectives=305
        ),
        "memory": pd.DataFrame({"rank": [0, 1], "device": ["cuda:0", "cpu"]}).assign(
            total_allocated_bytes=[4 << 30, -1],
            total_reserved_bytes=[5 << 30, -1],
            running_bytes=[1 << 30, 3 << 20],
            count=[12, 4],
        ),
        "launch_outliers": launches.assign(short=["a", "b"], count=[40, 4], launches=[40, 8]),
        "roofline": roofline,
        "layers": layers,
        "serving": serving,
        "pipeline": pipeline,
        "kernel_details": kernel_details,
        "fusion_candidates": fusion,
        "messages": pd.DataFrame({"rank": [0, 2, 0], "peer": [1, 0, 2]}).assign(
            count=[1, 3, 2], bytes=[1000, 500, 90]
        ),
    }
