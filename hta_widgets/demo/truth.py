"""What a demo job knows of itself: who waited how long for whom, and what its files hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.demo.physics import StepTimes
from hta_widgets.demo.plan import Plan
from hta_widgets.demo.program import Program

__all__ = ["Truth"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class _Totals:
    """Waits and last arrivals by rank."""

    def __init__(self, ranks: int) -> None:
        self.wait_ns = np.zeros(ranks, np.int64)
        self.imposed_ns = np.zeros(ranks, np.int64)
        self.last = np.zeros(ranks, np.int64)
        self.collectives = 0

    def add(self, members: Ints, arrival_ns: Ints) -> None:
        if len(members) < 2:
            return
        last = int(arrival_ns.argmax())
        wait_ns = arrival_ns[last] - arrival_ns
        self.wait_ns[members] += wait_ns
        self.imposed_ns[members[last]] += wait_ns.sum()
        self.last[members[last]] += 1
        self.collectives += 1

    def as_dict(self) -> dict[str, Any]:
        return {
            "collectives": self.collectives,
            "wait_us_total": (self.wait_ns / 1000).tolist(),
            "imposed_wait_us": (self.imposed_ns / 1000).tolist(),
            "last_arrivals": self.last.tolist(),
        }


class Truth:
    """Gathers the truth while a job runs."""

    def __init__(self, plan: Plan, program: Program) -> None:
        self.plan, self.program = plan, program
        self.all, self.observed = _Totals(plan.ranks), _Totals(plan.ranks)
        self.collectives: list[dict[str, Any]] = []
        self.records = np.zeros(plan.ranks, np.int64)
        self.events = np.zeros(plan.ranks, np.int64)
        self.written = np.isin(np.arange(plan.ranks), plan.written)

    def add(self, step: int, times: StepTimes) -> None:
        """Take in the collectives of one step."""
        for position, device in enumerate(times.collectives):
            what = self.program.collective_of(device)
            arrival_ns = times.arrival_ns[position]
            seen = self.written & (arrival_ns >= self.plan.record_from_ns)
            for group in self.plan.groups[what.partition]:
                members = np.array(group.ranks)
                self.all.add(members, arrival_ns[members])
                present = members[seen[members]]
                self.observed.add(present, arrival_ns[present])
                self.collectives.append(
                    {
                        "step": step,
                        "group": group.name,
                        "name": what.name,
                        "seq": step * self.program.sequences[what.partition] + what.sequence + 1,
                        "in_bytes": what.in_elements * what.element_bytes,
                        "out_bytes": what.out_elements * what.element_bytes,
                        "ranks": list(group.ranks),
                        "in_files": present.tolist(),
                        "arrival_ns": arrival_ns[members].tolist(),
                        "end_ns": int(times.end_ns[position][members[0]]),
                        "last_rank": int(members[arrival_ns[members].argmax()]),
                    }
                )

    def count(self, rank: int, records: int, events: int) -> None:
        """Count what a rank's file holds."""
        self.records[rank] += records
        self.events[rank] += events

    def as_dict(self, zero_ns: int, files: dict[int, str]) -> dict[str, Any]:
        """Return everything, as JSON writes it."""
        plan = self.plan
        return {
            "ranks": plan.ranks,
            "steps": plan.steps,
            "seed": plan.seed,
            "straggler": plan.straggler,
            "factor": plan.factor,
            "speed": plan.speed.round(6).tolist(),
            "skew_us": (plan.skew_ns / 1000).tolist(),
            "missing": [rank for rank in range(plan.ranks) if rank not in plan.written],
            "record_from_ns": plan.record_from_ns.tolist(),
            "zero_ns": zero_ns,
            "groups": {
                group.name: {"description": group.description, "ranks": list(group.ranks)}
                for groups in plan.groups.values()
                for group in groups
            },
            **self.all.as_dict(),
            "observed": self.observed.as_dict(),
            "records": self.records.tolist(),
            "events": self.events.tolist(),
            "files": {str(rank): name for rank, name in files.items()},
            "collective_list": self.collectives,
        }
