"""A folder that lasts as long as this process."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

__all__ = ["scratch"]


@functools.cache
def scratch() -> Path:
    """Return the folder; the first call makes it."""
    folder = tempfile.mkdtemp(prefix="hta_widgets-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
