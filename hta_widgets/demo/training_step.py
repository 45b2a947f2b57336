"""One training step of a transformer: forward, loss, backward and optimizer.

`Operators` adds calls of operators to a program, and their backward functions to a tape. Like
autograd, `training_step` runs the tape in reverse.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from hta_widgets.demo.device_tasks import (
    CAST,
    SCALE,
    copy,
    elementwise,
    flash_attention,
    gemm,
    layer_norm,
    memset,
    multi_tensor,
    nccl,
    reduce,
    softmax,
)
from hta_widgets.demo.program import (
    AUTOGRAD,
    COMPUTE,
    COPY,
    GRADIENTS,
    MAIN,
    PINNER,
    TENSORS,
    CollectiveCall,
    Program,
)

ChangeName = Literal["slow_operator", "fused_kernel", "moved_collective", "extra_copy"]
#: For each change, the expected row of `hta_widgets.diff.changes`.
TRUTH: dict[ChangeName, dict[str, Any]] = {
    "slow_operator": {"change": "slower", "name": "aten::gelu", "factor": 2.0},
    "fused_kernel": {
        "change": "replaced", "name": "aten::native_layer_norm_backward", "kernels": [2, 1],
    },
    "moved_collective": {"change": "moved", "name": "c10d::allreduce_"},
    "extra_copy": {
        "change": "added", "name": "aten::contiguous", "kernel": "Memcpy DtoD (Device -> Device)",
    },
}  # fmt: skip
#: Names of all changes.
CHANGES = tuple(TRUTH)
JobKind = Literal["training", "data_loading", "launch_bound", "memory_bound"]
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
#: Names of the collectives that gather or scatter a sequence: in c10d, annotation, kernel.
_EXCHANGES: dict[ExchangeDirection, tuple[str, str, str]] = {
    "gather": ("_allgather_base", "nccl:_all_gather_base", "AllGather_RING_LL"),
    "scatter": (
        "_reduce_scatter_base", "nccl:_reduce_scatter_base", "ReduceScatter_Sum_bf16_RING_LL",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Model:
    """The sizes of a model and of its process groups."""

    layers: int = 12
    width: int = 1024
    heads: int = 16
    batch: int = 1
    tokens: int = 2048  # per sequence
    words: int = 32_000
    loading_ns: int = 900_000  # time to load a batch
    ranks: int = 8  # size of the groups that reduce gradients
    tensor_ranks: int = 2  # size of the groups that split sequences; 1: no split
    modules: bool = False  # record the calls of modules
    checkpoint: bool = False  # recompute layers in the backward pass
    changes: frozenset[ChangeName] = frozenset()  # differences from the default job

    @property
    def rows(self) -> int:
        """Tokens in a batch."""
        return self.batch * self.tokens

    @property
    def attention_shape(self) -> list[int]:
        """Batch size, heads, length and head width of queries, keys and values."""
        return [self.batch, self.heads, self.tokens, self.width // self.heads]

    def step_flops(self) -> dict[str, int]:
        """Return the FLOPs of matrix products and causal attention in one rank's step."""
        weights = self.layers * 12 * self.width**2 + self.width * self.words
        products = 2 * self.rows * weights
        pairs = self.tokens * (self.tokens + 1) // 2
        # 2 FLOPs for the score and 2 for the output, for each query, key and head element.
        attention = 2 * self.layers * self.batch * pairs * self.width
        again = products - 2 * self.rows * self.width * self.words + 2 * attention
        return {
            "forward_flops": products + 2 * attention,
            "backward_flops": 2 * products + 5 * attention,
            "model_flops": 3 * products + 6 * attention,
            "recompute_flops": again * self.checkpoint,
        }

    @property
    def activation_bytes(self) -> int:
        """Size in bytes of an activation as wide as the model."""
        return self.rows * self.width * 2

    @property
    def parameters(self) -> int:
        """Number of weights, excluding biases and layer norms."""
        return self.layers * 12 * self.width * self.width + 2 * self.words * self.width


