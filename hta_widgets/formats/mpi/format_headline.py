"""What matters most in BytePS's and MPI's files, in a sentence or three."""

from __future__ import annotations

from typing import Any

import numpy as np

from hta_widgets import analysis
from hta_widgets.analysis.stragglers import mpi_stragglers
from hta_widgets.formats.byteps.byteps_frames import by_tensor
from hta_widgets.formats.mpi.mpi_frames import keys_of_ranks
from hta_widgets.panels.finding import Finding, Headline, Piece
from hta_widgets.text import count, duration, share, size_range
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

__all__ = ["format_headline"]

_OWN = {"byteps", "byteps-server", "mpi-profile", "mpi-trace"}
#: Messages of a size are told of that take this share of their routine's time …
_MUCH_TIME = 0.1
#: … and this many times their share of its bytes.
_OF_BYTES = 2.0
#: From here on the busiest server is busier than others.
_UNEVEN = 1.25
#: Queues are told of from this share of gradients' time on.
_MUCH_QUEUE = 0.25
_MOST_SENTENCES = 2
#: Of the run: how much less than the others a rank must spend in MPI to be named as a fact.
_WORTH_SAYING = 0.01


def format_headline(traces: TraceSet) -> Headline | None:
    """Return what matters most in a job of these formats alone; None where there are others."""
    formats = set(traces.formats)
    if not formats or not formats <= _OWN:
        return None
    found: list[Finding] = []
    more: list[list[Piece]] = []
    nothing: list[Piece] = []
    if formats & {"byteps", "byteps-server"}:
        _byteps(traces, found, more)
        workers = {(one.job, one.worker) for one in traces.values() if one.format == "byteps"}
        if len(workers) != 1:
            nothing = ["No worker is last most of the time."]
    if formats & {"mpi-profile", "mpi-trace"}:
        nothing = _mpi(traces, found, more) or nothing
    sentences = [*(one.parts for one in found[1:]), *more]
    if found:
        return Headline(found[0].parts, sentences[:_MOST_SENTENCES], found)
    if not sentences:
        return Headline(nothing, [], [])
    return Headline(sentences[0], [nothing, *sentences[1:]][:_MOST_SENTENCES], [])


# --- BytePS ---------------------------------------------------------------------------------------


def _byteps(traces: TraceSet, found: list[Finding], more: list[list[Piece]]) -> None:
    late = _late_by_pulls(traces) or _late_by_servers(traces)
    found += late
    if "byteps" in traces.formats:
        more += _gradients(traces)
    if "byteps-server" in traces.formats:
        servers = analysis.byteps_servers(traces)
        busy = servers["busy_ns"].to_numpy(float)
        if len(busy) > 1 and busy.mean() > 0 and busy.max() >= _UNEVEN * busy.mean():
            first = int(servers["server"].iloc[int(busy.argmax())])
            more.append(
                [
                    (
                        f"Server {first} works {busy.max() / busy.mean():.2f} times as much as the"
                        " mean server: keys are shared out unevenly."
                    )
                ]
            )


def _gradients(traces: TraceSet) -> list[list[Piece]]:
    """Say which gradient takes longest, and whether gradients wait in queues or in a stage."""
    slowest = by_tensor(analysis.byteps_gradients(traces))
    if slowest.empty:
        return []
    of_root = bool(slowest["root"].all())
    part = slowest if of_root else slowest[~slowest["root"]]
    queue = int(part["queue_ns"].sum()) / max(int(part["total_ns"].sum()), 1)
    mean = slowest["total_ns"] / slowest["count"]
    first = int(mean.to_numpy().argmax())
    longest = f"{slowest['tensor'][first]} takes longest, {duration(float(mean[first]))}"
    if slowest.groupby(["job", "worker"]).ngroups > 1:
        longest += f" on worker {slowest['worker'][first]}"
    if queue >= _MUCH_QUEUE:
        where = "in queues" if of_root else "for the GPU that talks to the servers"
        return [[f"{share(queue)} of a gradient's time is waiting {where}; {longest}."]]
    stages = analysis.byteps_stages(traces)
    if of_root:
        stages = stages[stages["root"]]
    most = int(stages["mean_ns"].to_numpy().argmax())
    return [[f"{longest}; the longest stage is {stages['stage'].iloc[most]}."]]


def _late_by_pulls(traces: TraceSet) -> list[Finding]:
    if "byteps" not in traces.formats:
        return []
    blame = analysis.byteps_pull_blame(traces)
    cost = int(blame["slack_ns"].sum())
    whole = max(int(blame["pull_ns"].sum()), 1)
    found = []
    for worker, part, pulls, job in zip(
        *(blame[name][blame["straggler"]] for name in ("worker", "blame", "pulls", "job")),
        strict=True,
    ):
        ranks = [
            trace.rank
            for trace in traces.values()
            if trace.format == "byteps" and trace.worker == worker and trace.job == job
        ]
        parts: list[Piece] = [
            {"rank": ranks[-1], "text": f"Worker {worker}"},
            (
                f" is last in {count(round(part * pulls))} of {count(pulls)} partitions and steps:"
                f" the others' PULLs wait {duration(cost)} for it, {share(cost / whole)} of all"
                " PULLs."
            ),
        ]
        label, chosen = f"Select worker {worker}", Selection(ranks=tuple(ranks))
        found.append(Finding("waiting", cost / whole, parts, label, chosen))
    return found


