"""The program of one training step: what the host does, what it launches, who waits for whom.

A program is the same on every rank and in every step. It knows no times, only costs; `physics`
gives it times, `template` gives it text.

The host's time is a line of *ticks*: tick i comes `cost[i]` after tick i-1, or later where the host
waits for a stream. Every host event starts and ends at a tick.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from hta_widgets.demo.kernels import Work

__all__ = [
    "AUTOGRAD",
    "COMPUTE",
    "COPY",
    "DEVICE",
    "GRADIENTS",
    "MAIN",
    "PINNER",
    "TENSORS",
    "Annotation",
    "Collective",
    "DeviceEvent",
    "Flow",
    "HostEvent",
    "Instant",
    "Item",
    "Program",
]

MAIN, AUTOGRAD, PINNER = 0, 1, 2  #: host threads
COMPUTE, GRADIENTS, COPY, TENSORS = 7, 20, 24, 28  #: device streams
DEVICE = -1  #: the row of waits that no single stream owns

_CALLBACK = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaGraphLaunch": 311,
    "cudaStreamWaitEvent": 147,
    "cudaEventRecord": 135,
    "cudaStreamSynchronize": 131,
    "cudaDeviceSynchronize": 165,
}


@dataclass(frozen=True, slots=True)
class Collective:
    """What the process group is told."""

    partition: str  # which way of grouping the ranks: "world" or "tensor"
    name: str  # as c10d calls it
    in_elements: int
    out_elements: int
    dtype: str
    element_bytes: int
    sequence: int  # position among the partition's collectives of a step


@dataclass(slots=True)
class HostEvent:
    """A CPU operator, annotation or runtime call."""

    name: str
    category: str
    thread: int
    start: int  # ticks
    end: int
    external: int  # External id within the step
    correlation: int = -1  # within the step; runtime calls only
    callback: int = -1
    details: str = ""  # further members of args, as JSON
    collective: Collective | None = None


@dataclass(slots=True)
class DeviceEvent:
    """Work on a stream."""

    work: Work
    stream: int
    launch: int  # tick at which the launching call returns
    external: int
    correlation: int
    graph_node: int = -1
    collective: Collective | None = None


@dataclass(slots=True)
class Annotation:
    """The device's side of a host annotation: from the first to the last of its kernels."""

    name: str
    stream: int
    first: int  # device events
    last: int
    external: int


@dataclass(slots=True)
class Wait:
    """A record of category cuda_sync: what the device or the host waited for."""

    name: str
    stream: int
    call: HostEvent


@dataclass(slots=True)
class Flow:
    """From a forward operator to its backward node; both are host events."""

    source: int
    target: int


@dataclass(slots=True)
class Instant:
    """The allocator hands out (or takes back, negative) memory."""

    tick: int
    thread: int
    size_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    address: int


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that happens to streams, in the host's order."""

    kind: str  # "launch", "collective", "wait" (stream for another) or "sync" (host for a stream)
    stream: int
    device: int = -1  # device event of a launch or collective
    other: int = -1  # stream waited for, or tick of a sync


