"""Allocations and releases of memory, as later versions of HTA list them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.compat.hta_frame import in_us
from hta_widgets.compat.scope import asked_ranks, kept_of, with_attrs_of, zero_ns_of
from hta_widgets.trace.traceset import TraceSet

__all__ = ["memory_timeline_of"]

_HOST = "cpu"


def memory_timeline_of(t: TraceSet, rank: int | None = None) -> pd.DataFrame:
    """Return a rank's events; see `TraceAnalysis.get_memory_timeline`."""
    kept = kept_of(t)
    ranks = asked_ranks(kept, None if rank is None else [rank])
    events = analysis.memory_events(kept, ranks=ranks)
    devices = [str(device) for device in events["device"].cat.categories]
    codes = events["device"].cat.codes.to_numpy()
    numbers = [int(name.partition(":")[2] or -1) for name in devices]
    on_device = [int(name != _HOST) for name in devices]
    frame = pd.DataFrame(
        {
            "ts": in_us(events["time_ns"].to_numpy() - zero_ns_of(t)),
            "device_id": np.array(numbers, dtype=np.int64)[codes],
            "device_type": np.array(on_device, dtype=np.int64)[codes],
            "bytes_delta": events["bytes"],
            "total_allocated": events["total_allocated_bytes"],
            "total_reserved": events["total_reserved_bytes"],
            "addr": events["address"],
            "operator": events["operator"],
        }
    )
    return with_attrs_of(frame, events)
