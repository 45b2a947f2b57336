"""Files that appear only when they are complete."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from hta_widgets.errors import TraceError
from hta_widgets.files import written_whole

__all__ = ["Output", "Target"]

_BUFFER_BYTES = 1 << 20


class Output:
    """A JSON file in the making, written in large pieces."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._pieces: list[bytes] = []
        self._size = 0
        self._listed = False

    def write(self, text: bytes) -> None:
        """Write some text."""
        self._pieces.append(text)
        self._size += len(text)
        if self._size >= _BUFFER_BYTES:
            self.flush()

    def write_list(self, records: Iterable[bytes]) -> None:
        """Write entries of a list; a second call goes on with it."""
        for record in records:
            self.write(b",\n" + record if self._listed else record)
            self._listed = True

    def flush(self) -> None:
        """Hand over what was collected."""
        self._file.write(b"".join(self._pieces))
        self._pieces, self._size = [], 0


@dataclass(slots=True)
class Target:
    """Where an export goes."""

    path: Path
    is_directory: bool
    written_bytes: int = 0

    @classmethod
    def of(cls, path: str | Path) -> Target:
        """Tell from a path what to write there, and that it can be written."""
        path = Path(path).expanduser()
        suffixes = "".join(path.suffixes[-2:]).lower()
        is_file = suffixes.endswith((".json", ".json.gz", ".gz"))
        if path.suffix and not is_file and not path.is_dir():
            raise TraceError(
                f"a trace cannot be written as {path.suffix!r}",
                path=path,
                remedy="End the name with .json or .json.gz, or with neither for a directory.",
            )
        if is_file and path.is_dir():
            raise TraceError(
                "is a directory", path=path, remedy="Choose another name for the file."
            )
        if not is_file and path.exists() and not path.is_dir():
            raise TraceError(
                "is a file", path=path, remedy="End the name with .json or .json.gz to replace one."
            )
        if not path.parent.is_dir():
            raise TraceError(
                "the folder does not exist", path=path.parent, remedy="Create it first."
            )
        return cls(path, not is_file)

    @contextmanager
    def file(self, name: str | None = None) -> Iterator[Output]:
        """Open the file, or the one of that name in the directory.

        It takes its place when the block ends well, and not at all otherwise.
        """
        target = self.path if name is None else self.path / name
        with _in_place(target) as output:
            yield output
        self.written_bytes += target.stat().st_size

    @contextmanager
    def directory(self, names: Iterable[str]) -> Iterator[None]:
        """Make the directory of files with `names`; a new one goes again if the block fails."""
        kept = set(names)
        if self.path.is_dir():
            others = sorted(
                entry.name
                for entry in self.path.iterdir()
                if entry.name.endswith((".json", ".gz")) and entry.name not in kept
            )
            if others:
                raise TraceError(
                    f"holds other traces already, for example {others[0]}",
                    path=self.path,
                    remedy="Choose a new directory, so that the ranks do not mix.",
                )
            yield
            return
        _create(self.path)
        try:
            yield
        except BaseException:
            for name in kept:
                (self.path / name).unlink(missing_ok=True)
            with suppress(OSError):
                self.path.rmdir()
            raise


def _create(path: Path) -> None:
    try:
        path.mkdir()
    except OSError as cause:
        raise TraceError(
            f"cannot be created: {cause.strerror}", path=path, remedy="Choose another place."
        ) from None


@contextmanager
def _in_place(target: Path) -> Iterator[Output]:
    def refused(cause: OSError) -> TraceError:
        return TraceError(
            f"cannot be written: {cause.strerror}", path=target, remedy="Choose another place."
        )

    with written_whole(target, refused) as raw:
        if target.suffix.lower() == ".gz":
            with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                yield from _output(cast("IO[bytes]", packed))
        else:
            yield from _output(raw)


def _output(file: IO[bytes]) -> Iterator[Output]:
    output = Output(file)
    yield output
    output.flush()
