"""HTA's counters over time: how long launch queues are, and how fast memory is copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.copies import bandwidth_steps
from hta_widgets.analysis.launches import queue_steps
from hta_widgets.analysis.scope import joined, parts
from hta_widgets.analysis.steps import STATISTICS, describe
from hta_widgets.compat.common.constants import CUDA_MAX_LAUNCH_QUEUE_PER_STREAM
from hta_widgets.compat.common.trace import Trace
from hta_widgets.compat.hta_frame import in_us, number_or_text
from hta_widgets.compat.scope import asked_ranks, kept_of, with_attrs_of, zero_ns_of
from hta_widgets.trace.traceset import TraceSet

__all__ = ["TraceCounters"]


class TraceCounters:
    """Counters over time, and what they come to."""

    @classmethod
    def get_queue_length_time_series(
        cls, t: TraceSet, ranks: Iterable[int] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Return frames by rank; see `TraceAnalysis.get_queue_length_time_series`."""
        kept, zero_ns = kept_of(t), zero_ns_of(t)
        found = {}
        for part in parts(kept, ranks=asked_ranks(kept, ranks)):
            table, steps = part.table, queue_steps(part, launches=True)
            tracks = table.track[steps.device_row]
            frame = pd.DataFrame(
                {
                    "ts": in_us(steps.time_ns + part.trace.shift_ns - zero_ns),
                    "pid": _by_track([track.pid for track in table.tracks], tracks),
                    "tid": _by_track([track.tid for track in table.tracks], tracks),
                    "stream": steps.streams[steps.code],
                    "queue_length": steps.queue_length,
                },
                index=pd.Index(table.record[steps.row], name="index"),
            )
            frame.attrs["unlaunched"] = steps.unlaunched
            if not len(frame):
                frame.attrs["note"] = "no device work whose launch the file holds"
            found[part.rank] = frame
        return found

    @classmethod
    def get_queue_length_summary(
        cls, t: TraceSet, ranks: Iterable[int] | None = None
    ) -> pd.DataFrame:
        """Return statistics by stream; see `TraceAnalysis.get_queue_length_summary`."""
        return cls.get_queue_length_summary_from_time_series(
            cls.get_queue_length_time_series(t, ranks)
        )

    @classmethod
    def get_queue_length_summary_from_time_series(
        cls, queue_length_dict: Mapping[int, pd.DataFrame]
    ) -> pd.DataFrame:
        """Return the statistics of given series; see the method of `TraceAnalysis`."""
        columns: dict[str, list[Any]] = {name: [] for name in ("rank", "stream", *STATISTICS)}
        for rank, frame in queue_length_dict.items():
            streams, code = np.unique(frame["stream"].to_numpy(), return_inverse=True)
            columns["rank"].append(np.full(len(streams), rank))
            columns["stream"].append(streams)
            figures = describe(code, len(streams), frame["queue_length"].to_numpy())
            for name in STATISTICS:
                columns[name].append(figures[name])
        whole = ("rank", "stream")
        summary = pd.DataFrame(
            {
                name: joined(values, np.int64 if name in whole else np.float64)
                for name, values in columns.items()
            }
        )
        return _described(summary, list(whole), "queue_length")

    @classmethod
    def get_time_spent_blocked_on_full_queue(
        cls,
        t: Trace,
        queue_length_dict: Mapping[int, pd.DataFrame],
        max_queue_length: int = CUDA_MAX_LAUNCH_QUEUE_PER_STREAM,
    ) -> pd.DataFrame:
        """Return how long queues were full; see the method of `TraceAnalysis`."""
        rows: list[tuple[int, int, Any, float]] = []
        for rank, frame in queue_length_dict.items():
            whole = t.get_trace_duration(rank)
            for stream, group in frame.groupby("stream", sort=False):
                time, full = group["ts"].to_numpy(), group["queue_length"] >= max_queue_length
                if full.any():
                    spent = np.diff(time)[full.to_numpy()[:-1]].sum()
                    rows.append((rank, stream, spent, spent / whole if whole else np.nan))  # type: ignore[arg-type]
        columns = [
            "rank",
            "stream",
            "duration_at_max_queue_length",
            "relative_duration_at_max_queue_length",
        ]
        blocked = pd.DataFrame(rows, columns=columns)
        if not rows:
            blocked = blocked.astype(dict.fromkeys(columns[:3], "int64") | {columns[3]: "float64"})
            blocked.attrs["note"] = f"no queue holds {max_queue_length} launches at any time"
        return blocked

    @classmethod
    def get_memory_bw_time_series(
        cls, t: TraceSet, ranks: Iterable[int] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Return frames by rank; see `TraceAnalysis.get_memory_bw_time_series`."""
        kept, zero_ns = kept_of(t), zero_ns_of(t)
        found = {}
        for part in parts(kept, ranks=asked_ranks(kept, ranks)):
            table, steps = part.table, bandwidth_steps(part)
            pids = [track.pid for track in table.tracks]
            frame = pd.DataFrame(
                {
                    "ts": in_us(steps.time_ns + part.trace.shift_ns - zero_ns),
                    "pid": _by_track(pids, table.track[steps.row]),
                    "name": pd.Series(
                        [steps.kinds[code] for code in steps.code.tolist()], dtype="str"
                    ),
                    "memory_bw_gbps": steps.gb_per_s,
                }
            )
            if not len(frame):
                frame.attrs["note"] = "no copies or fills whose rate the file tells"
            found[part.rank] = frame
        return found

    @classmethod
    def get_memory_bw_summary(cls, t: TraceSet, ranks: Iterable[int] | None = None) -> pd.DataFrame:
        """Return statistics by kind of copy; see `TraceAnalysis.get_memory_bw_summary`."""
        kept = kept_of(t)
        summary = analysis.memory_bandwidth_summary(kept, ranks=asked_ranks(kept, ranks))
        summary = summary[summary["count"] > 0].assign(name=summary["copy_kind"].astype("str"))
        return _described(summary, ["rank", "name"], "memory_bw_gbps")


def _by_track(values: list[str], tracks: Any) -> Any:
    """Return the process or thread ids of events on these tracks."""
    used, place = np.unique(tracks, return_inverse=True)
    return number_or_text([values[track] for track in used.tolist()])[place]


def _described(summary: pd.DataFrame, keys: list[str], counter: str) -> pd.DataFrame:
    """Return statistics as HTA has them: below one word, and by rank and series."""
    frame = summary[list(STATISTICS)].astype(np.float64)
    frame.index = pd.MultiIndex.from_frame(summary[keys])
    frame.columns = pd.MultiIndex.from_product([[counter], STATISTICS])
    return with_attrs_of(frame, summary)
