"""What a page keeps of a job while its kernel lives, so that it needs none when that is gone."""

from __future__ import annotations

import base64
import json
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from hta_widgets.export.blocks import Block
from hta_widgets.export.blocks import packed
from hta_widgets.export.plan import embed
from hta_widgets.live.tile_engine import TileEngine
from hta_widgets.tiles.tile_op import Answer

__all__ = ["CHUNK_BYTES", "TEXT_PER_BYTE", "OfflineData", "joined"]

#: Bytes of one answer: larger messages hold up those behind them.
CHUNK_BYTES = 4_000_000
_MOST_MB = 25
#: Blocks are measured as the text of a saved page, of which every four bytes carry three.
TEXT_PER_BYTE = 4 / 3


class OfflineData:
    """Prepares the data of a saved page in the background, and hands it out in chunks.

    Parameters
    ----------
    engine : TileEngine
        Of the job.
    scene : dict
        What the views show.
    state : mapping, optional
        What they share: ranks that are selected come first, where not all fit.
    max_mb : float, default 25
        What the page may be given, in units of 1 000 000 bytes.

    Examples
    --------
    >>> offline = OfflineData(engine, engine.scene())
    >>> offline.answer({"op": "offline"})[0]["state"]  # doctest: +SKIP
    'preparing'
    """

    def __init__(
        self,
        engine: TileEngine,
        scene: dict[str, Any],
        state: Mapping[str, Any] | None = None,
        *,
        max_mb: float = _MOST_MB,
    ) -> None:
        self._engine, self._scene, self._state = engine, scene, dict(state or {})
        self._limit_bytes = max_mb * 1e6
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._content = b""
        self._blocks: dict[str, tuple[int, int]] = {}
        self._said: dict[str, Any] = {"state": "preparing"}

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """Answer one request for ``offline``.

        Parameters
        ----------
        request : mapping
            With ``chunk``, the number of a chunk from 0 on; without it, how things stand. The
            first one starts the work.

        Returns
        -------
        reply : dict
            ``state``: ``preparing``, ``ready`` or ``failed``, with ``message`` saying why. When
            ready, ``bytes`` and ``chunks``, and ``blocks``: offset and length of each by name.
        buffer : bytes or None
            The chunk.

        Raises
        ------
        ValueError
            If there is no such chunk, or none yet.
        """
        self.start()
        chunk = request.get("chunk")
        if chunk is None:
            return dict(self._said), None
        number, chunks = int(chunk), int(self._said.get("chunks", 0))
        if not 0 <= number < chunks:
            raise ValueError(f"there is no chunk {number}: there are {chunks}")
        start = number * CHUNK_BYTES
        return {"chunk": number}, self._content[start : start + CHUNK_BYTES]

    def start(self) -> threading.Thread:
        """Begin with the work, unless it has begun; return the thread that does it."""
        with self._lock:
            if self._thread is None:
                # A daemon: nobody waits for it where the interpreter ends.
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
            self._content, self._blocks = self._made()
        except Exception as error:  # noqa: BLE001 - whatever it is, the page must hear of it
            self._said = {"state": "failed", "message": str(error) or type(error).__name__}
            return
        self._said = {
            "state": "ready",
            "bytes": len(self._content),
            "chunks": -(-len(self._content) // CHUNK_BYTES),
            "blocks": {name: list(place) for name, place in self._blocks.items()},
        }

    def _made(self) -> tuple[bytes, dict[str, tuple[int, int]]]:
        limit_bytes = self._limit_bytes * TEXT_PER_BYTE
        embedded = embed(self._engine, self._scene, self._state, limit_bytes)
        origin_ns = self._engine.traces.origin_ns
        document = {
            "version": 1,
            "scene": embedded.scene,
            "state": {},
            "saved": {"at": "", "by": "", "files": [], "embedded": embedded.sizes},
            "origin_ns": None if origin_ns is None else str(origin_ns),
            **embedded.document,
        }
        return joined(document, embedded.blocks)


def joined(
    document: Mapping[str, Any], blocks: Sequence[Block]
) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """Return a document and blocks behind each other, and where each of them is, by name."""
    text = json.dumps(_finite(document), separators=(",", ":"), allow_nan=False)
    parts: list[bytes] = []
    places: dict[str, tuple[int, int]] = {}
    size = 0
    for block in (packed("document", text.encode("ascii")), *blocks):
        content = base64.b64decode(block.text)
        places[block.name] = (size, len(content))
        parts.append(content)
        size += len(content)
    return b"".join(parts), places


def _finite(value: Any) -> Any:
    """Return JSON values with null for the numbers that JSON cannot write."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple) and value and not isinstance(value[0], str):
        return [_finite(one) for one in value]
    return value
