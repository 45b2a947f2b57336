"""Seekable streams of decompressed bytes, and the buffer from which readers decode."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

import pyarrow as pa

from hta_widgets.errors import TraceError
from hta_widgets.text import share
from hta_widgets.trace.problems import Problems

_COMMA, _CLOSE = ord(","), ord("}")
#: Beginning of an object whose first key is a key of trace records.
_KEYS = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp)"\s*:')
_MAX_SEPARATORS = 8
#: Maximum number of braces that are tried; a truncated file may end in millions of them.
_MAX_BRACES = 4096
_LOOK_BACK = 1 << 20


def separators_before(text: bytes, low: int, high: int) -> Iterator[int]:
    """Yield the positions of a few commas that probably separate records, the last first.

    Commas before an object whose first key is a key of trace records come first.
    """
    possible: list[int] = []
    likely = 0
    brace = high
    floor = max(low, high - _LOOK_BACK)
    for _ in range(_MAX_BRACES):
        brace = text.rfind(b"{", floor, brace)
        if brace < 0 or likely == _MAX_SEPARATORS:
            break
        comma = _last_of(text, low, brace, _COMMA)
        if comma < 0 or _last_of(text, low, comma, _CLOSE) < 0:
            continue
        if _KEYS.match(text, brace):
            likely += 1
            yield comma
        elif len(possible) < _MAX_SEPARATORS:
            possible.append(comma)
    yield from possible


def _last_of(text: bytes, low: int, high: int, char: int) -> int:
    """Return the position of the last non-blank byte before `high` if it is `char`, else -1."""
    position = high - 1
    while position >= low and text[position] in b" \t\r\n":
        position -= 1
    return position if position >= low and text[position] == char else -1


try:  # the extra `fast`
    from zlib_ng import zlib_ng as zlib
except ImportError:
    import zlib


GZIP_MAGIC = b"\x1f\x8b"
#: Beginning of a frame. pzstd writes its own frame before other frames, and decoders skip it.
_ZSTD_MAGIC = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
_GZIP = 31  # zlib's window size for a gzip header and trailer
_INPUT_BYTES = 1 << 16
_MAX_CHECKPOINTS = 64
#: Maximum ratio of decompressed to compressed bytes; traces have ratios of up to 35.
_MAX_EXPANSION = 200
_MIN_LIMIT_BYTES = 1 << 26
#: Assumed ratio for files that do not state their size.
_USUAL_EXPANSION = 10


@dataclass(frozen=True, slots=True)
class Fault:
    """Damage to a compressed file; `cut` states whether part of the contents is unreadable."""

    cut: bool
    message: str


@dataclass(slots=True)
class _Checkpoint:
    offset: int  # in the decompressed bytes
    input_offset: int  # in the file
    inflate: Any


@dataclass(slots=True)
class Checkpoints:
    """States of a decompressor at evenly spaced positions, for seeking."""

    spacing: int = 1 << 20
    points: list[_Checkpoint] = field(default_factory=list)

    def before(self, offset: int) -> _Checkpoint | None:
        """Return the last checkpoint at or before `offset`, or None."""
        return max(
            (point for point in self.points if point.offset <= offset),
            key=lambda point: point.offset,
            default=None,
        )

    def offer(self, offset: int, input_offset: int, inflate: Any) -> None:
        """Store a copy of the state `inflate` if it is far enough from the last checkpoint."""
        if self.points and offset < self.points[-1].offset + self.spacing:
            return
        self.points.append(_Checkpoint(offset, input_offset, inflate.copy()))
        if len(self.points) > _MAX_CHECKPOINTS:
            self.points = self.points[::2]
            self.spacing *= 2


_SPECIAL = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))


def _open_file(path: str | Path) -> BinaryIO:
    try:
        mode = Path(path).stat().st_mode
        if not stat.S_ISREG(mode):  # opening a pipe would wait for a writer
            kind = next((kind for is_kind, kind in _SPECIAL if is_kind(mode)), "a device")
            raise TraceError(
                f"is {kind}, not a file", path=path, remedy="Copy the trace to a file, and load it."
            )
        return Path(path).open("rb")
    except FileNotFoundError:
        remedy = "Check the path."
        if Path(path).name == "demo-job":
            remedy = f"The command `hta-widgets demo {path}` writes one."
        message = "is a link to a missing file" if Path(path).is_symlink() else "does not exist"
        raise TraceError(message, path=path, remedy=remedy) from None
    except PermissionError:
        raise TraceError(
            "cannot be read by this user", path=path, remedy="Check its permissions."
        ) from None
    except (OSError, ValueError) as cause:
        if isinstance(cause, TraceError):
            raise
        raise TraceError(
            f"cannot be opened: {getattr(cause, 'strerror', None) or cause}",
            path=path,
            remedy="Check the file and the disk.",
        ) from None


class Stream:
    """The bytes of an uncompressed file."""

    def __init__(self, path: str | Path, offset: int = 0) -> None:
        self.path = str(path)
        self.offset = offset
        self.fault: Fault | None = None
        self._file = _open_file(path)
        self._file.seek(offset)

    @property
    def read_bytes(self) -> int:
        """Number of bytes of the file that have been read."""
        return self.offset

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return os.fstat(self._file.fileno()).st_size

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; empty at the end."""
        block = self._raw(size)
        self.offset += len(block)
        return block

    def _raw(self, size: int) -> bytes:
        """Return up to `size` bytes of the file itself."""
        try:
            return self._file.read(size)
        except OSError as cause:
            raise self._disk_error(cause) from None

    def _disk_error(self, cause: OSError) -> TraceError:
        return TraceError(
            f"cannot be read: {cause.strerror or cause}",
            path=self.path,
            place=f"byte {self.read_bytes:,}",
            remedy="Check the disk, or copy the file again.",
        )

    def read_exactly(self, size: int) -> bytes:
        """Return `size` bytes, or fewer at the end."""
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


