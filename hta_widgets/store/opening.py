"""A store, opened: its manifest is read, its ranks are not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

from hta_widgets.store.arrow_file import Damaged
from hta_widgets.store.manifest import MANIFEST
from hta_widgets.store.manifest import read_manifest
from hta_widgets.store.rank_file import KeptSource
from hta_widgets.store.traces import opened_trace

__all__ = ["Opened", "open_store"]


@dataclass(frozen=True)
class Opened:
    """What a store holds."""

    traces: list[Trace]
    problems: Problems
    clock: dict[str, Any] | None

    def trace_set(self, more: Problems | None = None) -> TraceSet:
        """Return the set that was saved, with `more` problems."""
        assert self.clock is not None  # noqa: S101 - only caches have none
        problems = self.problems
        problems.merge(more or Problems())
        return TraceSet.restored(
            self.traces,
            problems,
            clock=self.clock["name"],
            origin_ns=self.clock["origin_ns"],
            lift_ns=self.clock["lift_ns"],
        )


def open_store(path: str | Path, kept: KeptSource | None = None) -> Opened:
    """Open a store by its folder, or by the manifest in it.

    Raises
    ------
    TraceError
        Where it is damaged, incomplete or of another version.
    """
    folder = Path(path)
    if folder.name == MANIFEST and not folder.is_dir():
        folder = folder.parent
    try:
        body = read_manifest(folder / MANIFEST)
        for entry in body["ranks"]:
            _check_size(folder, entry)
        problems = Problems()
        for kind, count, detail, rank, file in body["problems"]:
            problems.add(kind, count, detail, rank, file)
        traces = [
            opened_trace(folder, entry, place, kept) for place, entry in enumerate(body["ranks"])
        ]
        return Opened(traces, problems, body["clock"])
    except (Damaged, KeyError, TypeError, ValueError) as cause:
        if isinstance(cause, TraceError):
            raise
        raise TraceError(
            str(cause) if isinstance(cause, Damaged) else f"is not as it was written ({cause!r})",
            path=folder / MANIFEST,
            remedy="Copy the store again, or save the traces again.",
        ) from None


def _check_size(folder: Path, entry: dict[str, Any]) -> None:
    if Path(entry["file"]).name != entry["file"]:
        raise Damaged(f"names a file outside of its folder, {entry['file']}")
    file, size = folder / entry["file"], entry["frame"][0]
    try:
        found = file.stat().st_size
    except OSError:
        found = None
    if found != size:
        what = "is missing" if found is None else f"has {found:,} bytes instead of {size:,}"
        raise TraceError(what, path=file, remedy="Copy the store again, or save the traces again.")
