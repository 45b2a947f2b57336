"""Names and categories of the whole job, each once; types of events as positions in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.names import short_name
from hta_widgets.trace.table import KINDS
from hta_widgets.trace.table import Pool
from hta_widgets.tiles.rank_index import RankIndex

__all__ = ["TABLES", "Names", "Types"]

TABLES = ("events", "asyncs", "instants")

Ints = npt.NDArray[np.int64]


class Names:
    """Strings that the ranks of a page share."""

    def __init__(self) -> None:
        self.names = Pool()
        self.categories = Pool()

    def document(self) -> dict[str, Any]:
        """Return all strings as the page's document states them."""
        shorts = Pool()
        short_of = [shorts.add(short_name(name)) for name in self.names.values]
        return {
            "names": self.names.values,
            "shorts": shorts.values,
            "short_of": short_of,
            "categories": self.categories.values,
        }


class Types:
    """The distinct (name, category, kind) of a rank's events, asyncs and instants.

    They are ordered as the kernel meets them: by name in the rank's own order, then kind.

    Attributes
    ----------
    listed : list of [int, int, int]
        Positions in `Names`, and the code of the kind.
    codes : dict of str to array
        By table: position in `listed` of each row.
    counts : list of int
        Rows of each type, of all tables.
    """

    def __init__(self, index: RankIndex, names: Names) -> None:
        tables = [index.rows(name) for name in TABLES]
        kinds, categories = len(KINDS), max(len(index.rank.table.categories), 1)
        keys = np.concatenate(
            [
                (one.name.astype(np.int64) * kinds + one.kind) * categories + one.category
                for one in tables
            ]
        )
        found, codes, counts = np.unique(keys, return_inverse=True, return_counts=True)
        own = index.rank.table
        self.listed = [
            [
                names.names.add(own.names[key // categories // kinds]),
                names.categories.add(own.categories[key % categories]),
                key // categories % kinds,
            ]
            for key in found.tolist()
        ]
        self.counts: list[int] = counts.tolist()
        ends = np.cumsum([len(one.name) for one in tables])
        parts = np.split(codes.ravel(), ends[:-1])
        self.codes = dict(zip(TABLES, parts, strict=True))
