"""Short names of slices, each sent once per answer under a key that stays the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.names import short_name
from hta_widgets.trace.table import Pool

__all__ = ["NameKeys"]


class NameKeys:
    """Gives every short name of the job a number."""

    def __init__(self) -> None:
        self._keys: dict[str, int] = {}
        self._texts: list[str] = []
        #: By pool: key of each code, -1 where it was not needed yet.
        self._of_pool: dict[int, tuple[Pool, npt.NDArray[np.int64]]] = {}

    def keys(self, pool: Pool, codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the keys of names that a rank knows by its own codes."""
        known = self._of_pool.get(id(pool))
        if known is None or len(known[1]) < len(pool):
            known = (pool, np.full(len(pool), -1, np.int64))
            self._of_pool[id(pool)] = known
        table = known[1]
        found: npt.NDArray[np.int64] = table[codes]
        if (found < 0).any():
            for code in np.unique(codes[found < 0]).tolist():
                table[code] = self._key(short_name(pool[code]))
            found = table[codes]
        return found

    def _key(self, text: str) -> int:
        key = self._keys.setdefault(text, len(self._texts))
        if key == len(self._texts):
            self._texts.append(text)
        return key

    def texts(self, keys: npt.NDArray[np.int64]) -> dict[str, str]:
        """Return the short names of some keys, as they travel."""
        return {str(key): self._texts[key] for key in np.unique(keys).tolist()}
