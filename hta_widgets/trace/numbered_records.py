"""Records by their number: whoever asks for one, or for many at once, gets them in file order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from hta_widgets.trace.table import Ints

__all__ = ["NumberedRecords"]


class NumberedRecords(ABC):
    """What sources of records have in common; see `RecordSource`."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of records."""

    def record(self, index: int) -> bytes:
        """Return the JSON object of one record; verbatim, or repaired where it is not JSON."""
        return next(self.records(np.array([index], np.int64)))[1]

    def records(self, indices: Ints) -> Iterator[tuple[int, bytes]]:
        """Yield ``(index, JSON object)`` of the records asked for, in file order."""
        wanted = np.unique(np.asarray(indices, np.int64))
        if not len(wanted):
            return
        if wanted[0] < 0 or wanted[-1] >= len(self):
            raise IndexError(f"records go from 0 to {len(self) - 1}: {wanted[[0, -1]].tolist()}")
        yield from self._ascending(wanted)

    @abstractmethod
    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        """Yield the records of these numbers, which are there, each once and ascending."""
