"""When everything happens: one step's program, on all ranks at once.

Arrays are (ranks, …) in float ns since the job's start, on one true clock. A stream does its work
in order; work starts when its launch has arrived and what it waits for is done. A collective's
kernel starts when its rank is ready and ends on all members at once, a transfer after the last
arrival.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from hta_widgets.demo.program import Program

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_LAUNCH_LATENCY_NS = 1_300.0
_STREAM_GAP_NS = 950.0
_WAKE_NS = 2_200.0
_RECORDING = 1.8  # how much longer the host takes while it is being profiled


@dataclass(frozen=True, slots=True)
class Ranks:
    """What differs from rank to rank."""

    speed: Floats  # cost factor of host and device
    start_ns: Floats  # when the rank's first step begins
    #: every way of grouping the ranks for collectives: (groups, members)
    partitions: dict[str, Ints]


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Times of one step, ns on the true clock."""

    times_ns: Ints  # (ranks, ticks + side ticks + device starts + device ends)
    collectives: list[int]  # device events that are collectives
    arrival_ns: Ints  # (collectives, ranks)
    end_ns: Ints  # (collectives, ranks)


def simulate(
    program: Program, ranks: Ranks, steps: int, rng: np.random.Generator
) -> Iterator[StepTimes]:
    """Yield the times of each step, one after the other."""
    begin = ranks.start_ns
    for _ in range(steps):
        run = _Run(program, ranks, begin, rng)
        yield run.times()
        begin = run.ticks[:, len(program.costs) - 1]


class _Run:
    """One step in the making."""

    def __init__(
        self, program: Program, ranks: Ranks, begin: Floats, rng: np.random.Generator
    ) -> None:
        self.program, self.ranks, self.rng = program, ranks, rng
        count = len(begin)
        pace = (ranks.speed * rng.lognormal(0.0, 0.008, count))[:, None]
        wobble = np.full(len(program.costs), 0.12)
        wobble[program.restless] = 0.3
        noise = rng.standard_normal((count, len(program.costs)))
        self.costs = _RECORDING * np.asarray(program.costs) * pace * np.exp(noise * wobble)
        self.ticks = begin[:, None] + np.cumsum(self.costs, axis=1)
        work = np.array([event.work.base_ns for event in program.device])
        noise = rng.standard_normal((count, len(work)))
        self.work = work * pace * np.exp(noise * 0.02)
        self.starts = np.zeros_like(self.work)
        self.ends = np.zeros_like(self.work)
        self.free = {item.stream: begin.copy() for item in program.items}
        self.launches = np.array([event.launch for event in program.device])
        self.collectives: list[int] = []
        for (kind, stream), items in groupby(program.items, lambda item: (item.kind, item.stream)):
            for_now = list(items)
            if kind == "launch":
                self._launch(stream, np.array([item.device for item in for_now]))
            elif kind == "wait":
                for item in for_now:
                    self.free[stream] = np.maximum(
                        self.free[stream], self.free.get(item.other, begin)
                    )
            elif kind == "collective":
                for item in for_now:
                    self._collective(stream, item.device)
            else:
                for item in for_now:
                    self._synchronize(stream, item.other)
        side = np.asarray(program.side_costs) * pace
        side = side * rng.lognormal(0.0, 0.1, side.shape)
        self.side = self.ticks[:, [program.side_anchor]] + np.cumsum(side, axis=1)

    def _ready(self, device: Ints) -> Floats:
        launched: Floats = self.ticks[:, self.launches[device]]
        return launched + _LAUNCH_LATENCY_NS

    def _launch(self, stream: int, device: Ints) -> None:
        # start[j] = max(ready[j], end[j-1] + gap), unrolled into a running maximum.
        taken = np.cumsum(self.work[:, device] + _STREAM_GAP_NS, axis=1)
        before = taken - (self.work[:, device] + _STREAM_GAP_NS)
        slack = self._ready(device) - before
        slack[:, 0] = np.maximum(slack[:, 0], self.free[stream] + _STREAM_GAP_NS)
        self.starts[:, device] = before + np.maximum.accumulate(slack, axis=1)
        self.ends[:, device] = self.starts[:, device] + self.work[:, device]
        self.free[stream] = self.ends[:, device[-1]]

    def _collective(self, stream: int, device: int) -> None:
        event, what = self.program.device[device], self.program.collective_of(device)
        groups = self.ranks.partitions[what.partition]
        arrival = np.maximum(
            self._ready(np.array([device]))[:, 0], self.free[stream] + _STREAM_GAP_NS
        )
        transfer = event.work.base_ns * self.rng.lognormal(0.0, 0.04, len(groups))
        self.starts[:, device] = arrival
        self.ends[groups, device] = (arrival[groups].max(axis=1) + transfer)[:, None]
        self.free[stream] = self.ends[:, device].copy()
        self.collectives.append(device)

    def _synchronize(self, stream: int, tick: int) -> None:
        reached = np.maximum(self.ticks[:, tick], self.free[stream] + _WAKE_NS)
        self.ticks[:, tick:] += (reached - self.ticks[:, tick])[:, None]

    def times(self) -> StepTimes:
        every = np.concatenate([self.ticks, self.side, self.starts, self.ends], axis=1)
        times_ns = np.rint(every).astype(np.int64)
        first = self.ticks.shape[1] + self.side.shape[1]
        starts = times_ns[:, first : first + self.starts.shape[1]]
        ends = times_ns[:, first + self.starts.shape[1] :]
        return StepTimes(
            times_ns,
            self.collectives,
            starts[:, self.collectives].T.copy(),
            ends[:, self.collectives].T.copy(),
        )
