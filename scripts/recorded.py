"""Write `js/test/recorded.json`: a small job as blocks of a saved page, for front-end tests.

The job has three ranks and three complete steps. Rank 2 is late in every collective. The ranks
start recording at different times. Some flows therefore lack their start and become problems.
"""

import contextlib
import json
import tempfile
from pathlib import Path

import hta_widgets as hw
from hta_widgets.demo import write_demo
from hta_widgets.export.pages.format import ascii_json, pack_block
from hta_widgets.export.pages.page import embed
from hta_widgets.live.job import TileEngine

RECORDED = Path(__file__).resolve().parents[1] / "js/test/recorded.json"
FOLDER = "demo-job"


def blocks() -> dict[str, str]:
    """Return the page's blocks as base64, keyed by name."""
    # Problems contain file paths, which must be the same on every machine.
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        write_demo(FOLDER, ranks=3, steps=4, straggler=2, uneven_us=3000, events_per_step=800)
        engine = TileEngine(hw.load(FOLDER))
        result = embed(engine, engine.scene(), {}, 25e6)
    document = pack_block("document", ascii_json(result.document))
    return {block.name: block.text for block in [document, *result.blocks]}


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(blocks(), indent=2) + "\n", "utf-8")