class _PackedStream(Stream):
    @property
    def read_bytes(self) -> int:
        return self._file.tell()

    def _skip_to(self, offset: int) -> None:
        while self.offset < offset and self.read(min(offset - self.offset, 1 << 20)):
            pass

    def _require_sane_size(self) -> None:
        if self.offset <= _max_bytes(self.read_bytes):
            return
        raise TraceError(
            f"expands to more than {_MAX_EXPANSION} times its size; traces expand up to 35 times",
            path=self.path,
            place=f"byte {self.offset:,} of the decompressed text",
            remedy="If it is a trace, decompress it and load the result.",
        )


class _GzipStream(_PackedStream):
    """The decompressed bytes of a gzip file with one or more members."""

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
        self._skip_to(offset)

    def read(self, size: int) -> bytes:
        while self.fault is None:
            if self._inflate.eof and not self._next_member():
                break
            if not self._input and not self._input_ended:
                self._input = self._raw(_INPUT_BYTES)
                self._input_ended = not self._input
            before = self._inflate.copy()
            try:
                block: bytes = self._inflate.decompress(self._input, size)
            except zlib.error as error:
                return self._salvage(before, str(error))
            self._input = self._inflate.unconsumed_tail or self._inflate.unused_data
            if block:
                self.offset += len(block)
                self._require_sane_size()
                if not self._inflate.eof:
                    self._checkpoints.offer(
                        self.offset, self._file.tell() - len(self._input), self._inflate
                    )
                return block
            if self._input_ended and not self._inflate.eof:
                self.fault = Fault(cut=True, message="the gzip data is truncated")
        return b""

    def _next_member(self) -> bool:
        rest = self._input.lstrip(b"\0")
        while len(rest) < 2 and (chunk := self._raw(_INPUT_BYTES)):
            rest = (rest + chunk).lstrip(b"\0")
        if rest.startswith(GZIP_MAGIC):
            self._input = rest
            self._inflate = zlib.decompressobj(_GZIP)
            return True
        if rest:
            self.fault = Fault(cut=False, message="bytes after the gzip data were ignored")
        return False

    def _salvage(self, inflate: Any, error: str) -> bytes:
        """Return the bytes before the damage by halving the failing input; set `fault`."""
        data, step, blocks = self._input, len(self._input), []
        while data and step:
            trial = inflate.copy()
            try:
                blocks.append(trial.decompress(data[:step]))
            except zlib.error:
                step //= 2
                continue
            inflate, data = trial, data[step:]
        if "incorrect data check" in error or "incorrect length check" in error:
            self.fault = Fault(cut=False, message="the gzip checksum does not match its contents")
        else:
            read = share((self._file.tell() - len(data)) / max(self.size_bytes, 1))
            message = f"the gzip data is damaged ({error}); {read} of the file could be read"
            self.fault = Fault(cut=True, message=message)
        block = b"".join(blocks)
        self.offset += len(block)
        return block


class _ZstdStream(_PackedStream):
    """The decompressed bytes of a zstd file; seeking reads from the start."""

    def __init__(self, path: str | Path, offset: int = 0) -> None:
        super().__init__(path)
        self._inflate = self._decompressor()
        self._skip_to(offset)

    def _decompressor(self) -> Any:
        return pa.CompressedInputStream(pa.PythonFile(cast("Any", self._file), mode="r"), "zstd")

    def read(self, size: int) -> bytes:
        if self.fault is not None:
            return b""
        try:
            block: bytes = self._inflate.read(size)
        except OSError as cause:
            if cause.errno is not None:
                raise self._disk_error(cause) from None
            return self._salvage(str(cause))
        self.offset += len(block)
        self._require_sane_size()
        return block

    def _salvage(self, error: str) -> bytes:
        """Return the bytes before the damage, which the failed call dropped; set `fault`."""
        self._file.close()
        self._file = _open_file(self.path)
        end, self.offset, self._inflate = self.offset, 0, self._decompressor()
        self._skip_to(end)
        blocks = []
        with contextlib.suppress(OSError):
            while byte := self._inflate.read(1):
                blocks.append(byte)
        self.offset += len(blocks)
        if "Unknown frame" in error and self.offset:
            self.fault = Fault(cut=False, message="bytes after the zstd data were ignored")
        elif "checksum" in error:
            self.fault = Fault(cut=False, message="the zstd checksum does not match its contents")
        elif "Truncated" in error:
            self.fault = Fault(cut=True, message="the zstd data is truncated")
        else:
            self.fault = Fault(cut=True, message=f"the zstd data is damaged ({error})")
        return b"".join(blocks)


