"""Ranges and marks of NVTX: their domains, PyTorch's operators, and payloads.

``torch.autograd.profiler.emit_nvtx`` pushes a range per operator, whose name differs at each call::

    aten::mm, seq = 12, op_id = 4711, sizes = [[8, 8], [8, 8]]

Such a range is an operator called ``aten::mm``; the rest are its args. Ranges of libraries'
domains, such as NCCL's, are calls on the host. All other ranges are annotations of the program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_widgets.formats.nsight.tables import (
    ASYNC_BEGIN,
    ID_BITS,
    ID_MASK,
    MARK,
    RANGE,
    EventBlock,
    Texts,
    category_code,
    event_block,
    process_of,
    texts_by_id,
)
from hta_widgets.readers.sqlite import NO_TIME, Database
from hta_widgets.trace.arrays import Bools, Ints, positions_in

NVTX_TABLE = "NVTX_EVENTS"
_EVENT_TYPES = {RANGE: (59, 70), MARK: (34, 65), ASYNC_BEGIN: (60, 71)}
_DOMAIN_CREATION = 75
#: Domains of libraries; those without a recorded name have a number other than 0.
_LIBRARY = re.compile(
    r"nccl|rccl|nvshmem|cu(blas|dnn|fft|sparse|solver|rand|tensor|file|cim)\w*|cccl|cub|thrust"
    r"|tensorrt|nvjpeg|dali|ucx|openacc|(?P<unnamed>domain) \d+",
    re.IGNORECASE,
)
_OPERATOR = re.compile(r", (seq = -?\d|op_id = \d|sizes = \[)")
_OPERATOR_ARGS = {
    "Sequence number": re.compile(r", seq = (-?\d{1,18})"),
    "op id": re.compile(r", op_id = (\d{1,18})"),
    "Input Dims": re.compile(r", sizes = (\[.*?\])(?:, input_op_ids = |$)", re.DOTALL),
}
_STEP_RANGE = "ProfilerStep#"


def short_range_name(text: str) -> str:
    """Return a range's name without what PyTorch appends to the names of operators."""
    match = _OPERATOR.search(text)
    return text if match is None else text[: match.start()]


def domain_names(database: Database) -> dict[tuple[int, int], str]:
    """Return the names of domains by process and number."""
    if "eventType" not in database.columns_of(NVTX_TABLE):
        return {}
    rows = database.rows(
        NVTX_TABLE, ("globalTid", "domainId", "text"), where=f"eventType = {_DOMAIN_CREATION}"
    )
    return {
        (thread >> ID_BITS, number): text
        for thread, number, text in rows
        if isinstance(thread, int) and isinstance(number, int) and isinstance(text, str)
    }


def read_ranges(
    database: Database,
    texts: Texts,
    names: Mapping[tuple[int, int], str],
    rowids: Ints | None = None,
) -> tuple[EventBlock, list[str]]:
    """Read ranges, then marks, then asynchronous ranges, each in order of rows; or some rows.

    Also return the names of domains by code; `names` are those that processes registered.
    """
    columns = database.integers(
        NVTX_TABLE,
        ("start", "end", "eventType", "textId", "globalTid", "domainId"),
        rowids=rowids,
        missing=NO_TIME,
    )
    kind = np.full(len(columns["rowid"]), -1, np.int64)
    for kind_of_types, types in _EVENT_TYPES.items():
        kind[np.isin(columns["eventType"], types)] = kind_of_types
    order = np.argsort(kind, kind="stable")[(kind < 0).sum() :]
    columns = {name: values[order] for name, values in columns.items()}
    code, is_operator = _name_codes(database, texts, columns, rowids)
    process = process_of(columns["globalTid"])
    number = np.maximum(columns["domainId"], 0)
    domain, domains = _domain_codes(process, number, names)
    of_library = np.array([_LIBRARY.fullmatch(text) is not None for text in domains], bool)[domain]
    is_call = (is_operator | of_library) & ~np.isin(
        code, [k for k, text in enumerate(texts.pool.values) if text.startswith(_STEP_RANGE)]
    )
    block = event_block(
        columns["start"],
        kind=kind[order],
        rowid=columns["rowid"],
        end_ns=columns["end"],
        name=code,
        category=np.where(
            is_call, category_code("cpu_op"), category_code("user_annotation")
        ).astype(np.int32),
        process=process,
        thread=columns["globalTid"] & ID_MASK,
        domain=domain,
    )
    return block, domains


def _name_codes(
    database: Database, texts: Texts, columns: dict[str, Ints], rowids: Ints | None
) -> tuple[Ints, Bools]:
    """Return the codes of ranges' names, and which of them are PyTorch's operators."""
    has_id = columns["textId"] != NO_TIME
    is_operator_id: set[int] = set()

    def shorten(text: str) -> str:
        name = short_range_name(text)
        if name is not text:
            is_operator_id.add(texts.pool.add(name))
        return name

    unnamed = texts.pool.add("")
    code = np.full(len(has_id), unnamed, np.int64)
    code[has_id] = texts.codes(columns["textId"][has_id], shorten)
    is_operator = np.isin(code, list(is_operator_id)) & has_id
    if "text" not in database.columns_of(NVTX_TABLE):
        return code, is_operator
    inline = [
        (number, text)
        for number, text in database.rows(
            NVTX_TABLE, ("rowid", "text"), rowids=rowids, where='"text" is not null'
        )
        if isinstance(text, str)
    ]
    add = texts.pool.add
    numbers = np.array([number for number, _ in inline], np.int64)
    short = [short_range_name(text) for _, text in inline]
    codes = np.array([add(name) for name in short], np.int64)
    changed = np.array(
        [name is not text for name, (_, text) in zip(short, inline, strict=True)], bool
    )
    positions = positions_in(numbers, columns["rowid"])
    has_text = positions >= 0
    code[has_text], is_operator[has_text] = codes[positions[has_text]], changed[positions[has_text]]
    return code, is_operator


