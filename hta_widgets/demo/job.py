"""Simulate a training job, and write its Kineto files and the truth about it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np

from hta_widgets.arguments import Count, Size, check_arguments
from hta_widgets.demo import files as document
from hta_widgets.demo.files import JobPlan, StepTemplate, step_template
from hta_widgets.demo.program import Program
from hta_widgets.demo.training_step import KINDS, TRUTH, ChangeName, JobKind, Model, training_step
from hta_widgets.errors import TraceError
from hta_widgets.files import new_folder, write_atomically, write_text
from hta_widgets.trace.arrays import Floats, Ints

_LAUNCH_LATENCY_NS = 1_300.0
_STREAM_GAP_NS = 950.0
_WAKE_NS = 2_200.0
_RECORDING = 1.8  # factor by which the profiler slows the host
_JOB_NS = 5_184_000_000_000_000  # from baseTimeNanoseconds to the job's start: 60 days
_MARGIN_NS = 400_000  # recorded time before the first step and after the last step
_FILES_AT_ONCE = 200  # below the usual limit for open files


@check_arguments
def write_demo(
    directory: str | Path,
    *,
    ranks: Size = 8,
    steps: Size = 5,
    seed: Count = 0,
    kind: JobKind = "training",
    straggler: int | None = 5,
    factor: float = 1.25,
    skew_us: float = 200.0,
    tensor_ranks: Size | None = None,
    strided: bool = False,
    missing: Iterable[int] = (),
    uneven_us: float = 0.0,
    events_per_step: Size | None = None,
    modules: bool = False,
    checkpoint: bool = False,
    changes: Iterable[ChangeName] = (),
    format: Literal["json.gz", "json"] = "json.gz",
    truth_path: str | Path | None = None,
) -> dict[str, Any]:
    """Write one Kineto file per rank of a data-parallel training job, and the truth about it.

    The job trains a small transformer. In each step, every rank loads a batch, runs the forward and
    backward pass and the optimizer, and waits for the device to read the loss. Gradients are
    reduced in buckets during the backward pass. A collective ends on all members at the same time:
    one transfer time after the last arrival. The output depends only on the arguments.

    Parameters
    ----------
    directory : path-like
        Folder for ``rank-0.trace.json.gz`` and the other files; created if missing.
    ranks, steps : int
        Size of the job.
    seed : int
        Seed for all noise.
    kind : {"training", "data_loading", "launch_bound", "memory_bound"}
        What takes most time in a step: the matrix products of a transformer (default), the data
        loader, the launches of many small kernels, or the memory traffic of a narrow model with a
        large batch.
    straggler : int or None, default 5
        The slow rank. The last rank is slow if the number is too large; None means no slow rank.
    factor : float, default 1.25
        Factor by which the straggler is slower, on both host and device.
    skew_us : float, default 200
        Largest clock error. The clock of rank 0 is exact.
    tensor_ranks : int, optional
        Number of adjacent ranks that form a process group, split the sequences and gather them
        again in every layer. The default is 2 if `ranks` is even and at least 4, else 1 (no split).
    strided : bool, default False
        Reduce gradients only among ranks with the same position in their tensor group.
    missing : sequence of int
        Ranks that take part but write no file.
    uneven_us : float, default 0
        Maximum delay until recording starts. The delay differs between ranks. Earlier events are
        not written.
    events_per_step : int, optional
        Approximate number of records per rank and step. It determines the number of layers. By
        default there are 12 layers, about 5 000 records.
    modules : bool, default False
        Write the calls of modules, as recorded with ``with_stack=True``.
    checkpoint : bool, default False
        Recompute each layer in the backward pass.
    changes : iterable of str, optional
        Differences from the default job, to be found by a comparison. ``"slow_operator"``:
        ``aten::gelu`` takes twice as long on host and device. ``"fused_kernel"``: one kernel
        replaces two in the backward pass of layer norms. ``"moved_collective"``: the first gradient
        bucket is reduced last. ``"extra_copy"``: the logits are copied on the device before the
        loss.
    format : {"json.gz", "json"}
        Compressed or plain.
    truth_path : path-like, optional
        File for the truth. By default ``<directory>_truth.json``, next to the directory, because
        every JSON file in the directory is a trace.

    Returns
    -------
    dict
        The contents of the truth file, and its path in ``truth_path``. Lists by rank are ``speed``,
        ``skew_us`` (clock error), ``wait_us_total``, ``imposed_wait_us`` (waits of other ranks for
        the rank when it arrived last), ``last_arrivals``, ``records``, and ``events`` (complete
        events in the file). ``collectives`` is the number of collectives. ``observed`` has these
        figures for the events in the files. ``collective_list`` has the members, arrivals and end
        of each collective, in ns since ``zero_ns``, the start of the job on the true clock.
        ``step_flops`` has the FLOPs of a step on one rank: ``forward_flops``; ``backward_flops``,
        with recomputed attention scores; ``model_flops``, without recomputation; and
        ``recompute_flops`` of checkpoints. ``module_ns`` has the device time of each rank by module
        (``""``: none) and phase, excluding nested modules. ``changes`` lists what a comparison with
        the default job should find.

    Examples
    --------
    >>> truth = write_demo("demo-job", ranks=8, steps=5, seed=0)
    >>> truth["straggler"]
    5
    """
    plan = JobPlan(
        ranks, steps, seed, straggler=straggler, factor=factor, skew_us=skew_us,
        tensor_ranks=tensor_ranks, strided=strided, missing=tuple(missing), uneven_us=uneven_us,
    )  # fmt: skip
    injected = frozenset(changes)
    if "moved_collective" in injected and ranks < 2:
        raise TraceError("a job of one rank has no collective to move", remedy="Give it 2 ranks.")
    folder = new_folder(directory)
    files = {rank: f"rank-{rank}.trace.{format}" for rank in plan.written}
    model = replace(
        KINDS[kind],
        ranks=len(plan.groups["world"][0].ranks),
        tensor_ranks=len(plan.groups["tensor"][0].ranks) if "tensor" in plan.groups else 1,
        modules=modules,
        checkpoint=checkpoint,
    )
    layers = model.layers if events_per_step is None else _layers_for(events_per_step, model)
    model = replace(model, layers=layers, changes=injected)
    program, nodes = training_step(model)
    template = step_template(program, nodes)
    truth = Truth(plan, program)
    for first in range(0, len(plan.written), _FILES_AT_ONCE):
        written = plan.written[first : first + _FILES_AT_ONCE]
        _write(folder, {rank: files[rank] for rank in written}, plan, program, template, truth)
    facts = truth.as_dict(document.BASE_NS + _JOB_NS, files)
    made = [{"injected": name, **TRUTH[name]} for name in TRUTH if name in injected]
    facts |= {"kind": kind, "step_flops": model.step_flops(), "changes": made}
    absolute = folder.resolve()
    path = Path(truth_path) if truth_path else absolute.with_name(f"{absolute.name}_truth.json")
    write_text(path, json.dumps(facts))
    return facts | {"truth_path": str(path)}


def _layers_for(events_per_step: int, model: Model) -> int:
    """Return the number of layers that gives about `events_per_step` records per step."""
    of_two_layers, of_three_layers = (
        len(step_template(*training_step(replace(model, layers=layers))).records)
        for layers in (2, 3)
    )
    records_per_layer = of_three_layers - of_two_layers
    return max(1, 2 + round((events_per_step - of_two_layers) / records_per_layer))


def _write(
    folder: Path,
    files: dict[int, str],
    plan: JobPlan,
    program: Program,
    template: StepTemplate,
    truth: Truth,
) -> None:
    """Simulate the job and write some ranks' files; the first call collects the truth."""
    clock_zero_ns = _JOB_NS + plan.skew_ns  # the job's start on each rank's clock
    is_first_pass = plan.written[0] in files
    with ExitStack() as stack:
        opened = {
            rank: stack.enter_context(_open_file(folder / name)) for rank, name in files.items()
        }
        records_of_rank = {rank: template.for_rank(plan.names_of(rank)) for rank in files}
        for rank, file in opened.items():
            head = document.header(rank, plan.ranks, plan.configs_of(rank), plan.seed)
            file.write(head.encode())
        for step, times in enumerate(simulate(program, plan)):
            if is_first_pass:
                truth.add(step, times)
            for rank, file in opened.items():
                true_ns = times.times_ns[rank]
                records = records_of_rank[rank]
                if true_ns.min() < plan.record_from_ns[rank]:
                    records = records.starting_at(true_ns, plan.record_from_ns[rank])
                file.write(records.fill(true_ns + clock_zero_ns[rank], step))
                truth.counts[:, rank] += len(records.records), records.is_complete.sum()
        ends_ns = times.times_ns[:, len(program.costs) - 1]
        for rank, file in opened.items():
            start_ns = clock_zero_ns[rank] + plan.record_from_ns[rank] - _MARGIN_NS
            end_ns = clock_zero_ns[rank] + ends_ns[rank] + _MARGIN_NS
            tail, tail_records = document.footer(rank, int(start_ns), int(end_ns))
            file.write(tail.encode())
            truth.counts[:, rank] += tail_records, 1  # one complete event: the profiler's span


