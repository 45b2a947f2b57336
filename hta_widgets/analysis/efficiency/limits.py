"""Rates of work, their shares of the limits of the device, and verdicts.

The limit of work is the longer of two times: its FLOPs at the peak rate, and its bytes at the
memory bandwidth. For example, 51.6 GFLOP at a peak of 989 TFLOP/s take 52 µs, and 54 MB at
3.35 TB/s take 16 µs. So the limit is 52 µs, ``compute``, and a call of 104 µs has a
``roofline_share`` of 50 %.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

#: Limits of verdicts; they are in ``attrs["thresholds"]``.
THRESHOLDS: Final = {
    "overhead_kernel_ns": 10_000,
    "overhead_share": 0.1,
    "above_peak_share": 1.02,
    "target_roofline_share": 0.7,
}
#: Verdicts, in the order of legends.
BOUNDS: Final = ("compute", "memory", "overhead", "unknown")


def add_limits(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the times at the peak rate, at the memory bandwidth, and the longer."""
    compute_ns = frame["total_flops"] / frame["peak_tflop_per_s"] / 1e3
    memory_ns = frame["total_bytes"] / frame["memory_gb_s"]
    return frame.assign(
        compute_ns=compute_ns, memory_ns=memory_ns, limit_ns=np.fmax(compute_ns, memory_ns)
    )


def add_rates(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame that has limits with rates, shares of peaks and verdicts."""
    time = frame["device_ns"].where(frame["device_ns"] > 0).astype("float64")
    frame = frame.assign(
        mean_ns=frame["device_ns"] / frame["count"].clip(lower=1),
        intensity=frame["total_flops"] / frame["total_bytes"].where(frame["total_bytes"] > 0),
        tflop_per_s=frame["total_flops"] / time / 1e3,
        gb_per_s=frame["total_bytes"] / time,
        compute_share=frame["compute_ns"] / time,
        memory_share=(frame["memory_ns"] / time).where(frame["is_limited"]),
        roofline_share=(frame["limit_ns"] / time).where(frame["is_limited"]),
    )
    limit = frame["limit_ns"]
    saving = (frame["device_ns"] - limit / THRESHOLDS["target_roofline_share"]).clip(lower=0)
    is_known = limit.notna() & (limit > 0) & time.notna() & frame["is_limited"]
    shares = frame[["compute_share", "memory_share"]].max(axis=1)
    kernel_ns = time / frame["kernels"].clip(lower=1)
    is_short = (kernel_ns < THRESHOLDS["overhead_kernel_ns"]) & (
        shares < THRESHOLDS["overhead_share"]
    )
    is_compute = frame["compute_ns"].fillna(0) >= frame["memory_ns"].fillna(0)
    bound = np.select(
        [~is_known, is_short, is_compute], ["unknown", "overhead", "compute"], "memory"
    )
    return frame.assign(
        roofline_ns=limit.where(is_known, -1).round().astype("int64"),
        saving_ns=saving.where(is_known, -1).round().astype("int64"),
        bound=bound,
        above_peak=shares > THRESHOLDS["above_peak_share"],
    )
