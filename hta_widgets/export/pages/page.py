"""Save a timeline or a dashboard to a page, or prepare the same data for an open page.

A page contains all events of as many ranks as fit, most important ranks first. For other ranks, it
contains overviews, with cells as fine as the remaining space allows. For example, a 25 MB page of
64 ranks with 2 MB each contains all events of about ten ranks and 4096 cells for each of the other
ranks. The page states: ``Ranks 0-9: all events. Others: overview only.``
"""

from __future__ import annotations

import base64
import json
import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import accumulate
from typing import Any

from hta_widgets.analysis.steps import device_steps, phase_ranges
from hta_widgets.export.pages.data import (
    CollectivesPart,
    PagePart,
    clusters_answer,
    embed_args,
    full_rank,
)
from hta_widgets.export.pages.format import (
    Block,
    NameTables,
    PageContent,
    ascii_json,
    pack_block,
    save_page,
    source_files,
    version_text,
)
from hta_widgets.export.pages.overview import overview
from hta_widgets.live.background import cancelled_at_exit, give_way, gives_way
from hta_widgets.live.job import TileEngine
from hta_widgets.live.operations import Answer
from hta_widgets.text import rank_list
from hta_widgets.tiles.rank_index import LaneBudget, RankIndex
from hta_widgets.trace.memo import ComputationCancelled

#: Size of a page without code and events: HTML, block tags, and the names of a small job.
_FRAME_BYTES = 4000
#: Maximum size of a reply. Larger messages would delay subsequent ones.
CHUNK_BYTES = 4_000_000
#: Number of characters per byte of a block, in base64.
_TEXT_PER_BYTE = 4 / 3


def save_html(
    path: str | os.PathLike[str],
    engine: TileEngine,
    scene: dict[str, Any],
    state: dict[str, Any],
    *,
    max_mb: float = 25,
    dashboard: Mapping[str, Any] | None = None,
) -> str:
    """Write a timeline, or a dashboard with the given traits, to a self-contained page."""
    widget = "timeline" if dashboard is None else "dashboard"
    more_code = [] if dashboard is None else [pack_block(widget, ascii_json(dashboard))]

    def make(max_bytes: float, saved_at: datetime) -> PageContent:
        limit_bytes, files = max_bytes - _FRAME_BYTES, source_files(engine)
        return embed(engine, scene, state, limit_bytes, saved_at, files, widget=widget)

    return save_page(
        path,
        str(scene.get("title") or widget),
        (f"{widget}.js", "state.js", "widgets.css"),
        [engine],
        make,
        max_mb=max_mb,
        min_mb=0.1,
        remedy="A page without events takes about 0.1 MB, or 0.8 MB for a dashboard.",
        more_code=more_code,
    )


class OfflineData:
    """Prepares the data of a saved page in a separate thread, and returns it in chunks.

    `make` is called with the maximum number of characters and returns the content.
    """

    def __init__(self, make: Callable[[float], PageContent], *, max_mb: float = 25) -> None:
        self._content = b""
        self._status: dict[str, Any] = {"state": "preparing"}
        self._thread = threading.Thread(
            target=self._prepare, args=[make, max_mb * 1e6 * _TEXT_PER_BYTE], daemon=True
        )
        cancelled_at_exit.add(self._thread)
        self._thread.start()

    def chunk(self, number: int | None = None) -> Answer:
        """Return a chunk of the data, or the status if `number` is None.

        ``state`` is ``preparing``, ``failed`` (with ``message``), or ``ready``. If ready, the
        status also has ``bytes``, ``chunks``, and ``blocks`` (the offset and length of each block,
        by name).
        """
        chunks = int(self._status.get("chunks", 0))
        if number is None:
            return dict(self._status), None
        if not 0 <= number < chunks:
            raise ValueError(f"unknown chunk {number}: the page has {chunks} chunks")
        start = number * CHUNK_BYTES
        return {"chunk": number}, self._content[start : start + CHUNK_BYTES]

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the preparation; return whether it is finished."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _prepare(self, make: Callable[[float], PageContent], limit_bytes: float) -> None:
        gives_way.set(True)
        try:
            content = make(limit_bytes)
            blocks = [pack_block("document", ascii_json(content.document)), *content.blocks]
            parts = [base64.b64decode(block.text) for block in blocks]
        except ComputationCancelled:
            return
        except Exception as error:  # noqa: BLE001 - the page shows any error
            self._status = {"state": "failed", "message": str(error) or type(error).__name__}
            return
        self._content = b"".join(parts)
        sizes = list(map(len, parts))
        offsets = accumulate(sizes, initial=0)
        self._status = {
            "state": "ready",
            "bytes": len(self._content),
            "chunks": math.ceil(len(self._content) / CHUNK_BYTES),
            "blocks": {
                block.name: [offset, size]
                for block, offset, size in zip(blocks, offsets, sizes, strict=False)
            },
        }


