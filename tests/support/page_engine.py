"""The engine of saved pages, run by Node without a browser."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hta_widgets.tiles.packing import unpack

#: Initial state that views share.
NO_STATE = {"view": None, "selection": None, "selected_event": None}

SCRIPT = Path(__file__).with_suffix(".mjs")


def agree(ours: Any, theirs: Any, where: Any, rel: float) -> None:
    """Compare a kernel's reply with that of a page: integers exactly, floats to within `rel`."""
    if isinstance(ours, dict):
        assert set(ours) == set(theirs), where
        for key, value in ours.items():
            agree(value, theirs[key], (*where, key), rel)
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), (where, ours[:8], theirs[:8])
        for at, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            agree(a, b, (*where, at), rel)
    elif isinstance(ours, float) and isinstance(theirs, (int, float)):
        assert theirs == pytest.approx(ours, rel=rel), where
    else:
        assert ours == theirs, where


class PageEngine:
    """Answers requests from a page's data with the page's code."""

    def __init__(self, node: str, page: str | Path, bundle: Path) -> None:
        self.path = Path(page)
        self._process = subprocess.Popen(
            [node, str(SCRIPT), str(page), str(bundle)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=SCRIPT.parents[2],
        )
        #: Files that the last reply offered for download, by name.
        self.files: dict[str, bytes] = {}

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def ask(self, op: str, **request: Any) -> dict[str, Any]:
        """Return the whole reply: ``ok``, ``reply``, ``columns``, ``error``."""
        self._process.stdin.write(json.dumps({"op": op, **request}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the page's engine ended"
        answer: dict[str, Any] = json.loads(line)
        self.files = {
            file["name"]: base64.b64decode(file["data"]) for file in answer.pop("files", [])
        }
        buffer = answer.pop("buffer", None)
        if buffer is not None and "columns" in answer["reply"]:
            columns = answer["reply"].pop("columns")
            answer["columns"] = unpack(columns, base64.b64decode(buffer))
        elif buffer is not None:
            answer["buffer"] = base64.b64decode(buffer)
        return answer

    def answer(self, op: str, **request: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the reply and its columns; fail if the page cannot answer."""
        answer = self.ask(op, **request)
        assert answer["ok"], answer["error"]
        return answer["reply"], answer.get("columns", {})

    def room(self, share: float) -> float:
        """Return a size limit in MB that fits this share of the page's events and no arguments."""
        sizes = dict(self.answer("document")[0]["saved"]["embedded"])
        rest = self.path.stat().st_size - sizes["events"] - sizes["arguments"]
        return (rest + share * sizes["events"]) / 1e6
