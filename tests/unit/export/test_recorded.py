"""The recorded job in the page's tests must have the current page format."""

from __future__ import annotations

import base64
import gzip
import json
import runpy
from typing import Any


def shape(value: Any) -> Any:
    """Return names and versions without values; for lists, the names of all items."""
    if isinstance(value, list):
        return sorted({json.dumps(shape(item)) for item in value if isinstance(item, dict)})
    if isinstance(value, dict):
        return {key: item if key == "version" else shape(item) for key, item in value.items()}
    return None


def test_its_format_is_todays(repo):
    recorded = runpy.run_path(str(repo / "scripts/recorded.py"))
    result, remaining = recorded["blocks"](), json.loads(recorded["RECORDED"].read_text("utf-8"))
    assert set(result) == set(remaining), "run `make recorded`"
    documents = [
        json.loads(gzip.decompress(base64.b64decode(it["document"]))) for it in (result, remaining)
    ]
    assert shape(documents[0]) == shape(documents[1]), "run `make recorded`"
