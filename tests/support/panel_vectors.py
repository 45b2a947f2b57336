"""Writes pages of small jobs, and Python's results for them, that the page's engine is tested with.

After a change to the panels or the page format, run ``python tests/support/panel_vectors.py``. A
test checks that the file is up to date.
"""

import base64
import gzip
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from support.brushes import BINS, IDS, brushes  # noqa: E402
from support.random_job import write_job  # noqa: E402

import hta_widgets as hw  # noqa: E402
from hta_widgets.analysis.clusters import HEATMAP_METRICS  # noqa: E402
from hta_widgets.demo.job import write_demo  # noqa: E402
from hta_widgets.export.pages.format import ascii_json  # noqa: E402
from hta_widgets.export.pages.page import embed  # noqa: E402
from hta_widgets.live.job import PanelEngine, TileEngine  # noqa: E402

PATH = ROOT / "tests/vectors/panels.json"
TOP = 4
DOCUMENT = (
    "version", "scene", "names", "shorts", "short_of", "categories", "ranks", "collectives",
    "phases",
)  # fmt: skip
SCENE = ("kinds", "ranks", "range", "part")


SMALL = {"events": 60, "calls": 10}
JOBS = {
    "demo": lambda folder: write_demo(folder, ranks=3, steps=2, events_per_step=150, straggler=1),
    "random 2": lambda folder: write_job(folder, 2, ranks=3, **SMALL),
    "random 5": lambda folder: write_job(folder, 5, ranks=2, **SMALL),
}


def _case(name: str, folder: Path) -> dict[str, Any]:
    """Return the page of a job, selections, and the replies of Python's engine."""
    traces = hw.load(folder, progress=False, cache=False)
    engine = PanelEngine(traces)
    rng = random.Random(name)
    low, high = int(traces.start_ns), int(traces.end_ns)
    metrics = sorted(HEATMAP_METRICS)
    requests = []
    for number, selection in enumerate(brushes(rng, traces, count=8)):
        inputs = {key: value for key, value in selection.items() if value is not None}
        frames = {"panels": IDS, "selection": inputs, "top": TOP}
        start = rng.randrange(low, (low + high) // 2)
        heatmap = {
            "metric": metrics[number % len(metrics)],
            "selection": inputs,
            "start": start,
            "end": rng.randrange(start + BINS, high + BINS),
            "bins": BINS,
        }
        reply, buffer = engine.answer({"op": "heatmap", **heatmap})
        requests.append(
            {
                "selection": inputs,
                "panels": engine.answer({"op": "panels", **frames})[0]["panels"],
                "heatmap": {
                    **{key: heatmap[key] for key in ("metric", "start", "end")},
                    "reply": reply,
                    "values": np.frombuffer(buffer, "<f8").astype(int).tolist(),
                },
            }
        )
    return {"name": name, **_page(TileEngine(traces)), "asked": requests}


def _page(engine: TileEngine) -> dict[str, Any]:
    """Return the parts of a saved page from which panels are computed."""
    embedded = embed(engine, engine.scene(), {}, 1e8)
    document = json.loads(ascii_json(embedded.document))
    document = {name: document[name] for name in DOCUMENT}
    document["scene"] = {name: document["scene"].get(name) for name in SCENE}
    blocks = [block for block in embedded.blocks if not block.name.startswith("args-")]
    return {"document": document, "blocks": {block.name: block.text for block in blocks}}


def vectors() -> dict[str, Any]:
    cases = []
    for name, write in JOBS.items():
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
            cases.append(_case(name, Path(folder)))
    return json.loads(json.dumps({"bins": BINS, "top": TOP, "cases": cases}))


def unpacked(document: dict[str, Any]) -> dict[str, Any]:
    """Return vectors with their blocks decompressed, since compressors differ in their output."""
    for case in document["cases"]:
        for name, text in case["blocks"].items():
            case["blocks"][name] = gzip.decompress(base64.b64decode(text))
    return document


def text_of(document: dict[str, Any]) -> str:
    """Return JSON with one request per line."""
    text = json.dumps(document, ensure_ascii=True, separators=(",", ":"))
    return text.replace('},{"selection"', '},\n{"selection"') + "\n"


if __name__ == "__main__":
    PATH.write_text(text_of(vectors()), encoding="utf-8")
