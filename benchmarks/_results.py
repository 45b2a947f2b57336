"""Results of the benchmark scripts, for the report and its figure."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _anchors import FLOOR_ROW, HTA_ROW, OURS


@dataclass
class Results:
    """Results of the scripts, and the log of `all.py`."""

    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Results":
        files = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
        return cls(files, files.pop("all", {}).get("steps", {}))

    def row(self, size: str, name: str) -> dict[str, Any]:
        """Return a row of `load.py`, or {} if it was not measured."""
        rows = self.files.get("load", {}).get(size, [])
        return next((row for row in rows if isinstance(row, dict) and row["name"] == name), {})

    def seconds(self, size: str, name: str) -> float | None:
        """Return the best time of a row of `load.py`."""
        runs = self.row(size, name).get("runs") or []
        return min((run["seconds"] for run in runs), default=None)

    def big(self, name: str) -> dict[str, Any]:
        """Return a row of `big.py`."""
        rows: dict[str, Any] = self.files.get("big", {}).get("rows", {})
        result: dict[str, Any] = rows.get(name) or {}
        return result

    def big_events(self) -> int | None:
        """Return the number of events in the job of `big.py`."""
        return next(
            (
                row["said"]
                for name, row in self.files.get("big", {}).get("rows", {}).items()
                if name.startswith("load") and isinstance(row.get("said"), int)
            ),
            None,
        )

    def big_seconds(self, name: str) -> float | None:
        """Return the time for the job of `big.py`. HTA's time is extrapolated from a part of it."""
        if name == HTA_ROW:
            part, events = self.big("HTA, part"), self.big_events()
            text = part.get("said")
            if not events or not isinstance(text, dict):
                return None
            return float(part["seconds"] * events / text["events"])
        if name == FLOOR_ROW:
            text = self.big("bare msgspec").get("said")
            return text["decode"] + text["decompress"] if isinstance(text, dict) else None
        if name == OURS:
            # Loading without a cache if that was measured, else with an empty cache.
            name = "load, no cache" if self.big("load, no cache") else "load, empty cache"
        return self.big(name).get("seconds")