@contextmanager
def _open_file(path: Path) -> Iterator[IO[bytes]]:
    with write_atomically(path) as raw:
        if path.suffix != ".gz":
            yield raw
            return
        # For reproducible files, omit time and name from the header.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=4, fileobj=raw, mtime=0) as packed:
            yield cast("IO[bytes]", packed)


def simulate(program: Program, plan: JobPlan) -> Iterator[StepTimes]:
    """Yield the times of each step."""
    rng = np.random.default_rng([plan.seed, 1])
    begin = plan.start_ns
    for _ in range(plan.steps):
        step = StepTimes(program, plan, begin, rng)
        yield step
        begin = step.ticks[:, len(program.costs) - 1]


class StepTimes:
    """Times of a step on all ranks, in ns on the true clock.

    `times_ns` has a row per rank and columns for ticks, side ticks, device starts and device ends.
    `collectives` has the indices of device events; `arrival_ns` and `end_ns` have a row for each.
    """

    def __init__(
        self, program: Program, plan: JobPlan, begin: Floats, rng: np.random.Generator
    ) -> None:
        self.program, self.plan, self.rng = program, plan, rng
        ranks = len(begin)
        pace = (plan.speed * rng.lognormal(0.0, 0.008, ranks))[:, None]
        host_spread = np.full(len(program.costs), 0.12)
        host_spread[program.noisy] = 0.3
        host_noise = np.exp(rng.standard_normal((ranks, len(program.costs))) * host_spread)
        costs = _RECORDING * np.asarray(program.costs) * pace * host_noise
        self.ticks = begin[:, None] + np.cumsum(costs, axis=1)
        work = np.array([event.work.base_ns for event in program.device])
        self.work = work * pace * np.exp(rng.standard_normal((ranks, len(work))) * 0.02)
        self.starts = np.zeros_like(self.work)
        self.ends = np.zeros_like(self.work)
        self.free = {item.stream: begin.copy() for item in program.items}
        self.launches = np.array([event.launch for event in program.device])
        self.collectives: list[int] = []
        self._run_streams(begin)
        side_noise = rng.lognormal(0.0, 0.1, (ranks, len(program.side_costs)))
        side_costs = np.asarray(program.side_costs) * pace * side_noise
        side_ticks = self.ticks[:, [program.side_anchor]] + np.cumsum(side_costs, axis=1)
        all_times = np.concatenate([self.ticks, side_ticks, self.starts, self.ends], axis=1)
        self.times_ns: Ints = np.rint(all_times).astype(np.int64)
        starts, ends = np.split(self.times_ns[:, -2 * len(work) :], 2, axis=1)
        self.work_ns = ends - starts
        self.arrival_ns, self.end_ns = starts.T[self.collectives], ends.T[self.collectives]

    def _run_streams(self, begin: Floats) -> None:
        """Set the times of all device events, in the order in which the host issues them."""
        runs = groupby(self.program.items, lambda item: (item.kind, item.stream))
        for (kind, stream), items in runs:
            numbers = [item.number for item in items]
            if kind == "launch":
                self._launch(stream, np.array(numbers))
                continue
            for number in numbers:
                if kind == "wait":
                    other = self.free.get(number, begin)
                    self.free[stream] = np.maximum(self.free[stream], other)
                elif kind == "collective":
                    self._collective(stream, number)
                else:
                    self._synchronize(stream, number)

    def _ready(self, device: Ints) -> Floats:
        """Return when the launches of device events reach each rank's device."""
        launched: Floats = self.ticks[:, self.launches[device]]
        return launched + _LAUNCH_LATENCY_NS

    def _launch(self, stream: int, device: Ints) -> None:
        """Run device events on one stream, one after another."""
        # start[j] = max(ready[j], end[j-1] + gap), unrolled into a running maximum.
        occupied_ns = self.work[:, device] + _STREAM_GAP_NS
        before_ns = np.cumsum(occupied_ns, axis=1) - occupied_ns
        slack = self._ready(device) - before_ns
        slack[:, 0] = np.maximum(slack[:, 0], self.free[stream] + _STREAM_GAP_NS)
        self.starts[:, device] = before_ns + np.maximum.accumulate(slack, axis=1)
        self.ends[:, device] = self.starts[:, device] + self.work[:, device]
        self.free[stream] = self.ends[:, device[-1]]

    def _collective(self, stream: int, device: int) -> None:
        """Run a collective, which ends at the same time on all members of its group."""
        partition = self.program.collectives[device].partition
        groups = np.array([group.ranks for group in self.plan.groups[partition]])
        ready = self._ready(np.array([device]))[:, 0]
        arrival = np.maximum(ready, self.free[stream] + _STREAM_GAP_NS)
        noise = self.rng.lognormal(0.0, 0.04, len(groups))
        transfer = self.program.device[device].work.base_ns * noise
        self.starts[:, device] = arrival
        self.ends[groups, device] = (arrival[groups].max(axis=1) + transfer)[:, None]
        self.free[stream] = self.ends[:, device].copy()
        self.collectives.append(device)

    def _synchronize(self, stream: int, tick: int) -> None:
        """Wait on the host until a stream is free. This shifts all later ticks."""
        reached = np.maximum(self.ticks[:, tick], self.free[stream] + _WAKE_NS)
        self.ticks[:, tick:] += (reached - self.ticks[:, tick])[:, None]


