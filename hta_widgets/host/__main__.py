"""Serve a view over a pipe (docs/protocol-hosts.md): ``python -m hta_widgets.host PATH…``.

An editor starts one process per view and ends it by closing the pipe.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from hta_widgets import options as settings
from hta_widgets.host.opening import VIEWS, Downloads
from hta_widgets.host.session import MAX_BYTES, Session, WireError, unpack

_PAGE = "editor"
_HEAD = struct.Struct("<I")


def main() -> None:
    """Serve a view over standard input and output."""
    parser = argparse.ArgumentParser(prog="python -m hta_widgets.host")
    parser.add_argument("--view", choices=VIEWS, default="dashboard")
    parser.add_argument("paths", metavar="PATH", nargs="+")
    arguments = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        serve(arguments.paths, arguments.view)


def serve(paths: Sequence[str], view: str = "dashboard") -> None:
    """Serve the page that is connected to standard input and output, until the input ends."""
    source, target = _take_over_stdio()
    downloads = Downloads()
    settings.export_dir = downloads.written

    def offer(path: Path) -> tuple[str, str] | None:
        kept = downloads.keep(path)
        return None if kept is None else (kept[1].name, str(kept[1]))

    def send(frame: bytes) -> None:
        # When the output is closed, so is the input, which ends the host.
        with contextlib.suppress(OSError):
            target.write(_HEAD.pack(len(frame)))
            target.write(frame)
            target.flush()

    hello = {"request": {"view": view, "paths": list(paths)}}
    session = Session({path: path for path in paths}.get, hello, offer=offer)
    session.join(_PAGE, send)
    threading.Thread(target=_read_frames, args=[source, session], daemon=True).start()
    session.run()


def _take_over_stdio() -> tuple[BinaryIO, BinaryIO]:
    """Take over standard input and output; redirect output of libraries and children to stderr."""
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(source, "rb"), os.fdopen(target, "wb")


def _read_frames(source: BinaryIO, session: Session) -> None:
    try:
        while len(head := source.read(_HEAD.size)) == _HEAD.size:
            (size,) = _HEAD.unpack(head)
            if size > MAX_BYTES:
                break
            session.enqueue(_PAGE, *unpack(source.read(size)))
    except WireError:
        pass
    session.end()


if __name__ == "__main__":
    main()