#: Model for each kind of job.
KINDS: dict[JobKind, Model] = {
    "training": Model(),
    "data_loading": Model(loading_ns=60_000_000),
    "launch_bound": Model(width=256, heads=4, tokens=128, words=2_000),
    "memory_bound": Model(width=128, heads=2, batch=1024, tokens=128, words=1_000),
}


@dataclass(frozen=True, slots=True)
class Node:
    """The backward function of an operator."""

    name: str  # autograd name; empty for collectives, which have no node
    op: int  # the host event of the forward operator
    backward: Callable[[], int]  # returns the number of parameters with new gradients
    module: str = ""  # path of the module that called the operator


@dataclass(slots=True)
class Operators:
    """Adds operators to a program, and their backward functions to a tape."""

    program: Program
    model: Model
    tape: list[Node] = field(default_factory=list)
    ready: int = 0  # parameters whose gradients are not yet reduced
    held: int = 0  # parameters whose gradients are reduced last
    is_again: bool = False  # inside the recomputation of a layer
    again: int = 0  # number of recomputed operators

    @contextmanager
    def module(self, class_name: str, number: int) -> Iterator[None]:
        """Run the block as a module call."""
        if not self.model.modules:
            yield
            return
        above, phase = self.program.owner
        path = f"{above}.{class_name}_{number}" if above else f"{class_name}_{number}"
        with self.program.python_function(f"nn.Module: {class_name}_{number}", path, phase):
            yield

    @contextmanager
    def recomputation(self) -> Iterator[None]:
        """Run the block as the recomputed forward pass of a checkpoint."""
        self.is_again = True
        name = "torch/utils/checkpoint.py(1123): recompute_fn"
        top = "Transformer_0" if self.model.modules else ""
        with self.program.python_function(name, top, "recompute"):
            yield
        self.is_again = False

    def remember(self, name: str, op: int, backward: Callable[[], int]) -> None:
        """Add a node to the tape. Its place there is autograd's sequence number."""
        if self.is_again:
            # Recomputed operators are numbered separately, so their numbers are not unique.
            self.again += 1
        else:
            self.tape.append(Node(name, op, backward, self.program.owner[0]))
        event = self.program.host[op]
        number = self.again if self.is_again else len(self.tape)
        args = f'"Sequence number": @SEQ{number}@, "Fwd thread id": 0'
        event.details = f"{event.details}, {args}" if event.details else args

    def _empty(self, size_bytes: int) -> None:
        self.program.leaf("aten::empty", 1_300)
        self.program.allocate(size_bytes)

    def _transpose(self) -> None:
        p = self.program
        with (
            p.op("aten::t", before_ns=900, after_ns=500),
            p.op("aten::transpose", before_ns=800, after_ns=400),
        ):
            p.leaf("aten::as_strided", 500)

    def embedding(self) -> None:
        """Look up the embeddings of the tokens."""
        p, m = self.program, self.model
        work = replace(elementwise(CAST, m.rows * m.width * 4), name=_LOOK_UP)
        weight, tokens = [m.words, m.width], [m.batch, m.tokens]
        shapes = _inputs(weight, tokens, "-1", "False", "False", a1="long int")
        with p.op("aten::embedding", details=shapes) as op:
            self.remember("EmbeddingBackward0", op, self._embedding_backward)
            shapes = _inputs(weight, "0", [m.rows], a2="long int")
            with p.op("aten::index_select", before_ns=3_100, details=shapes):
                p.allocate(m.activation_bytes)
                p.launch(work)

    def _embedding_backward(self) -> int:
        p, m = self.program, self.model
        tokens = [m.batch, m.tokens]
        shapes = _inputs([*tokens, m.width], tokens, str(m.words), "-1", "False", a1="long int")
        with (
            p.op("aten::embedding_backward", before_ns=1_500),
            p.op("aten::embedding_dense_backward", before_ns=5_200, details=shapes),
        ):
            p.launch(memset(m.words * m.width * 4))
            p.launch(elementwise(CAST, m.words * m.width * 4))
        p.allocate(-m.activation_bytes)
        return m.words * m.width

    def linear(self, width_in: int, width_out: int) -> None:
        """Multiply by a weight."""
        p, rows = self.program, self.model.rows
        weight = [width_in, width_out]
        with p.op("aten::linear", details=_inputs([rows, width_in], weight[::-1], [width_out])):
            self._transpose()
            shapes = _inputs([width_out], [rows, width_in], weight, "1", "1")
            with p.op("aten::addmm", before_ns=5_500, details=shapes) as op:
                self.remember("AddmmBackward0", op, partial(self._linear_backward, *weight))
                p.allocate(rows * width_out * 2)
                p.launch(gemm(rows, width_out, width_in))

    def _linear_backward(self, width_in: int, width_out: int) -> int:
        p, rows = self.program, self.model.rows
        self._transpose()
        shapes = _inputs([rows, width_out], [width_out, width_in])
        with p.op("aten::mm", before_ns=5_000, details=shapes):
            p.allocate(rows * width_in * 2)
            p.launch(gemm(rows, width_in, width_out, "nn"))
        self._transpose()
        shapes = _inputs([width_out, rows], [rows, width_in])
        with p.op("aten::mm", before_ns=5_000, details=shapes):
            p.launch(gemm(width_out, width_in, rows, "nt"))
        shapes = _inputs([rows, width_out], "[0]", "True", "")
        with p.op("aten::sum", before_ns=4_200, details=shapes):
            p.launch(reduce("sum_functor", rows * width_out * 2))
        p.allocate(-rows * width_out * 2)
        return width_in * width_out + width_out

    def layer_norm(self) -> None:
        """Normalize the rows."""
        p, m = self.program, self.model
        shapes = _inputs([m.rows, m.width], f"[{m.width}]", [m.width], [m.width], "1e-05")
        with (
            p.op("aten::layer_norm", details=shapes),
            p.op("aten::native_layer_norm", before_ns=3_200, details=shapes) as op,
        ):
            self.remember("NativeLayerNormBackward0", op, self._layer_norm_backward)
            self._empty(m.activation_bytes)
            self._empty(m.rows * 4)
            self._empty(m.rows * 4)
            p.launch(layer_norm(m.rows, m.width))

    def _layer_norm_backward(self) -> int:
        p, m = self.program, self.model
        x, row, weight = [m.rows, m.width], [m.rows, 1], [m.width]
        norm = (x, x, f"[{m.width}]", row, row, weight, weight, "[True, True, True]")
        shapes = _inputs(*norm, a3="float", a4="float")
        with p.op("aten::native_layer_norm_backward", before_ns=4_000, details=shapes):
            self._empty(m.activation_bytes)
            fused = "fused_kernel" in m.changes
            for half in ("fused",) if fused else ("input", "gamma"):
                p.launch(layer_norm(m.rows, m.width, backward=half))
        p.allocate(-2 * m.activation_bytes)
        return 2 * m.width

    def attention(self) -> None:
        """Apply causal attention."""
        p, m = self.program, self.model
        shape = m.attention_shape
        for _ in range(3):
            p.leaf("aten::view", 700)
            with p.op("aten::transpose", before_ns=900, after_ns=400):
                p.leaf("aten::as_strided", 500)
        with (
            p.op("aten::scaled_dot_product_attention", details=_inputs(shape, shape, shape)),
            p.op(
                "aten::_scaled_dot_product_flash_attention",
                before_ns=4_000,
                details=_inputs(shape, shape, shape, "0.", "True", "False", ""),
            ) as op,
        ):
            name = "ScaledDotProductFlashAttentionBackward0"
            self.remember(name, op, self._attention_backward)
            with p.op("aten::_flash_attention_forward", before_ns=3_600):
                self._empty(m.activation_bytes)
                self._empty(m.batch * m.heads * m.tokens * 4)
                p.launch(flash_attention(m.heads * m.batch, m.tokens, m.width // m.heads))

    def _attention_backward(self) -> int:
        p, m = self.program, self.model
        x, rows, length = m.attention_shape, m.attention_shape[:3], str(m.tokens)
        values = ("", "", length, length, "0.", "True", "", "", "")
        shapes = _inputs(x, x, x, x, x, rows, *values, a5="float")
        name = "aten::_scaled_dot_product_flash_attention_backward"
        with (
            p.op(name, before_ns=3_800, details=shapes),
            p.op("aten::_flash_attention_backward", before_ns=3_600),
        ):
            self._empty(m.activation_bytes)
            p.launch(memset(m.rows * m.width * 4))
            heads, width = m.heads * m.batch, m.width // m.heads
            p.launch(flash_attention(heads, m.tokens, width, backward=True))
        p.allocate(-2 * m.activation_bytes)
        return 0

    def gelu(self) -> None:
        """Apply GELU to the widened activation."""
        p, m = self.program, self.model
        wide_bytes = 4 * m.activation_bytes
        slower = 2 if "slow_operator" in m.changes else 1
        cost_ns, shapes = 2_600 * slower, _inputs([m.rows, 4 * m.width], "")
        with p.op("aten::gelu", before_ns=cost_ns, after_ns=900 * slower, details=shapes) as op:
            self.remember("GeluBackward0", op, self._gelu_backward)
            p.allocate(wide_bytes)
            work = elementwise(_GELU, 2 * wide_bytes)
            p.launch(replace(work, base_ns=work.base_ns * slower), cost_ns=4_300 * slower)

    def _gelu_backward(self) -> int:
        m, wide_bytes = self.model, 4 * self.model.activation_bytes
        shapes = _inputs([m.rows, 4 * m.width], [m.rows, 4 * m.width], "")
        with self.program.op("aten::gelu_backward", before_ns=3_000, details=shapes):
            self.program.launch(elementwise(_GELU_BACKWARD, 3 * wide_bytes))
        self.program.allocate(-wide_bytes)
        return 0

    def add(self) -> None:
        """Add the residual."""
        p, m = self.program, self.model
        shapes = _inputs([m.rows, m.width], [m.rows, m.width], "1")
        with p.op("aten::add", before_ns=2_600, details=shapes) as op:
            self.remember("AddBackward0", op, self._add_backward)
            p.allocate(m.activation_bytes)
            p.launch(elementwise(_ADD, 3 * m.activation_bytes))

    def _add_backward(self) -> int:
        self.program.allocate(-self.model.activation_bytes)
        return 0

    def exchange(self, way: ExchangeDirection) -> None:
        """Gather or scatter the sequence, and do the reverse in the backward pass."""
        opposite: ExchangeDirection = "scatter" if way == "gather" else "gather"
        self._exchange(way)
        if not self.is_again:
            self.tape.append(Node("", -1, partial(self._exchange, opposite)))

    def _exchange(self, way: ExchangeDirection) -> int:
        """Add the collective; return 0, because no gradients are computed."""
        p, m = self.program, self.model
        if m.tensor_ranks < 2:
            return 0
        elements = m.rows * m.width
        share = elements // m.tensor_ranks
        sizes = (share, elements) if way == "gather" else (elements, share)
        name, annotation, kernel = _EXCHANGES[way]
        call = CollectiveCall("tensor", name, *sizes, "BFloat16", 2, p.next_sequence("tensor"))
        p.collective(nccl(kernel, elements * 2, m.tensor_ranks), call, TENSORS, annotation)
        p.wait(COMPUTE, TENSORS)
        return 0

    def reduce_gradients(self) -> int:
        """Reduce a gradient bucket over all ranks, overlapping with the backward pass."""
        p, m = self.program, self.model
        count, self.ready = self.ready, 0
        if count == 0:
            return 0
        with p.op("aten::_foreach_mul_", before_ns=3_000, details=_inputs([[count]], "0.125")):
            p.launch(elementwise(SCALE, count * 8))
        if m.ranks > 1 and "moved_collective" in m.changes and not self.held:
            self.held = count
        elif m.ranks > 1:
            self.all_reduce(count)
        return 0

    def all_reduce(self, count: int) -> None:
        """Reduce the gradients of `count` parameters."""
        number = self.program.next_sequence("world")
        call = CollectiveCall("world", "allreduce", count, count, "Float", 4, number)
        work = nccl("AllReduce_Sum_f32_RING_LL", count * 4, self.model.ranks)
        self.program.collective(work, call, GRADIENTS, "nccl:all_reduce")

    def contiguous(self, size_bytes: int) -> None:
        """Copy within device memory."""
        p = self.program
        with p.op("aten::contiguous", before_ns=1_400), p.op("aten::clone", before_ns=2_200):
            self._empty(size_bytes)
            logits = [self.model.rows, self.model.words]
            with p.op("aten::copy_", before_ns=2_800, details=_inputs(logits, logits, "False")):
                p.launch(copy("DtoD (Device -> Device)", size_bytes))


def _inputs(*inputs: list[int] | list[list[int]] | str, **types: str) -> str:
    """Format the inputs of an operator: tensor shapes, lists of tensor shapes, and values.

    Tensors are BF16. `types` overrides the type at a position: ``a1="long int"``.
    """
    dims = [[] if isinstance(value, str) else value for value in inputs]
    kinds = [types.get(f"a{index}", _input_type(value)) for index, value in enumerate(inputs)]
    texts = [value if isinstance(value, str) else "" for value in inputs]
    columns = {"Input type": kinds, "Input Dims": dims, "Concrete Inputs": texts}
    return ", ".join(f'"{name}": {json.dumps(values)}' for name, values in columns.items())


def _input_type(value: list[int] | list[list[int]] | str) -> str:
    if isinstance(value, str):
        scalar = "ScalarList" if value.startswith("[") else "Scalar"
        return scalar if value else ""
    # Profilers write lists of more than 30 tensors as empty lists.
    is_list = not value or isinstance(value[0], list)
    return "TensorList" if is_list else "c10::BFloat16"


_LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
_ADAM = "at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4>"


def training_step(model: Model) -> tuple[Program, int]:
    """Return a step's program, and the number of its autograd nodes."""
    program = Program(thread=MAIN)
    operators = Operators(program, model)
    # Weights, gradients and optimizer state stay in memory between steps.
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
        program.spend(model.loading_ns, noisy=True)
    size_bytes = model.rows * 8
    tokens = [model.batch, model.tokens]
    shape = _inputs(tokens, "False", "", a0="long int")
    shapes = _inputs(tokens, tokens, "True", a0="long int", a1="long int")
    for _ in range(2):  # tokens and targets
        with (
            program.op("aten::to", before_ns=1_200, details=shape),
            program.op("aten::_to_copy", before_ns=2_400),
        ):
            program.leaf("aten::empty_strided", 1_500)
            program.allocate(size_bytes)
            with program.op("aten::copy_", before_ns=2_800, details=shapes):
                program.launch(copy("HtoD (Pinned -> Device)", size_bytes), COPY)
    program.wait(COMPUTE, COPY)


def _forward(operators: Operators) -> None:
    model = operators.model
    with (
        operators.program.annotation("DistributedDataParallel.forward", COMPUTE),
        operators.module("Transformer", 0),
    ):
        with operators.module("Embedding", 0):
            operators.embedding()
        for number in range(model.layers):
            _layer(operators, number)
            if model.checkpoint:
                _checkpoint(operators, number)
            # The backward pass reduces the gradient bucket here.
            operators.tape.append(Node("", -1, operators.reduce_gradients))
        with operators.module("LayerNorm", 2 * model.layers):
            operators.layer_norm()
        with operators.module("Linear", 4 * model.layers):
            operators.linear(model.width, model.words)


def _layer(operators: Operators, number: int) -> None:
    width = operators.model.width
    with operators.module("Block", number):
        with operators.module("LayerNorm", 2 * number):
            operators.layer_norm()
        operators.exchange("gather")
        with operators.module("Attention", number):
            with operators.module("Linear", 4 * number):
                operators.linear(width, 3 * width)
            operators.attention()
            with operators.module("Linear", 4 * number + 1):
                operators.linear(width, width)
        operators.add()
        with operators.module("LayerNorm", 2 * number + 1):
            operators.layer_norm()
        with operators.module("Linear", 4 * number + 2):
            operators.linear(width, 4 * width)
        operators.gelu()
        with operators.module("Linear", 4 * number + 3):
            operators.linear(4 * width, width)
        operators.exchange("scatter")
        operators.add()


def _checkpoint(operators: Operators, number: int) -> None:
    """Recompute a layer in the backward pass, before its first gradients."""
    last = operators.tape.pop()

    def backward() -> int:
        with operators.recomputation():
            _layer(operators, number)
        return last.backward()

    operators.tape.append(replace(last, backward=backward))


def _loss(program: Program, model: Model) -> None:
    # The loss is a captured CUDA graph, so one call launches several kernels.
    rows, logits_bytes = model.rows, model.rows * model.words * 4
    works = [
        elementwise(CAST, logits_bytes * 3 // 2),
        softmax(rows, model.words),
        reduce("MeanOps", rows * 4),
        elementwise(SCALE, rows * 4),
        softmax(rows, model.words, backward=True),
    ]
    with program.annotation("loss", COMPUTE), program.op("CUDAGraph::replay", before_ns=2_000):
        program.launch_graph(works)


def _backward(operators: Operators) -> None:
    program = operators.program
    with program.annotation("## backward ##", COMPUTE), program.on_thread(AUTOGRAD):
        for number in range(len(operators.tape), 0, -1):
            node = operators.tape[number - 1]
            program.owner = (node.module, "backward")
            if node.name:
                operators.ready += _node(program, node, number)
            else:
                node.backward()
        program.owner = ("", "backward")
        operators.reduce_gradients()
        if operators.held:
            operators.all_reduce(operators.held)
        program.wait(COMPUTE, GRADIENTS)
    program.owner = ("", "forward")


def _node(program: Program, node: Node, number: int) -> int:
    numbers = f'"Sequence number": @SEQ{number}@, "Fwd thread id": 1'
    evaluate = "autograd::engine::evaluate_function: "
    with (
        program.op(evaluate + node.name, before_ns=2_100, after_ns=1_100, details=numbers),
        program.op(node.name, before_ns=1_800, details=numbers) as index,
    ):
        program.flows.append((node.op, index))
        parameters = node.backward()
    if parameters:
        accumulate = "torch::autograd::AccumulateGrad"
        with (
            program.op(evaluate + accumulate, before_ns=1_500),
            program.op(accumulate, before_ns=1_600),
        ):
            program.leaf("aten::detach", 900)
    return parameters


def _optimizer(program: Program, model: Model) -> None:
    launches = 2 * model.layers + 4
    with program.annotation("Optimizer.step#AdamW.step", COMPUTE):
        with program.op("aten::_foreach_norm", before_ns=6_000, details=_inputs([], "2", "")):
            for _ in range(2):
                program.launch(reduce("NormTwoOps", model.parameters * 2))
        with program.op("aten::_foreach_mul_", before_ns=9_000, details=_inputs([[512]], "1.")):
            program.launch(elementwise(SCALE, 4096))
        with program.op("aten::_fused_adamw_", before_ns=26_000, details=_inputs([], [], [], [])):
            for _ in range(launches):
                work = multi_tensor(_ADAM, model.parameters * 16 // launches)
                program.launch(work, cost_ns=9_500)
    with program.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
        program.spend(38_000)


def _read_loss(program: Program) -> None:
    program.synchronize()
    with (
        program.op("aten::item", before_ns=1_400),
        program.op("aten::_local_scalar_dense", before_ns=2_000),
    ):
        program.read_back(copy("DtoH (Device -> Pageable)", 4))


def _pinner(model: Model) -> Program:
    """Return the calls of the thread that pins the next batch during training."""
    program = Program(thread=PINNER)
    for _ in range(2):
        with (
            program.op("aten::pin_memory", before_ns=3_000),
            program.op("aten::_pin_memory", before_ns=9_000),
        ):
            program.leaf("aten::empty", 24_000)
            program.leaf("aten::copy_", 60_000 + model.rows * 2)
        program.spend(220_000)
    return program
