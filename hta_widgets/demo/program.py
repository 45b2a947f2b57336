"""Describe one training step: the host's calls and the work that they launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

_FLOPS_PER_NS = 190_000.0  # achieved TFLOP/s of bf16 matrix products, of 312 peak
_BYTES_PER_NS = 1_350.0  # high-bandwidth memory
_PCIE_BYTES_PER_NS = 22.0
_NVLINK_BYTES_PER_NS = 230.0
_MULTIPROCESSORS = 108

#: Kernels of layer norms, by their part of the backward pass.
_LAYER_NORM = {
    "": "vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*,"
    " c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)",
    "input": "layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float>(c10::BFloat16 const*,"
    " c10::BFloat16 const*, float const*, float const*, c10::BFloat16 const*, c10::BFloat16*, int)",
    "gamma": "GammaBetaBackwardCUDAKernel<c10::BFloat16, float>(long, long, c10::BFloat16 const*,"
    " c10::BFloat16 const*, float const*, float const*, c10::BFloat16*, c10::BFloat16*)",
    "fused": "layer_norm_backward_fused_kernel<c10::BFloat16, float>(c10::BFloat16 const*,"
    " c10::BFloat16 const*, float const*, float const*, c10::BFloat16 const*, c10::BFloat16*,"
    " c10::BFloat16*, int)",
}


@dataclass(frozen=True, slots=True)
class DeviceTask:
    """One piece of work for a device stream."""

    name: str
    category: str  # kernel, gpu_memcpy or gpu_memset
    base_ns: float  # duration before a rank's speed and noise; transfer time for collectives
    details: str  # the part of its args that no run changes, as JSON members


def _kernel(name: str, base_ns: float, grid: tuple[int, int, int], threads: int) -> DeviceTask:
    blocks = grid[0] * grid[1] * grid[2] / _MULTIPROCESSORS
    warps = blocks * threads / 32
    occupancy = min(100, round(warps / 64 * 100))
    details = (
        f'"registers per thread": {32 + threads % 97}, "shared memory": {threads * 16 % 49152},\n'
        f'      "blocks per SM": {blocks:.6f}, "warps per SM": {warps:.6f},\n'
        f'      "grid": [{grid[0]}, {grid[1]}, {grid[2]}], "block": [{threads}, 1, 1],\n'
        f'      "est. achieved occupancy %": {occupancy}'
    )
    return DeviceTask(name, "kernel", base_ns, details)


def gemm(m: int, n: int, k: int, layout: str = "tn") -> DeviceTask:
    """Return a product of matrices of (m, k) and (k, n) in bf16."""
    tile = (256, 128) if m * n >= 1 << 22 else (128, 64)
    name = f"ampere_bf16_s16816gemm_bf16_{tile[0]}x{tile[1]}_ldg8_f2f_stages_64x3_{layout}"
    grid = (-(-m // tile[0]), -(-n // tile[1]), 1)
    return _kernel(name, 4_000 + 2.0 * m * n * k / _FLOPS_PER_NS, grid, 256)


def elementwise(functor: str, size_bytes: int) -> DeviceTask:
    """Return an elementwise kernel that reads and writes `size_bytes` in all."""
    name = (
        f"void at::native::vectorized_elementwise_kernel<4, {functor}, at::detail::Array<char*, 3>"
        f" >(int, {functor}, at::detail::Array<char*, 3>)"
    )
    return _kernel(name, 1_600 + size_bytes / _BYTES_PER_NS, (max(1, size_bytes >> 12), 1, 1), 128)


def reduce(operation: str, size_bytes: int) -> DeviceTask:
    """Return a reduction of `size_bytes`."""
    name = (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::"
        f"func_wrapper_t<float, at::native::{operation}<float, float, float, float> >, unsigned"
        " int, float, 4> >(at::native::ReduceOp<float, at::native::func_wrapper_t<float,"
        f" at::native::{operation}<float, float, float, float> >, unsigned int, float, 4>)"
    )
    return _kernel(name, 3_000 + size_bytes / _BYTES_PER_NS, (max(1, size_bytes >> 15), 1, 1), 512)


def layer_norm(rows: int, width: int, *, backward: str = "") -> DeviceTask:
    """Return a layer norm; `backward` is "", "input", "gamma" or "fused", which does both."""
    name = f"void at::native::(anonymous namespace)::{_LAYER_NORM[backward]}"
    passes = 1.9 if backward == "fused" else 1.4
    base_ns = 2_500 + passes * (rows * width * 4) / _BYTES_PER_NS
    return _kernel(name, base_ns, (rows, 1, 1), 128)


def flash_attention(heads: int, tokens: int, width: int, *, backward: bool = False) -> DeviceTask:
    """Return a flash attention kernel with `heads` heads over sequences of `tokens`."""
    traits = "Flash_{}_kernel_traits<64, 128, 128, {}, 0, cutlass::bfloat16_t>".format(
        *(("bwd", "8, 4, 4, 4, false, false") if backward else ("fwd", "4, false, false"))
    )
    kernel = "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel" if backward else "flash_fwd_kernel"
    params = "Flash_bwd_params" if backward else "Flash_fwd_params"
    name = f"void pytorch_flash::{kernel}<pytorch_flash::{traits}, false, true, false, true, true>"
    flops = 4.0 * heads * tokens * tokens * width * (2.5 if backward else 1.0) * 0.5
    base_ns = 5_000 + flops / (_FLOPS_PER_NS * 0.6)
    return _kernel(f"{name}(pytorch_flash::{params})", base_ns, (tokens // 128, 1, heads), 128)


def softmax(rows: int, width: int, *, backward: bool = False) -> DeviceTask:
    """Return a softmax of rows, as in the loss."""
    which = "Backward" if backward else "Forward"
    name = (
        f"void at::native::(anonymous namespace)::cunn_SoftMax{which}<4, float, float, float,"
        f" at::native::(anonymous namespace)::LogSoftMax{which}Epilogue>(float*, float const*, int)"
    )
    return _kernel(name, 4_000 + rows * width * 4 / _BYTES_PER_NS, (rows, 1, 1), 1024)


def multi_tensor(functor: str, size_bytes: int) -> DeviceTask:
    """Return an update of many tensors in one launch of a fused optimizer."""
    name = (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous"
        f" namespace)::FusedOptimizerTensorListMetadata<4>, {functor}, float*, double>(at::native::"
        f"(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, {functor}, float*, double)"
    )
    return _kernel(name, 3_000 + size_bytes / _BYTES_PER_NS, (320, 1, 1), 512)


def nccl(operation: str, size_bytes: int, ranks: int) -> DeviceTask:
    """Return a ring communication; its duration is the transfer after the last arrival."""
    name = f"ncclDevKernel_{operation}(ncclDevKernelArgsStorage<4096ul>)"
    share = (2.0 if operation.startswith("AllReduce") else 1.0) * (ranks - 1) / ranks
    return _kernel(name, 14_000 + share * size_bytes / _NVLINK_BYTES_PER_NS, (24, 1, 1), 544)


def copy(direction: str, size_bytes: int) -> DeviceTask:
    """Return a copy in a direction such as "HtoD (Pinned -> Device)"."""
    speed = _BYTES_PER_NS / 2 if direction.startswith("DtoD") else _PCIE_BYTES_PER_NS
    return _move(f"Memcpy {direction}", "gpu_memcpy", size_bytes, 1_200 + size_bytes / speed)


def memset(size_bytes: int) -> DeviceTask:
    """Return a fill of device memory."""
    return _move("Memset (Device)", "gpu_memset", size_bytes, 1_100 + size_bytes / _BYTES_PER_NS)


def _move(name: str, category: str, size_bytes: int, base_ns: float) -> DeviceTask:
    rate = size_bytes / base_ns  # B/ns is GB/s
    details = f'"bytes": {size_bytes}, "memory bandwidth (GB/s)": {rate:.6f}'
    return DeviceTask(name, category, base_ns, details)


ChangeName = Literal["slow_operator", "fused_kernel", "moved_collective", "extra_copy"]

#: Effect of each change, in the terms of `hta_widgets.diff.changes`.
TRUTH: dict[ChangeName, dict[str, Any]] = {
    "slow_operator": {"change": "slower", "name": "aten::gelu", "factor": 2.0},
    "fused_kernel": {
        "change": "replaced",
        "name": "aten::native_layer_norm_backward",
        "kernels": [2, 1],
    },
    "moved_collective": {"change": "moved", "name": "c10d::allreduce_"},
    "extra_copy": {
        "change": "added",
        "name": "aten::contiguous",
        "kernel": "Memcpy DtoD (Device -> Device)",
    },
}

#: Names of all changes.
CHANGES = tuple(TRUTH)

MAIN, AUTOGRAD, PINNER = 0, 1, 2  #: host threads
COMPUTE, GRADIENTS, COPY, TENSORS = 7, 20, 24, 28  #: device streams
DEVICE = -1  #: the row of waits that no single stream owns

#: Kineto's numbers of runtime calls.
CALLBACKS = {
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
class CollectiveCall:
    """A call of a process group."""

    partition: str  # "world" or "tensor": which process group of each rank
    name: str  # c10d's
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
    details: str = ""  # further members of args, as JSON
    collective: CollectiveCall | None = None


@dataclass(slots=True)
class DeviceEvent:
    """Work on a stream."""

    work: DeviceTask
    stream: int
    call: HostEvent
    launch: int  # tick at which the call hands the work over
    graph_node: int = -1


@dataclass(slots=True)
class Annotation:
    """The device's side of a host annotation: from the first to the last of its kernels."""

    name: str
    stream: int
    first: int  # device events
    last: int
    external: int


