"""The columns of tiles in as few bytes as they need, every value as it is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.spans import Ints
from hta_widgets.tiles.cells import CELLS
from hta_widgets.tiles.cells import NO_KIND

__all__ = ["compacted"]

Columns = Mapping[str, tuple[str, npt.ArrayLike]]

NO_KIND_NIBBLE = 15

#: Whole numbers that are mostly small, and the types that they may travel as, narrowest first.
_NARROW = {
    "count": ("u8",),
    "slice_id": ("u16",),
    "slice_name": ("u8", "u16"),
    "slice_dur": ("u16", "u32"),
}
_MOST = {"u8": 0xFF, "u16": 0xFFFF, "u32": 0xFFFF_FFFF}


def compacted(columns: Columns, level: int) -> dict[str, tuple[str, npt.ArrayLike]]:
    """Return the columns of ``tiles`` as a page gets them that asks for them ``compact``.

    Parameters
    ----------
    columns : mapping of str to (str, array)
        As `pack` takes them.
    level : int
        Of the tiles.

    Returns
    -------
    dict
        ``kinds`` instead of ``kind``, two cells in a byte; no ``mask``; ``slice_offset`` instead of
        ``slice_start`` where 32 bits hold the distance from the tile's start; no ``slice_flags``
        where all are 0; and narrower types where the values allow it.
    """
    made: dict[str, tuple[str, npt.ArrayLike]] = {}
    for name, (dtype, values) in columns.items():
        array = np.asarray(values)
        if name == "kind":
            made["kinds"] = "u8", _nibbles(array)
        elif name == "slice_start":
            offset = _offsets(columns, level)
            made |= {name: (dtype, array)} if offset is None else {"slice_offset": ("i32", offset)}
        elif name != "mask" and not (name == "slice_flags" and not array.any()):
            made[name] = _narrowest(name, dtype, array), array
    return made


def _nibbles(kind: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Two cells in a byte, the first one in the lower half; 15 stands for no kind."""
    codes = np.where(kind.ravel() == NO_KIND, NO_KIND_NIBBLE, kind.ravel()).astype(np.uint8)
    halves: npt.NDArray[np.uint8] = codes[0::2] | (codes[1::2] << np.uint8(4))
    return halves


def _offsets(columns: Columns, level: int) -> Ints | None:
    """Return how far each slice starts from the start of its tile; None where it is too far."""
    first = np.asarray(columns["slice_first"][1]).astype(np.int64)
    index = np.asarray(columns["tile_index"][1]).astype(np.int64)
    start = np.asarray(columns["slice_start"][1]).astype(np.int64)
    offset: Ints = start - np.repeat(index * CELLS << level, np.diff(first))
    limits = np.iinfo(np.int32)
    fits = not len(offset) or (offset.min() >= limits.min and offset.max() <= limits.max)
    return offset if fits else None


def _narrowest(name: str, dtype: str, values: npt.NDArray[np.generic]) -> str:
    most = int(values.max()) if name in _NARROW and values.size else 0
    return next((one for one in _NARROW.get(name, ()) if most <= _MOST[one]), dtype)
