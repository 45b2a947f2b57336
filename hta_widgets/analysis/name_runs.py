"""Sequences of names, such as the kernels of one operator, and which of them are the same."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Runs"]

Ints = npt.NDArray[np.int64]


class Runs:
    """Sequences of codes, one behind the other, told apart by their content.

    Parameters
    ----------
    codes : array of int
        All sequences.
    lengths : array of int
        How long each is.

    Attributes
    ----------
    kind : array of int64
        For each sequence a number that equal ones share: 0, 1, … in order of occurrence.
    """

    def __init__(self, codes: npt.NDArray[np.signedinteger], lengths: Ints) -> None:
        text = np.ascontiguousarray(codes, dtype=np.int32).tobytes()
        ends = (np.cumsum(lengths) * 4).tolist()
        known: dict[bytes, int] = {}
        kinds, begin = [], 0
        # One lookup a sequence; the bytes of a sequence are its key.
        for end in ends:
            kinds.append(known.setdefault(text[begin:end], len(known)))
            begin = end
        self.kind: Ints = np.array(kinds, dtype=np.int64)
        self._contents = list(known)

    def __len__(self) -> int:
        """Return how many different sequences there are."""
        return len(self._contents)

    def codes(self, kind: int) -> list[int]:
        """Return the codes of a sequence."""
        codes: list[int] = np.frombuffer(self._contents[kind], dtype=np.int32).tolist()
        return codes
