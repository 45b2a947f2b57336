"""Write ranks and a manifest to one archive, which Perfetto 58 or later opens as a single trace.

Perfetto treats the clocks of Chrome trace files as unrelated. Adding a file's ``offset_ns`` to its
times converts them to times in the file of a reference rank. For example, if a collective ends at
100 µs in the file of rank 0 and at 130 µs in that of rank 1::

    {
        "perfetto_manifest": {
            "version": 1,
            "files": [
                {"path": "rank-1.json", "machine": {"name": "rank 1"}},
                {
                    "path": "rank-0.json",
                    "machine": {"name": "rank 0"},
                    "clocks": {"sync_to": {"file": "rank-1.json"}, "offset_ns": 30000},
                },
            ],
        }
    }

Offsets are never negative, because Perfetto drops events before the start of the timeline.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hta_widgets.analysis.cross_rank.clock_fit import clock_fit
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.files import (
    ClockName,
    ExportReport,
    choose_ranks,
    make_report,
    write_rank,
)
from hta_widgets.export.traces.members import ExportOptions
from hta_widgets.files import Target, target_path, write_atomically
from hta_widgets.trace.record_times import base_time_ns
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

MANIFEST = "perfetto_manifest.json"


def export_perfetto(
    traces: TraceSet, path: str | Path, selection: Selection | None = None, **options: Any
) -> ExportReport:
    """Write the selected ranks and a manifest of their clock offsets to a ``.tar`` archive.

    Parameters
    ----------
    traces : TraceSet
    path : path-like
    selection : Selection, optional
        What to write. Default: everything.
    **options
        Parameters of `hta_widgets.export_trace`, for example `clip`.

    Returns
    -------
    ExportReport
        Its clock is ``fitted`` if the offsets come from collectives, otherwise ``recorded``.
    """
    target = target_path(path)
    if target.suffix != ".tar":
        raise TraceError(
            "an archive for Perfetto is a .tar file", path=target, remedy="End the name with .tar."
        )
    is_fitted = len(traces) > 1 and bool(clock_fit(traces).collectives.any())
    clock: ClockName = "fitted" if is_fitted else "recorded"
    export_options = ExportOptions(**options)
    chosen = traces.select() if selection is None else selection
    ranks = choose_ranks(traces, chosen, export_options)
    placed_traces = traces.with_clock("fitted") if is_fitted else traces
    manifest = _manifest(
        [placed_traces[members.trace.rank] for members in ranks],
        clock,
        with_hosts=not export_options.scrub,
    )
    with (
        TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder,
        write_atomically(target) as file,
        tarfile.open(fileobj=file, mode="w") as archive,
    ):
        content = json.dumps(manifest, indent=1).encode()
        entry = tarfile.TarInfo(MANIFEST)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
        for members in ranks:
            name = _file_name(members.trace)
            rank_file = Target.of(f"{folder}/{name}")
            with rank_file.file() as out:
                write_rank(out, members)
            archive.add(rank_file.path, arcname=name, filter=_without_owner)
            rank_file.path.unlink()
    return make_report(target, target.stat().st_size, ranks, clock)


def _file_name(trace: Trace) -> str:
    return f"rank-{trace.rank}.json"


def _manifest(traces: Sequence[Trace], clock: ClockName, *, with_hosts: bool) -> dict[str, Any]:
    # Adding a rank's offset to a time in its file gives a time on the clock of the trace set.
    offsets_ns = [trace.shift_ns + base_time_ns(trace.metadata) - trace.zero_ns for trace in traces]
    reference = offsets_ns.index(min(offsets_ns))
    files = []
    for number, trace in enumerate(traces):
        host = f" ({trace.host})" if with_hosts and trace.host else ""
        machine = {"name": f"rank {trace.rank}{host}"}
        entry: dict[str, Any] = {"path": _file_name(trace), "machine": machine}
        if number != reference:
            entry["clocks"] = {
                "sync_to": {"file": _file_name(traces[reference])},
                "offset_ns": offsets_ns[number] - offsets_ns[reference],
            }
        files.append(entry)
    attributes = {"hta_widgets.clock": clock}
    return {"perfetto_manifest": {"version": 1, "files": files, "attributes": attributes}}


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member
