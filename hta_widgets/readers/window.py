"""The part of a stream that is being looked at."""

from __future__ import annotations

from collections.abc import Callable

from hta_widgets.readers.stages import stage
from hta_widgets.readers.streams import Stream

__all__ = ["BLOCK_BYTES", "Window"]

#: Small enough that the objects of so much text stay in the processor's cache.
BLOCK_BYTES = 3 << 18


class Window:
    """Text of a stream from `at` on, and more of it when asked.

    Parameters
    ----------
    stream : Stream
    advance : callable, optional
        Told with every block how many more bytes of the file were read.
    """

    def __init__(self, stream: Stream, advance: Callable[[int], object] | None = None) -> None:
        self.stream = stream
        self.text = b""
        #: position in the text from where to read on
        self.at = 0
        self.block_bytes = BLOCK_BYTES
        #: whether the stream has no more
        self.ended = False
        self._text_offset = 0
        self._advance = advance
        self._advanced = 0

    @property
    def offset(self) -> int:
        """Offset in the (decompressed) bytes from where to read on."""
        return self._text_offset + self.at

    @property
    def left(self) -> int:
        """How many bytes of the text are not read yet."""
        return len(self.text) - self.at

    def rest(self) -> bytes:
        """Return what of the text is not read yet."""
        return self.text[self.at :]

    def replace_rest(self, text: bytes, at: int) -> None:
        """Go on in `text`, which begins where `rest` began and may be longer."""
        self._text_offset, self.text, self.at = self.offset, text, at

    def more(self, size: int = 0) -> bytes:
        """Take the next block from the stream, of at least `size`; less only at its end."""
        size = max(size, self.block_bytes)
        with stage("read"):
            text = self.stream.exactly(size)
        self.ended = len(text) < size
        if self._advance is not None:
            self._advance(self.stream.read_bytes - self._advanced)
            self._advanced = self.stream.read_bytes
        return text

    def fill(self, size: int = 0) -> None:
        """Make sure of a block, of at least `size`, to read, unless the stream has no more."""
        missing = max(size, self.block_bytes) - self.left
        if missing > 0 and not self.ended:
            self.replace_rest(b"".join((self.rest(), self.more(missing))), 0)

    def skip(self, blanks: bytes) -> bool:
        """Skip `blanks`; return whether anything follows."""
        while True:
            rest = self.rest()
            following = rest.lstrip(blanks)
            self.at += len(rest) - len(following)
            if following or self.ended:
                return bool(following)
            self.fill()
