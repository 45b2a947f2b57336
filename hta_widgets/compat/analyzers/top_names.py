"""Which names HTA shows one by one, and the statistics of the others together."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from hta_widgets.compat.hta_frame import in_us

__all__ = ["statistics_us", "top_names"]

_OTHERS = "others"
#: Statistics by name, in ns: `count, sum_ns, min_ns, max_ns, mean_ns, std_ns`.
_COLUMNS = ("sum (us)", "max (us)", "min (us)", "stddev", "mean (us)")


def top_names(
    frame: pd.DataFrame,
    num_kernels: int,
    duration_ratio: float,
    always: Collection[str] = (),
) -> pd.DataFrame:
    """Return one row per name, and one named ``others`` for those that HTA does not show.

    With at most `num_kernels` names, all are shown. With more, a name is shown if it is among the
    `num_kernels` with most time, and if the time of it and of all before it is at most the
    `duration_ratio` quantile of these running sums; and if it is one of `always`.

    Parameters
    ----------
    frame : DataFrame
        One row per name: ``name, count, sum_ns, min_ns, max_ns, mean_ns, std_ns``.
    num_kernels : int
    duration_ratio : float
    always : collection of str, optional

    Returns
    -------
    DataFrame
        The same columns. The row of the others has the statistics of all their events.

    Notes
    -----
    The choice is HTA's. Its statistics are not: where names are put together it shows the sums of
    the names in place of mean, maximum and minimum, and 0 for the deviation.
    """
    columns = ["name", "count", "sum_ns", "min_ns", "max_ns", "mean_ns", "std_ns"]
    frame = frame.loc[:, columns].sort_values(
        "sum_ns", ascending=False, kind="stable", ignore_index=True
    )
    if len(frame) <= num_kernels:
        return frame
    running = frame["sum_ns"].cumsum().to_numpy()
    apart = (running > np.quantile(running, duration_ratio)) | (
        np.arange(len(frame)) >= num_kernels
    )
    apart &= ~frame["name"].isin(list(always)).to_numpy()
    if not apart.any():
        return frame
    shown: pd.DataFrame = frame.loc[~apart]
    return pd.concat([shown, _together(frame.loc[apart])], ignore_index=True)


def _together(rows: pd.DataFrame) -> pd.DataFrame:
    count = rows["count"].to_numpy()
    total, every = int(rows["sum_ns"].sum()), int(count.sum())
    mean = total / every
    # What events differ from their name's mean, and what the names' means differ from the whole.
    squares = (count - 1) * rows["std_ns"].to_numpy() ** 2
    squares += count * (rows["mean_ns"].to_numpy() - mean) ** 2
    return pd.DataFrame(
        {
            "name": pd.Series([_OTHERS], dtype="str"),
            "count": [every],
            "sum_ns": [total],
            "min_ns": [rows["min_ns"].min()],
            "max_ns": [rows["max_ns"].max()],
            "mean_ns": [mean],
            "std_ns": [float(np.sqrt(squares.sum() / max(every - 1, 1)))],
        }
    )


def statistics_us(frame: pd.DataFrame) -> dict[str, object]:
    """Return the columns that HTA shows of such statistics, in µs."""
    return dict(
        zip(
            _COLUMNS,
            (
                in_us(frame["sum_ns"].to_numpy()),
                in_us(frame["max_ns"].to_numpy()),
                in_us(frame["min_ns"].to_numpy()),
                frame["std_ns"].to_numpy() / 1000,
                frame["mean_ns"].to_numpy() / 1000,
            ),
            strict=True,
        )
    )
