"""Settings of the session: ``hw.options.export_dir = "reports"``.

Attributes
----------
export_dir : str or path-like, optional
    The folder for files that a page saves through the kernel: exports, saved pages and tables. If
    it is set, pages cannot write elsewhere. By default, relative names start at the working
    directory.
steps : str, optional
    The default for ``steps`` in `hta_widgets.load`: a regular expression for the ranges that are
    steps. It has no effect on formats that record steps.
"""

from __future__ import annotations

import os

export_dir: str | os.PathLike[str] | None = None
steps: str | None = None


def __dir__() -> list[str]:
    return ["export_dir", "steps"]