def embed(
    engine: TileEngine,
    scene: dict[str, Any],
    state: Mapping[str, Any],
    limit_bytes: float,
    saved_at: datetime | None = None,
    files: Sequence[tuple[str, int | None]] = (),
    **more: object,
) -> PageContent:
    """Return as much of a job as fits in `limit_bytes`.

    If `saved_at` is None, the content is for a view in an open notebook, which keeps its own state.
    """
    content = PagePlan(engine, scene, state, limit_bytes).execute()
    origin_ns = engine.traces.origin_ns
    about = {
        "version": 3,
        "scene": content.document["scene"],
        "state": {} if saved_at is None else state,
        "saved": {
            "at": "" if saved_at is None else saved_at.isoformat(timespec="seconds"),
            "by": "" if saved_at is None else f"hta_widgets {version_text()}",
            "files": [{"name": name, "bytes": size} for name, size in files],
            "embedded": content.sizes,
        },
        "origin_ns": None if origin_ns is None else str(origin_ns),
        **more,
    }
    return replace(content, document={**about, **content.document})


_LANE_BYTES = 256 << 20
_SCREEN_CELLS = 1024
#: Detail of overviews, best first: number of cells, and whether all lanes are included.
_LADDER = (
    (4096, True), (2048, True), (1024, True), (512, True), (2048, False), (1024, False),
    (512, False), (256, False),
)  # fmt: skip


class PagePlan:
    """The plan of a page: ranks in order of importance, and the space for their events."""

    def __init__(
        self,
        engine: TileEngine,
        scene: dict[str, Any],
        state: Mapping[str, Any],
        limit_bytes: float,
    ) -> None:
        self.scene = scene
        self.names = NameTables()
        budget = LaneBudget(_LANE_BYTES)
        self.indices = {
            rank.rank: RankIndex(rank, budget, lambda: engine.lateness) for rank in engine.job.ranks
        }
        self.collectives = CollectivesPart(
            engine.job, engine.traces, lambda: engine.lateness, self.names
        )
        self.clusters = clusters_answer(engine)
        self.phases = phase_ranges(engine.traces)
        self.device_steps = device_steps(engine.traces)
        late = self.collectives.late(*scene["range"])
        self.order = _by_importance(list(self.indices), scene, state, late)
        fixed_bytes = _fixed_bytes(self.indices.values(), [scene, self.clusters])
        self.limit = limit_bytes - fixed_bytes - self.collectives.size_bytes

    def execute(self) -> PageContent:
        """Return the content, with as many ranks and arguments as fit."""
        full = self._full_ranks()
        overviews: dict[int, PagePart] = {}
        while len(full) < len(self.indices) and not overviews:
            overviews = self._overviews(full)
            if not overviews:
                # Make room by replacing the events of the least important rank with an overview.
                full.popitem()
        args = self._args(
            full, self.limit - total_size(full.values()) - total_size(overviews.values())
        )
        parts = [full.get(rank) or overviews[rank] for rank in self.indices]
        scene = _with_coverage(self.scene, list(full), args, overviews)
        return PageContent(
            document={
                "scene": scene,
                **self.names.document(),
                "ranks": [part.header for part in parts],
                "collectives": self.collectives.header,
                "alike": self.clusters,
                "phases": {"names": self.phases.names, "labels": self.phases.labels},
            },
            blocks=[
                *self.collectives.blocks,
                *(block for part in (*parts, *args.values()) for block in part.blocks),
            ],
            sizes=[
                ("events", total_size(full.values())),
                ("overviews", total_size(overviews.values())),
                ("collectives", self.collectives.size_bytes),
                ("arguments", total_size(args.values())),
            ],
            words=scene["embedded"]["text"],
            document_word="names and lanes",
        )

    def _full_ranks(self) -> dict[int, PagePart]:
        """Return the events of as many ranks as fit, most important ranks first."""
        full: dict[int, PagePart] = {}
        used = 0
        for rank in self.order:
            give_way()
            part = full_rank(
                self.indices[rank], self.names, self.phases.by_rank[rank], self.device_steps[rank]
            )
            used += part.size_bytes
            if used > self.limit:
                break
            full[rank] = part
        return full

    def _overviews(self, full: Mapping[int, PagePart]) -> dict[int, PagePart]:
        """Return the finest overviews of the other ranks that fit in addition to `full`, if any.

        Screen-resolution overviews of all ranks take precedence over the events of one more rank.
        """
        budget_bytes = self.limit - total_size(full.values())
        ranks = [rank for rank in self.order if rank not in full]
        largest = max(ranks, key=lambda rank: len(self.indices[rank].rank.table))
        overviews: dict[int, PagePart] = {}
        for cells, all_lanes in _LADDER:
            if full and not all_lanes and cells < _SCREEN_CELLS:
                return {}
            is_last_resort = not full and (cells, all_lanes) == _LADDER[-1]
            # Estimate the size from the largest rank. The other ranks may take less.
            size_bytes = self._overview(largest, cells, all_lanes=all_lanes).size_bytes * len(ranks)
            if size_bytes > 1.5 * budget_bytes and not is_last_resort:
                continue
            overviews = {rank: self._overview(rank, cells, all_lanes=all_lanes) for rank in ranks}
            if total_size(overviews.values()) <= budget_bytes:
                return overviews
        return {} if full else overviews

    def _overview(self, rank: int, cells: int, *, all_lanes: bool) -> PagePart:
        give_way()
        wait = self.collectives.exposed_wait(rank)
        return overview(
            self.indices[rank], self.names, cells, all_lanes=all_lanes, exposed_wait=wait
        )

    def _args(self, full: dict[int, PagePart], budget_bytes: float) -> dict[int, PagePart]:
        """Return the arguments of the `full` ranks; add each part's header to its rank."""
        args_of: dict[int, PagePart] = {}
        for rank, part in full.items():
            give_way()
            args = embed_args(self.indices[rank].rank, budget_bytes)
            budget_bytes -= args.size_bytes
            part.header["args"] = args.header
            args_of[rank] = args
        return args_of


