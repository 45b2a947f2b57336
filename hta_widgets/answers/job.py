"""Load jobs for answers, on the fitted clock if the recorded clocks disagree.

Fitting the clocks requires the communication of all ranks and takes longer than most tables. The
offsets are therefore stored next to the cache entry of the first rank and are evicted with it. The
file name is a hash of everything that affects the fit: the cache files of all ranks (never
rewritten), the time shifts of the ranks, and the code of the fit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hta_widgets import options as settings, taxonomy
from hta_widgets.answers.reply import TableReply, grouped_problems, job_facts
from hta_widgets.arguments import convert
from hta_widgets.errors import TraceError, redact_urls
from hta_widgets.files import code_fingerprint, write_text
from hta_widgets.readers.formats import all_formats
from hta_widgets.readers.load import load
from hta_widgets.store.rank_file import StoredRank
from hta_widgets.trace.memo import memo
from hta_widgets.trace.traceset import FITTED_OFFSETS, TraceSet

#: The clock offset of each rank (None if the recorded clocks agree), and that of time 0.
_Fit = tuple[list[int] | None, int]


@dataclass(frozen=True)
class Job:
    """A loaded job on the clock used in views, and the paths it was loaded from.

    `ranks` are the requested ranks, or None for all ranks.
    """

    traces: TraceSet
    paths: tuple[str, ...]
    ranks: tuple[int, ...] | None = None

    @classmethod
    def open(cls, paths: Sequence[str], ranks: Iterable[int] | None = None) -> Job:
        """Load a job; raise a `TraceError` if it has no events."""
        chosen = None if ranks is None else tuple(ranks)
        return cls(on_view_clock(load_events(paths, chosen)), tuple(paths), chosen)

    @property
    def code(self) -> str:
        """The Python expression that loads this job."""
        paths = list(map(redact_urls, self.paths))
        source = repr(paths[0] if len(paths) == 1 else paths)
        scope = "" if self.ranks is None else f", ranks={list(self.ranks)}"
        clock = '.with_clock("fitted")' if self.traces.clock == "fitted" else ""
        return f"hw.load({source}{scope}){clock}"

    def reply(
        self, frame: pd.DataFrame, table: str, total_rows: int, code: str, **fields: Any
    ) -> TableReply:
        """Return a reply with rows of this job. `code` computes the rows from ``traces``."""
        steps = settings.steps
        setting = "" if steps is None else f"hw.options.steps = {steps!r}; "
        return TableReply(
            frame,
            table,
            job_facts(self.traces, self.paths),
            total_rows,
            problems=grouped_problems(self.traces),
            code=f"{setting}traces = {self.code}; frame = {code}",
            **fields,
        )


def load_events(paths: Sequence[str], ranks: Iterable[int] | None = None) -> TraceSet:
    """Load the traces at `paths`; raise a `TraceError` if they have no events."""
    traces = load(paths[0] if len(paths) == 1 else list(paths), ranks=ranks)
    empty = {problem.file for problem in traces.problem_list if problem.kind == "empty"}
    if all(trace.path in empty for trace in traces.values()):
        raise TraceError(
            "holds no trace events",
            path=paths[0],
            remedy="Check that the job ran while it was profiled.",
        )
    return traces


def on_view_clock(traces: TraceSet) -> TraceSet:
    """Return a job on the clock used in views."""
    if len(traces) < 2:
        return traces
    path = _path_of_fit(traces)
    fit = None if path is None else _read_fit(path, len(traces))
    if fit is None:
        from hta_widgets.analysis.cross_rank.clock_fit import clock_fit, fitted_offsets  # slow

        fit = fitted_offsets(traces) if clock_fit(traces).is_needed else (None, 0)
        if path is not None:
            with suppress(TraceError):  # the cache may be read-only
                write_text(path, json.dumps(fit))
    if fit[0] is None:
        return traces
    memo(traces, FITTED_OFFSETS, lambda: fit)
    return traces.with_clock("fitted")


def _read_fit(path: Path, ranks: int) -> _Fit | None:
    try:
        fit: _Fit = convert(json.loads(path.read_text()), _Fit)
    except (OSError, ValueError):
        return None
    return fit if fit[0] is None or len(fit[0]) == ranks else None


def _path_of_fit(traces: TraceSet) -> Path | None:
    """Return the file for the fit, or None if the fit cannot be cached."""
    files = [trace.table.file for trace in traces.values()]
    ranks = [file for file in files if isinstance(file, StoredRank) and file.restorer is not None]
    has_own_code = all(format_.reading.read.startswith("hta_widgets.") for format_ in all_formats())
    if len(ranks) < len(files) or taxonomy.version() or not has_own_code:
        return None
    clocks = [(rank, trace.shift_ns, trace.clock_offset_ns) for rank, trace in traces.items()]
    # The paths of cache entries already depend on the code of the other layers.
    code = code_fingerprint("analysis/*.py", "analysis/cross_rank/*.py")
    facts = [str(rank.path) for rank in ranks], clocks, code
    key = hashlib.sha256(repr(facts).encode()).hexdigest()[:40]
    return ranks[0].path.with_name(f"clock-{key}.json")
