"""The files' own records, compressed in blocks, so that each can be had by itself."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hta_widgets.trace.numbered_records import NumberedRecords
from hta_widgets.trace.table import Ints
from hta_widgets.trace.table import RecordSource

from hta_widgets.store.arrow_file import Column
from hta_widgets.store.arrow_file import Damaged
from hta_widgets.store.arrow_file import Texts
from hta_widgets.store.comm_columns import comm_args

if TYPE_CHECKING:
    from hta_widgets.store.rank_file import StoredRank

__all__ = ["StoredRecords", "pack_records"]

#: Large enough to compress well, small enough that one record's args come at once.
_BLOCK_BYTES = 1 << 18
_LEVEL = 3
_BLOCKS_KEPT = 8


def pack_records(source: RecordSource, events: Ints) -> dict[str, Column]:
    """Return the columns that hold a source's records.

    Parameters
    ----------
    source : RecordSource
    events : int64 array
        Records of events, of which some formats have args as columns.
    """
    codec = pa.Codec("zstd", compression_level=_LEVEL)
    packed = Texts()
    first: list[int] = [0]
    raw: list[int] = []
    checks: list[int] = []
    texts: list[bytes] = []
    held = 0

    def flush() -> None:
        nonlocal held
        lengths = np.array([len(text) for text in texts], np.uint32)
        block = b"".join((lengths.tobytes(), *texts))
        small = memoryview(codec.compress(block))
        packed.add(small)
        raw.append(len(block))
        checks.append(zlib.crc32(small))
        first.append(first[-1] + len(texts))
        texts.clear()
        held = 0

    for number, text in source.records(np.arange(len(source), dtype=np.int64)):
        texts.extend([b""] * (number - first[-1] - len(texts)))
        texts.append(text)
        held += len(text)
        if held >= _BLOCK_BYTES:
            flush()
    texts.extend([b""] * (len(source) - first[-1] - len(texts)))
    if texts:
        flush()
    return {
        "records.block": packed,
        "records.end": np.array(packed.offsets, np.int64),
        "records.first": np.array(first, np.int64),
        "records.raw_bytes": np.array(raw, np.int64),
        "records.checksum": np.array(checks, np.uint32),
        **_arg_columns(source, events),
    }


#: Args that MPI time lines have as columns.
_NUMBERS = ("bytes", "root")


def _arg_columns(source: RecordSource, events: Ints) -> dict[str, Column]:
    columns = getattr(source, "arg_columns", None)
    if columns is None or not len(events):
        return {}
    values = columns(np.arange(int(events.max()) + 1), _NUMBERS)
    if values is None:
        return {}
    return {
        f"args.{key}": np.array([-1 if v is None else v for v in values[key]], np.int64)
        for key in _NUMBERS
    }


class StoredRecords(NumberedRecords):
    """Gives back a file's own records from a store.

    Parameters
    ----------
    rank : StoredRank
    count : int
        How many there are.
    path : str
        The file that they come from, as it was called.
    """

    def __init__(self, rank: StoredRank, count: int, path: str) -> None:
        self.path = path
        self._rank, self._count = rank, count
        self._blocks: OrderedDict[int, tuple[bytes, list[int]]] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    @property
    def metadata_text(self) -> dict[str, bytes] | None:
        """The file's top-level keys, as JSON."""
        texts = self._rank.json("metadata_text")
        if texts is None:
            return None
        return {key: text.encode("latin-1") for key, text in texts.items()}

    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        firsts = self._rank.numbers("records.first")
        numbers = np.searchsorted(firsts, wanted, side="right") - 1
        for number in np.unique(numbers).tolist():
            text, ends = self._block(number)
            first = int(firsts[number])
            for index in wanted[numbers == number].tolist():
                place = index - first
                yield index, text[ends[place] : ends[place + 1]]

    def arg_columns(self, records: Ints, keys: Sequence[str]) -> dict[str, list[Any]] | None:
        """Return some args of some events, in the order asked for, where they are columns."""
        known = comm_args(self._rank, records, keys)
        if known is not None:
            return known
        if not set(keys) <= set(_NUMBERS) or not self._rank.has("args.bytes"):
            return None
        columns = {key: self._rank.numbers(f"args.{key}") for key in keys}
        if len(records) and any(records.max() >= len(column) for column in columns.values()):
            return None
        return {
            key: [None if value == -1 else value for value in column[records].tolist()]
            for key, column in columns.items()
        }

    def let_go(self) -> None:
        """Forget the blocks that were unpacked."""
        self._blocks = OrderedDict()

    def _block(self, number: int) -> tuple[bytes, list[int]]:
        known = self._blocks.get(number)
        if known is None:
            known = self._rank.checked(lambda: self._unpacked(number))
            self._blocks[number] = known
            while len(self._blocks) > _BLOCKS_KEPT:
                self._blocks.popitem(last=False)
        return known

    def _unpacked(self, number: int) -> tuple[bytes, list[int]]:
        rank = self._rank
        ends, firsts = rank.numbers("records.end"), rank.numbers("records.first")
        small = rank.file.piece("records.block", int(ends[number]), int(ends[number + 1]))
        if zlib.crc32(small) != int(rank.numbers("records.checksum")[number]):
            raise Damaged(f"was changed: the checksum of its records' block {number} differs")
        size = int(rank.numbers("records.raw_bytes")[number])
        block = pa.Codec("zstd").decompress(small, size, asbytes=True)
        count = int(firsts[number + 1] - firsts[number])
        lengths: npt.NDArray[Any] = np.frombuffer(block, np.uint32, count)
        starts = 4 * count + np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        return block, starts.tolist()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_blocks": OrderedDict()}
