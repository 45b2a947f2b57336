r"""Reduces a pickle to plain containers, strings and numbers, as a separate program.

`hta_widgets.readers.pickles` starts this program and sends files on standard input: for each file,
a line with its size and the limits of memory and processor time, then the file. The program imports
nothing from the package. Its answer is a line of JSON and, unless the file is refused, a new pickle
of the value::

    2455 537028432 20\n<2455 bytes>   {"is_cut": false, "size_bytes": 2310}\n<2310 bytes>
    4711 537172816 20\n<4711 bytes>   {"error": "refers to os.system …"}\n

A pickle is a program for a stack machine. Instructions that reach code need a function or class
from `find_class`, which always refuses here. Other instructions can take any amount of memory (a
memo index) or nest values too deeply to traverse, so both are limited.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import struct
import sys
import time
from typing import Any

_CONTAINERS = {dict, list, tuple}
_PLAIN = {*_CONTAINERS, str, int, float, bool, type(None)}
_MAX_DEPTH = 32
_MAX_VALUES = 300_000_000
_MAX_TEXT = 1 << 20
_MAX_INTEGER_BITS = 64
#: Exceptions that Python's unpickler raises at the end of a file.
_ENDS_EARLY = (EOFError, pickle.UnpicklingError, LookupError, ValueError, struct.error)
_CODE = "such a pickle can run code, so it is not read"


class RefusedError(Exception):
    """Raised, with the reason, for a pickle that contains more than plain values."""


class _PlainOnly:
    """Refuses classes, functions and references to objects outside of the file."""

    def find_class(self, module: str, name: str) -> Any:
        raise RefusedError(f"refers to {module[:80]}.{name[:80]}: {_CODE}")

    def persistent_load(self, _pid: object) -> Any:
        raise RefusedError(f"refers to an object outside the file: {_CODE}")


class PlainUnpickler(_PlainOnly, pickle.Unpickler):
    """An unpickler that accepts neither classes nor functions."""


class _SlowUnpickler(_PlainOnly, pickle._Unpickler):  # noqa: SLF001
    """The same unpickler in Python, whose stack is accessible when a file ends early."""

    def partial_value(self) -> Any:
        """Return the outermost value, with as much of its containers as was read."""
        stack: list[Any] = vars(self)["stack"]
        for outer in reversed(vars(self)["metastack"]):
            target = outer[-1] if outer else None
            if type(target) is list:
                target.extend(stack)
            elif type(target) is dict and all(type(key) is str for key in stack[::2]):
                target.update(zip(stack[::2], stack[1::2], strict=False))
            stack = outer
        return stack[0] if stack else None


def read_plain(data: bytes) -> tuple[Any, bool]:
    """Return the value of a pickle, and whether the pickle ends early."""
    try:
        return PlainUnpickler(io.BytesIO(data)).load(), False
    except EOFError:
        pass
    except pickle.UnpicklingError as error:
        if not any(word in str(error) for word in ("truncated", "exhausted", "EOF")):
            raise
    reader = _SlowUnpickler(io.BytesIO(data))
    with contextlib.suppress(*_ENDS_EARLY):
        return reader.load(), False
    return reader.partial_value(), True


def require_plain(value: object) -> None:
    """Raise `RefusedError` if a value has types that are not plain, or is too deep or large.

    Containers are visited once, level by level, because they can be shared or contain themselves.
    """
    level: list[Any] = [[value]]
    seen: set[int] = set()
    count = 0
    for _ in range(_MAX_DEPTH):
        values: list[Any] = []
        for container in level:
            if id(container) in seen:
                continue
            seen.add(id(container))
            if type(container) is dict:
                values += container
            values += container.values() if type(container) is dict else container
        kinds = set(map(type, values))
        for kind in kinds - _PLAIN:
            raise RefusedError(f"holds {kind.__name__}, which no profiler writes")
        count += len(values)
        if count > _MAX_VALUES:
            raise RefusedError(f"holds more than {_MAX_VALUES:,} values")
        if any(len(text) > _MAX_TEXT for text in values if type(text) is str):
            raise RefusedError(f"holds a string of more than {_MAX_TEXT:,} characters")
        if any(number.bit_length() > _MAX_INTEGER_BITS for number in values if type(number) is int):
            raise RefusedError(f"holds an integer of more than {_MAX_INTEGER_BITS} bits")
        level = [container for container in values if type(container) in _CONTAINERS]
        if not level:
            return
    raise RefusedError(f"nests containers more than {_MAX_DEPTH} deep")


def _limit_resources(memory_bytes: int, cpu_s: int) -> None:
    try:
        import resource  # not on Windows
    except ImportError:
        return
    for kind, limit in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, int(time.process_time()) + cpu_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(OSError, ValueError):  # a lower limit is already set
            resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))


def _answer(size_bytes: int) -> tuple[dict[str, Any], bytes]:
    try:
        value, is_cut = read_plain(sys.stdin.buffer.read(size_bytes))
        require_plain(value)
        body = pickle.dumps(value, protocol=4)
        return {"is_cut": is_cut, "size_bytes": len(body)}, body
    except RefusedError as error:
        return {"error": str(error)}, b""
    except MemoryError:
        return {"error": "takes far more memory than a file of its size should"}, b""
    except RecursionError:
        return {"error": f"nests containers more than {_MAX_DEPTH} deep"}, b""
    except Exception as error:  # noqa: BLE001 - damaged data can raise any exception
        return {"error": f"is a damaged pickle ({type(error).__name__}: {error})"[:300]}, b""


def main() -> None:
    """Read pickles from standard input, and write the answers to standard output."""
    while request := sys.stdin.buffer.readline():
        size_bytes, memory_bytes, cpu_s = map(int, request.split())
        _limit_resources(memory_bytes, cpu_s)
        header, body = _answer(size_bytes)
        sys.stdout.buffer.write(json.dumps(header).encode() + b"\n" + body)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
