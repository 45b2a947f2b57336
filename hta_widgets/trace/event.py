"""`Event`: an event of a rank, with its operator and the device work that it launched.

For example, if ``aten::mm`` calls ``cudaLaunchKernel``, which launches the kernel ``gemm``::

    traces.event(gemm).operator      <event 0 of rank 0: aten::mm>
    traces.event(aten_mm).kernels    one row: gemm
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hta_widgets.trace.arrays import Rows
from hta_widgets.trace.host_stack import operator_tree
from hta_widgets.trace.trace import Trace, events_of


@dataclass(frozen=True)
class Event:
    """An event of a rank.

    Attributes
    ----------
    id : int
        Index of the event in `Trace.events`.
    """

    trace: Trace
    id: int

    def __repr__(self) -> str:
        return f"<event {self.id} of rank {self.trace.rank}: {self.name}>"

    @property
    def name(self) -> str:
        """Name of the event."""
        table = self.trace.table
        return str(table.names.values[int(table.name[self.id])])

    @property
    def operator(self) -> Event | None:
        """The innermost operator around the event, or around the call that launched it.

        None if no operator encloses it. For an operator, the event itself.
        """
        call = int(self.trace.launch_of[self.id])
        if call < 0 and self.trace.table.stream[self.id] >= 0:
            return None  # device work without a launch
        tree = operator_tree(self.trace)
        node = int(tree.innermost[call if call >= 0 else self.id])
        return None if node < 0 else Event(self.trace, int(tree.rows[node]))

    @property
    def kernels(self) -> pd.DataFrame:
        """The device work launched during a host event on its thread.

        The columns are as in `TraceSet.events`. The frame is empty for device work.
        """
        return events_of([self.trace], rows_of=lambda trace: launched_rows(trace, self.id)[0])


def launched_rows(trace: Trace, row: int) -> tuple[Rows, Rows]:
    """Return the device work launched during a host event on its thread, and the calls."""
    table = trace.table
    work = np.flatnonzero(trace.launch_of >= 0)
    call = trace.launch_of[work]
    is_during = table.track[call] == table.track[row]
    is_during &= table.start_ns[call] >= table.start_ns[row]
    is_during &= table.end_ns[call] <= table.end_ns[row]
    return work[is_during], call[is_during]
