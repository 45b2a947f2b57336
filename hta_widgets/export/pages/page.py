"""Save a timeline or a dashboard as one page, or prepare the same data for an open page."""

from __future__ import annotations

import base64
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import accumulate
from typing import Any

from hta_widgets.export.pages.budget import PagePlan
from hta_widgets.export.pages.format import (
    PageContent,
    ascii_json,
    pack_block,
    save_page,
    source_files,
    version_text,
)
from hta_widgets.live.job import TileEngine
from hta_widgets.live.operations import Answer

_TIMELINE = ("timeline.js", "state.js", "widgets.css")
_DASHBOARD = ("dashboard.js", "state.js", "widgets.css")
#: Bytes in addition to code and events: the page's text, names of a small job, tags of blocks.
_FRAME_BYTES = 4000
#: Bytes of one reply; larger messages would delay the next ones.
CHUNK_BYTES = 4_000_000
_MAX_MB = 25
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

    def make(limit_bytes: float, saved_at: datetime) -> PageContent:
        limit_bytes -= _FRAME_BYTES
        files = source_files(engine)
        return embed(engine, scene, state, limit_bytes, saved_at, files, widget=widget)

    if dashboard is None:
        widget, code, more_code = "timeline", _TIMELINE, []
    else:
        widget, code = "dashboard", _DASHBOARD
        more_code = [pack_block("dashboard", ascii_json(dashboard))]
    return save_page(
        path,
        str(scene.get("title") or widget),
        code,
        [engine],
        make,
        max_mb=max_mb,
        min_mb=0.1,
        remedy="A page without any event takes about as much, one of a dashboard 0.8.",
        more_code=more_code,
    )


class OfflineData:
    """Prepares the data of a saved page in the background, and returns it in chunks.

    `make` returns the content that fits into a number of bytes of text.
    """

    def __init__(self, make: Callable[[float], PageContent], *, max_mb: float = _MAX_MB) -> None:
        self._make, self._limit_bytes = make, max_mb * 1e6 * _TEXT_PER_BYTE
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._content = b""
        self._status: dict[str, Any] = {"state": "preparing"}

    def chunk(self, number: int | None = None) -> Answer:
        """Return a chunk, or the state of the work without a number; the first call starts it.

        ``state`` is ``preparing``, ``ready``, or ``failed``, then with a ``message``. When ready,
        the reply has ``bytes``, ``chunks`` and ``blocks``: offset and length of each by name.
        """
        self.start()
        chunks = int(self._status.get("chunks", 0))
        if number is None:
            return dict(self._status), None
        if not 0 <= number < chunks:
            raise ValueError(f"unknown chunk {number}: the page has {chunks} chunks")
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
            content = self._make(self._limit_bytes)
            blocks = [pack_block("document", ascii_json(content.document)), *content.blocks]
            parts = [base64.b64decode(block.text) for block in blocks]
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
    """Return the part of a job that fits into `limit_bytes`.

    Without `saved_at` the part is for the page of an open notebook, which keeps the state.
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
