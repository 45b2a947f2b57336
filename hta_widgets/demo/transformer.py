"""One training step of a small decoder-only transformer."""

from __future__ import annotations

from hta_widgets.demo import kernels as k
from hta_widgets.demo.operators import CAST
from hta_widgets.demo.operators import SCALE
from hta_widgets.demo.operators import Model
from hta_widgets.demo.operators import Node
from hta_widgets.demo.operators import Operators
from hta_widgets.demo.program import AUTOGRAD
from hta_widgets.demo.program import COMPUTE
from hta_widgets.demo.program import COPY
from hta_widgets.demo.program import GRADIENTS
from hta_widgets.demo.program import MAIN
from hta_widgets.demo.program import PINNER
from hta_widgets.demo.program import Program

__all__ = ["training_step"]

_LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
_ADAM = "at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4>"


def training_step(model: Model) -> tuple[Program, int]:
    """Build the program of one step.

    Parameters
    ----------
    model : Model
        Shape of the model and its process groups.

    Returns
    -------
    program : Program
    nodes : int
        Sequence numbers of autograd that a step uses.
    """
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
    program.join(_pinner(model), forward)
    return program, len(operators.tape)


def _load_batch(program: Program, model: Model) -> None:
    with program.annotation(_LOADER):
        program.spend(900_000, restless=True)
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
                program.launch(k.copy("HtoD (Pinned -> Device)", size_bytes), COPY)
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
    operators.close_bucket()


def _loss(program: Program, model: Model) -> None:
    # Captured in a graph: one launch, several kernels.
    rows, logits_bytes = model.rows, model.rows * model.words * 4
    works = [
        k.elementwise(CAST, logits_bytes * 3 // 2),
        k.softmax(rows, model.words),
        k.reduce("MeanOps", rows * 4),
        k.elementwise(SCALE, rows * 4),
        k.softmax(rows, model.words, backward=True),
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
        operators.reduce_held()
        program.wait(COMPUTE, GRADIENTS)


def _node(program: Program, node: Node, number: int) -> int:
    numbers = f'"Sequence number": @SEQ{number}@, "Fwd thread id": 1'
    evaluate = "autograd::engine::evaluate_function: "
    with (
        program.op(evaluate + node.name, before=2_100, after=1_100, details=numbers),
        program.op(node.name, before=1_800, details=numbers) as index,
    ):
        program.link(node.op, index)
        parameters = node.backward()
    if parameters:
        accumulate = "torch::autograd::AccumulateGrad"
        with (
            program.op(evaluate + accumulate, before=1_500),
            program.op(accumulate, before=1_600),
        ):
            program.leaf("aten::detach", 900)
    return parameters


def _optimizer(program: Program, model: Model) -> None:
    launches = 2 * model.layers + 4
    with program.annotation("Optimizer.step#AdamW.step", COMPUTE):
        with program.op("aten::_foreach_norm", before=6_000):
            for _ in range(2):
                program.launch(k.reduce("NormTwoOps", model.parameters * 2))
        with program.op("aten::_foreach_mul_", before=9_000):
            program.launch(k.elementwise(SCALE, 4096))
        with program.op("aten::_fused_adamw_", before=26_000):
            for _ in range(launches):
                work = k.multi_tensor(_ADAM, model.parameters * 16 // launches)
                program.launch(work, cost_ns=9_500)
    with program.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
        program.spend(38_000)


def _read_loss(program: Program) -> None:
    program.synchronize()
    with (
        program.op("aten::item", before=1_400),
        program.op("aten::_local_scalar_dense", before=2_000),
    ):
        program.read_back(k.copy("DtoH (Device -> Pageable)", 4))


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
