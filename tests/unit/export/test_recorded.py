"""The recorded job of the page's tests is a page as it is written today."""

from __future__ import annotations

import base64
import gzip
import json
import runpy
from typing import Any


def shape(value: Any) -> Any:
    """Return names and versions without values; for lists, of all their items."""
    if isinstance(value, list):
        return sorted({json.dumps(shape(one)) for one in value if isinstance(one, dict)})
    if isinstance(value, dict):
        return {key: one if key == "version" else shape(one) for key, one in value.items()}
    return None


def test_its_format_is_todays(repo):
    recorded = runpy.run_path(str(repo / "scripts/recorded.py"))
    made, kept = recorded["blocks"](), json.loads(recorded["RECORDED"].read_text("utf-8"))
    assert set(made) == set(kept), "run `make recorded`"
    documents = [
        json.loads(gzip.decompress(base64.b64decode(it["document"]))) for it in (made, kept)
    ]
    assert shape(documents[0]) == shape(documents[1]), "run `make recorded`"
