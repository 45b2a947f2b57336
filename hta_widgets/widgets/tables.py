"""Frames as files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from hta_widgets.errors import TraceError

__all__ = ["write_table"]


def write_table(frame: pd.DataFrame, path: Path) -> str:
    """Write a frame by the suffix of `path`: ``.csv``, ``.csv.gz`` or ``.parquet``."""
    name = path.name.lower()
    try:
        if name.endswith((".csv", ".csv.gz")):
            frame.to_csv(path, index=False)
        elif name.endswith(".parquet"):
            # What a frame says of itself beside its columns is no JSON that Parquet could keep.
            plain = frame.copy(deep=False)
            plain.attrs = {}
            plain.to_parquet(path, index=False)
        else:
            raise TraceError(
                f"no kind of table has the suffix {path.suffix!r}",
                path=str(path),
                remedy="Name it .csv, .csv.gz or .parquet.",
            )
    except OSError as cause:
        raise TraceError(
            f"cannot be written ({cause.strerror or cause})",
            path=str(path),
            remedy="Is the folder there, and may you write to it?",
        ) from None
    return str(path)