@dataclass(slots=True)
class StreamWait:
    """A record of category cuda_sync: a wait for a stream or the device."""

    name: str
    stream: int
    call: HostEvent


@dataclass(slots=True)
class Instant:
    """An allocation of memory, or a release of a negative size."""

    tick: int
    thread: int
    size_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    address: int


class Item(NamedTuple):
    """An action on a stream, in the host's order.

    `number` is the device event of a "launch" or "collective", the other stream of a "wait" between
    streams, or the tick of the host's "sync" with a stream.
    """

    kind: str
    stream: int
    number: int


@dataclass(slots=True)
class Program:
    """The events of one step, in the host's order, at numbered ticks."""

    costs: list[float] = field(default_factory=lambda: [0.0])
    #: costs of a second thread's ticks, numbered after the first's, and the tick of its start
    side_costs: list[float] = field(default_factory=list)
    side_anchor: int = 0
    #: ticks whose cost varies much more than that of others: the data loader's
    noisy: list[int] = field(default_factory=list)
    host: list[HostEvent] = field(default_factory=list)
    device: list[DeviceEvent] = field(default_factory=list)
    annotations: list[Annotation] = field(default_factory=list)
    waits: list[StreamWait] = field(default_factory=list)
    #: host events of forward operators and of their backward nodes
    flows: list[tuple[int, int]] = field(default_factory=list)
    instants: list[Instant] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    collectives: dict[int, CollectiveCall] = field(default_factory=dict)  # by device event
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

    def spend(self, cost_ns: float, *, noisy: bool = False) -> int:
        """Add host time, and return the tick at its end."""
        self.costs.append(cost_ns)
        if noisy:
            self.noisy.append(self.now)
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
        collective: CollectiveCall | None = None,
    ) -> Iterator[int]:
        """Open a host event around the block."""
        self.externals += 1
        index, start = len(self.host), self.spend(400)
        event = HostEvent(name, category, self.thread, start, -1, self.externals)
        event.details, event.collective = details, collective
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
        """Open a user annotation around the block; `streams` get its device annotations."""
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
        """Run the block on another thread, while this one waits for it."""
        self.thread, before = thread, self.thread
        self.spend(9_000)  # waking a thread
        yield
        self.thread = before
        self.spend(7_000)

    def _call(self, name: str, cost_ns: float) -> HostEvent:
        """Add a runtime call with a new correlation id."""
        self.correlations += 1
        times = self.spend(500), self.spend(cost_ns)
        external = self.host[self._open[-1]].external if self._open else 0
        event = HostEvent(name, "cuda_runtime", self.thread, *times, external, self.correlations)
        self.host.append(event)
        return event

    def join_thread(self, other: Program, anchor: int) -> None:
        """Add a thread that starts at tick `anchor`; call this last."""
        ticks = len(self.costs)
        self.side_costs, self.side_anchor = other.costs, anchor
        for event in other.host:
            event.start += ticks
            event.end += ticks
            event.external += self.externals
            self.host.append(event)
        self.externals += other.externals

    # --- the device ---------------------------------------------------------------------------

    def launch(self, work: DeviceTask, stream: int = COMPUTE, cost_ns: float = 4_300) -> None:
        """Launch one piece of work."""
        call = {"gpu_memcpy": "cudaMemcpyAsync", "gpu_memset": "cudaMemsetAsync"}.get(
            work.category, "cudaLaunchKernel"
        )
        self._enqueue("launch", work, stream, self._call(call, cost_ns))

    def launch_graph(self, works: Sequence[DeviceTask]) -> None:
        """Launch a captured graph: one call, one correlation, many kernels."""
        call = self._call("cudaGraphLaunch", 11_000)
        for node, work in enumerate(works):
            self._enqueue("launch", work, COMPUTE, call, node)

    def _enqueue(
        self, kind: str, work: DeviceTask, stream: int, call: HostEvent, graph_node: int = -1
    ) -> None:
        self.items.append(Item(kind, stream, len(self.device)))
        self.device.append(DeviceEvent(work, stream, call, call.end, graph_node))

    def collective(
        self, work: DeviceTask, what: CollectiveCall, stream: int, annotation: str
    ) -> None:
        """Run a collective on a communication stream, after the queue of `COMPUTE`."""
        with (
            self.op(f"c10d::{what.name}_", before=4_500, after=1_500),
            self.op("record_param_comms", before=3_500, after=1_200, collective=what),
        ):
            with self.annotation(annotation, stream):
                self.wait(stream, COMPUTE)
                self.collectives[len(self.device)] = what
                call = self._call("cudaLaunchKernelExC", 7_500)
                self._enqueue("collective", work, stream, call)
            self._call("cudaEventRecord", 700)

    def next_sequence(self, partition: str) -> int:
        """Return the number of the next collective of a partition."""
        number = self.sequences.get(partition, 0)
        self.sequences[partition] = number + 1
        return number

    def wait(self, stream: int, on: int) -> None:
        """Let a stream wait for the queue of another."""
        self._call("cudaEventRecord", 800)
        self._call("cudaStreamWaitEvent", 700)
        self.items.append(Item("wait", stream, on))

    def synchronize(self) -> None:
        """Let the host wait for the whole device."""
        call = self._call("cudaDeviceSynchronize", 2_500)
        self.items.append(Item("sync", COMPUTE, call.end))
        self.waits.append(StreamWait("Context Sync", DEVICE, call))

    def read_back(self, work: DeviceTask) -> None:
        """Copy to pageable memory, which returns when the copy is done, and wait for it."""
        call = self._call("cudaMemcpyAsync", 3_000)
        self._enqueue("launch", work, COMPUTE, call)
        self.device[-1].launch = call.start
        self.items.append(Item("sync", COMPUTE, call.end))
        call = self._call("cudaStreamSynchronize", 1_900)
        self.waits.append(StreamWait("Stream Sync", COMPUTE, call))

    # --- memory -------------------------------------------------------------------------------

    def allocate(self, size_bytes: int) -> None:
        """Allocate memory from the caching allocator, or free it if the size is negative."""
        self.allocated_bytes += size_bytes
        reserved = -(-self.allocated_bytes // (1 << 29)) * (1 << 29)
        address = 0x7F00_0000_0000 + 512 * len(self.instants)
        self.instants.append(
            Instant(self.now, self.thread, size_bytes, self.allocated_bytes, reserved, address)
        )


CAST = "at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}"
SCALE = (
    "at::native::AUnaryFunctor<float, float, float,"
    " at::native::binary_internal::MulFunctor<float> >"
)
_ADD = "at::native::CUDAFunctor_add<c10::BFloat16>"
_GELU = (
    "at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}"
)
_GELU_BACKWARD = "at::native::GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&)::{lambda()#2}"
_LOOK_UP = (
    "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long,"
    " unsigned int, 2, 2, -2, true>(at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>,"
    " unsigned int)"
)

ExchangeDirection = Literal["gather", "scatter"]
#: Names of the collective that gathers or scatters a sequence: c10d's, annotation, kernel.
_EXCHANGES: dict[ExchangeDirection, tuple[str, str, str]] = {
    "gather": ("_allgather_base", "nccl:_all_gather_base", "AllGather_RING_LL"),
    "scatter": (
        "_reduce_scatter_base",
        "nccl:_reduce_scatter_base",
        "ReduceScatter_Sum_bf16_RING_LL",
    ),
}


@dataclass(frozen=True, slots=True)
class Model:
    """The shape of the model and of the groups that train it."""

    layers: int = 12
    width: int = 1024
    heads: int = 16
    batch: int = 1
    tokens: int = 2048  # per sequence
    words: int = 32_000
    ranks: int = 8  # in the group that reduces gradients
    tensor_ranks: int = 2  # in the group that splits sequences; 1 for none
    changes: frozenset[ChangeName] = frozenset()  # against the usual job

    @property
    def rows(self) -> int:
        """Tokens in a batch."""
        return self.batch * self.tokens

    @property
    def activation_bytes(self) -> int:
        """Size in bytes of one activation with the width of the model."""
        return self.rows * self.width * 2

    @property
    def parameters(self) -> int:
        """Number of weights, without the small ones."""
        return self.layers * 12 * self.width * self.width + 2 * self.words * self.width


@dataclass(frozen=True, slots=True)
class Node:
    """The backward half of a forward operator."""

    name: str  # autograd's; empty for a collective, which has no node
    op: int  # the forward operator, a host event
    backward: Callable[[], int]  # returns the number of parameters whose gradients it computed


@dataclass(slots=True)
class Operators:
    """Adds operators to a step's program, and their backward halves to a tape."""

    program: Program
    model: Model
    tape: list[Node] = field(default_factory=list)
    ready: int = 0  # parameters whose gradients wait for their bucket
    held: int = 0  # parameters whose gradients are reduced last

    def remember(self, name: str, op: int, backward: Callable[[], int]) -> None:
        """Put a node on the tape; its position there is autograd's sequence number."""
        self.tape.append(Node(name, op, backward))
        event = self.program.host[op]
        number = f'"Sequence number": @SEQ{len(self.tape)}@, "Fwd thread id": 0'
        event.details = f"{event.details}, {number}" if event.details else number

    def _empty(self, size_bytes: int) -> None:
        self.program.leaf("aten::empty", 1_300)
        self.program.allocate(size_bytes)

    def _transpose(self) -> None:
        p = self.program
        with p.op("aten::t", before=900, after=500), p.op("aten::transpose", before=800, after=400):
            p.leaf("aten::as_strided", 500)

    # --- embedding --------------------------------------------------------------------------------

    def embedding(self) -> None:
        """Look the tokens up."""
        p, m = self.program, self.model
        work = replace(elementwise(CAST, m.rows * m.width * 4), name=_LOOK_UP)
        shapes = _dims([m.words, m.width], [m.batch, m.tokens])
        with p.op("aten::embedding", details=shapes) as op:
            self.remember("EmbeddingBackward0", op, self._embedding_backward)
            with p.op("aten::index_select", before=3_100):
                p.allocate(m.activation_bytes)
                p.launch(work)

    def _embedding_backward(self) -> int:
        p, m = self.program, self.model
        with (
            p.op("aten::embedding_backward", before=1_500),
            p.op("aten::embedding_dense_backward", before=5_200),
        ):
            p.launch(memset(m.words * m.width * 4))
            p.launch(elementwise(CAST, m.words * m.width * 4))
        p.allocate(-m.activation_bytes)
        return m.words * m.width

    # --- linear -----------------------------------------------------------------------------------

    def linear(self, width_in: int, width_out: int) -> None:
        """Multiply by a weight."""
        p, rows = self.program, self.model.rows
        weight = [width_in, width_out]
        with p.op("aten::linear", details=_dims([rows, width_in], weight[::-1], [width_out])):
            self._transpose()
            shapes = _dims([width_out], [rows, width_in], weight, [], [])
            with p.op("aten::addmm", before=5_500, details=shapes) as op:
                self.remember("AddmmBackward0", op, partial(self._linear_backward, *weight))
                p.allocate(rows * width_out * 2)
                p.launch(gemm(rows, width_out, width_in))

    def _linear_backward(self, width_in: int, width_out: int) -> int:
        p, rows = self.program, self.model.rows
        self._transpose()
        shapes = _dims([rows, width_out], [width_out, width_in])
        with p.op("aten::mm", before=5_000, details=shapes):
            p.allocate(rows * width_in * 2)
            p.launch(gemm(rows, width_in, width_out, "nn"))
        self._transpose()
        shapes = _dims([width_out, rows], [rows, width_in])
        with p.op("aten::mm", before=5_000, details=shapes):
            p.launch(gemm(width_out, width_in, rows, "nt"))
        with p.op("aten::sum", before=4_200, details=_dims([rows, width_out], [], [], [])):
            p.launch(reduce("sum_functor", rows * width_out * 2))
        p.allocate(-rows * width_out * 2)
        return width_in * width_out + width_out

    # --- layer norm -------------------------------------------------------------------------------

    def layer_norm(self) -> None:
        """Normalise the rows."""
        p, m = self.program, self.model
        shapes = _dims([m.rows, m.width], [], [m.width], [m.width])
        with (
            p.op("aten::layer_norm", details=shapes),
            p.op("aten::native_layer_norm", before=3_200) as op,
        ):
            self.remember("NativeLayerNormBackward0", op, self._layer_norm_backward)
            self._empty(m.activation_bytes)
            self._empty(m.rows * 4)
            self._empty(m.rows * 4)
            p.launch(layer_norm(m.rows, m.width))

    def _layer_norm_backward(self) -> int:
        p, m = self.program, self.model
        with p.op("aten::native_layer_norm_backward", before=4_000):
            self._empty(m.activation_bytes)
            fused = "fused_kernel" in m.changes
            for half in ("fused",) if fused else ("input", "gamma"):
                p.launch(layer_norm(m.rows, m.width, backward=half))
        p.allocate(-2 * m.activation_bytes)
        return 2 * m.width

    # --- attention --------------------------------------------------------------------------------

    def attention(self) -> None:
        """Apply causal attention."""
        p, m = self.program, self.model
        shape = [m.batch, m.heads, m.tokens, m.width // m.heads]
        for _ in range(3):
            p.leaf("aten::view", 700)
            with p.op("aten::transpose", before=900, after=400):
                p.leaf("aten::as_strided", 500)
        with (
            p.op("aten::scaled_dot_product_attention", details=_dims(shape, shape, shape)),
            p.op("aten::_scaled_dot_product_flash_attention", before=4_000) as op,
        ):
            name = "ScaledDotProductFlashAttentionBackward0"
            self.remember(name, op, self._attention_backward)
            with p.op("aten::_flash_attention_forward", before=3_600):
                self._empty(m.activation_bytes)
                self._empty(m.batch * m.heads * m.tokens * 4)
                p.launch(flash_attention(m.heads * m.batch, m.tokens, m.width // m.heads))

    def _attention_backward(self) -> int:
        p, m = self.program, self.model
        with (
            p.op("aten::_scaled_dot_product_flash_attention_backward", before=3_800),
            p.op("aten::_flash_attention_backward", before=3_600),
        ):
            self._empty(m.activation_bytes)
            p.launch(memset(m.rows * m.width * 4))
            heads, width = m.heads * m.batch, m.width // m.heads
            p.launch(flash_attention(heads, m.tokens, width, backward=True))
        p.allocate(-2 * m.activation_bytes)
        return 0

    # --- pointwise --------------------------------------------------------------------------------

    def gelu(self) -> None:
        """Apply GELU to the widened activation."""
        p, m = self.program, self.model
        wide_bytes = 4 * m.activation_bytes
        slower = 2 if "slow_operator" in m.changes else 1
        cost_ns, shapes = 2_600 * slower, _dims([m.rows, 4 * m.width])
        with p.op("aten::gelu", before=cost_ns, after=900 * slower, details=shapes) as op:
            self.remember("GeluBackward0", op, self._gelu_backward)
            p.allocate(wide_bytes)
            work = elementwise(_GELU, 2 * wide_bytes)
            p.launch(replace(work, base_ns=work.base_ns * slower), cost_ns=4_300 * slower)

    def _gelu_backward(self) -> int:
        wide_bytes = 4 * self.model.activation_bytes
        with self.program.op("aten::gelu_backward", before=3_000):
            self.program.launch(elementwise(_GELU_BACKWARD, 3 * wide_bytes))
        self.program.allocate(-wide_bytes)
        return 0

    def add(self) -> None:
        """Add the residual."""
        p, m = self.program, self.model
        with p.op("aten::add", before=2_600, details=_dims([m.rows, m.width])) as op:
            self.remember("AddBackward0", op, self._add_backward)
            p.allocate(m.activation_bytes)
            p.launch(elementwise(_ADD, 3 * m.activation_bytes))

    def _add_backward(self) -> int:
        self.program.allocate(-self.model.activation_bytes)
        return 0

    # --- collectives ------------------------------------------------------------------------------

    def exchange(self, way: ExchangeDirection) -> None:
        """Gather or scatter the sequence now, and do the opposite in the backward pass."""
        self._exchange(way)
        opposite: ExchangeDirection = "scatter" if way == "gather" else "gather"
        self.tape.append(Node("", -1, partial(self._exchange, opposite)))

    def _exchange(self, way: ExchangeDirection) -> int:
        p, m = self.program, self.model
        if m.tensor_ranks < 2:
            return 0
        whole = m.rows * m.width
        part = whole // m.tensor_ranks
        sizes = (part, whole) if way == "gather" else (whole, part)
        name, annotation, kernel = _EXCHANGES[way]
        what = CollectiveCall("tensor", name, *sizes, "BFloat16", 2, p.next_sequence("tensor"))
        p.collective(nccl(kernel, whole * 2, m.tensor_ranks), what, TENSORS, annotation)
        p.wait(COMPUTE, TENSORS)
        return 0

    def reduce_gradients(self) -> int:
        """Reduce one bucket over all ranks, during the rest of the backward pass."""
        p, m = self.program, self.model
        count, self.ready = self.ready, 0
        if count == 0:
            return 0
        with p.op("aten::_foreach_mul_", before=3_000):
            p.launch(elementwise(SCALE, count * 8))
        if m.ranks > 1 and "moved_collective" in m.changes and not self.held:
            self.held = count
        elif m.ranks > 1:
            self.all_reduce(count)
        return 0

    def all_reduce(self, count: int) -> None:
        """Reduce the gradients of some parameters."""
        number = self.program.next_sequence("world")
        what = CollectiveCall("world", "allreduce", count, count, "Float", 4, number)
        work = nccl("AllReduce_Sum_f32_RING_LL", count * 4, self.model.ranks)
        self.program.collective(work, what, GRADIENTS, "nccl:all_reduce")

    # --- copies -----------------------------------------------------------------------------------

    def contiguous(self, size_bytes: int) -> None:
        """Copy within the device's memory."""
        p = self.program
        with p.op("aten::contiguous", before=1_400), p.op("aten::clone", before=2_200):
            self._empty(size_bytes)
            with p.op("aten::copy_", before=2_800):
                p.launch(copy("DtoD (Device -> Device)", size_bytes))


def _dims(*shapes: list[int]) -> str:
    kinds = ", ".join('"c10::BFloat16"' if shape else '"Scalar"' for shape in shapes)
    return f'"Input type": [{kinds}], "Input Dims": {list(shapes)}'


_LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
_ADAM = "at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4>"


def training_step(model: Model) -> tuple[Program, int]:
    """Build the program of one step."""
    program = Program(thread=MAIN)
    operators = Operators(program, model)
    # Weights, gradients and the optimizer's state stay from step to step.
    resident_bytes = program.allocated_bytes = 16 * model.parameters
    program.spend(2_000)
    with program.annotation("ProfilerStep#@STEP@", COMPUTE):
        _load_batch(program, model)
        forward = program.now
        _forward(operators)
        if "extra_copy" in model.changes:
            operators.contiguous(model.rows * model.words * 2)
        _loss(program, model)
        _backward(operators)
        _optimizer(program, model)
        program.allocate(resident_bytes - program.allocated_bytes)
        _read_loss(program)
    program.spend(6_000)
    program.join_thread(_pinner(model), forward)
    return program, len(operators.tape)


def _load_batch(program: Program, model: Model) -> None:
    with program.annotation(_LOADER):
        program.spend(900_000, noisy=True)
    size_bytes = model.rows * 8
    shape = f'"Input Dims": [[{model.batch}, {model.tokens}], [], []]'
    for _ in range(2):  # tokens and targets
        with (
            program.op("aten::to", before=1_200, details=shape),
            program.op("aten::_to_copy", before=2_400),
        ):
            program.leaf("aten::empty_strided", 1_500)
            program.allocate(size_bytes)
            with program.op("aten::copy_", before=2_800):
                program.launch(copy("HtoD (Pinned -> Device)", size_bytes), COPY)
    program.wait(COMPUTE, COPY)


def _forward(operators: Operators) -> None:
    model = operators.model
    with operators.program.annotation("DistributedDataParallel.forward", COMPUTE):
        operators.embedding()
        for _ in range(model.layers):
            _layer(operators)
        operators.layer_norm()
        operators.linear(model.width, model.words)


def _layer(operators: Operators) -> None:
    width = operators.model.width
    operators.layer_norm()
    operators.exchange("gather")
    operators.linear(width, 3 * width)
    operators.attention()
    operators.linear(width, width)
    operators.add()
    operators.layer_norm()
    operators.linear(width, 4 * width)
    operators.gelu()
    operators.linear(4 * width, width)
    operators.exchange("scatter")
    operators.add()
    # The bucket's gradients are reduced at this point of the backward pass.
    operators.tape.append(Node("", -1, operators.reduce_gradients))


def _loss(program: Program, model: Model) -> None:
    # Captured in a graph: one launch, several kernels.
    rows, logits_bytes = model.rows, model.rows * model.words * 4
    works = [
        elementwise(CAST, logits_bytes * 3 // 2),
        softmax(rows, model.words),
        reduce("MeanOps", rows * 4),
        elementwise(SCALE, rows * 4),
        softmax(rows, model.words, backward=True),
    ]
    with program.annotation("loss", COMPUTE), program.op("CUDAGraph::replay", before=2_000):
        program.launch_graph(works)


def _backward(operators: Operators) -> None:
    program = operators.program
    with program.annotation("## backward ##", COMPUTE), program.on_thread(AUTOGRAD):
        for number in range(len(operators.tape), 0, -1):
            node = operators.tape[number - 1]
            if node.name:
                operators.ready += _node(program, node, number)
            else:
                node.backward()
        operators.reduce_gradients()
        if operators.held:
            operators.all_reduce(operators.held)
        program.wait(COMPUTE, GRADIENTS)


def _node(program: Program, node: Node, number: int) -> int:
    numbers = f'"Sequence number": @SEQ{number}@, "Fwd thread id": 1'
    evaluate = "autograd::engine::evaluate_function: "
    with (
        program.op(evaluate + node.name, before=2_100, after=1_100, details=numbers),
        program.op(node.name, before=1_800, details=numbers) as index,
    ):
        program.flows.append((node.op, index))
        parameters = node.backward()
    if parameters:
        accumulate = "torch::autograd::AccumulateGrad"
        with program.op(evaluate + accumulate, before=1_500), program.op(accumulate, before=1_600):
            program.leaf("aten::detach", 900)
    return parameters


def _optimizer(program: Program, model: Model) -> None:
    launches = 2 * model.layers + 4
    with program.annotation("Optimizer.step#AdamW.step", COMPUTE):
        with program.op("aten::_foreach_norm", before=6_000):
            for _ in range(2):
                program.launch(reduce("NormTwoOps", model.parameters * 2))
        with program.op("aten::_foreach_mul_", before=9_000):
            program.launch(elementwise(SCALE, 4096))
        with program.op("aten::_fused_adamw_", before=26_000):
            for _ in range(launches):
                work = multi_tensor(_ADAM, model.parameters * 16 // launches)
                program.launch(work, cost_ns=9_500)
    with program.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
        program.spend(38_000)


def _read_loss(program: Program) -> None:
    program.synchronize()
    with (
        program.op("aten::item", before=1_400),
        program.op("aten::_local_scalar_dense", before=2_000),
    ):
        program.read_back(copy("DtoH (Device -> Pageable)", 4))


def _pinner(model: Model) -> Program:
    # Pins the next batch while this one trains.
    program = Program(thread=PINNER)
    for _ in range(2):
        with (
            program.op("aten::pin_memory", before=3_000),
            program.op("aten::_pin_memory", before=9_000),
        ):
            program.leaf("aten::empty", 24_000)
            program.leaf("aten::copy_", 60_000 + model.rows * 2)
        program.spend(220_000)
    return program