def _max_bytes(packed: int) -> int:
    """Return the maximum accepted decompressed size for `packed` compressed bytes."""
    return _MIN_LIMIT_BYTES + _MAX_EXPANSION * packed


def decompressed_size(path: str | Path) -> int:
    """Return the approximate decompressed size of a file."""
    with Stream(path) as start:
        size, head = start.size_bytes, start.read(18)
        if _ZSTD_MAGIC.match(head):
            estimate = _zstd_content_size(head) or size * _USUAL_EXPANSION
            return min(max(estimate, size), _max_bytes(size))
        if not head.startswith(GZIP_MAGIC) or size < 18:
            return size
    # A gzip file ends with the size of its last member modulo 2**32; most files have one member.
    with Stream(path, size - 4) as end:
        return min(max(int.from_bytes(end.read(4), "little"), size), _max_bytes(size))


def _zstd_content_size(head: bytes) -> int | None:
    """Return the size in the header of a zstd frame (RFC 8878), if it states one."""
    flags = head[4] if len(head) > 4 else 0
    is_single_segment = bool(flags & 0x20)
    width = (int(is_single_segment), 2, 4, 8)[flags >> 6]
    start = 5 + (not is_single_segment) + (0, 1, 2, 4)[flags & 3]
    field = head[start : start + width]
    if not width or len(field) < width:
        return None
    return int.from_bytes(field, "little") + (256 if width == 2 else 0)


def open_stream(
    path: str | Path, offset: int = 0, checkpoints: Checkpoints | None = None
) -> Stream:
    """Open a plain, gzip or zstd file at an offset in its decompressed bytes."""
    with Stream(path) as start:
        magic = start.read(4)
    if _ZSTD_MAGIC.match(magic):
        return _ZstdStream(path, offset)
    if magic.startswith(GZIP_MAGIC):
        return _GzipStream(path, offset, checkpoints)
    return Stream(path, offset)


_BLOCK = 1 << 20


def read_whole_file(
    path: str, problems: Problems, advance: Callable[[int], object] | None = None
) -> bytes:
    """Return the decompressed bytes of a file, as far as they are readable."""
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


#: Size of a text block, chosen so that its decoded objects fit in the processor's cache.
BLOCK_BYTES = 1 << 19


class StreamBuffer:
    """Buffer of a stream, from which `text` is read starting at position `at`."""

    def __init__(self, stream: Stream, advance: Callable[[int], object] | None = None) -> None:
        self.stream = stream
        self.text = b""
        #: position of the next unread byte in the text
        self.at = 0
        self.block_bytes = BLOCK_BYTES
        self.ended = False
        self._text_offset = 0
        self._advance = advance
        self._advanced = 0

    @property
    def offset(self) -> int:
        """Offset of the next unread byte in the (decompressed) stream."""
        return self._text_offset + self.at

    @property
    def unread_size(self) -> int:
        """Number of buffered bytes that have not been read."""
        return len(self.text) - self.at

    def unread(self) -> bytes:
        """Return the buffered bytes that have not been read."""
        return self.text[self.at :]

    def replace_unread(self, text: bytes, start: int) -> None:
        """Replace the unread bytes by `text`, which begins with them; continue at its `start`."""
        self._text_offset, self.text, self.at = self.offset, text, start

    def read_block(self, size: int = 0) -> bytes:
        """Read a block of at least `size` bytes from the stream, or fewer at its end."""
        size = max(size, self.block_bytes)
        text = self.stream.read_exactly(size)
        self.ended = len(text) < size
        if self._advance is not None:
            self._advance(self.stream.read_bytes - self._advanced)
            self._advanced = self.stream.read_bytes
        return text

    def fill(self, size: int = 0) -> None:
        """Buffer at least a block or `size` bytes, or all bytes up to the end of the stream."""
        missing = max(size, self.block_bytes) - self.unread_size
        if missing > 0 and not self.ended:
            self.replace_unread(b"".join((self.unread(), self.read_block(missing))), 0)

    def skip(self, blanks: bytes) -> bool:
        """Skip `blanks`; return whether other bytes follow."""
        while True:
            rest = self.unread()
            following = rest.lstrip(blanks)
            self.at += len(rest) - len(following)
            if following or self.ended:
                return bool(following)
            self.fill()
