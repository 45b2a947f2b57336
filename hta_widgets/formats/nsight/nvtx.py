"""Ranges and marks of NVTX: their domains, PyTorch's operators, and payloads.

``torch.autograd.profiler.emit_nvtx`` pushes a range per operator. The range's name differs at each
call::

    aten::mm, seq = 12, op_id = 4711, sizes = [[8, 8], [8, 8]]

This range is the operator ``aten::mm``, and the rest of the name becomes args. Ranges in the domain
of a library, such as NCCL, are host calls. All other ranges are annotations of the program.
"""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.formats.event_rows import EventRows, distinct_rows, parse_json_object, select_rows
from hta_widgets.formats.nsight.tables import (
    ID_MASK,
    Columns,
    process_of,
    processes_of,
    text_codes,
    texts_by_id,
)
from hta_widgets.readers.sqlite import NO_TIME, Database
from hta_widgets.trace.arrays import Bools, Ints, positions_in
from hta_widgets.trace.columns import StringPool, parse_json

NVTX_TABLE = "NVTX_EVENTS"
#: Event types for each phase: ranges that nest, marks, and ranges that need not nest.
_EVENT_TYPES = {"X": (59, 70), "i": (34, 65), "b": (60, 71)}
_DOMAIN_CREATION = 75
#: Types of rows that are not events: categories, domains, names of devices and threads, resources.
_NO_EVENTS = (33, 75, 76, 97, 98, 99)
#: Domains of libraries. Domains without a recorded name have a number other than 0.
LIBRARY = re.compile(
    r"nccl|rccl|nvshmem|cu(blas|dnn|fft|sparse|solver|rand|tensor|file|cim)\w*|cccl|cub|thrust"
    r"|tensorrt|nvjpeg|dali|ucx|openacc|domain \d+",
    re.IGNORECASE,
)
_OPERATOR = re.compile(r", (seq = -?\d|op_id = \d|sizes = \[)")
_OPERATOR_ARGS = {
    "Sequence number": re.compile(r", seq = (-?\d{1,18})"),
    "op id": re.compile(r", op_id = (\d{1,18})"),
    "Input Dims": re.compile(r", sizes = (\[.*?\])(?:, input_op_ids = |$)", re.DOTALL),
}


@dataclass(slots=True)
class NvtxRanges:
    """The ranges and marks of an export."""

    #: columns of events: ``phase`` is the code of a letter, ``end_ns`` is `NO_TIME` if a range
    #: never ends, and ``domain`` and ``payload`` are indices in `domains` and `payloads`
    columns: Columns
    #: names of domains; the program's own domain is ""
    domains: list[str]
    #: payloads, each with its fields by name; the first one is empty
    payloads: list[dict[str, int]] = field(default_factory=lambda: [{}])

    def select(self, rows: Bools | Ints) -> NvtxRanges:
        """Return some of the ranges, selected by mask or index."""
        return NvtxRanges(select_rows(self.columns, rows), self.domains, self.payloads)


def read_ranges(database: Database, rows: EventRows) -> NvtxRanges:
    """Read ranges and marks."""
    columns = _read_events(database, rows)
    process, phase = processes_of(columns["globalTid"]), columns["phase"]
    domains, domain = _read_domains(database, process, columns["domainId"])
    payloads, payload = _read_payloads(database, columns["rowid"])
    texts, text = _read_texts(database, columns)
    operators = [_operator(each) for each in texts.values]

    def args_of(text_code: int, domain_code: int, payload_code: int) -> dict[str, Any]:
        domain_name = domains[domain_code]
        domain_args = {"NVTX domain": domain_name} if domain_name else {}
        return operators[text_code][1] | domain_args | payloads[payload_code]

    range_names = [name for name, _ in operators]
    is_operator = np.array(range_names) != np.array(texts.values)
    is_step = np.array([name.startswith("ProfilerStep#") for name in range_names])
    is_library = np.array([LIBRARY.fullmatch(name) is not None for name in domains], bool)
    is_call = (is_operator[text] | is_library[domain]) & ~is_step[text]
    annotation, call = rows.category_codes(("user_annotation", "cpu_op"))
    is_mark = phase == ord("i")
    return NvtxRanges(
        {
            "start_ns": columns["start"],
            "end_ns": np.where(is_mark, columns["start"], columns["end"]),
            "phase": phase,
            "name": rows.name_codes(range_names)[text],
            "category": np.where(is_call, call, annotation),
            "process": process,
            "device": np.full(len(process), -1),
            "thread": columns["globalTid"] & ID_MASK,
            "args": rows.args_by_row(args_of, text, domain, payload),
            "domain": domain,
            "payload": payload,
        },
        domains,
        payloads,
    )


def _read_events(database: Database, rows: EventRows) -> Columns:
    """Return the rows that are ranges or marks, with the letter of their phase."""
    columns = database.integers(
        NVTX_TABLE, "start end eventType textId globalTid domainId", missing=NO_TIME
    )
    phase = np.zeros(len(columns["rowid"]), np.int64)
    for letter, types in _EVENT_TYPES.items():
        phase[np.isin(columns["eventType"], types)] = ord(letter)
    is_other = (phase == 0) & ~np.isin(columns["eventType"], _NO_EVENTS)
    rows.note("skipped", is_other, f"rows of {NVTX_TABLE} of other types")
    return select_rows(columns | {"phase": phase}, phase > 0)