@dataclass(slots=True)
class Program:
    """Everything of one step, in the order in which the host does it."""

    costs: list[float] = field(default_factory=lambda: [0.0])
    #: costs of a second line of ticks, numbered on from the first, and the tick where it starts
    side_costs: list[float] = field(default_factory=list)
    side_anchor: int = 0
    #: ticks whose cost varies much more than others': the data loader's
    restless: list[int] = field(default_factory=list)
    host: list[HostEvent] = field(default_factory=list)
    device: list[DeviceEvent] = field(default_factory=list)
    annotations: list[Annotation] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    instants: list[Instant] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    externals: int = 0
    correlations: int = 0
    sequences: dict[str, int] = field(default_factory=dict)  # collectives a step, by partition
    thread: int = MAIN
    allocated_bytes: int = 0
    _open: list[int] = field(default_factory=list)

    # --- the host -----------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The tick that the host has reached."""
        return len(self.costs) - 1

    def spend(self, cost_ns: float, *, restless: bool = False) -> int:
        """Let the host work for a while."""
        self.costs.append(cost_ns)
        if restless:
            self.restless.append(self.now)
        return self.now

    @contextmanager
    def op(
        self,
        name: str,
        *,
        before: float = 1_900,
        after: float = 900,
        category: str = "cpu_op",
        details: str = "",
        collective: Collective | None = None,
    ) -> Iterator[int]:
        """Open a host event around what the block does."""
        self.externals += 1
        index = len(self.host)
        event = HostEvent(
            name, category, self.thread, self.spend(400), -1, self.externals, details=details
        )
        event.collective = collective
        self.host.append(event)
        self._open.append(index)
        self.spend(before)
        yield index
        self._open.pop()
        event.end = self.spend(after)

    def leaf(self, name: str, cost_ns: float = 1_500, details: str = "") -> None:
        """Add a CPU operator that calls nothing."""
        with self.op(name, before=cost_ns, details=details):
            pass

    @contextmanager
    def annotation(self, name: str, *streams: int) -> Iterator[int]:
        """Open a user annotation; `streams` get its device side."""
        seen = len(self.device)
        with self.op(name, category="user_annotation", before=600, after=500) as index:
            yield index
        for stream in streams:
            mine = [k for k in range(seen, len(self.device)) if self.device[k].stream == stream]
            if mine:
                external = self.host[index].external
                self.annotations.append(Annotation(name, stream, mine[0], mine[-1], external))

    @contextmanager
    def on_thread(self, thread: int) -> Iterator[None]:
        """Do the block on another thread, while this one waits for it."""
        self.thread, before = thread, self.thread
        self.spend(9_000)  # waking a thread
        yield
        self.thread = before
        self.spend(7_000)

    def _call(self, name: str, cost_ns: float) -> HostEvent:
        """Add a runtime call with a correlation of its own."""
        self.correlations += 1
        start = self.spend(500)
        external = self.host[self._open[-1]].external if self._open else 0
        event = HostEvent(name, "cuda_runtime", self.thread, start, self.spend(cost_ns), external)
        event.correlation, event.callback = self.correlations, _CALLBACK[name]
        self.host.append(event)
        return event

    def link(self, source: int, target: int) -> None:
        """Draw the arrow from a forward operator to its backward node."""
        self.flows.append(Flow(source, target))

    def join(self, other: Program, anchor: int) -> None:
        """Add a thread that runs beside, from tick `anchor` on; the last thing to do."""
        ticks = len(self.costs)
        self.side_costs, self.side_anchor = other.costs, anchor
        for event in other.host:
            event.start += ticks
            event.end += ticks
            event.external += self.externals
            self.host.append(event)
        self.externals += other.externals

    # --- the device ---------------------------------------------------------------------------

    def launch(self, work: Work, stream: int = COMPUTE, cost_ns: float = 4_300) -> None:
        """Launch one piece of work."""
        call = {"gpu_memcpy": "cudaMemcpyAsync", "gpu_memset": "cudaMemsetAsync"}.get(
            work.category, "cudaLaunchKernel"
        )
        self._enqueue([work], self._call(call, cost_ns), stream)

    def launch_graph(self, works: Sequence[Work]) -> None:
        """Launch a captured graph: one call, one correlation, many kernels."""
        self._enqueue(works, self._call("cudaGraphLaunch", 11_000), COMPUTE, graph=True)

    def _enqueue(
        self, works: Sequence[Work], call: HostEvent, stream: int, *, graph: bool = False
    ) -> None:
        for node, work in enumerate(works):
            event = DeviceEvent(work, stream, call.end, call.external, call.correlation)
            event.graph_node = node if graph else -1
            self.items.append(Item("launch", stream, len(self.device)))
            self.device.append(event)

    def collective(self, work: Work, what: Collective, stream: int, api: tuple[str, str]) -> None:
        """Run a collective on a communication stream, after what `COMPUTE` has in its queue."""
        operator, annotation = api
        with (
            self.op(operator, before=4_500, after=1_500),
            self.op("record_param_comms", before=3_500, after=1_200, collective=what),
        ):
            with self.annotation(annotation, stream):
                self.wait(stream, COMPUTE)
                call = self._call("cudaLaunchKernelExC", 7_500)
                event = DeviceEvent(work, stream, call.end, call.external, call.correlation)
                event.collective = what
                self.items.append(Item("collective", stream, len(self.device)))
                self.device.append(event)
            self._call("cudaEventRecord", 700)

    def collective_of(self, device: int) -> Collective:
        """Return the collective that a device event is."""
        what = self.device[device].collective
        if what is None:
            raise ValueError(f"device event {device} is no collective")
        return what

    def next_sequence(self, partition: str) -> int:
        """Count the collectives of a partition."""
        number = self.sequences.get(partition, 0)
        self.sequences[partition] = number + 1
        return number

    def wait(self, stream: int, on: int) -> None:
        """Let a stream wait for all that another has in its queue."""
        self._call("cudaEventRecord", 800)
        self._call("cudaStreamWaitEvent", 700)
        self.items.append(Item("wait", stream, other=on))

    def synchronize(self) -> None:
        """Let the host wait for the whole device."""
        call = self._call("cudaDeviceSynchronize", 2_500)
        self.items.append(Item("sync", COMPUTE, other=call.end))
        self.waits.append(Wait("Context Sync", DEVICE, call))

    def read_back(self, work: Work) -> None:
        """Copy to pageable memory, which returns when the copy is done, and wait for it."""
        call = self._call("cudaMemcpyAsync", 3_000)
        event = DeviceEvent(work, COMPUTE, call.start, call.external, call.correlation)
        self.items.append(Item("launch", COMPUTE, len(self.device)))
        self.device.append(event)
        self.items.append(Item("sync", COMPUTE, other=call.end))
        call = self._call("cudaStreamSynchronize", 1_900)
        self.waits.append(Wait("Stream Sync", COMPUTE, call))

    # --- memory -------------------------------------------------------------------------------

    def allocate(self, size_bytes: int) -> None:
        """Take memory from the caching allocator, or give it back where negative."""
        self.allocated_bytes += size_bytes
        reserved = -(-self.allocated_bytes // (1 << 29)) * (1 << 29)
        address = 0x7F00_0000_0000 + 512 * len(self.instants)
        self.instants.append(
            Instant(self.now, self.thread, size_bytes, self.allocated_bytes, reserved, address)
        )
