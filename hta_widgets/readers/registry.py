"""What a reader has to offer, so that `load` can find its files, read them and name its ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from hta_widgets.errors import TraceError
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace

__all__ = ["Format", "Outcome", "Read", "Start"]


class Outcome(NamedTuple):
    """What became of one file: a trace; several, of a file into which ranks were merged; none."""

    traces: tuple[Trace, ...]
    problems: Problems
    error: TraceError | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """What a file's format is told by."""

    path: str
    #: first decompressed bytes, 4096 or all; never none
    text: bytes
    #: of the decompressed file; of gzip files over 4 GiB but a lower bound
    size_bytes: int

    @property
    def stripped(self) -> bytes:
        """The text without a byte order mark and blanks before it."""
        return self.text.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")


class Read(Protocol):
    """Reads one file; raises `TraceError` where it holds nothing of the format."""

    def __call__(
        self, path: str, *, advance: Callable[[int], object] | None = None, keepalive: Any = None
    ) -> Outcome:
        """Return the file's traces and what is wrong with them.

        Parameters
        ----------
        path : str
        advance : callable, optional
            Told now and then how many more bytes of the file were read.
        keepalive : object, optional
            Kept as long as the trace, for example the temporary directory that holds the file.
        """


@dataclass(frozen=True, slots=True)
class Format:
    """One format of trace files.

    Attributes
    ----------
    name : str
        As users give it to `load` and meet it in `TraceSet.formats`.
    sniff : callable
        Whether a file is of this format, by its start. Formats are asked in the order of the
        table in `formats`; one that could take others' files for its own comes behind them.
    read : callable
        See `Read`.
    finish : callable, optional
        Given all traces of this format, in natural order of their paths, and what was found so
        far; returns them with what only the whole set tells, such as the number of the worker,
        or whether a rank's file is stale.
    keyed_by_order : bool
        Whether a trace's rank is its place among those that `finish` returned. Otherwise it is
        the `stated_rank`, or guessed and reported.
    """

    name: str
    sniff: Callable[[Start], bool]
    read: Read
    finish: Callable[[Sequence[Trace], Problems], Sequence[Trace]] | None = None
    keyed_by_order: bool = False
