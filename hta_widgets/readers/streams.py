"""The decompressed bytes of a file, front to back, and how to come back to a place in them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Self

from hta_widgets.errors import TraceError

try:  # the extra `fast`
    from zlib_ng import zlib_ng as zlib
except ImportError:
    import zlib

__all__ = [
    "GZIP_MAGIC",
    "Checkpoints",
    "Fault",
    "Stream",
    "decompressed_size",
    "open_file",
    "open_stream",
]

GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 31  # zlib's window size for a gzip header and trailer
_INPUT_BYTES = 1 << 16
_MOST_CHECKPOINTS = 64


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the bytes of a compressed file end before they should, or cannot be trusted."""

    cut: bool
    message: str


@dataclass(slots=True)
class _Checkpoint:
    offset: int  # in the decompressed bytes
    input_offset: int  # in the file
    inflate: Any


@dataclass(slots=True)
class Checkpoints:
    """States of a decompressor at a few places, evenly spread, so that seeking is cheap."""

    spacing: int = 1 << 20
    kept: list[_Checkpoint] = field(default_factory=list)

    def before(self, offset: int) -> _Checkpoint | None:
        """Return the last one at or before `offset`."""
        return max(
            (point for point in self.kept if point.offset <= offset),
            key=lambda point: point.offset,
            default=None,
        )

    def offer(self, offset: int, input_offset: int, inflate: Any) -> None:
        """Keep a copy of a state if it is far enough from the last one."""
        if self.kept and offset < self.kept[-1].offset + self.spacing:
            return
        self.kept.append(_Checkpoint(offset, input_offset, inflate.copy()))
        if len(self.kept) > _MOST_CHECKPOINTS:
            self.kept = self.kept[::2]
            self.spacing *= 2


def open_file(path: str | Path) -> BinaryIO:
    """Open a file for reading, or say plainly why not."""
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        remedy = "Check the path."
        if Path(path).name == "demo-job":
            remedy = f"The command `hta-widgets demo {path}` writes one."
        raise TraceError("does not exist", path=path, remedy=remedy) from None
    except PermissionError:
        raise TraceError(
            "may not be read by this user", path=path, remedy="Check its permissions."
        ) from None
    except OSError as cause:
        raise TraceError(
            f"cannot be opened: {cause.strerror or cause}",
            path=path,
            remedy="Check the file and the disk.",
        ) from None


class Stream:
    """The bytes of a plain file.

    Attributes
    ----------
    offset : int
        How many (decompressed) bytes were read.
    fault : Fault or None
        Set at the end of the bytes where they do not end as they should.
    """

    def __init__(self, path: str | Path, offset: int = 0) -> None:
        self.path = str(path)
        self.offset = offset
        self.fault: Fault | None = None
        self._file = open_file(path)
        self._file.seek(offset)

    @property
    def read_bytes(self) -> int:
        """How many bytes of the file itself were read."""
        return self.offset

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, none at the end."""
        try:
            block = self._file.read(size)
        except OSError as cause:
            raise TraceError(
                f"cannot be read: {cause.strerror or cause}",
                path=self.path,
                place=f"byte {self.offset:,}",
                remedy="Check the disk, or copy the file again.",
            ) from None
        self.offset += len(block)
        return block

    def exactly(self, size: int) -> bytes:
        """Return `size` bytes, less only at the end."""
        blocks = []
        while size > 0 and (block := self.read(size)):
            blocks.append(block)
            size -= len(block)
        return b"".join(blocks)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _GzipStream(Stream):
    """The decompressed bytes of a gzip file of one or several members."""

    def __init__(
        self, path: str | Path, offset: int = 0, checkpoints: Checkpoints | None = None
    ) -> None:
        super().__init__(path)
        self._checkpoints = Checkpoints() if checkpoints is None else checkpoints
        self._input = b""
        self._input_ended = False
        self._inflate: Any = zlib.decompressobj(_GZIP)
        start = self._checkpoints.before(offset)
        if start is not None:
            self.offset = start.offset
            self._file.seek(start.input_offset)
            self._inflate = start.inflate.copy()
        while self.offset < offset and self.read(min(offset - self.offset, 1 << 20)):
            pass

    @property
    def read_bytes(self) -> int:
        return self._file.tell()

    def read(self, size: int) -> bytes:
        while self.fault is None:
            if self._inflate.eof and not self._next_member():
                break
            if not self._input and not self._input_ended:
                self._input = self._file.read(_INPUT_BYTES)
                self._input_ended = not self._input
            before = self._inflate.copy()
            try:
                block: bytes = self._inflate.decompress(self._input, size)
            except zlib.error as error:
                return self._salvaged(before, str(error))
            self._input = self._inflate.unconsumed_tail or self._inflate.unused_data
            if block:
                self.offset += len(block)
                if not self._inflate.eof:
                    self._checkpoints.offer(
                        self.offset, self._file.tell() - len(self._input), self._inflate
                    )
                return block
            if self._input_ended and not self._inflate.eof:
                self.fault = Fault(True, "the gzip data end too early")
        return b""

    def _next_member(self) -> bool:
        rest = self._input.lstrip(b"\0")
        while len(rest) < 2 and (more := self._file.read(_INPUT_BYTES)):
            rest = (rest + more).lstrip(b"\0")
        if rest.startswith(GZIP_MAGIC):
            self._input = rest
            self._inflate = zlib.decompressobj(_GZIP)
            return True
        if rest:
            self.fault = Fault(False, "bytes after the gzip data were ignored")
        return False

    def _salvaged(self, inflate: Any, error: str) -> bytes:
        """Return what comes out of damaged data before the damage."""
        data, step, blocks = self._input, len(self._input), []
        while data and step:
            trial = inflate.copy()
            try:
                blocks.append(trial.decompress(data[:step]))
            except zlib.error:
                step //= 2
                continue
            inflate, data = trial, data[step:]
        whole = "incorrect data check" in error or "incorrect length check" in error
        self.fault = Fault(
            not whole,
            "the gzip checksum does not match its contents"
            if whole
            else f"the gzip data are damaged ({error})",
        )
        block = b"".join(blocks)
        self.offset += len(block)
        return block


def decompressed_size(path: str | Path) -> int:
    """Return about how many bytes come out of a file."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if file.read(2) != GZIP_MAGIC or size < 18:
            return size
        # That of the last member, modulo 2**32: right for most files, and but a hint.
        file.seek(-4, os.SEEK_END)
        return max(int.from_bytes(file.read(4), "little"), size)


def open_stream(
    path: str | Path, offset: int = 0, checkpoints: Checkpoints | None = None
) -> Stream:
    """Open a plain or gzip file at a place in its decompressed bytes."""
    with open_file(path) as file:
        is_gzip = file.read(2) == GZIP_MAGIC
    return _GzipStream(path, offset, checkpoints) if is_gzip else Stream(path, offset)
