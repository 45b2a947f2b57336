"""The whole of a file, for formats that are read at once."""

from __future__ import annotations

from collections.abc import Callable

from hta_widgets.trace.problems import Problems

from hta_widgets.readers.streams import open_stream

__all__ = ["whole_file"]

_BLOCK = 1 << 20


def whole_file(
    path: str, problems: Problems, advance: Callable[[int], object] | None = None
) -> bytes:
    """Return the decompressed bytes of a file, as far as they can be read.

    Parameters
    ----------
    path : str
    problems : Problems
        What is wrong with the compressed data is added here.
    advance : callable, optional
        Called with the size of each block that was read.
    """
    blocks = []
    with open_stream(path) as stream:
        while block := stream.read(_BLOCK):
            blocks.append(block)
            if advance is not None:
                advance(len(block))
        if stream.fault is not None:
            problems.add(
                "truncated" if stream.fault.cut else "repaired", 1, stream.fault.message, file=path
            )
    return b"".join(blocks)
