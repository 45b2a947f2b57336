"""Frames as files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from hta_widgets.errors import TraceError

__all__ = ["table_bytes", "write_table"]


def table_bytes(frame: pd.DataFrame, format: str) -> bytes:  # noqa: A002 - as the page says it
    """Return a frame as the bytes of a ``csv`` or ``parquet`` file."""
    if format == "csv":
        return frame.to_csv(index=False).encode("utf-8", "replace")
    if format == "parquet":
        return bytes(_plain(frame).to_parquet(index=False))
    raise ValueError(f"no kind of table is called {format!r}; there are csv and parquet")


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop what a frame says of itself: it is no JSON that Parquet could keep."""
    plain = frame.copy(deep=False)
    plain.attrs = {}
    return plain


def write_table(frame: pd.DataFrame, path: Path) -> str:
    """Write a frame by the suffix of `path`: ``.csv``, ``.csv.gz`` or ``.parquet``."""
    name = path.name.lower()
    try:
        if name.endswith((".csv", ".csv.gz")):
            frame.to_csv(path, index=False)
        elif name.endswith(".parquet"):
            _plain(frame).to_parquet(path, index=False)
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