def _domain_codes(
    process: Ints, number: Ints, names: Mapping[tuple[int, int], str]
) -> tuple[Ints, list[str]]:
    pairs, places = np.unique(np.stack([process, number]), axis=1, return_inverse=True)
    domains = [
        names.get((of_process, of_number), f"domain {of_number}" if of_number else "")
        for of_process, of_number in pairs.T.tolist()
    ]
    return places.reshape(-1).astype(np.int32), domains


def args_of_ranges(
    database: Database, ranges: EventBlock, domains: list[str]
) -> list[dict[str, Any]]:
    """Return the args of ranges: of operators, the domain, and the fields of payloads."""
    rows = database.rows(NVTX_TABLE, ("rowid", "text", "textId"), rowids=ranges.rowid)
    by_id = texts_by_id(database, (number for _, _, number in rows if isinstance(number, int)))
    texts = {row: text if isinstance(text, str) else by_id.get(key) for row, text, key in rows}
    payloads = payloads_of(database, ranges.rowid)
    args = []
    for number, domain in zip(ranges.rowid.tolist(), ranges.domain.tolist(), strict=True):
        of_row = _operator_args(texts.get(number) or "")
        if domains[domain]:
            of_row["NVTX domain"] = domains[domain]
        args.append({**of_row, **payloads.get(number, {})})
    return args


def _operator_args(text: str) -> dict[str, Any]:
    args: dict[str, Any] = {}
    for key, pattern in _OPERATOR_ARGS.items():
        match = pattern.search(text)
        if match is not None:
            try:
                args[key] = json.loads(match[1])
            except (ValueError, RecursionError):
                args[key] = match[1]
    return args


@dataclass(frozen=True, slots=True)
class _PayloadField:
    name: str
    offset: int
    size_bytes: int
    is_signed: bool


#: Sizes of integers by the type of an entry in a payload, and whether they are signed.
_INTEGERS = {
    1: (1, True), 2: (1, False), 3: (2, True), 4: (2, False), 5: (4, True), 6: (4, False),
    7: (8, True), 8: (8, False), 9: (8, True), 10: (8, False), 11: (1, True), 12: (1, False),
    13: (2, True), 14: (2, False), 15: (4, True), 16: (4, False), 17: (8, True), 18: (8, False),
    22: (8, False),
}  # fmt: skip
_PAYLOAD_HEADER_BYTES = 32
_FIRST_NESTED_TYPE = 1 << 24


def payloads_of(database: Database, rowids: Ints | None = None) -> dict[int, dict[str, int]]:
    """Return the fields of payloads by row id."""
    if "binaryData" not in database.columns_of(NVTX_TABLE):
        return {}
    schemas = _payload_schemas(database)
    rows = database.rows(
        NVTX_TABLE, ("rowid", "binaryData"), rowids=rowids, where='"binaryData" is not null'
    )
    payloads = {number: _decode_payload(blob, schemas) for number, blob in rows}
    return {number: payload for number, payload in payloads.items() if payload}


def _payload_schemas(database: Database) -> dict[tuple[int, int], list[_PayloadField]]:
    """Return the fields of payloads by domain and schema; each process repeats them."""
    entries: dict[tuple[int, int], dict[int, _PayloadField]] = {}
    columns = ("domainId", "schemaId", "idx", "name", "type", "offset")
    for domain, schema, place, name, kind, offset in database.rows(
        "NVTX_PAYLOAD_SCHEMA_ENTRIES", columns
    ):
        if not all(isinstance(value, int) for value in (domain, schema, place, kind)):
            continue
        size, is_signed = _INTEGERS.get(kind, (4 if kind >= _FIRST_NESTED_TYPE else 0, False))
        start = offset if isinstance(offset, int) else 0
        if size and isinstance(name, str) and start >= 0:
            field_ = _PayloadField(name, start, size, is_signed)
            entries.setdefault((domain, schema), {})[place] = field_
    return {key: list(fields.values()) for key, fields in entries.items()}


def _decode_payload(
    blob: object, schemas: Mapping[tuple[int, int], list[_PayloadField]]
) -> dict[str, int]:
    """Return the fields of a payload, a blob or its digits in hexadecimal; none if it is none.

    Four integers precede the payload: its domain, schema, size and offset.
    """
    try:
        raw = bytes.fromhex(blob) if isinstance(blob, str) else blob
    except ValueError:
        return {}
    if not isinstance(raw, bytes):
        return {}
    header = [int.from_bytes(raw[start : start + 8], "little") for start in range(0, 32, 8)]
    domain, schema, size, offset = header
    body = raw[offset : offset + size]
    if offset < _PAYLOAD_HEADER_BYTES or len(body) != size:
        return {}
    return {
        entry.name: int.from_bytes(
            body[entry.offset : entry.offset + entry.size_bytes], "little", signed=entry.is_signed
        )
        for entry in schemas.get((domain, schema), ())
        if entry.offset + entry.size_bytes <= size
    }