def _late_by_servers(traces: TraceSet) -> list[Finding]:
    if "byteps-server" not in traces.formats:
        return []
    lag = analysis.byteps_worker_lag(traces)
    late = lag[lag["straggler"]]
    found = []
    for label, score, iterations, mean, cost in zip(
        *(
            late[name]
            for name in ("label", "score", "iterations", "mean_lag_ns", "imposed_wait_ns")
        ),
        strict=True,
    ):
        parts: list[Piece] = [
            (
                f"N{label[1:]} is last in {count(round(score * iterations))} of {count(iterations)}"
                f" pushes, {duration(mean)} behind: the others' pulls wait {duration(cost)} for it."
            ),
        ]
        found.append(Finding("waiting", float(score), parts, "Select pulls", _PULLS))
    return found


_PULLS = Selection(query="name.str.startswith('pull-')")


# --- MPI ------------------------------------------------------------------------------------------


def _mpi(traces: TraceSet, found: list[Finding], more: list[list[Piece]]) -> list[Piece]:
    uneven = analysis.mpi_imbalance(traces)
    keys = keys_of_ranks(traces)
    several = len(uneven) > 1
    late = sorted(mpi_stragglers(traces))
    facts: list[list[Piece]] = []
    for row in uneven.to_dict("records"):
        job = f" of {row['job']}" if several else ""
        named = [rank for name, rank in late if name == row["job"]]
        found += [_straggler(row, rank, keys, job) for rank in named]
        if not named and row["stands_out"] and row["lost_share"] >= _WORTH_SAYING:
            lost = share(row["lost_share"])
            text = f"{job} spends {lost} of the run less in MPI than the others, maybe by chance."
            facts.append([_rank_piece(row["job"], row["comm_min_rank"], keys), text])
    for job_name, costly in _costly_sizes(traces):
        more.append([f"{f'{job_name}: ' if several else ''}{costly}"])
    hosts = analysis.mpi_hosts(traces)
    slow = hosts["host"][hosts["is_slow"]].tolist()
    if slow:
        more.append([f"All ranks of {', '.join(slow)} wait least: the others wait for that host."])
    more += facts
    if not len(uneven):
        return []
    ranks = analysis.mpi_ranks(traces)
    of_all = float(np.nansum(ranks["comm_s"]) / max(np.nansum(ranks["elapsed_s"]), 1e-300))
    if len(ranks) == 1:
        return [f"The rank spends {share(of_all)} of its time in MPI, and waits for nobody."]
    return [f"No rank is a straggler: ranks spend {share(of_all)} of their time in MPI."]


def _straggler(
    row: dict[Any, Any], rank: int, keys: dict[tuple[str, int], list[int]], job: str
) -> Finding:
    others = int(row["ranks"]) - 1
    own = keys.get((row["job"], rank), [])
    wait = f"the other {f'{others} wait' if others > 1 else 'rank waits'} for it"
    text = f"{job} comes last where it costs most time: {wait}."
    if rank == row["comm_min_rank"]:
        text = (
            f"{job} spends least time in MPI, {duration(row['comm_min_s'] * 1e9)}"
            f" (mean {duration(row['comm_mean_s'] * 1e9)}): {wait}."
        )
    parts: list[Piece] = [_rank_piece(row["job"], rank, keys), text]
    lost = 1 - row["comm_min_s"] / max(row["comm_mean_s"], 1e-300)
    chosen = Selection(ranks=tuple(own)) if own else Selection()
    return Finding("waiting", float(lost), parts, f"Select rank {rank}", chosen)


def _rank_piece(job: str, rank: int, keys: dict[tuple[str, int], list[int]]) -> Piece:
    own = keys.get((job, rank), [])
    return {"rank": own[0], "text": f"Rank {rank}"} if own else f"Rank {rank}"


def _costly_sizes(traces: TraceSet) -> list[tuple[str, str]]:
    """Say of each job which all-reduces take most time beyond their share of the bytes."""
    frame = analysis.mpi_message_sizes(traces, routine="MPI_Allreduce")
    names = ["calls", "time_s", "bytes"]
    said = []
    for job, rows in frame.groupby("job", sort=True):
        by_size = rows.groupby(["size_lo", "size_hi"])[names].sum()
        part = by_size / by_size.sum().where(by_size.sum() > 0, 1)
        found = part[(part["time_s"] >= _MUCH_TIME) & (part["time_s"] >= _OF_BYTES * part["bytes"])]
        if not len(found):
            continue
        most = found.loc[[(found["time_s"] - found["bytes"]).idxmax()]].reset_index().iloc[0]
        text = (
            f"Allreduce of {size_range(int(most['size_lo']), int(most['size_hi']))}:"
            f" {share(most['calls'])} of calls, {share(most['time_s'])} of Allreduce time,"
            f" {_fine(most['bytes'])} of bytes."
        )
        said.append((str(job), text))
    return said


def _fine(part: float) -> str:
    """Return a share to one digit where it is small: that it is tiny is what matters."""
    if not 0 < part < 0.01:
        return share(part)
    percent = part * 100
    digits = max(0, -int(np.floor(np.log10(percent))))
    return f"{percent:.{digits}f}\u2009%"