def total_size(parts: Iterable[PagePart | Block]) -> int:
    """Return the total size of parts or blocks in a page."""
    return sum(part.size_bytes for part in parts)


def _fixed_bytes(indices: Iterable[RankIndex], parts: Sequence[Any]) -> int:
    """Return the approximate size of a document that contains only `parts` and all names."""
    names = {name for index in indices for name in index.rank.table.names.values}
    text = json.dumps(parts) + json.dumps(sorted(names, key=repr))
    return pack_block("document", text.encode("ascii")).size_bytes


def _by_importance(
    ranks: list[int], scene: dict[str, Any], state: Mapping[str, Any], late: Sequence[int] = ()
) -> list[int]:
    """Return the ranks in order of importance.

    The order is: the rank of the selected event, selected ranks, pinned ranks, ranks that others
    wait for (`late`), the rank whose steps are shown, and all other ranks.
    """
    important: list[int] = []
    event, selection = state.get("selected_event"), state.get("selection") or {}
    pins = [pin.partition("/")[0] for pin in state.get("pinned") or () if pin[:1].isdigit()]
    if event:
        important.append(int(event[0]))
    important += [int(rank) for rank in selection.get("ranks") or ()]
    important += [int(rank) for rank, _ in selection.get("ids") or ()]
    important += [*map(int, pins), *late]
    if scene.get("steps_rank") is not None:
        important.append(int(scene["steps_rank"]))
    loaded = set(ranks)
    return list(dict.fromkeys(rank for rank in (*important, *ranks) if rank in loaded))


def _with_coverage(
    scene: dict[str, Any],
    full: list[int],
    args: dict[int, PagePart],
    overviews: dict[int, PagePart],
) -> dict[str, Any]:
    ranks = []
    for rank in scene["ranks"]:
        limits = {}
        if (rank_overview := overviews.get(rank["rank"])) is not None:
            # Tracks without data would look idle.
            tracks = rank["tracks"] if rank_overview.has_all_lanes else []
            limits = {"tracks": tracks, "overview_level": rank_overview.header["level"]}
        ranks.append({**rank, **limits})
    complete = {"embedded", "absent"}
    with_args = [rank for rank, part in args.items() if part.header["state"] in complete]
    return {
        **scene,
        "ranks": ranks,
        "embedded": {
            "level": "partial" if overviews else "all",
            "text": _coverage_text(sorted(full), sorted(with_args), overviews),
            "ranks_full": sorted(full),
            "ranks_args": sorted(with_args),
        },
    }


def _coverage_text(full: list[int], args: list[int], overviews: dict[int, PagePart]) -> str:
    if not full:
        return "Overview only: no individual events."
    contents = ["all events"]
    if len(args) < len(full):
        contents.append(f"arguments of {rank_list(args)}" if args else "no arguments")
    if overviews:
        return f"{rank_list(full).capitalize()}: {', '.join(contents)}. Others: overview only."
    # A list of ranks may contain commas.
    text = ("; " if args else ", ").join(contents)
    return f"{text.capitalize()}."