def _read_domains(database: Database, process: Ints, domain_id: Ints) -> tuple[list[str], Ints]:
    columns, where = "eventType globalTid domainId text", f"eventType = {_DOMAIN_CREATION}"
    stated = database.rows(NVTX_TABLE, columns, where=where, kinds=(int, int, int, str))
    name_of: dict[tuple[int, ...], str] = {
        (process_of(thread), number): text for _, thread, number, text in stated
    }
    pairs, domain = distinct_rows(process, np.maximum(domain_id, 0))
    names = [name_of.get(pair, f"domain {pair[1]}" if pair[1] else "") for pair in pairs]
    return names, domain


def _read_texts(database: Database, columns: Columns) -> tuple[StringPool, Ints]:
    """Return the ranges' texts and each range's code. A text in the row takes precedence."""
    pool = StringPool(("range without a name",))
    code = np.zeros(len(columns["rowid"]), np.int64)
    has_id = columns["textId"] != NO_TIME
    code[has_id] = text_codes(database, pool, columns["textId"][has_id])
    where = "typeof(\"text\") = 'text' and \"text\" <> ''"
    rows = database.rows(NVTX_TABLE, "text rowid", where=where, kinds=(str,))
    inline = np.array([pool.add(text) for text, _ in rows], np.int64)
    positions = positions_in(np.array([row for _, row in rows], np.int64), columns["rowid"])
    code[positions >= 0] = inline[positions[positions >= 0]]
    return pool, code


def _operator(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a range, and the args that PyTorch appends to operator names."""
    match = _OPERATOR.search(text)
    if match is None:
        return text, {}
    args: dict[str, Any] = {}
    for key, pattern in _OPERATOR_ARGS.items():
        value = pattern.search(text, match.start())
        if value is not None:
            decoded = parse_json(value[1])
            args[key] = value[1] if decoded is None else decoded
    return text[: match.start()], args


#: `struct` code for each type of payload entry. Enumerations have larger type numbers.
_INTEGERS = {n: code for first in (1, 11) for n, code in enumerate("bBhHiIqQ", first)}
_INTEGERS |= {9: "q", 10: "Q", 22: "Q"}
#: Fields for each domain and schema: name, offset and code.
_Schemas = dict[tuple[int, int], list[tuple[str, int, str]]]
_PAYLOAD_HEADER_BYTES = 32
#: Columns with payloads: a blob, JSON, or the id of a JSON string.
_PAYLOADS = "binaryData jsonText jsonTextId"
_FIRST_NESTED_TYPE = 1 << 24


def _read_payloads(database: Database, rowids: Ints) -> tuple[list[dict[str, int]], Ints]:
    """Return the distinct payloads of ranges, and the index of each row's payload."""
    payloads: list[dict[str, int]] = [{}]
    present = [name for name in _PAYLOADS.split() if name in database.columns_of(NVTX_TABLE)]
    if not present:
        return payloads, np.zeros(len(rowids), np.int64)
    schemas = _payload_schemas(database)
    has_payload = " or ".join(f'"{name}" is not null' for name in present)
    rows = database.rows(NVTX_TABLE, f"rowid {_PAYLOADS}", where=f"({has_payload})")
    texts = texts_by_id(database, [json_id for *_, json_id in rows if isinstance(json_id, int)])
    number, contents = pd.factorize(np.fromiter((row[1:] for row in rows), object, len(rows)))
    for blob, json_text, json_id in contents:
        fields = _decode_payload(blob, schemas)
        payloads.append(fields or _decode_json_payload(json_text or texts.get(json_id)))
    positions = positions_in(np.array([rowid for rowid, *_ in rows], np.int64), rowids)
    # Ranges without a payload have position -1, which selects the appended 0.
    return payloads, np.append(number + 1, 0)[positions]


def _decode_json_payload(text: object) -> dict[str, int]:
    """Return the integer fields of a JSON payload, including quoted integers."""
    pairs = parse_json_object(text).items()
    return {name: int(value) for name, value in pairs if re.fullmatch(r"-?\d{1,20}", str(value))}


def _payload_schemas(database: Database) -> _Schemas:
    """Return payload fields, keyed by domain and schema, which every process repeats."""
    entries: dict[tuple[int, int], dict[int, tuple[str, int, str]]] = {}
    columns, kinds = "domainId schemaId idx type name offset", (int, int, int, int, str)
    rows = database.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES", columns, kinds=kinds)
    for domain, schema, index, type_, name, offset in rows:
        code = _INTEGERS.get(type_, "I" if type_ >= _FIRST_NESTED_TYPE else "")
        start = offset if isinstance(offset, int) else 0
        if code and start >= 0:
            entries.setdefault((domain, schema), {})[index] = name, start, code
    return {key: list(fields.values()) for key, fields in entries.items()}


def _decode_payload(blob: object, schemas: _Schemas) -> dict[str, int]:
    """Return the fields of a payload (blob or hexadecimal text); {} if it is damaged.

    Four integers precede the payload: its domain, its schema, its size, and either the position of
    its first byte or the size of the blob. Domain and schema use 32 bits. The bits above are flags.
    """
    fields = {}
    with suppress(ValueError, TypeError, struct.error):
        raw = bytes.fromhex(blob) if isinstance(blob, str) else blob
        domain, schema, size, first_byte = struct.unpack_from("<I4xI4xQQ", raw)  # type: ignore[arg-type]
        if first_byte == len(raw):  # type: ignore[arg-type]
            first_byte = _PAYLOAD_HEADER_BYTES
        body = raw[first_byte : first_byte + size]  # type: ignore[index]
        if first_byte < _PAYLOAD_HEADER_BYTES or len(body) != size:
            return {}
        for name, start, code in schemas.get((domain, schema), ()):
            if start + struct.calcsize(code) <= size:
                (fields[name],) = struct.unpack_from(f"<{code}", body, start)
    return fields
