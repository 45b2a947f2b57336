"""Arguments of operator calls, encoded as a dictionary of their distinct combinations.

A job calls the same few operators with the same few shapes very often. Readers therefore encode the
arguments while they decode a file. For example, 96 layers that call ``aten::addmm`` with the same
shapes in 5 steps yield 480 codes and one JSON text. If a source has no dictionary, its records are
read instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from hta_widgets.text import plural
from hta_widgets.trace.arrays import Ints, Rows, positions_in
from hta_widgets.trace.columns import RecordedEvents, event_arg_texts, parse_json
from hta_widgets.trace.trace import Trace

#: Keys of a call's shapes, types, strides and values. Files of 2021 have another key for shapes.
CALL_KEYS: Final = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
OLD_DIMS: Final = "Input dims"
#: Numbers that link operators with autograd nodes.
NODE_KEYS: Final = ("Sequence number", "Fwd thread id")
#: How a kernel was launched: its geometry, and its occupancy as computed by the profiler.
LAUNCH_KEYS: Final = (
    "grid", "block", "registers per thread", "shared memory", "blocks per SM",
    "est. achieved occupancy %", "occupancy",
)  # fmt: skip
_MAX_SHAPES: Final = 3

Texts = tuple[bytes, ...]


@dataclass(frozen=True, eq=False)
class CallArgs:
    """Arguments of calls; `texts[code]` has the JSON of `CALL_KEYS`, empty if missing.

    `sequence` and `thread` are the values of `NODE_KEYS`, -1 if missing. `record` has the record of
    each call, in ascending order in the dictionary of a file.
    """

    record: Ints
    code: npt.NDArray[np.signedinteger]
    texts: list[Texts]
    sequence: Ints
    thread: Ints

    def to_columns(self) -> dict[str, Ints]:
        """Return all columns to store except `texts`."""
        return {
            "call_record": self.record,
            "call_code": self.code.astype(np.int64),
            "call_sequence": self.sequence,
            "call_thread": self.thread,
        }

    @classmethod
    def of_columns(
        cls, column: Callable[[str], Any], texts: Sequence[Sequence[str]], records: int
    ) -> CallArgs:
        """Return the arguments from columns of `to_columns`, for a file of `records` records.

        Raises `ValueError` if they do not fit the file.
        """
        args = cls(
            column("call_record"),
            column("call_code"),
            [tuple(text.encode("latin-1") for text in row) for row in texts],
            column("call_sequence"),
            column("call_thread"),
        )
        lengths = {len(values) for values in (args.record, args.code, args.sequence, args.thread)}
        in_order = (np.diff(args.record, prepend=-1, append=records) > 0).all()
        in_range = args.code.min(initial=0) >= 0 and args.code.max(initial=-1) < len(texts)
        widths = {len(row) for row in texts}
        if not (len(lengths) == 1 and in_order and in_range and widths <= {len(CALL_KEYS)}):
            raise ValueError("the operator arguments do not match their records")
        return args


@dataclass(frozen=True, eq=False)
class LaunchArgs:
    """Kernel launches; `texts[code]` has the JSON of `LAUNCH_KEYS`, empty if missing.

    `record` has the record of each kernel, in ascending order in the dictionary of a file.
    """

    record: Ints
    code: npt.NDArray[np.signedinteger]
    texts: list[Texts]

    def validate(self, records: int) -> LaunchArgs:
        """Return the launches; raise `ValueError` if they do not fit `records` records."""
        in_order = (np.diff(self.record, prepend=-1, append=records) > 0).all()
        in_range = ((self.code >= 0) & (self.code < len(self.texts))).all()
        is_whole = all(len(text) == len(LAUNCH_KEYS) for text in self.texts)
        if not (in_order and in_range and is_whole and len(self.record) == len(self.code)):
            raise ValueError("the kernel launches do not match their records")
        return self


_AnyArgs = TypeVar("_AnyArgs", CallArgs, LaunchArgs)


def non_negative_integers(texts: Iterable[Any]) -> Ints:
    """Return non-negative integers of up to 18 digits; -1 for other texts."""
    return np.array(
        [int(text) if text.isdigit() and len(text) <= 18 else -1 for text in map(bytes, texts)],
        np.int64,
    )


def call_args(trace: RecordedEvents, rows: Rows) -> CallArgs:
    """Return the arguments of the given events."""
    record = trace.table.record[rows].astype(np.int64)
    args: CallArgs | None = getattr(trace.source, "call_args", None)
    # Events with two records have the args of both.
    if args is None or not len(args.record) or trace.table.end_record:
        return _read_call_args(trace, rows, record)
    position = positions_in(args.record, record)  # -1 selects the appended entry
    code = np.append(args.code, len(args.texts))[position]
    texts = [*args.texts, (b"",) * len(CALL_KEYS)]
    sequence, thread = (np.append(values, -1)[position] for values in (args.sequence, args.thread))
    return _merge_texts(CallArgs(record, code, texts, sequence, thread))


def _read_call_args(trace: RecordedEvents, rows: Rows, record: Ints) -> CallArgs:
    arg_texts = event_arg_texts(trace, rows, (*CALL_KEYS, OLD_DIMS, *NODE_KEYS))
    codes: dict[Texts, int] = {}
    code = [
        codes.setdefault((dims or old_dims, *others), len(codes))
        for dims, *others, old_dims, _sequence, _thread in arg_texts
    ]
    sequence, thread = (
        non_negative_integers([texts[column] for texts in arg_texts]) for column in (-2, -1)
    )
    return _merge_texts(CallArgs(record, np.array(code, np.int32), list(codes), sequence, thread))


def _merge_texts(args: _AnyArgs) -> _AnyArgs:
    """Return `args` without unused texts, and with one code for all JSON texts of equal value."""
    used_codes, position = np.unique(args.code, return_inverse=True)
    codes: dict[Texts, int] = {}
    new_codes = [
        codes.setdefault(_plain_texts(args.texts[code]), len(codes)) for code in used_codes.tolist()
    ]
    return replace(args, code=np.array(new_codes, np.int32)[position], texts=list(codes))


@lru_cache(maxsize=1 << 14)
def _plain_texts(texts: Texts) -> Texts:
    return tuple(map(plain_text, texts))


def plain_text(text: bytes) -> bytes:
    r"""Return a JSON list on one line, as written by Kineto; other tools indent or quote it.

    Examples
    --------
    >>> plain_text(b"[\n  6,\n  8\n]")
    b'[6, 8]'
    """
    if value := decode_arg(text):
        return json.dumps(value, ensure_ascii=False).encode()
    return b"[]" if text.split() == [b"[", b"]"] else text


def decode_arg(text: bytes) -> list[Any]:
    r"""Return the list in a call's argument, or an empty list if it is missing.

    Examples
    --------
    >>> decode_arg(b'"[[6, 8], [10]]"')
    [[6, 8], [10]]
    >>> decode_arg(rb'"6,8;\r\n10;\r\n"')
    [[6, 8], [10], []]
    """
    if not text:
        return []
    value = parse_json(text)
    if isinstance(value, str) and value:  # Ascend's converter writes lists as strings
        value = parse_json(value) if value.startswith("[") else _split_arguments(value)
    return value if isinstance(value, list) else []


def short_shapes(text: str) -> str:
    """Abbreviate input shapes: ``2048×1024 · 1024×4096``.

    Vectors next to matrices, and shapes equal to the previous shape, are omitted.
    """
    shapes = [dims for dims in decode_arg(text.encode()) if isinstance(dims, list) and dims]
    if any(isinstance(size, list) for dims in shapes for size in dims):
        return plural(len(shapes[0]), "tensor")
    matrices = [dims for dims in shapes if len(dims) > 1]
    texts = ["×".join(map(str, dims)) for dims in matrices or shapes]
    distinct = [text for before, text in pairwise(["", *texts]) if text != before]
    return " · ".join(distinct[:_MAX_SHAPES])


def _split_arguments(text: str) -> list[Any]:
    arguments = [argument.strip() for argument in text.split(";")]
    shapes = [[size for size in argument.split(",") if size] for argument in arguments]
    if all(size.isdecimal() for shape in shapes for size in shape):
        return [[int(size) for size in shape] for shape in shapes]
    return arguments


def launch_args(trace: Trace, rows: Rows) -> LaunchArgs:
    """Return how kernels were launched; for kernels without a grid, the args of their calls.

    On AMD devices, grid, block and shared memory are args of the launching call.
    """
    record = trace.table.record[rows].astype(np.int64)
    stored: LaunchArgs | None = getattr(trace.source, "launch_args", None)
    position = np.full(len(rows), -1)
    if stored is not None and not trace.table.end_record:
        position = positions_in(stored.record, record)
    missing = np.flatnonzero(position < 0)
    texts = event_arg_texts(trace, rows[missing], LAUNCH_KEYS)
    calls = trace.launch_of[rows[missing]]
    lacks_grid = np.array([not grid for grid, *_ in texts], bool)
    from_call = np.flatnonzero((calls >= 0) & lacks_grid)
    call_texts = event_arg_texts(trace, calls[from_call], LAUNCH_KEYS)
    for place, texts_of_call in zip(from_call.tolist(), call_texts, strict=True):
        pairs = zip(texts_of_call, texts[place], strict=True)
        texts[place] = tuple(call_text or kernel_text for call_text, kernel_text in pairs)
    codes = {text: number for number, text in enumerate(stored.texts if stored else ())}
    # Missing kernels get the appended -1, which the next line replaces.
    code = np.append(stored.code if stored else [], -1).astype(np.int64)[position]
    code[missing] = [codes.setdefault(text, len(codes)) for text in texts]
    return _merge_texts(LaunchArgs(record, code, list(codes)))
