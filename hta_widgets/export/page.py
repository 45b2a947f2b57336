"""Save a job as one page: all events that fit, and overviews of the other ranks."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import accumulate
from typing import Any

from hta_widgets.analysis.steps import phase_ranges
from hta_widgets.export.page_data import (
    Collectives,
    Part,
    alike,
    embed_args,
    full_rank,
    overview,
)
from hta_widgets.export.page_format import (
    Content,
    Names,
    ascii_json,
    packed,
    save_page,
    source_files,
    version_text,
)
from hta_widgets.live.job import TileEngine
from hta_widgets.live.operations import Answer
from hta_widgets.text import number_runs, run_text
from hta_widgets.tiles.lanes import Budget, RankIndex

_LANE_BYTES = 256 << 20
_SCREEN_CELLS = 1024
#: Levels of detail of overviews: cells over the whole range, and whether all lanes are kept.
_LADDER = (
    (4096, True),
    (2048, True),
    (1024, True),
    (512, True),
    (2048, False),
    (1024, False),
    (512, False),
    (256, False),
)
_TIMELINE = ("timeline.js", "state.js", "timeline.css")
_DASHBOARD = ("dashboard.js", "state.js", "dashboard.css")
#: Bytes in addition to code and events: the page's text, names of a small job, tags of blocks.
_WORDS_BYTES = 4000
#: Bytes of one reply: larger messages would delay those behind them.
CHUNK_BYTES = 4_000_000
_MOST_MB = 25
#: Blocks are measured as base64: four characters hold three bytes.
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
    """Write a timeline, or a dashboard of these traits, as one self-contained page."""

    def make(room: float, saved_at: datetime) -> Content:
        files = source_files(engine)
        return embed(engine, scene, state, room - _WORDS_BYTES, saved_at, files, widget=widget)

    if dashboard is None:
        widget, code, more_code = "timeline", _TIMELINE, []
    else:
        widget, code = "dashboard", _DASHBOARD
        more_code = [packed("dashboard", ascii_json(dashboard))]
    return save_page(
        path,
        str(scene.get("title") or widget),
        code,
        [engine],
        make,
        max_mb=max_mb,
        least_mb=0.1,
        remedy="A page without any event takes about as much, one of a dashboard 0.8.",
        more_code=more_code,
    )


class OfflineData:
    """Prepares the data of a saved page in the background, and serves it in chunks.

    `make` returns the content that fits into a number of bytes of text.
    """

    def __init__(
        self,
        make: Callable[[float], Content],
        *,
        max_mb: float = _MOST_MB,
    ) -> None:
        self._make, self._limit_bytes = make, max_mb * 1e6 * _TEXT_PER_BYTE
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._content = b""
        self._said: dict[str, Any] = {"state": "preparing"}

    def chunk(self, number: int | None = None) -> Answer:
        """Return a chunk, or the state of the work without a number; the first call starts it.

        ``state`` is ``preparing``, ``ready`` or ``failed``, with ``message``. When ready, the reply
        has ``bytes``, ``chunks`` and ``blocks``: offset and length of each by name.
        """
        self.start()
        chunks = int(self._said.get("chunks", 0))
        if number is None:
            return dict(self._said), None
        if not 0 <= number < chunks:
            raise ValueError(f"there is no chunk {number}: there are {chunks}")
        start = number * CHUNK_BYTES
        return {"chunk": number}, self._content[start : start + CHUNK_BYTES]

    def start(self) -> threading.Thread:
        """Start the work if it has not started; return its thread."""
        with self._lock:
            if self._thread is None:
                # A daemon does not delay the end of the interpreter.
                self._thread = threading.Thread(
                    target=self._prepare, name="hta-offline-data", daemon=True
                )
                self._thread.start()
            return self._thread

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the work; return whether it is done."""
        thread = self.start()
        thread.join(seconds)
        return not thread.is_alive()

    def _prepare(self) -> None:
        try:
            made = self._make(self._limit_bytes)
            blocks = [packed("document", ascii_json(made.document)), *made.blocks]
            parts = [base64.b64decode(block.text) for block in blocks]
        except Exception as error:  # noqa: BLE001 - the page shows any error
            self._said = {"state": "failed", "message": str(error) or type(error).__name__}
            return
        self._content = b"".join(parts)
        sizes = list(map(len, parts))
        starts = accumulate(sizes, initial=0)
        self._said = {
            "state": "ready",
            "bytes": len(self._content),
            "chunks": -(-len(self._content) // CHUNK_BYTES),
            "blocks": {
                block.name: place for block, *place in zip(blocks, starts, sizes, strict=False)
            },
        }


def embed(
    engine: TileEngine,
    scene: dict[str, Any],
    state: Mapping[str, Any],
    limit_bytes: float,
    saved_at: datetime | None = None,
    files: Sequence[tuple[str, int | None]] = (),
    **more: Any,
) -> Content:
    """Return the part of a job that fits into `limit_bytes`.

    Without `saved_at` it is for an open notebook, which has the state itself.
    """
    made = _Plan(engine, scene, state, limit_bytes).carry_out()
    origin_ns = engine.traces.origin_ns
    about = {
        "version": 3,
        "scene": made.document["scene"],
        "state": {} if saved_at is None else state,
        "saved": {
            "at": "" if saved_at is None else saved_at.isoformat(timespec="seconds"),
            "by": "" if saved_at is None else f"hta_widgets {version_text()}",
            "files": [{"name": name, "bytes": size} for name, size in files],
            "embedded": made.sizes,
        },
        "origin_ns": None if origin_ns is None else str(origin_ns),
        **more,
    }
    return replace(made, document={**about, **made.document})


class _Plan:
    def __init__(
        self,
        engine: TileEngine,
        scene: dict[str, Any],
        state: Mapping[str, Any],
        limit_bytes: float,
    ) -> None:
        self.scene = scene
        self.names = Names()
        budget = Budget(_LANE_BYTES)
        self.indices = {
            rank.rank: RankIndex(rank, budget, lambda: engine.lateness) for rank in engine.job.ranks
        }
        self.collectives = Collectives(
            engine.job, engine.traces, lambda: engine.lateness, self.names
        )
        self.alike = alike(engine)
        self.phases = phase_ranges(engine.traces)
        late = self.collectives.late(*scene["range"])
        self.order = _by_importance(list(self.indices), scene, state, late)
        fixed = _fixed_bytes(self.indices.values(), [scene, self.alike])
        fixed += self.collectives.size_bytes
        self.limit = limit_bytes - fixed

    def carry_out(self) -> Content:
        full = self._full_ranks()
        overviews: dict[int, Part] = {}
        while len(full) < len(self.indices):
            rest = [rank for rank in self.order if rank not in full]
            overviews = self._overviews(rest, self.limit - _size(full.values()), len(full))
            if overviews:
                break
            del full[list(full)[-1]]
        args = self._args(full, self.limit - _size(full.values()) - _size(overviews.values()))
        made = [full.get(rank) or overviews[rank] for rank in self.indices]
        args_blocks = [block for one in args.values() for block in one.blocks]
        scene = _with_coverage(self.scene, list(full), args, overviews)
        return Content(
            document={
                "scene": scene,
                **self.names.document(),
                "ranks": [one.header for one in made],
                "collectives": self.collectives.header,
                "alike": self.alike,
                "phases": {"names": self.phases.names, "labels": self.phases.labels},
            },
            blocks=[
                *self.collectives.blocks,
                *(block for one in made for block in one.blocks),
                *args_blocks,
            ],
            sizes=[
                ("events", _size(full.values())),
                ("overviews", _size(overviews.values())),
                ("collectives", self.collectives.size_bytes),
                ("arguments", _size(args.values())),
            ],
            words=scene["embedded"]["text"],
            document_word="names and lanes",
        )

    def _full_ranks(self) -> dict[int, Part]:
        """Return ranks with all their events, the most important first, while they fit."""
        full: dict[int, Part] = {}
        used = 0
        for rank in self.order:
            made = full_rank(self.indices[rank], self.names, self.phases.of_rank[rank])
            used += made.size_bytes
            if used > self.limit:
                break
            full[rank] = made
        return full

    def _overviews(self, ranks: Sequence[int], room: float, full: int) -> dict[int, Part]:
        """Return the finest overviews that fit next to `full` ranks with all events, or none.

        Overviews with at least the resolution of a screen take precedence over a full rank.
        """
        largest = max(ranks, key=lambda rank: len(self.indices[rank].rank.table))
        made: dict[int, Part] = {}
        for cells, whole in _LADDER:
            if full and not whole and cells < _SCREEN_CELLS:
                return {}
            last = (cells, whole) == _LADDER[-1]
            make = self._overview(cells, whole=whole)
            # The largest rank is tried first, to avoid computing overviews that do not fit.
            if make(largest).size_bytes * len(ranks) > 1.5 * room and not (last and not full):
                continue
            made = {rank: make(rank) for rank in ranks}
            if _size(made.values()) <= room:
                return made
        return {} if full else made

    def _overview(self, cells: int, *, whole: bool) -> Callable[[int], Part]:
        return lambda rank: overview(
            self.indices[rank],
            self.names,
            cells,
            whole=whole,
            exposed_wait=self.collectives.exposed_wait(rank),
        )

    def _args(self, full: dict[int, Part], room: float) -> dict[int, Part]:
        found: dict[int, Part] = {}
        for rank, made in full.items():
            args = embed_args(self.indices[rank].rank, room)
            room -= args.size_bytes
            made.header["args"] = args.header
            found[rank] = args
        return found


def _size(parts: Iterable[Part]) -> int:
    return sum(part.size_bytes for part in parts)


def _fixed_bytes(indices: Iterable[RankIndex], parts: Sequence[Any]) -> int:
    """Return the approximate size of the document without ranks: these parts, and all names."""
    names = {name for index in indices for name in index.rank.table.names.values}
    text = json.dumps(parts) + json.dumps(sorted(names, key=repr))
    return packed("document", text.encode("ascii")).size_bytes


def _by_importance(
    ranks: list[int], scene: dict[str, Any], state: Mapping[str, Any], late: Sequence[int] = ()
) -> list[int]:
    """Return the ranks in order of importance.

    The selected event's, the selection's, pinned ones, those that the others wait for, the steps'
    rank, then all others.
    """
    wanted: list[int] = []
    event, selection = state.get("selected_event"), state.get("selection") or {}
    if event:
        wanted.append(int(event[0]))
    wanted += [int(rank) for rank in selection.get("ranks") or ()]
    wanted += [int(rank) for rank, _ in selection.get("ids") or ()]
    wanted += [int(pin.partition("/")[0]) for pin in state.get("pinned") or () if pin[:1].isdigit()]
    wanted += late
    if scene.get("steps_rank") is not None:
        wanted.append(int(scene["steps_rank"]))
    known = set(ranks)
    return list(dict.fromkeys(rank for rank in (*wanted, *ranks) if rank in known))


def _with_coverage(
    scene: dict[str, Any],
    full: list[int],
    args: dict[int, Part],
    overviews: dict[int, Part],
) -> dict[str, Any]:
    ranks = [_rank_with_coverage(rank, overviews.get(rank["rank"])) for rank in scene["ranks"]]
    with_args = [
        rank for rank, one in args.items() if one.header["state"] in {"embedded", "absent"}
    ]
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


def _rank_with_coverage(rank: dict[str, Any], brief: Part | None) -> dict[str, Any]:
    if brief is None:
        return rank
    # Rows without data would look idle.
    tracks = rank["tracks"] if brief.whole else []
    return {**rank, "tracks": tracks, "overview_level": brief.header["level"]}


def _coverage_text(full: list[int], args: list[int], overviews: dict[int, Part]) -> str:
    if not overviews:
        if len(args) == len(full):
            return "All events."
        return f"All events; arguments of {_listed(args)}." if args else "All events, no arguments."
    if not full:
        return "Overview only: no single events."
    what = "all events" if len(args) == len(full) else "all events, no arguments"
    if args and len(args) < len(full):
        what = f"all events, arguments of {_listed(args)}"
    return f"{_listed(full).capitalize()}: {what}. Others: overview only."


def _listed(ranks: list[int]) -> str:
    """Return ranks as text: ``rank 5``, ``ranks 0-3, 5``."""
    texts = list(map(run_text, number_runs(ranks)))
    if len(texts) > 4:
        texts = [*texts[:3], "…", texts[-1]]
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(texts)}"
