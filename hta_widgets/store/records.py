"""Store the records of a rank as compressed blocks, and some of their args as columns."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hta_widgets.store.checks import DamagedFileError
from hta_widgets.store.files import Column, TextColumn
from hta_widgets.store.rank_file import StoredRank
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Array, Ints
from hta_widgets.trace.columns import (
    COMMUNICATION_KEYS,
    PARAM_COMMS,
    ArgTable,
    RecordSource,
    arg_table,
    event_args,
    to_int64,
)
from hta_widgets.trace.memo import LRU
from hta_widgets.trace.trace import Trace

#: Uncompressed size of a block: large enough to compress well, small enough for fast access.
_BLOCK_BYTES = 1 << 18
_COMPRESSION_LEVEL = 3
_MAX_CACHED_BLOCKS = 8


def comm_arg_columns(trace: Trace) -> dict[str, Column]:
    """Return the args of communication events as columns."""
    table = trace._table  # noqa: SLF001 - not reclassified by later rules
    communicates = (table.kind == KINDS.index("communication")) & (table.stream >= 0)
    if PARAM_COMMS in table.names.values:
        communicates |= table.name == table.names.values.index(PARAM_COMMS)
    rows = np.flatnonzero(communicates)
    # Events with two records combine the args of both, which are read from the records instead.
    if len(table.end_record):
        rows = rows[~np.isin(rows, np.fromiter(table.end_record, np.int64))]
    records, first = np.unique(table.record[rows], return_index=True)
    values = event_args(trace, rows[first], COMMUNICATION_KEYS)
    joined = (
        b"\0".join(json.dumps(value).encode() for value in row)
        for row in zip(*values.values(), strict=True)
    )
    args_table = arg_table(records.tolist(), joined)
    if args_table is None:
        return {}
    texts = TextColumn()
    for text in args_table.texts:
        texts.add(text)
    return {
        "comm.record": args_table.record,
        "comm.values": texts,
        **{f"comm.{key}": args_table.code[:, k] for k, key in enumerate(COMMUNICATION_KEYS)},
    }


def stored_comm_args(rank: StoredRank) -> ArgTable | None:
    """Return the args stored by `comm_arg_columns`, or None."""
    if not rank.has("comm.record") or not len(record := rank.numbers("comm.record")):
        return None
    codes = [rank.numbers(f"comm.{key}") for key in COMMUNICATION_KEYS]
    try:
        texts = rank.file.texts("comm.values")
        return ArgTable(record, np.stack(codes, axis=1), texts).validate(rank.size("records"))
    except ValueError as cause:
        raise DamagedFileError(f"was changed: {cause}") from None


def pack_records(source: RecordSource, event_records: Ints) -> dict[str, Column]:
    """Return the records of a source as columns of compressed blocks, plus its arg columns.

    Each block consists of the lengths of its records, followed by their texts.
    """
    codec = pa.Codec("zstd", compression_level=_COMPRESSION_LEVEL)
    packed = TextColumn()
    first = [0]
    raw_bytes: list[int] = []
    checksums: list[int] = []
    for texts in _iter_blocks(source):
        lengths = np.array([len(text) for text in texts], np.uint32)
        block = b"".join((lengths.tobytes(), *texts))
        packed_block = memoryview(codec.compress(block))
        packed.add(packed_block)
        raw_bytes.append(len(block))
        checksums.append(zlib.crc32(packed_block))
        first.append(first[-1] + len(texts))
    return {
        "records.block": packed,
        "records.end": np.array(packed.offsets, np.int64),
        "records.first": np.array(first, np.int64),
        "records.raw_bytes": np.array(raw_bytes, np.int64),
        "records.checksum": np.array(checksums, np.uint32),
        **_arg_columns(source, event_records),
    }


def _iter_blocks(source: RecordSource) -> Iterator[list[bytes]]:
    """Yield the texts of all records in blocks. The text of an unreadable record is empty."""
    first, size_bytes, texts = 0, 0, list[bytes]()  # `first`: number of the block's first record
    for number, text in source.records(np.arange(len(source), dtype=np.int64)):
        texts += [b""] * (number - first - len(texts))  # records that `source` skipped
        texts.append(text)
        size_bytes += len(text)
        if size_bytes >= _BLOCK_BYTES:
            yield texts
            first, size_bytes, texts = first + len(texts), 0, []
    texts += [b""] * (len(source) - first - len(texts))
    if texts:
        yield texts


#: Args that traces of MPI jobs provide as columns.
_MPI_ARGS = ("bytes", "root")


def _arg_columns(source: RecordSource, records: Ints) -> dict[str, Column]:
    """Return columns of `_MPI_ARGS` up to the highest of `records`, if the source has them."""
    read_columns = getattr(source, "arg_columns", None)
    if read_columns is None or not len(records):
        return {}
    args = read_columns(np.arange(int(records.max()) + 1), _MPI_ARGS)
    if args is None:
        return {}
    return {f"args.{key}": to_int64(args[key]) for key in _MPI_ARGS}


class StoredRecords(RecordSource):
    """The records of a trace file, read from a store."""

    def __init__(self, rank: StoredRank, count: int, path: str) -> None:
        self.path = path
        self._rank, self._count = rank, count
        self._blocks: LRU[int, tuple[bytes, list[int]]] = LRU(_MAX_CACHED_BLOCKS)

    def __len__(self) -> int:
        return self._count

    @property
    def metadata_text(self) -> dict[str, bytes] | None:
        """The top-level keys of the file, as JSON."""
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
            for record in wanted[numbers == number].tolist():
                start, end = ends[record - first : record - first + 2]
                if end > start:  # empty if the record was unreadable
                    yield record, text[start:end]

    @property
    def comm_args(self) -> ArgTable | None:
        """The stored args of communication events, or None."""
        args: ArgTable | None = self._rank.get_or_compute(
            "comm", lambda: stored_comm_args(self._rank)
        )
        return args

    def arg_columns(self, records: Ints, keys: Sequence[str]) -> dict[str, list[Any]] | None:
        """Return the args `keys` of `records`, or None if they are not stored as columns."""
        if not set(keys) <= set(_MPI_ARGS) or not self._rank.has("args.bytes"):
            return None
        columns = {key: self._rank.numbers(f"args.{key}") for key in keys}
        if len(records) and any(records.max() >= len(column) for column in columns.values()):
            return None
        return {
            key: [None if value == -1 else value for value in column[records].tolist()]
            for key, column in columns.items()
        }

    def release(self) -> None:
        """Release the decompressed blocks."""
        self._blocks.clear()

    def _block(self, number: int) -> tuple[bytes, list[int]]:
        return self._blocks.get_or_compute(
            number, lambda: self._rank.read_checked(lambda: self._unpack_block(number))
        )

    def _unpack_block(self, number: int) -> tuple[bytes, list[int]]:
        """Return a decompressed block and the offsets of its records, with the end of the block."""
        rank = self._rank
        ends, firsts = rank.numbers("records.end"), rank.numbers("records.first")
        packed = rank.file.slice_bytes("records.block", int(ends[number]), int(ends[number + 1]))
        if zlib.crc32(packed) != int(rank.numbers("records.checksum")[number]):
            raise DamagedFileError(
                f"was changed: the checksum of record block {number} does not match"
            )
        size = int(rank.numbers("records.raw_bytes")[number])
        block = pa.Codec("zstd").decompress(packed, size, asbytes=True)
        count = int(firsts[number + 1] - firsts[number])
        lengths: Array = np.frombuffer(block, np.uint32, count)
        starts = 4 * count + np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        if int(starts[-1]) != len(block):
            raise DamagedFileError(f"was changed: record block {number} has the wrong length")
        return block, starts.tolist()
