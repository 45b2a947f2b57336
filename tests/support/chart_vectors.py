"""Writes Python's charts of the dashboard frames to a file that the page's charts are tested with.

After a change to `hta_widgets.charts`, run ``python tests/support/chart_vectors.py``. A test checks
that the file is up to date.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from support import panel_frames  # noqa: E402

from hta_widgets import charts  # noqa: E402
from hta_widgets.charts import defined, ranks as of_ranks  # noqa: E402
from hta_widgets.charts.data import columns_of  # noqa: E402
from hta_widgets.charts.definition import definition  # noqa: E402
from hta_widgets.charts.rows import Bars, Whiskers  # noqa: E402
from hta_widgets.text import duration  # noqa: E402

PATH = ROOT / "tests/vectors/charts.json"


def content_of(panel: str, frame: pd.DataFrame) -> dict[str, Any]:
    """Return what a chart passes to its layout: rows, columns, scale and texts."""
    if panel == "heatmap":
        with mock.patch.object(of_ranks, "_draw_heatmap") as figure:
            charts.rank_time_heatmap(frame)
        scope, cells, mean, _, style = figure.call_args.args
        return {
            "title": style.title,
            "subtitle": style.subtitle,
            "names": list(scope["names"]),
            "x_start": cells.start_ns,
            "x_end": cells.end_ns,
            "share": cells.shares,
            "mean": mean,
            "totals": [duration(total_ns) for total_ns in cells.value_ns.sum(axis=1)],
        }
    with mock.patch.object(defined, "rows_chart") as figure:
        defined.draw_definition(panel, frame)
    content, style = figure.call_args.args
    columns = columns_of(content.data)
    return {
        "title": style.title,
        "subtitle": style.subtitle,
        "x_start": content.scale.start,
        "x_end": content.scale.end,
        "head": content.head,
        "names": list(content.names),
        "ticks": [list(tick) for tick in content.scale.ticks],
        "columns": [{"head": text.head, "texts": list(text.texts)} for text in content.columns],
        "data": {name: list(columns[name]) for name in columns if name in _used(content.marks)},
    }


def _used(marks: Any) -> set[str]:
    """Return the columns that marks refer to, and any constants they use instead."""
    result: set[Any] = {"row"}
    for mark in marks:
        if isinstance(mark, Bars):
            looks = (mark.fill, mark.line, mark.hatch, mark.hatch_color)
            result |= {mark.left, mark.right, mark.only[0] if mark.only else ""}
        elif isinstance(mark, Whiskers):
            looks, result = (mark.color,), result | {mark.left, mark.right}
        else:
            looks, result = (mark.color,), result | {mark.at, mark.size, mark.marker, mark.angle}
        result.update(looks)
    return result


def cases() -> list[tuple[str, str, pd.DataFrame]]:
    """Return (name, panel, frame) for one rank, for several, and for more than fit on a chart."""
    result = []
    for ranks in (1, 2, 5, 26):
        for panel, frame in panel_frames.made(ranks, bins=6).items():
            result.append((f"{panel} of {ranks}", panel, frame))
    unmatched = panel_frames.made(3)["breakdown"]
    unmatched["exposed_wait_ns"] = np.nan
    unmatched.attrs = {"matched": {"communication": 0, "memory": 4}, "note": "clocks not aligned"}
    result.append(("breakdown without waits", "breakdown", unmatched))
    selected = panel_frames.made(3)["breakdown"]
    selected["unrecorded_ns"] = selected["idle_ns"] // 2
    for part, share in (("compute", 4), ("communication", 3), ("wait", 5), ("memory", 1)):
        column = f"{'' if part == 'compute' else 'exposed_'}{part}_ns"
        selected[f"selected_{part}_ns"] = selected[column] // share
    selected.attrs = {"filtered": 1}
    result.append(("breakdown of a selection", "breakdown", selected))
    still = panel_frames.made(3)["idle"]
    still.loc[still["rank"] == 1, ["idle_ns", "idle_share"]] = 0
    result.append(("idle of a rank that never is", "idle", still))
    few = panel_frames.made(2)["idle"]
    few = few[few["idle_category"].isin(["host_operator", "kernel_wait"])].reset_index(drop=True)
    result.append(("idle of two causes", "idle", few))
    for panel in ("kernel_durations", "steps"):
        fact = panel_frames.made(5)[panel]
        fact.attrs = {"late_ranks": [], "fact_ranks": [1]}
        result.append((f"{panel} with a rank stated as a fact", panel, fact))
    added = panel_frames.added()
    result += [(f"{panel}, added", panel, frame) for panel, frame in added.items()]
    for panel in ("kernel_details", "roofline", "serving"):
        bare = added[panel].copy(deep=False)
        bare.attrs = {}
        result.append((f"{panel} without attributes", panel, bare))
    for panel, frame in {**panel_frames.made(5, bins=6), **added}.items():
        if definition(panel).fold is not None:
            folded = frame.copy(deep=False)
            attrs = {"folded": [[0, 1]]} if panel in added else {"folded": [[0, 2, 3, 4]]}
            folded.attrs = {**frame.attrs, **attrs, "late_ranks": [2]}
            result.append((f"{panel} folded", panel, folded))
    return result


def vectors() -> dict[str, Any]:
    result = []
    for name, panel, frame in cases():
        content = plain(content_of(panel, frame))
        result.append(
            {"name": name, "panel": panel, "frame": panel_frames.plain(frame), "content": content}
        )
    return {"cases": result}


def plain(value: Any) -> Any:
    """Return JSON numbers, with floats rounded so that Python and JavaScript agree."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.12g}") if math.isfinite(value) else None
    return value


def text() -> str:
    """Return the text of the file, with one case per line."""
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in vectors()["cases"])
    return f'{{"cases": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
