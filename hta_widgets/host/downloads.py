"""Files that pages wrote, kept until they are fetched."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from pathlib import Path

from hta_widgets.files import scratch


class Downloads:
    """Each file is handed out once, under a name that cannot be guessed."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=scratch()))
        #: where pages write; what is here has not been kept yet
        self.written = self.folder / "written"
        self.written.mkdir()
        self._files: dict[str, Path] = {}

    def keep(self, path: Path) -> tuple[str, Path] | None:
        """Return key and new place of a file that a page wrote; None for any other path."""
        if not path.is_absolute() or not path.resolve().is_relative_to(self.written.resolve()):
            return None
        key = secrets.token_urlsafe(24)
        folder = self.folder / key
        folder.mkdir()
        if path.is_dir():
            moved = Path(shutil.make_archive(str(folder / path.name), "zip", path))
            shutil.rmtree(path)
        else:
            moved = path.rename(folder / path.name)
        self._files[key] = moved
        return key, moved

    def offer(self, path: Path) -> tuple[str, str] | None:
        """Return name and address of a file that a page wrote; None for any other path."""
        kept = self.keep(path)
        return None if kept is None else (kept[1].name, f"/file/{kept[0]}")

    def take(self, key: str) -> Path | None:
        """Return a file on its first request; the caller removes it."""
        return self._files.pop(key, None)
