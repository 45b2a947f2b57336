"""Operators of a transformer, forward and backward, as PyTorch's profiler sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from hta_widgets.demo import kernels as k
from hta_widgets.demo.changes import ChangeName
from hta_widgets.demo.program import COMPUTE
from hta_widgets.demo.program import GRADIENTS
from hta_widgets.demo.program import TENSORS
from hta_widgets.demo.program import Collective
from hta_widgets.demo.program import Program

__all__ = ["CAST", "SCALE", "Model", "Node", "Operators"]

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

Way = Literal["gather", "scatter"]


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
        """Size of one activation of the model's width."""
        return self.rows * self.width * 2

    @property
    def parameters(self) -> int:
        """Number of weights, without the small ones."""
        return self.layers * 12 * self.width * self.width + 2 * self.words * self.width


@dataclass(frozen=True, slots=True)
class Node:
    """What the backward pass has to do for one thing that the forward pass did."""

    name: str  # of autograd's node; empty for work that has none
    op: int  # the forward operator, a host event
    backward: Callable[[], int]  # returns how many parameters got their gradient


@dataclass(slots=True)
class Operators:
    """Writes operators into a step's program, and remembers their backward halves on a tape."""

    program: Program
    model: Model
    tape: list[Node] = field(default_factory=list)
    ready: int = 0  # parameters whose gradients wait for their bucket
    #: a reduction that is put off, and whether one was
    held: Callable[[], None] | None = None
    has_held: bool = False

    def remember(self, name: str, op: int, backward: Callable[[], int]) -> None:
        """Put a node on the tape; its place there is autograd's sequence number."""
        self.tape.append(Node(name, op, backward))
        event = self.program.host[op]
        number = f'"Sequence number": @SEQ{len(self.tape)}@, "Fwd thread id": 0'
        event.details = f"{event.details}, {number}" if event.details else number

    def _empty(self, size_bytes: int) -> None:
        self.program.leaf("aten::empty", 1_300)
        self.program.allocate(size_bytes)

    def _transposed(self) -> None:
        p = self.program
        with p.op("aten::t", before=900, after=500), p.op("aten::transpose", before=800, after=400):
            p.leaf("aten::as_strided", 500)

    # --- embedding --------------------------------------------------------------------------------

    def embedding(self) -> None:
        """Look the tokens up."""
        p, m = self.program, self.model
        work = k.elementwise(CAST, m.rows * m.width * 4)
        work = k.Work(_LOOK_UP, work.category, work.base_ns, work.details)
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
            p.launch(k.memset(m.words * m.width * 4))
            p.launch(k.elementwise(CAST, m.words * m.width * 4))
        p.allocate(-m.activation_bytes)
        return m.words * m.width

    # --- linear -----------------------------------------------------------------------------------

    def linear(self, width_in: int, width_out: int) -> None:
        """Multiply by a weight."""
        p, rows = self.program, self.model.rows
        weight = [width_in, width_out]
        with p.op("aten::linear", details=_dims([rows, width_in], weight[::-1], [width_out])):
            self._transposed()
            shapes = _dims([width_out], [rows, width_in], weight, [], [])
            with p.op("aten::addmm", before=5_500, details=shapes) as op:
                self.remember("AddmmBackward0", op, partial(self._linear_backward, *weight))
                p.allocate(rows * width_out * 2)
                p.launch(k.gemm(rows, width_out, width_in))

    def _linear_backward(self, width_in: int, width_out: int) -> int:
        p, rows = self.program, self.model.rows
        self._transposed()
        shapes = _dims([rows, width_out], [width_out, width_in])
        with p.op("aten::mm", before=5_000, details=shapes):
            p.allocate(rows * width_in * 2)
            p.launch(k.gemm(rows, width_in, width_out, "nn"))
        self._transposed()
        shapes = _dims([width_out, rows], [rows, width_in])
        with p.op("aten::mm", before=5_000, details=shapes):
            p.launch(k.gemm(width_out, width_in, rows, "nt"))
        with p.op("aten::sum", before=4_200, details=_dims([rows, width_out], [], [], [])):
            p.launch(k.reduce("sum_functor", rows * width_out * 2))
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
            p.launch(k.layer_norm(m.rows, m.width))

    def _layer_norm_backward(self) -> int:
        p, m = self.program, self.model
        with p.op("aten::native_layer_norm_backward", before=4_000):
            self._empty(m.activation_bytes)
            fused = "fused_kernel" in m.changes
            for half in ("fused",) if fused else ("input", "gamma"):
                p.launch(k.layer_norm(m.rows, m.width, backward=half))
        p.allocate(-2 * m.activation_bytes)
        return 2 * m.width

    # --- attention --------------------------------------------------------------------------------

    def attention(self) -> None:
        """Attend to the sequence's past."""
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
                p.launch(k.flash_attention(m.heads * m.batch, m.tokens, m.width // m.heads))

    def _attention_backward(self) -> int:
        p, m = self.program, self.model
        with (
            p.op("aten::_scaled_dot_product_flash_attention_backward", before=3_800),
            p.op("aten::_flash_attention_backward", before=3_600),
        ):
            self._empty(m.activation_bytes)
            p.launch(k.memset(m.rows * m.width * 4))
            heads, width = m.heads * m.batch, m.width // m.heads
            p.launch(k.flash_attention(heads, m.tokens, width, backward=True))
        p.allocate(-2 * m.activation_bytes)
        return 0

    # --- pointwise --------------------------------------------------------------------------------

    def gelu(self) -> None:
        """Bend the widened activation."""
        p, m = self.program, self.model
        wide_bytes = 4 * m.activation_bytes
        slower = 2 if "slow_operator" in m.changes else 1
        cost_ns, shapes = 2_600 * slower, _dims([m.rows, 4 * m.width])
        with p.op("aten::gelu", before=cost_ns, after=900 * slower, details=shapes) as op:
            self.remember("GeluBackward0", op, self._gelu_backward)
            p.allocate(wide_bytes)
            work = k.elementwise(_GELU, 2 * wide_bytes)
            p.launch(replace(work, base_ns=work.base_ns * slower), cost_ns=4_300 * slower)

    def _gelu_backward(self) -> int:
        wide_bytes = 4 * self.model.activation_bytes
        with self.program.op("aten::gelu_backward", before=3_000):
            self.program.launch(k.elementwise(_GELU_BACKWARD, 3 * wide_bytes))
        self.program.allocate(-wide_bytes)
        return 0

    def add(self) -> None:
        """Add the residual."""
        p, m = self.program, self.model
        with p.op("aten::add", before=2_600, details=_dims([m.rows, m.width])) as op:
            self.remember("AddBackward0", op, self._add_backward)
            p.allocate(m.activation_bytes)
            p.launch(k.elementwise(_ADD, 3 * m.activation_bytes))

    def _add_backward(self) -> int:
        self.program.allocate(-self.model.activation_bytes)
        return 0

    # --- collectives ------------------------------------------------------------------------------

    def exchange(self, way: Way) -> None:
        """Gather or scatter the sequence now, and do the opposite in the backward pass."""
        self._exchange(way)
        opposite: Way = "scatter" if way == "gather" else "gather"
        self.tape.append(Node("", -1, partial(self._exchange, opposite)))

    def _exchange(self, way: Way) -> int:
        p, m = self.program, self.model
        if m.tensor_ranks < 2:
            return 0
        whole = m.rows * m.width
        part = whole // m.tensor_ranks
        number = p.next_sequence("tensor")
        if way == "gather":
            what = Collective("tensor", "_allgather_base", part, whole, "BFloat16", 2, number)
            api = ("c10d::_allgather_base_", "nccl:_all_gather_base")
            kernel = "AllGather_RING_LL"
        else:
            what = Collective("tensor", "_reduce_scatter_base", whole, part, "BFloat16", 2, number)
            api = ("c10d::_reduce_scatter_base_", "nccl:_reduce_scatter_base")
            kernel = "ReduceScatter_Sum_bf16_RING_LL"
        p.collective(k.nccl(kernel, whole * 2, m.tensor_ranks), what, TENSORS, api)
        p.wait(COMPUTE, TENSORS)
        return 0

    def close_bucket(self) -> None:
        """Let the backward pass reduce its gradients when it comes back to here."""
        self.tape.append(Node("", -1, self.reduce_gradients))

    def reduce_gradients(self) -> int:
        """Reduce one bucket over all ranks, beside the rest of the backward pass."""
        p, m = self.program, self.model
        count, self.ready = self.ready, 0
        if count == 0:
            return 0
        with p.op("aten::_foreach_mul_", before=3_000):
            p.launch(k.elementwise(SCALE, count * 8))
        if m.ranks > 1 and "moved_collective" in m.changes and not self.has_held:
            self.held, self.has_held = partial(self._reduce, count), True
        elif m.ranks > 1:
            self._reduce(count)
        return 0

    def _reduce(self, count: int) -> None:
        p = self.program
        number = p.next_sequence("world")
        what = Collective("world", "allreduce", count, count, "Float", 4, number)
        work = k.nccl("AllReduce_Sum_f32_RING_LL", count * 4, self.model.ranks)
        p.collective(work, what, GRADIENTS, ("c10d::allreduce_", "nccl:all_reduce"))

    def reduce_held(self) -> None:
        """Run the reduction that was put off, if any."""
        held, self.held = self.held, None
        if held is not None:
            held()

    # --- copies -----------------------------------------------------------------------------------

    def contiguous(self, size_bytes: int) -> None:
        """Copy to another place of the device's memory."""
        p = self.program
        with (
            p.op("aten::contiguous", before=1_400),
            p.op("aten::clone", before=2_200),
        ):
            self._empty(size_bytes)
            with p.op("aten::copy_", before=2_800):
                p.launch(k.copy("DtoD (Device -> Device)", size_bytes))


def _dims(*shapes: list[int]) -> str:
    kinds = ", ".join('"c10::BFloat16"' if shape else '"Scalar"' for shape in shapes)
    return f'"Input type": [{kinds}], "Input Dims": {list(shapes)}'
