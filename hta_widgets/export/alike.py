"""Which ranks look alike, as a page needs it to fold them."""

from __future__ import annotations

from typing import Any

from hta_widgets.live.tile_engine import TileEngine

__all__ = ["alike"]

#: Of fewer ranks nothing is folded.
_LEAST_RANKS = 3


def alike(engine: TileEngine) -> dict[str, Any] | None:
    """Return the answer to ``clusters``.

    Parameters
    ----------
    engine : TileEngine
        Of the job.

    Returns
    -------
    dict or None
        None where there is nothing to fold, or where it cannot be found out any more.
    """
    if len(engine.traces) < _LEAST_RANKS:
        return None
    try:
        return engine.answer({"op": "clusters"})[0]
    except (OSError, ValueError, LookupError):
        # Arguments are read from the files, which may be gone by now.
        return None
