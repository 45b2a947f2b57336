"""MPI profiles as mpitrace prints them since 2021, to the blank."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hta_widgets.formats.mpi.mpi_tables_model import MpiProfile
from hta_widgets.formats.mpi.mpi_tables_model import RankRow
from hta_widgets.formats.mpi.mpi_tables_model import Summary

__all__ = ["profile_text"]

_WIDE, _NARROW = "-" * 71, "-" * 65
_HISTOGRAM_FROM = 33


def profile_text(profile: MpiProfile) -> str:
    """Return the file of one rank; the sections that are off by default are left out."""
    return "".join(f"{line}\n" for line in _lines(profile))


def _lines(of: MpiProfile) -> Iterator[str]:
    yield f"Data for MPI rank {of.rank} of {of.ntasks}:"
    yield f"Times from {of.region[0]} to {of.region[1]}."
    yield _WIDE
    yield "MPI Routine                        #calls     avg. bytes      time(sec)"
    yield _WIDE
    for row in of.routine_rows:
        yield f"{row.routine:<28} {row.calls:12d}    {row.avg_bytes:11.1f}   {row.time_s:12.3f}"
    yield _WIDE
    for role in of.roles:
        yield f"MPI task {of.rank} of {of.ntasks} had the {role} communication time."
    synchronized = not math.isnan(of.sync_s)
    if synchronized:
        yield f"synchronization time     = {of.sync_s:.3f} seconds."
    yield f"total communication time = {of.comm_s:.3f} seconds" + (
        " (including synchronization)." if synchronized else "."
    )
    yield f"total elapsed time       = {of.elapsed_s:.3f} seconds."
    if not math.isnan(of.exclusive_s):
        yield f"exclusive elapsed time   = {of.exclusive_s:.3f} seconds."
    yield f"user cpu time            = {of.user_s:.3f} seconds."
    yield f"system time              = {of.system_s:.3f} seconds."
    yield f"max resident set size    = {of.rss_mib:.3f} MiB."
    if not math.isnan(of.io_s):
        yield ""
        yield f"total MPI-IO time = {of.io_s:.3f} seconds."
    yield ""
    yield _NARROW
    yield "Message size distributions:"
    yield ""
    yield from _sizes(of)
    if of.summary is not None:
        yield from _summary(of.summary)


def _sizes(of: MpiProfile) -> Iterator[str]:
    shown = ""
    for row in of.size_rows:
        if row.routine != shown:
            if shown:
                yield ""
            yield f"{row.routine:<22}    #calls    avg. bytes      time(sec)"
            shown = row.routine
        yield f"{'':20}{row.calls:12d}   {row.avg_bytes:11.1f}   {row.time_s:12.3f}"
    yield ""


def _summary(of: Summary) -> Iterator[str]:
    yield _NARROW
    yield ""
    yield "Summary for all tasks:"
    yield ""
    rss, elapsed = of.largest_rss_mib, of.largest_elapsed_s
    yield f"  Rank {rss[1]} reported the largest memory utilization : {rss[0]:.2f} MiB"
    yield f"  Rank {elapsed[1]} reported the largest elapsed time : {elapsed[0]:.2f} sec"
    yield ""
    for name, (time_s, rank) in zip(("minimum", "median ", "maximum"), of.comm_s, strict=True):
        yield f"  {name} communication time = {time_s:.3f} sec for task {rank}"
    if of.io_s:
        yield ""
        for name, time_s in zip(("minimum", "average", "maximum"), of.io_s, strict=True):
            yield f"  {name} MPI-IO time = {time_s:.3f} seconds"
    yield ""
    if of.histogram and len(of.ranks) >= _HISTOGRAM_FROM:
        yield "Histogram of times spent in MPI"
        yield "    time-bin    #ranks"
        for edge_s, ranks in of.histogram:
            yield f"{edge_s:12.3f}  {ranks:8d}"
    yield ""
    yield "MPI timing summary for all ranks:"
    width = max((len(row.host) for row in of.ranks), default=0) + 2
    yield (
        f"taskid {'host':>{width}}    cpu    comm(s)  elapsed(s)     user(s)   system(s)"
        "   size(MiB)    switches"
    )
    for row in of.ranks:
        yield _rank(row, width)


def _rank(row: RankRow, width: int) -> str:
    return (
        f"{row.rank:6d} {row.host:>{width}} {row.cpu:6d} {row.comm_s:10.2f}  "
        f"{row.elapsed_s:10.2f}  {row.user_s:10.2f}  {row.system_s:10.2f}  {row.rss_mib:10.2f}  "
        f"{row.switches:10d}"
    )
