"""What communication says of itself, as columns: matching a thousand ranks asks for all of it."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.event_args import COMMUNICATION_KEYS
from hta_widgets.trace.event_args import record_args
from hta_widgets.trace.table import KINDS
from hta_widgets.trace.table import EventTable
from hta_widgets.trace.table import Ints
from hta_widgets.trace.table import RecordSource

from hta_widgets.store.arrow_file import Column
from hta_widgets.store.arrow_file import Texts

if TYPE_CHECKING:
    from hta_widgets.store.rank_file import StoredRank

__all__ = ["CommArgs", "comm_args"]

#: The operator that states the args of kernels that have none of their own.
_OPERATOR = "record_param_comms"


class CommArgs:
    """Passes on the records of a source, and keeps some args of those that communicate.

    Parameters
    ----------
    source : RecordSource
    table : EventTable
    """

    def __init__(self, source: RecordSource, table: EventTable) -> None:
        self.path = source.path
        self._source = source
        communicates = (table.kind == KINDS.index("communication")) & (table.stream >= 0)
        if _OPERATOR in table.names.values:
            communicates |= table.name == table.names.values.index(_OPERATOR)
        rows = np.flatnonzero(communicates)
        # Those of two records have the args of both, which are left to be read as they are.
        if len(table.end_record):
            rows = rows[~np.isin(rows, np.fromiter(table.end_record, np.int64))]
        self._records = np.unique(table.record[rows])
        self._wanted = frozenset(self._records.tolist())
        self._read = record_args(COMMUNICATION_KEYS)
        self._codes: dict[int, list[int]] = {}
        self._values: dict[Hashable, int] = {}
        self._texts = Texts()

    def __len__(self) -> int:
        return len(self._source)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._source, name)

    def record(self, index: int) -> bytes:
        """Return the JSON object of one record."""
        return self._source.record(index)

    def records(self, indices: Ints) -> Iterator[tuple[int, bytes]]:
        """Yield ``(index, JSON object)``, and keep what is to be kept."""
        for number, text in self._source.records(indices):
            if number in self._wanted:
                self._codes[number] = [self._code(value) for value in self._read(text)]
            yield number, text

    def _code(self, value: Any) -> int:
        text = json.dumps(value)
        known = self._values.get(text)
        if known is None:
            known = self._values[text] = len(self._values)
            self._texts.add(text.encode())
        return known

    def columns(self) -> dict[str, Column]:
        """Return the columns, once all records were passed on."""
        if not len(self._records) or len(self._codes) != len(self._records):
            return {}
        codes = np.array([self._codes[number] for number in self._records.tolist()], np.int32)
        return {
            "comm.record": self._records,
            "comm.values": self._texts,
            **{f"comm.{key}": codes[:, k] for k, key in enumerate(COMMUNICATION_KEYS)},
        }


def comm_args(
    rank: StoredRank, records: npt.NDArray[np.int64], keys: Sequence[str]
) -> dict[str, list[Any]] | None:
    """Return some args of some records, in the order asked for, where they are columns."""
    if not set(keys) <= set(COMMUNICATION_KEYS) or not rank.has("comm.record"):
        return None
    known = rank.numbers("comm.record")
    if any(not rank.has(f"comm.{key}") for key in keys) or not len(known):
        return None
    at = np.minimum(np.searchsorted(known, records), len(known) - 1)
    if not np.array_equal(known[at], records):
        return None
    values = rank.made("comm.decoded", lambda: _decoded(rank))
    return {
        key: [values[code] for code in rank.numbers(f"comm.{key}")[at].tolist()] for key in keys
    }


def _decoded(rank: StoredRank) -> list[Any]:
    values: list[Any] = json.loads(b"[" + b",".join(rank.file.texts("comm.values")) + b"]")
    return values
