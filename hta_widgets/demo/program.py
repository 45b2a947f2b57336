"""The events of one training step: host calls and the device work that they enqueue.

A program has no times. Its host events begin and end at numbered ticks, and `demo/job.py` converts
the cost of each tick to ns, with noise for each rank and step. ::

    program = Program()
    with program.op("aten::mm"):  # a host event around the launch
        program.launch(gemm(512, 512, 512))
    program.synchronize()  # the host waits for the device
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from hta_widgets.demo.device_tasks import DeviceTask

MAIN, AUTOGRAD, PINNER = 0, 1, 2  #: host threads
COMPUTE, GRADIENTS, COPY, TENSORS = 7, 20, 24, 28  #: device streams
DEVICE = -1  #: pseudo-stream for device-wide waits
_SEGMENT_BYTES = 1 << 29  # size of the segments reserved by the caching allocator

#: CUPTI callback ids of runtime calls.
CALLBACKS = {
    "cudaLaunchKernel": 211, "cudaLaunchKernelExC": 430, "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51, "cudaGraphLaunch": 311, "cudaStreamWaitEvent": 147,
    "cudaEventRecord": 135, "cudaStreamSynchronize": 131, "cudaDeviceSynchronize": 165,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """A call of a collective on a process group."""

    partition: str  # the kind of process group: "world" or "tensor"
    name: str  # of c10d
    in_elements: int
    out_elements: int
    dtype: str
    element_bytes: int
    sequence: int  # index among the partition's collectives in a step


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
    details: str = ""  # further args, as JSON members
    collective: CollectiveCall | None = None


@dataclass(slots=True)
class DeviceEvent:
    """Work on a stream."""

    work: DeviceTask
    stream: int
    call: HostEvent
    launch: int  # tick at which the launch completes
    graph_node: int = -1
    owner: tuple[str, str] = ("", "forward")  # module path and phase


@dataclass(slots=True)
class Annotation:
    """A host annotation as shown on a device stream, from its first kernel to its last."""

    name: str
    stream: int
    first: int  # device events
    last: int
    external: int


@dataclass(slots=True)
class StreamWait:
    """A cuda_sync record: a wait for a stream or for the device."""

    name: str
    stream: int
    call: HostEvent


@dataclass(slots=True)
class Instant:
    """A memory allocation, or a release if the size is negative."""

    tick: int
    thread: int
    size_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    address: int


class Item(NamedTuple):
    """An action on a stream, in the order in which the host issues actions.

    `number` is the device event of a "launch" or "collective", the awaited stream of a "wait", or
    the tick at which the host ends a "sync".
    """

    kind: str
    stream: int
    number: int


@dataclass(slots=True)
class Program:
    """The events of one step at numbered ticks, in host order."""

    costs: list[float] = field(default_factory=lambda: [0.0])
    #: costs of the ticks on a second thread, numbered after the first thread's; the second thread
    #: starts at the tick `side_anchor`
    side_costs: list[float] = field(default_factory=list)
    side_anchor: int = 0
    #: ticks of the data loader, which have much more noise than other ticks
    noisy: list[int] = field(default_factory=list)
    host: list[HostEvent] = field(default_factory=list)
    device: list[DeviceEvent] = field(default_factory=list)
    annotations: list[Annotation] = field(default_factory=list)
    waits: list[StreamWait] = field(default_factory=list)
    #: pairs of host events: a forward operator and its backward node
    flows: list[tuple[int, int]] = field(default_factory=list)
    instants: list[Instant] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    collectives: dict[int, CollectiveCall] = field(default_factory=dict)  # by device event
    externals: int = 0
    correlations: int = 0
    sequences: Counter[str] = field(default_factory=Counter)  # number of collectives by partition
    thread: int = MAIN
    owner: tuple[str, str] = ("", "forward")
    allocated_bytes: int = 0
    _open: list[int] = field(default_factory=list)

    @property
    def now(self) -> int:
        """The current tick of the host."""
        return len(self.costs) - 1

    def spend(self, cost_ns: float, *, noisy: bool = False) -> int:
        """Add host time and return the tick at its end."""
        self.costs.append(cost_ns)
        if noisy:
            self.noisy.append(self.now)
        return self.now

    @contextmanager
    def op(
        self,
        name: str,
        *,
        before_ns: float = 1_900,
        after_ns: float = 900,
        category: str = "cpu_op",
        details: str = "",
        collective: CollectiveCall | None = None,
    ) -> Iterator[int]:
        """Record a host event around the block; yield its index in `host`."""
        self.externals += 1
        index, start = len(self.host), self.spend(400)
        event = HostEvent(name, category, self.thread, start, -1, self.externals)
        event.details, event.collective = details, collective
        self.host.append(event)
        self._open.append(index)
        self.spend(before_ns)
        yield index
        self._open.pop()
        event.end = self.spend(after_ns)

    def leaf(self, name: str, cost_ns: float = 1_500) -> None:
        """Add a CPU operator without calls."""
        with self.op(name, before_ns=cost_ns):
            pass

    @contextmanager
    def annotation(self, name: str, *streams: int) -> Iterator[int]:
        """Record a user annotation around the block, and its device annotations on `streams`."""
        earlier = len(self.device)
        with self.op(name, category="user_annotation", before_ns=600, after_ns=500) as index:
            yield index
        for stream in streams:
            launched = enumerate(self.device[earlier:], earlier)
            positions = [position for position, event in launched if event.stream == stream]
            if positions:
                first, last, external = positions[0], positions[-1], self.host[index].external
                self.annotations.append(Annotation(name, stream, first, last, external))

    @contextmanager
    def python_function(self, name: str, path: str, phase: str) -> Iterator[None]:
        """Record a Python function around the block; its work is part of the module `path`."""
        outer, self.owner = self.owner, (path, phase)
        with self.op(name, category="python_function", before_ns=700, after_ns=500):
            yield
        self.owner = outer

    @contextmanager
    def on_thread(self, thread: int) -> Iterator[None]:
        """Run the block on another thread while the current thread waits."""
        self.thread, waiting = thread, self.thread
        self.spend(9_000)  # waking a thread
        yield
        self.thread = waiting
        self.spend(7_000)

    def _call(self, name: str, cost_ns: float) -> HostEvent:
        self.correlations += 1
        times = self.spend(500), self.spend(cost_ns)
        external = self.host[self._open[-1]].external if self._open else 0
        event = HostEvent(name, "cuda_runtime", self.thread, *times, external, self.correlations)
        self.host.append(event)
        return event

    def join_thread(self, other: Program, anchor: int) -> None:
        """Add a thread that starts at tick `anchor`. No ticks may be added afterwards."""
        ticks = len(self.costs)
        self.side_costs, self.side_anchor = other.costs, anchor
        for event in other.host:
            event.start += ticks
            event.end += ticks
            event.external += self.externals
            self.host.append(event)
        self.externals += other.externals

    def launch(self, work: DeviceTask, stream: int = COMPUTE, cost_ns: float = 4_300) -> None:
        """Launch a kernel, copy or fill."""
        copying = {"gpu_memcpy": "cudaMemcpyAsync", "gpu_memset": "cudaMemsetAsync"}
        call = self._call(copying.get(work.category, "cudaLaunchKernel"), cost_ns)
        self._enqueue("launch", work, stream, call)

    def launch_graph(self, works: Sequence[DeviceTask]) -> None:
        """Launch a captured graph: many kernels with one call and correlation id."""
        call = self._call("cudaGraphLaunch", 11_000)
        for node, work in enumerate(works):
            self._enqueue("launch", work, COMPUTE, call, node)

    def _enqueue(
        self, kind: str, work: DeviceTask, stream: int, call: HostEvent, graph_node: int = -1
    ) -> None:
        self.items.append(Item(kind, stream, len(self.device)))
        self.device.append(DeviceEvent(work, stream, call, call.end, graph_node, self.owner))

    def collective(
        self, work: DeviceTask, collective: CollectiveCall, stream: int, annotation: str
    ) -> None:
        """Run a collective on a communication stream, after the work queued on `COMPUTE`."""
        with (
            self.op(f"c10d::{collective.name}_", before_ns=4_500, after_ns=1_500),
            self.op("record_param_comms", before_ns=3_500, after_ns=1_200, collective=collective),
        ):
            with self.annotation(annotation, stream):
                self.wait(stream, COMPUTE)
                self.collectives[len(self.device)] = collective
                call = self._call("cudaLaunchKernelExC", 7_500)
                self._enqueue("collective", work, stream, call)
            self._call("cudaEventRecord", 700)

    def next_sequence(self, partition: str) -> int:
        """Return the sequence number of the next collective of a partition."""
        self.sequences[partition] += 1
        return self.sequences[partition] - 1

    def wait(self, stream: int, on: int) -> None:
        """Make `stream` wait for the work queued on the stream `on`."""
        self._call("cudaEventRecord", 800)
        self._call("cudaStreamWaitEvent", 700)
        self.items.append(Item("wait", stream, on))

    def synchronize(self) -> None:
        """Make the host wait for the device."""
        call = self._call("cudaDeviceSynchronize", 2_500)
        self.items.append(Item("sync", COMPUTE, call.end))
        self.waits.append(StreamWait("Context Sync", DEVICE, call))

    def read_back(self, work: DeviceTask) -> None:
        """Copy to pageable memory, which blocks until the copy is done, and synchronize."""
        call = self._call("cudaMemcpyAsync", 3_000)
        self._enqueue("launch", work, COMPUTE, call)
        self.device[-1].launch = call.start
        self.items.append(Item("sync", COMPUTE, call.end))
        call = self._call("cudaStreamSynchronize", 1_900)
        self.waits.append(StreamWait("Stream Sync", COMPUTE, call))

    def allocate(self, size_bytes: int) -> None:
        """Allocate memory from the caching allocator; free memory if the size is negative."""
        self.allocated_bytes += size_bytes
        reserved = math.ceil(self.allocated_bytes / _SEGMENT_BYTES) * _SEGMENT_BYTES
        address = 0x7F00_0000_0000 + 512 * len(self.instants)
        self.instants.append(
            Instant(self.now, self.thread, size_bytes, self.allocated_bytes, reserved, address)
        )
