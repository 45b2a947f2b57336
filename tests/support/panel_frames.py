"""Frames of the dashboard's panels as the page gets them: of a real job, and made up."""

import math
from typing import Any

import numpy as np
import pandas as pd

from support.golden import SHARED

import hta_widgets as hw
from hta_widgets.panels import PanelEngine

JOB = SHARED / "traces/made/ddp_8rank"
PANELS = ("breakdown", "overlap", "idle", "queue", "kernel_types", "kernel_durations", "steps")


def plain(frame: pd.DataFrame) -> dict[str, Any]:
    """A frame as the protocol's JSON has it."""

    def value(each: Any) -> Any:
        if each is None or (isinstance(each, float) and math.isnan(each)):
            return None
        if isinstance(each, np.generic):
            each = each.item()
        return None if isinstance(each, float) and math.isnan(each) else each

    columns = {str(name): [value(each) for each in values] for name, values in frame.items()}
    return {"rows": len(frame), "columns": columns, "attrs": dict(frame.attrs)}


def job_frames() -> dict[str, Any]:
    """Of the eight ranks that train together, of which one is slow."""
    engine = PanelEngine(hw.load(JOB, progress=False))
    return {panel: plain(engine.frame(panel, None)) for panel in PANELS}


def made_frames(ranks: int) -> dict[str, Any]:
    """Of so many ranks, the last but three of which keeps the others waiting."""
    return {panel: plain(frame) for panel, frame in made(ranks).items()}


def made(ranks: int) -> dict[str, pd.DataFrame]:
    """As `made_frames`, but frames."""
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
    breakdown = pd.DataFrame(
        {
            "rank": rank,
            "span_ns": span,
            "idle_ns": span - compute - other,
            "compute_ns": compute,
            "non_compute_ns": other,
            "busy_ns": compute + other,
            "communication_ns": total,
            "exposed_communication_ns": exposed,
            "exposed_memory_ns": memory,
            "exposed_wait_ns": wait if ranks > 1 else np.full(ranks, np.nan),
        }
    )
    overlap = pd.DataFrame(
        {
            "rank": rank,
            "communication_ns": total,
            "overlapped_ns": total - exposed,
            "overlap_share": (total - exposed) / total,
            "exposed_ns": exposed,
            "compute_ns": compute,
        }
    )
    return {"breakdown": breakdown, "overlap": overlap}
