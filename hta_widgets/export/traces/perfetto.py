"""Write all ranks as one archive for Perfetto 58 and newer, which merges its files by a manifest.

Chrome trace files have no clock that Perfetto knows, so the manifest pins each to the file of one
rank by ``offset_ns``: at the same instant, the rank's file has the time T and the other one
T + ``offset_ns``. For ranks whose files state 100 and 130 µs for the end of one collective::

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

No offset is negative: Perfetto drops events before the start of the timeline.
"""

from __future__ import annotations

import io
import json
import tarfile
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hta_widgets.analysis.cross_rank.clock_fit import clock_fit
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.files import ExportReport, export_trace
from hta_widgets.files import target_path, write_atomically
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

MANIFEST = "perfetto_manifest.json"


def export_perfetto(
    traces: TraceSet, path: str | Path, selection: Selection | None = None, **options: Any
) -> ExportReport:
    """Write the selected ranks and a manifest of their clocks as a ``.tar``.

    Parameters
    ----------
    traces : TraceSet
    path : path-like
    selection : Selection, optional
    **options
        Of `hta_widgets.export_trace`.

    Returns
    -------
    ExportReport
        Its clock is ``fitted`` if the offsets come from collectives, else ``recorded``.
    """
    target = target_path(path)
    if target.suffix != ".tar":
        raise TraceError("an archive for Perfetto is a .tar file", path=target)
    is_fitted = len(traces) > 1 and bool(clock_fit(traces).collectives.any())
    placed = traces.with_clock("fitted") if is_fitted else traces
    chosen = traces.select() if selection is None else selection
    reports, names = [], {}
    with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        for rank in traces.ranks if chosen.ranks is None else chosen.ranks:
            part = traces.select(chosen, ranks=[rank])
            if not len(part.rows(traces[rank])):
                continue
            names[rank] = f"rank-{rank}.json"
            reports.append(export_trace(traces, f"{folder}/{names[rank]}", part, **options))
        if not reports:
            raise TraceError("nothing to export: the selection holds no events")
        members = {rank: placed[rank] for rank in names}
        manifest = _manifest(members, names, with_hosts=not options.get("scrub"))
        manifest["perfetto_manifest"]["attributes"] = {
            "hta_widgets.clock": "fitted" if is_fitted else "recorded"
        }
        with write_atomically(target) as file, tarfile.open(fileobj=file, mode="w") as archive:
            _add(archive, MANIFEST, json.dumps(manifest, indent=1).encode())
            for name in names.values():
                archive.add(f"{folder}/{name}", arcname=name, filter=_without_owner)
    left_out: dict[str, int] = {}
    for report in reports:
        for what, count in report.left_out.items():
            left_out[what] = left_out.get(what, 0) + count
    return ExportReport(
        path=target,
        events=sum(report.events for report in reports),
        flows=sum(report.flows for report in reports),
        dropped=sum(report.dropped for report in reports),
        bytes=target.stat().st_size,
        ranks=tuple(names),
        left_out=left_out,
        clock="fitted" if is_fitted else "recorded",
    )


def _manifest(
    traces: dict[int, Trace], names: dict[int, str], *, with_hosts: bool
) -> dict[str, Any]:
    offsets = {rank: _file_offset_ns(trace) for rank, trace in traces.items()}
    reference = min(offsets, key=lambda rank: (offsets[rank], rank))
    files = []
    for rank, name in names.items():
        host = f" ({traces[rank].host})" if with_hosts and traces[rank].host else ""
        entry: dict[str, Any] = {"path": name, "machine": {"name": f"rank {rank}{host}"}}
        if rank != reference:
            entry["clocks"] = {
                "sync_to": {"file": names[reference]},
                "offset_ns": offsets[rank] - offsets[reference],
            }
        files.append(entry)
    return {"perfetto_manifest": {"version": 1, "files": files}}


def _file_offset_ns(trace: Trace) -> int:
    """Return the offset from the times in a rank's file to the times of the set."""
    if trace.source is None:
        raise TraceError(f"rank {trace.rank} has no records to export", path=trace.path)
    record = trace.source.record(int(trace.table.record[0]))
    event = json.loads(record.decode("utf-8", "replace"), parse_float=Decimal, strict=False)
    written_ns = round(Decimal(str(event["ts"])) * 1000)
    return int(trace.table.start_ns[0]) + trace.shift_ns - written_ns


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member
