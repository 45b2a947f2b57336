"""Python's charts of the dashboard's frames, as vectors for the page's charts.

Run ``python tests/support/chart_vectors.py`` after a change of `hta_widgets.charts`; a test checks
that the file is what this writes.
"""

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from support import panel_frames  # noqa: E402

from hta_widgets.charts.panels import panel_figure, panel_items  # noqa: E402
from hta_widgets.charts.rows import content_of  # noqa: E402

PATH = ROOT / "tests/vectors/charts.json"
#: The figures that the page's tests embed: of each panel one, and some in dark.
ITEMS = ROOT / "tests/vectors/sheets.json"
DARK = ("breakdown", "heatmap")


def cases() -> list[tuple[str, str, pd.DataFrame]]:
    """Frames as name, panel and frame: of one rank, of some, and of more than have room."""
    found = []
    for ranks in (1, 2, 5, 26):
        for panel, frame in panel_frames.made(ranks, bins=6).items():
            found.append((f"{panel} of {ranks}", panel, frame))
    unmatched = panel_frames.made(3)["breakdown"]
    unmatched["exposed_wait_ns"] = np.nan
    unmatched.attrs = {"matched": {"communication": 0, "memory": 4}, "note": "clocks not aligned"}
    unmatched.attrs["missing_ranks"] = [3, 4, 5, 7, 8, 11, 20]
    found.append(("breakdown without waits", "breakdown", unmatched))
    still = panel_frames.made(3)["idle"]
    still.loc[still["rank"] == 1, ["idle_ns", "idle_share"]] = 0
    found.append(("idle of a rank that never is", "idle", still))
    few = panel_frames.made(2)["idle"]
    few = few[few["idle_category"].isin(["host_operator", "kernel_wait"])].reset_index(drop=True)
    found.append(("idle of two causes", "idle", few))
    for panel in ("kernel_durations", "steps"):
        fact = panel_frames.made(5)[panel]
        fact.attrs = {"late_ranks": [], "fact_ranks": [1]}
        found.append((f"{panel} with a rank stated as a fact", panel, fact))
    return found


def vectors() -> dict[str, Any]:
    """Return the file's content."""
    made = []
    for name, panel, frame in cases():
        content = plain(content_of(panel_figure(panel, frame)))
        made.append(
            {"name": name, "panel": panel, "frame": panel_frames.plain(frame), "content": content}
        )
    return {"cases": made}


def plain(value: Any) -> Any:
    """Return numbers as JSON has them, floats as far as languages agree."""
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
    """Return the file: a case a line."""
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in vectors()["cases"])
    return f'{{"cases": [\n{lines}\n]}}\n'


def items() -> str:
    """Return the other file: figures by panel and theme, with numbers of its own for models."""
    known: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return known.setdefault(match[0], f'"id{len(known)}"')

    lines = []
    for panel in panel_frames.made(1, bins=6):
        made = panel_items(panel)
        kept = {name: item for name, item in made.items() if name == "light" or panel in DARK}
        lines.append(f"{json.dumps(panel)}: {json.dumps(kept, separators=(',', ':'))}")
    return re.sub(r'"p\d+"', number, "{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
    ITEMS.write_text(items(), "utf-8")