class Truth:
    """Ground truth of a job, collected during the simulation."""

    def __init__(self, plan: JobPlan, program: Program) -> None:
        self.plan, self.program = plan, program
        self.collectives: list[dict[str, Any]] = []
        #: for each rank, number of records and number of complete events
        self.counts = np.zeros((2, plan.ranks), np.int64)
        self.owners = [event.owner for event in program.device]
        self.module_ns = {owner: np.zeros(plan.ranks, np.int64) for owner in self.owners}

    def add(self, step: int, times: StepTimes) -> None:
        """Add the collectives and module times of a step."""
        for owner, work_ns in zip(self.owners, times.work_ns.T, strict=True):
            self.module_ns[owner] += work_ns
        written = np.isin(np.arange(self.plan.ranks), self.plan.written)
        for position, device in enumerate(times.collectives):
            call = self.program.collectives[device]
            arrival_ns = times.arrival_ns[position]
            seen = written & (arrival_ns >= self.plan.record_from_ns)
            for group in self.plan.groups[call.partition]:
                members = np.array(group.ranks)
                number = step * self.program.sequences[call.partition] + call.sequence + 1
                self.collectives.append({
                    "step": step, "group": group.name, "name": call.name, "seq": number,
                    "in_bytes": call.in_elements * call.element_bytes,
                    "out_bytes": call.out_elements * call.element_bytes,
                    "ranks": list(group.ranks), "in_files": members[seen[members]].tolist(),
                    "arrival_ns": arrival_ns[members].tolist(),
                    "end_ns": int(times.end_ns[position][members[0]]),
                    "last_rank": int(members[arrival_ns[members].argmax()]),
                })  # fmt: skip

    def _totals(self, members: Literal["ranks", "in_files"]) -> dict[str, Any]:
        """Return each rank's waits and last arrivals, for collectives of at least two members."""
        wait_ns, imposed_ns, last = np.zeros((3, self.plan.ranks), np.int64)
        meetings = [collective for collective in self.collectives if len(collective[members]) > 1]
        for meeting in meetings:
            ranks = np.array(meeting[members])
            arrival_ns = np.array(meeting["arrival_ns"])[np.isin(meeting["ranks"], ranks)]
            latest = ranks[arrival_ns.argmax()]
            waits_ns = arrival_ns.max() - arrival_ns
            wait_ns[ranks] += waits_ns
            imposed_ns[latest] += waits_ns.sum()
            last[latest] += 1
        return {
            "collectives": len(meetings),
            "wait_us_total": (wait_ns / 1000).tolist(),
            "imposed_wait_us": (imposed_ns / 1000).tolist(),
            "last_arrivals": last.tolist(),
        }

    def as_dict(self, zero_ns: int, files: dict[int, str]) -> dict[str, Any]:
        """Return the truth as JSON values."""
        plan = self.plan
        records, events = self.counts.tolist()
        return {
            "ranks": plan.ranks, "steps": plan.steps, "seed": plan.seed,
            "straggler": plan.straggler, "factor": plan.factor,
            "speed": plan.speed.round(6).tolist(), "skew_us": (plan.skew_ns / 1000).tolist(),
            "missing": [rank for rank in range(plan.ranks) if rank not in plan.written],
            "record_from_ns": plan.record_from_ns.tolist(),
            "zero_ns": zero_ns,
            "groups": {
                group.name: {"description": group.description, "ranks": list(group.ranks)}
                for groups in plan.groups.values()
                for group in groups
            },
            **self._totals("ranks"), "observed": self._totals("in_files"),
            "records": records, "events": events,
            "files": {str(rank): name for rank, name in files.items()},
            "collective_list": self.collectives,
            "module_ns": [
                {"module": path, "phase": phase, "device_ns": time_ns.tolist()}
                for (path, phase), time_ns in self.module_ns.items()
            ],
        }  # fmt: skip
