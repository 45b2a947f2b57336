"""Settings of this session: ``hw.options.export_dir = "reports"``.

Attributes
----------
export_dir : str or path-like, optional
    The folder for files that a page writes through the kernel: exports, saved pages and tables. If
    it is set, a page cannot write elsewhere. By default names count from the working directory.
"""

from __future__ import annotations

import os
from pathlib import Path

from hta_widgets.errors import TraceError
from hta_widgets.files import target_path, write_errors

export_dir: str | os.PathLike[str] | None = None


def page_target(path: str, *, overwrite: bool) -> Path:
    """Return the path of a file that a page asks to write."""
    target = target_path(path)
    if export_dir is not None:
        folder = target_path(export_dir).resolve()
        with write_errors(folder):
            target = folder / target
            # The name itself may be a link, which is replaced; ".." would lead out of the folder.
            is_inside = target.name != ".." and target.parent.resolve().is_relative_to(folder)
        if not is_inside:
            raise TraceError(
                "is outside of export_dir",
                path=target,
                remedy=f"Give a name in {folder}, or change hw.options.export_dir.",
            )
    with write_errors(target):
        is_there = target.is_symlink() or target.exists()
    if is_there and not overwrite:
        raise TraceError("exists already", path=target, remedy="Write it again to replace it.")
    return target


def __dir__() -> list[str]:
    return ["export_dir"]
