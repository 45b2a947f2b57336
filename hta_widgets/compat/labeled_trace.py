"""Traces under a label, as HTA's comparison takes them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.scope import Part
from hta_widgets.compat.common.trace import Trace as HtaTrace
from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.compat.hta_frame import first_event_ns, hta_frame, hta_rows, symbols_of
from hta_widgets.compat.utils.utils import shorten_name
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

__all__ = ["DeviceType", "LabeledTrace", "Numbers"]

#: One rank or step, or several; None stands for the first.
Numbers = int | Iterable[int] | None

_ANNOTATION = KINDS.index("annotation")
_labels = itertools.count()


class DeviceType(Enum):
    """Which operators and kernels to compare."""

    CPU = 1
    GPU = 2
    ALL = 3


class LabeledTrace:
    """A job's traces under a label.

    All events are used, those of the last step too. Where HTA refuses traces without
    ``ProfilerStep``, here all events count.

    Parameters
    ----------
    label : str, optional
        Becomes part of column names; ``t0``, ``t1``, … by default.
    t : TraceSet, Trace or TraceAnalysis, optional
        What was loaded, or HTA's `Trace` to be parsed.
    trace_dir : path-like, optional
        What to load, where `t` is not given: a folder or a file.

    Attributes
    ----------
    label : str
    t : HTA's Trace, or as given
    s_tab, s_map : Series
        Names and categories by number, and numbers by name.
    iteration_df : DataFrame
        ``symbol, id, iteration``: the names of the steps.
    """

    def __init__(self, label: str | None = None, t: Any = None, trace_dir: Any = None) -> None:
        if t is None and trace_dir is None:
            raise TraceError("no traces to compare", remedy="Give t= or trace_dir=.")
        self.label = label or f"t{next(_labels)}"
        self.t: Any = HtaTrace(trace_dir=os.fspath(trace_dir)) if t is None else t
        if isinstance(self.t, HtaTrace) and not self.t.is_parsed:
            self.t.parse_traces()
        given = _trace_set(self.t)
        self._symbols = given.symbol_table if isinstance(given, HtaTrace) else TraceSymbolTable()
        for trace in given.values():
            self._symbols.add_symbols(symbols_of(trace.table, hta_rows(trace.table)))
        self.s_map = self._symbols.get_sym_index_series()
        self.s_tab = self._symbols.get_sym_table_series()
        steps = self._steps()
        self.iteration_df = pd.DataFrame(
            {
                "symbol": pd.Series([f"ProfilerStep#{step}" for step in steps], dtype=object),
                "id": [self._symbols.sym_index.get(f"ProfilerStep#{step}", -1) for step in steps],
                "iteration": steps,
            }
        )

    @property
    def _traces(self) -> TraceSet:
        """The events as they are now: without what was dropped from the frames of `t`."""
        given = _trace_set(self.t)
        # HTA parses an analysis's trace anew, so that what was dropped there, and the last step,
        # are back.
        return given.kept if isinstance(given, HtaTrace) and not given.is_aligned else given

    def ranks(self) -> list[int]:
        """Return the ranks, ascending."""
        return self._traces.ranks

    def iterations(self) -> list[int]:
        """Return the numbers of the steps of all ranks, ascending."""
        return list(map(int, self.iteration_df["iteration"]))

    def extract_ops(
        self,
        rank: Numbers = None,
        iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> pd.DataFrame:
        """Return events of some ranks and steps.

        Parameters
        ----------
        rank : int or list of int, optional
            The first rank by default.
        iteration : int or list of int, optional
            The first step by default.
        device_type : DeviceType, default ALL

        Returns
        -------
        DataFrame
            HTA's columns (see `hta_widgets.compat.hta_frame`), times in µs, with ``cat, name``
            as numbers of ``s_tab``; ``s_cat, s_name``, the same as text; and ``rank``.

        Raises
        ------
        ValueError
            Where a rank or step is not there.
        """
        zero_ns = first_event_ns(_trace_set(self.t).values())
        frames = []
        for part in self.parts(rank, iteration, device_type):
            frame = hta_frame(part.trace, part.rows, self._symbols, zero_ns=zero_ns)
            self._symbols.decode_df(frame)
            frames.append(frame.assign(rank=part.rank))
        if len(frames) == 1:
            return frames[0]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def get_ops_summary(self, ops: pd.DataFrame) -> pd.DataFrame:
        """Return how often and how long events ran, by category and name.

        Parameters
        ----------
        ops : DataFrame
            From `extract_ops`.

        Returns
        -------
        DataFrame
            ``cat, name, short_name, counts, total_duration`` (µs)``, cat_id, name_id``.
        """
        sums = ops.groupby(["cat", "name"])["dur"].agg(["count", "sum"]).reset_index()
        names = [self._symbols.sym_table[number] for number in sums["name"]]
        return pd.DataFrame(
            {
                "cat": [self._symbols.sym_table[number] for number in sums["cat"]],
                "name": names,
                "short_name": [shorten_name(name) for name in names],
                "counts": sums["count"],
                "total_duration": sums["sum"],
                "cat_id": sums["cat"],
                "name_id": sums["name"],
            }
        )

    def parts(
        self,
        rank: Numbers = None,
        iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> list[Part]:
        """Return the same events as `extract_ops`, as our analyses take them."""
        traces = self._traces
        ranks = self._chosen("rank", rank, traces.ranks)
        steps = self._chosen("iteration", iteration, self.iterations())
        found = []
        for key in ranks:
            table = traces[key].table
            rows = hta_rows(table)
            if steps:
                rows = rows[np.isin(table.step[rows], np.array(steps, dtype=np.int64))]
            if device_type is not DeviceType.ALL:
                device = (table.stream[rows] >= 0) & (table.kind[rows] != _ANNOTATION)
                rows = rows[device == (device_type is DeviceType.GPU)]
            found.append(Part(traces[key], rows, None, None))
        return found

    def _steps(self) -> list[int]:
        steps: set[int] = set()
        for trace in self._traces.values():
            steps.update(np.unique(trace.table.step[hta_rows(trace.table)]).tolist())
        return sorted(steps - {-1})

    def _chosen(self, word: str, asked: Numbers, there: list[int]) -> list[int]:
        if asked is None:
            return there[:1]
        wanted = [int(asked)] if isinstance(asked, (int, np.integer)) else [int(n) for n in asked]
        for number in wanted:
            if number not in there:
                raise TraceError(
                    f"{self.label} has no {word} {number}",
                    remedy=f"The {word}s are {', '.join(map(str, there)) or 'none'}.",
                )
        return wanted


def _trace_set(given: Any) -> TraceSet:
    """Return the ranks behind what users hold: our sets and ranks, or HTA's objects over them."""
    if isinstance(given, TraceSet):
        return given
    if isinstance(given, Trace):
        return TraceSet([given])
    for attribute in ("t", "trace_set"):
        inner = getattr(given, attribute, None)
        if isinstance(inner, TraceSet):
            return inner
    raise TraceError(
        f"a {type(given).__name__} holds no traces",
        remedy="Give what hw.load returns, a TraceAnalysis, or the path of a folder.",
    )
