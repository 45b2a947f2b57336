"""Arguments of a rank's events, as the file has them, in blocks that are unpacked one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from hta_widgets.export.blocks import Block
from hta_widgets.export.blocks import ColumnWriter
from hta_widgets.export.blocks import packed
from hta_widgets.tiles.layout import Rank
from hta_widgets.trace.trace import Trace
from hta_widgets.tiles.args_text import args_of_record

__all__ = ["ArgsOfRank", "embed_args"]

_BLOCK_BYTES = 256 << 10
#: So many records tell what the rest will need.
_SAMPLE = 4000

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class ArgsOfRank:
    """What became of a rank's arguments.

    Parameters
    ----------
    state : str
        ``embedded``; ``absent``: the file has none; ``left out``: they did not fit;
        ``unreadable``: see `reason`.
    """

    state: str
    reason: str = ""
    blocks: list[Block] = field(default_factory=list)
    columns: dict[str, list[int]] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """What they add to the page."""
        return sum(block.size_bytes for block in self.blocks)

    def header(self) -> dict[str, Any]:
        """Return what the page's document says of them."""
        return {
            "state": self.state,
            "reason": self.reason,
            "blocks": max(len(self.blocks) - 1, 0),
            "columns": self.columns,
        }


def embed_args(rank: Rank, limit_bytes: float) -> ArgsOfRank:
    """Return a rank's arguments, all of them or, if they need more than `limit_bytes`, none."""
    trace = rank.trace
    if trace.source is None:
        return ArgsOfRank("absent")
    records, places = _records(rank)
    if not len(records):
        return ArgsOfRank("absent")
    try:
        if _estimate(trace, records) > 2 * limit_bytes:
            return ArgsOfRank("left out")
        return _written(rank, records, places, limit_bytes)
    except (OSError, ValueError, LookupError, RecursionError) as error:
        return ArgsOfRank("unreadable", str(error) or type(error).__name__)


def _records(rank: Rank) -> tuple[Ints, Ints]:
    """Return the records that have something to say, and whose rows they are.

    Rows of asyncs count on from the last event, those of instants from the last async.
    """
    table, asyncs, instants = rank.table, rank.trace.async_table, rank.trace.instant_table
    ends = np.array([*table.end_record.items()], np.int64).reshape(-1, 2)
    side = len(table) + np.arange(len(asyncs) + len(instants))
    records = np.concatenate([table.record, ends[:, 1], asyncs.record, instants.record])
    places = np.concatenate([np.arange(len(table)), ends[:, 0], side])
    known = records >= 0
    order = np.argsort(records[known], kind="stable")
    return records[known][order].astype(np.int64), places[known][order].astype(np.int64)


def _texts(trace: Trace, records: Ints) -> Iterator[tuple[int, bytes]]:
    """Yield position in `records` and text of the args, of records that have some."""
    if trace.source is None:
        return
    wanted, first, times = np.unique(records, return_index=True, return_counts=True)
    repeated = set(first[times > 1].tolist())
    for at, (_, record) in zip(first.tolist(), trace.source.records(wanted), strict=True):
        text = _args_of(record)
        if not text:
            continue
        yield at, text
        if at in repeated:
            yield from ((at + k, text) for k in range(1, int(times[first == at][0])))


def _args_of(record: bytes) -> bytes:
    """Return the text of a record's args; nothing where it has none."""
    if b'"args"' not in record:
        return b""
    try:
        text = bytes(_decode(record).args)
    except msgspec.DecodeError:
        # Not strict JSON, but nothing of it is to be lost: text that says the same.
        pairs = args_of_record(record)
        inner = ",".join(f"{_quoted(key)}:{_quoted(text)}" for key, text in pairs)
        return f"{{{inner}}}".encode("ascii") if pairs else b""
    return b"" if text in (b"null", b"{}") else text


class _Record(msgspec.Struct, gc=False):
    args: msgspec.Raw = msgspec.Raw(b"")


_decode = msgspec.json.Decoder(_Record).decode


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def _estimate(trace: Trace, records: Ints) -> float:
    sample = records[:_SAMPLE]
    text = b"".join(text for _, text in _texts(trace, sample))
    return packed("", text).size_bytes * len(records) / len(sample)


def _written(rank: Rank, records: Ints, places: Ints, limit_bytes: float) -> ArgsOfRank:
    trace = rank.trace
    made = ArgsOfRank("embedded")
    rows: list[int] = []
    sizes: list[int] = []
    counts: list[int] = []
    waiting: list[bytes] = []
    bytes_waiting = used = 0

    def close() -> None:
        nonlocal used, bytes_waiting
        block = packed(f"args-{trace.rank}-{len(counts)}", b"".join(waiting))
        made.blocks.append(block)
        used += block.size_bytes
        counts.append(len(waiting))
        waiting.clear()
        bytes_waiting = 0

    place_of = places.tolist()
    for at, text in _texts(trace, records):
        rows.append(place_of[at])
        sizes.append(len(text))
        waiting.append(text)
        bytes_waiting += len(text)
        if bytes_waiting >= _BLOCK_BYTES:
            close()
            if used > limit_bytes:
                return ArgsOfRank("left out")
    if waiting:
        close()
    if not counts:
        return ArgsOfRank("absent")
    writer = ColumnWriter()
    writer.ints("row", rows, delta=True)
    writer.ints("size", sizes)
    writer.ints("block", counts)
    # Of a pair, what was said at the beginning comes first, wherever it stands in the file.
    table = rank.table
    swapped = [row for row, end in table.end_record.items() if end < table.record[row]]
    writer.ints("swapped", sorted(swapped), delta=True)
    made.blocks.append(writer.block(f"args-{trace.rank}-0-directory"))
    made.columns = writer.specs
    return made if made.size_bytes <= limit_bytes else ArgsOfRank("left out")
