"""The operator calls that do the work of a rank, and their distinct signatures.

Wrappers have the same shapes as the operators that they call: ``aten::conv2d``, ``convolution``,
``_convolution`` and ``cudnn_convolution`` are one convolution. Among nested operators with matrix
work, the outermost attention or convolution counts, or else the innermost matrix product, or else a
wrapper that calls none of these. All device work launched within it belongs to it. Other device
work belongs to its innermost listed operator, or else to its innermost operator.

For example, ``linear`` calls ``t`` and ``addmm``, and ``addmm`` launches a kernel: the counted call
is ``addmm``. On a rank with device work, an operator that launched nothing computed nothing. One
example is the last operator of a checkpoint's recomputation, stopped before its kernel.

A signature is an operator with its arguments, which determine the work, so a formula runs once per
signature. For example, 96 layers that call ``aten::addmm`` in 5 steps are 480 calls with one.

Files from 2021 and 2022 have shapes but no strides and paddings, so a convolution's own arguments
do not determine its output. Its backward operator has the same sequence number and takes a gradient
with the output's shape. The certainty of such work is ``linked``.

Lengths for an inference engine's attention come from its step, and the work of experts from their
kernels' grids. Calls that differ only in their step share a table row with mean figures.

A call inside an autograd node but with a sequence number of its own is a forward call within the
backward pass. It is recomputation if the same signature ran in the step's forward pass.

XLA computes the FLOPs and bytes of its operations at compile time, so its calls have the args
``flops`` and ``bytes accessed``. These replace the figures of the formulas, as do Inductor's counts
for its kernels. Equal operations with different figures are different signatures. On a device whose
work no host call launches, such as a TPU, the device operations are the calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from hta_widgets.analysis.efficiency.calls import (
    NO_CONTEXT,
    CallContext,
    Kernels,
    OperatorCall,
    Work,
    standard_type,
)
from hta_widgets.analysis.efficiency.engine_steps import engine_steps, step_of_events
from hta_widgets.analysis.efficiency.matrix_work import match_expert_kernel
from hta_widgets.analysis.efficiency.work import call_work, operators_of, role_of, unnumbered_name
from hta_widgets.analysis.scope import device_work_rows
from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Floats,
    Ints,
    Rows,
    distinct_codes,
    group_by_columns,
    mask_of_rows,
    positions_of_rows,
)
from hta_widgets.trace.call_args import CallArgs, Texts, call_args, decode_arg, launch_args
from hta_widgets.trace.columns import event_args
from hta_widgets.trace.graph_captures import graph_launch_of
from hta_widgets.trace.host_stack import (
    Forest,
    autograd_nodes,
    name_mask,
    names_match,
    nearest_ancestor,
    operator_tree,
)
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace

_CONVOLUTIONS = ("aten::convolution", "aten::cudnn_convolution", "aten::conv2d")
#: Until PyTorch 1.9, this operator calls another operator for each gradient that it computes.
_CONVOLUTION_BACKWARD = "aten::cudnn_convolution_backward"
_GRADIENTS = (f"{_CONVOLUTION_BACKWARD}_input", f"{_CONVOLUTION_BACKWARD}_weight")
#: Number of calls after a convolution that are searched for one that takes its output.
_MAX_AHEAD = 4
_DETACH = "aten::detach"
#: Args with the figures of XLA's operations and Inductor's kernels.
_XLA = ("flops", "bytes accessed", "hlo_category")
_INDUCTOR = ("kernel_flop", "kernel_num_gb")
STATED: Final = "stated"

_Dims = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class CountedCalls:
    """A rank's counted calls in ascending order, and the device work within each.

    `call_of_work` is the position of the call of each piece of device work; -1 if it has none.
    `launched_nothing` counts the matrix operators without device work, on ranks that have any.
    """

    rows: Rows
    is_matrix: Bools
    is_backward: Bools
    work: Rows
    call_of_work: Ints
    launched_nothing: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def of_work(self, rows: Rows, events: int) -> Ints:
        """Return the call of each piece of work, or -1; `events` is the rank's number of events."""
        return np.append(self.call_of_work, -1)[positions_of_rows(self.work, events)[rows]]


@memoize
def counted_calls(trace: Trace) -> CountedCalls:
    """Return the counted calls of a rank."""
    tree = operator_tree(trace)
    used, name_of_row = distinct_codes(trace.table.name[tree.rows])
    role_of_name = [role_of(trace.table.names[code]) for code in used.tolist()]
    role_of_row = np.array(role_of_name, dtype=object)[name_of_row]
    roles = {role: role_of_row == role for role in ("gemm", "outermost", "fallback", "listed")}
    owner, is_matrix = _owners(tree.forest, roles)
    work = device_work_rows(trace)
    innermost = tree.innermost[trace.launch_of[work]]
    owner_of_work = np.append(owner, -1)[innermost]
    if (owner_of_work < 0).all() and getattr(trace.source, "states_work", False):
        return _calls_on_device(trace, work)
    launched_nothing = 0
    if len(work):
        # Masks are faster than `numpy.unique`, which hashes even sorted numbers.
        launches = mask_of_rows(owner_of_work[owner_of_work >= 0], len(owner))
        is_matrix_owner = mask_of_rows(owner[is_matrix[owner]], len(owner))
        launched_nothing = int(np.count_nonzero(is_matrix_owner & ~launches))
        counted = np.flatnonzero(launches)
    else:
        # Without device work, launches cannot show which operators count.
        is_listed = roles["listed"] & ~_has_below(tree.forest, roles["listed"])
        counted = np.flatnonzero((owner == np.arange(len(owner))) & (is_matrix | is_listed))
    is_node = autograd_nodes(trace)[tree.rows]
    is_backward = nearest_ancestor(tree.forest.parent, is_node)[:-1] >= 0
    return CountedCalls(
        rows=tree.rows[counted],
        is_matrix=is_matrix[counted],
        is_backward=is_backward[counted],
        work=work,
        call_of_work=positions_of_rows(counted, len(tree.rows))[owner_of_work],
        launched_nothing=launched_nothing,
    )


def _calls_on_device(trace: Trace, work: Rows) -> CountedCalls:
    """Return the device work that contains no other work, each piece as its own call."""
    encloses = mask_of_rows(trace.table.parent[work], len(trace))[work]
    rows = work[~encloses]
    never = np.zeros(len(rows), bool)
    return CountedCalls(
        rows=rows,
        is_matrix=never,
        is_backward=never,
        work=work,
        call_of_work=np.where(encloses, -1, np.cumsum(~encloses) - 1),
    )


def _owners(forest: Forest, roles: dict[str, Bools]) -> tuple[Ints, Bools]:
    """Return the owner of each operator's device work, and which operators have matrix work."""
    parent, owner = forest.parent, np.arange(len(forest.parent))
    # Convolutions and attention that are not inside another one.
    is_below = nearest_ancestor(parent, roles["outermost"])[parent] >= 0
    is_top = roles["outermost"] & ~is_below
    top = nearest_ancestor(parent, is_top)[:-1]
    is_product = roles["gemm"] & ~_has_below(forest, roles["gemm"]) & (top < 0)
    is_primary = roles["gemm"] | roles["outermost"]
    has_primary_above = nearest_ancestor(parent, is_primary)[:-1] >= 0
    is_wrapper = roles["fallback"] & ~has_primary_above & ~_has_below(forest, is_primary)
    is_wrapper &= ~_has_below(forest, is_wrapper)
    # Later kinds of owners override earlier kinds.
    for stops in (roles["listed"], is_wrapper, is_product, is_top):
        nearest = nearest_ancestor(parent, stops)[:-1]
        owner = np.where(nearest >= 0, nearest, owner)
    return owner, is_product | is_wrapper | is_top


def _has_below(forest: Forest, targets: Bools) -> Bools:
    return forest.subtree_sums(targets.astype(np.int64)) > targets


class _Signature(NamedTuple):
    """The inputs of a formula; unless `is_matrix`, nested calls compute the matrix products."""

    name: str
    texts: Texts
    context: CallContext
    is_matrix: bool


class CallSignature(NamedTuple):
    """An operator, its arguments as strings, and its work."""

    name: str
    texts: Texts
    work: Work
    input_type: str


@dataclass(frozen=True, eq=False)
class Signatures:
    """A rank's distinct signatures, and `code`, the signature of each counted call.

    `row` is the table row of each call. Signatures that differ only in their step share a row.
    """

    calls: CountedCalls
    code: Ints
    row: Ints
    distinct: list[CallSignature]
    is_recomputed: Bools
    is_stopped: Bools

    def figures(self, name: str) -> Floats:
        """Return the numeric field `name` of each call's work."""
        return self._of_work(name, np.float64)

    def texts_of_work(self, name: str) -> Array:
        """Return the string field `name` of each call's work."""
        return self._of_work(name, object)

    def _of_work(self, name: str, dtype: Any) -> Array:
        values: Array = np.array([getattr(row.work, name) for row in self.distinct], dtype)
        return values[self.code]

    @property
    def has_known_matrix_flops(self) -> Bools:
        """Whether each call has known matrix FLOPs or does no matrix work."""
        kind, has_flops = self.texts_of_work("kind"), ~np.isnan(self.figures("flops"))
        return np.asarray((kind == "vector") | ((kind == "matrix") & has_flops))

    @property
    def has_shapes(self) -> bool:
        """Whether any call has shapes, or work stated by the file."""
        return any(
            signature.texts[0] not in {b"", b"null"} or signature.work.certainty == STATED
            for signature in self.distinct
        )


@memoize
def signatures(trace: Trace) -> Signatures:
    """Return the signatures of a rank's counted calls."""
    calls = counted_calls(trace)
    args = call_args(trace, calls.rows)
    distinct, code = _distinct_signatures(trace, calls, args)
    works = [_work(signature) for signature in distinct]
    within_backward = calls.is_backward & (args.sequence >= 0) & (args.thread == 0)
    step_and_code = trace.table.step[calls.rows] * (int(code.max(initial=0)) + 1) + code
    ran_in_forward = np.isin(step_and_code, step_and_code[~calls.is_backward])
    return Signatures(
        calls=calls,
        code=code,
        row=_rows_of_table(distinct, works)[code],
        distinct=[
            CallSignature(name, texts, work, work.type_name or _input_type(*texts[:2]))
            for (name, texts, *_), work in zip(distinct, works, strict=True)
        ],
        is_recomputed=within_backward & ran_in_forward,
        is_stopped=_is_stopped(trace, calls, within_backward),
    )


def _distinct_signatures(
    trace: Trace, calls: CountedCalls, args: CallArgs
) -> tuple[list[_Signature], Ints]:
    # Contexts, by position, of calls whose arguments do not determine the work.
    contexts = _output_contexts(trace, calls, args) | _gradient_contexts(trace, calls)
    contexts |= _backward_contexts(trace, calls, args)
    contexts |= _expert_contexts(trace, calls) | _step_contexts(trace, calls)
    codes = {NO_CONTEXT: 0}
    context_code = np.zeros(len(calls), np.int64)
    for call, context in contexts.items():
        context_code[call] = codes.setdefault(context, len(codes))
    name = trace.table.name[calls.rows]
    first, code = group_by_columns([name, args.code, context_code, calls.is_matrix])
    distinct = [
        _Signature(
            name=trace.table.names[name[call]],
            texts=args.texts[args.code[call]],
            context=contexts.get(call, NO_CONTEXT),
            is_matrix=bool(calls.is_matrix[call]),
        )
        for call in first.tolist()
    ]
    return distinct, code


def _rows_of_table(signature_list: Sequence[_Signature], works: Sequence[Work]) -> Ints:
    """Return each signature's table row, shared by signatures that differ only in their step."""
    numbers: dict[tuple[_Signature, str], int] = {}
    rows = []
    for signature, work in zip(signature_list, works, strict=True):
        without_step = signature._replace(context=signature.context._replace(step=None))
        rows.append(numbers.setdefault((without_step, work.reason), len(numbers)))
    return np.array(rows, np.int64)


def _gradient_contexts(trace: Trace, calls: CountedCalls) -> dict[int, CallContext]:
    """Return the number of gradients that convolutions' backward calls compute, in old files."""
    backward = _positions_of_names(trace, calls, (_CONVOLUTION_BACKWARD,))
    if not len(backward):
        return {}
    parents = trace.table.parent[name_mask(trace, _GRADIENTS.__contains__)]
    counts = np.bincount(parents[parents >= 0], minlength=len(trace))[calls.rows[backward]]
    pairs = zip(backward.tolist(), counts.tolist(), strict=True)
    return {call: CallContext(gradients=count) for call, count in pairs}


def _backward_contexts(trace: Trace, calls: CountedCalls, args: CallArgs) -> dict[int, CallContext]:
    """Return the arguments of autograd functions' forward calls, found by sequence number."""
    contexts: dict[int, CallContext] = {}
    codes, sequences = args.code.tolist(), args.sequence.tolist()
    for name in operators_of("backward"):
        backward = _positions_of_names(trace, calls, (name,)).tolist()
        if backward:
            forward_name = name.removesuffix("Backward")
            forward = _positions_of_names(trace, calls, (forward_name,)).tolist()
            texts = {sequences[call]: args.texts[codes[call]] for call in forward}
            contexts |= {
                call: CallContext(forward=texts[sequences[call]])
                for call in backward
                if sequences[call] >= 0 and sequences[call] in texts
            }
    return contexts


def _expert_contexts(trace: Trace, calls: CountedCalls) -> dict[int, CallContext]:
    """Return each mixture of experts' kernels and the grids of its products."""
    experts = _positions_of_names(trace, calls, operators_of("launched_experts"))
    is_of_experts = np.isin(calls.call_of_work, experts) & (calls.call_of_work >= 0)
    work, call_of_work = calls.work[is_of_experts], calls.call_of_work[is_of_experts]
    names = [trace.table.names[code] for code in trace.table.name[work].tolist()]
    grids: list[tuple[int, ...]] = [()] * len(names)
    with_grid = [kernel for kernel, name in enumerate(names) if match_expert_kernel(name)]
    launches = launch_args(trace, work[with_grid])
    for kernel, code in zip(with_grid, launches.code.tolist(), strict=True):
        sizes = decode_arg(launches.texts[code][0])
        if all(type(size) is int for size in sizes):
            grids[kernel] = tuple(sizes)
    kernels: dict[int, Kernels] = {}
    for call, name, grid in zip(call_of_work.tolist(), names, grids, strict=True):
        kernels[call] = (*kernels.get(call, ()), (name, grid))
    return {call: CallContext(kernels=of_call) for call, of_call in kernels.items()}


def _step_contexts(trace: Trace, calls: CountedCalls) -> dict[int, CallContext]:
    """Return the engine step around each attention call, whose name has the lengths."""
    attention = _positions_of_names(trace, calls, operators_of("paged_attention"))
    if not len(attention) or not len(engine_steps(trace).rows):
        return {}
    # The launch of a replayed graph is within a step, unlike the captured call.
    launch = np.full(len(calls) + 1, -1, dtype=np.int64)  # the last is for work without a call
    launch[calls.call_of_work] = graph_launch_of(trace, calls.work)
    launch = launch[attention]
    event = np.where(launch >= 0, launch, calls.rows[attention])
    steps = engine_steps(trace)
    step_of_call = step_of_events(trace, steps.rows, event)
    return {
        call: CallContext(step=steps.names[step])
        for call, step in zip(attention.tolist(), step_of_call.tolist(), strict=True)
        if step >= 0
    }


@lru_cache(maxsize=1 << 14)
def _work(signature: _Signature) -> Work:
    """Return the work of a signature, without the matrix products of nested operators."""
    dims, types, strides, values = map(decode_arg, signature.texts)
    work = call_work(OperatorCall(signature.name, dims, types, strides, values, signature.context))
    if signature.is_matrix or work.kind != "matrix":
        return work
    reason = "its matrix products are counted as the operators below it"
    return Work(work.category, 0.0, 0.0, kind="vector", reason=reason)


@lru_cache(maxsize=1 << 14)
def _input_type(dims: bytes, types: bytes) -> str:
    pairs = zip(decode_arg(dims), decode_arg(types), strict=False)
    names = [standard_type(name) for shape, name in pairs if shape and isinstance(name, str)]
    return "float" if names[:1] == ["TensorList"] else (names or [""])[0]


def _output_contexts(trace: Trace, calls: CountedCalls, args: CallArgs) -> dict[int, CallContext]:
    """Return the output shapes of convolutions without concrete arguments, where known."""
    has_no_values = np.array([bool(dims) and not values for dims, _, _, values in args.texts], bool)
    convolutions = _positions_of_names(trace, calls, _CONVOLUTIONS)
    convolutions = convolutions[has_no_values[args.code[convolutions]]].tolist()
    if not convolutions:
        return {}
    track = trace.table.track[calls.rows]
    gradients = _gradient_shapes(trace, calls, args)

    # Decode lazily: an optimizer's lists of tensors are long, and few calls need them.
    @cache
    def dims_of(code: int) -> list[Any]:
        return decode_arg(args.texts[code][0])

    contexts = {}
    for call in convolutions:
        operands = dims_of(int(args.code[call]))[:2]
        output = gradients.get((int(args.sequence[call]), str(operands)))
        has_channels = [isinstance(dims, list) and len(dims) > 1 for dims in operands]
        if output is None and has_channels == [True, True]:
            # The output is the first argument of a call that reads it.
            following = slice(call + 1, call + 1 + _MAX_AHEAD)
            codes = args.code[following][track[following] == track[call]].tolist()
            first_arguments = [dims[0] for dims in map(dims_of, codes) if dims]
            output = _output_of(operands, first_arguments)
        if output is not None:
            contexts[call] = CallContext(output=output)
    return contexts


def _output_of(operands: Sequence[list[int]], candidates: Iterable[list[int]]) -> _Dims | None:
    """Return the first shape with the input's batch and the weight's channels, or None."""
    x, weight = operands
    shapes = (tuple(dims) for dims in candidates if len(dims) == len(weight))
    return next((shape for shape in shapes if shape[:2] == (x[0], weight[0])), None)


def _gradient_shapes(
    trace: Trace, calls: CountedCalls, args: CallArgs
) -> dict[tuple[int, str], _Dims]:
    """Return gradient shapes, keyed by sequence number and dims of input and weight."""
    backward = _positions_of_names(trace, calls, (_CONVOLUTION_BACKWARD,))
    parents = trace.table.parent[calls.rows[backward]].astype(np.int64)
    sequence = call_args(trace, np.maximum(parents, 0)).sequence.tolist()
    shapes = {}
    for code, number in zip(args.code[backward].tolist(), sequence, strict=True):
        dims = decode_arg(args.texts[code][0])
        if number >= 0 and len(dims) > 2:
            x, gradient, weight = dims[:3]
            shapes[number, str([x, weight])] = tuple(gradient)
    return shapes


def _positions_of_names(trace: Trace, calls: CountedCalls, wanted: Collection[str]) -> Rows:
    has_name = names_match(trace, calls.rows, lambda name: unnumbered_name(name) in wanted)
    return np.flatnonzero(has_name)


def _is_stopped(trace: Trace, calls: CountedCalls, within_backward: Bools) -> Bools:
    """Return which recomputed calls were stopped before computing, if the rank has no device work.

    Such a call runs only ``detach``, while other calls of its name run further operators.
    """
    if len(calls.work) or not within_backward.any():
        return np.zeros(len(calls), dtype=bool)
    tree = operator_tree(trace)
    is_detach = names_match(trace, tree.rows, _DETACH.__eq__)
    parent = tree.forest.parent
    positions = positions_of_rows(tree.rows, len(trace))[calls.rows]
    calls_detach, calls_others = (
        np.bincount(parent[mask & (parent >= 0)], minlength=len(parent))[positions] > 0
        for mask in (is_detach, ~is_detach)
    )
    name = trace.table.name[calls.rows]
    others_compute = np.isin(name, name[calls_others])
    return within_backward & calls_detach & ~calls_others & others_compute


@memoize
def signatures_with_stated_work(trace: Trace) -> Signatures:
    """Return the signatures of a rank's counted calls, with work as stated by the file."""
    signature_set = signatures(trace)
    rows = signature_set.calls.rows
    if not getattr(trace.source, "states_work", False):
        return _with_counts_of_inductor(trace, signature_set)
    args = event_args(trace, rows, _XLA)
    codes: dict[tuple[Any, ...], int] = {}
    keys = zip(signature_set.code.tolist(), *args.values(), strict=True)
    code = np.array([codes.setdefault(key, len(codes)) for key in keys], np.int64)
    return replace(
        signature_set,
        code=code,
        row=code,
        distinct=[
            _with_stated_work(signature_set.distinct[number], *stated) for number, *stated in codes
        ],
    )


def _with_counts_of_inductor(trace: Trace, signature_set: Signatures) -> Signatures:
    codes, first = np.unique(signature_set.code, return_index=True)
    distinct = list(signature_set.distinct)
    is_triton = [distinct[code].name.startswith("triton_") for code in codes.tolist()]
    args = event_args(trace, signature_set.calls.rows[first[is_triton]], _INDUCTOR)
    for code, flops, gigabytes in zip(codes[is_triton].tolist(), *args.values(), strict=True):
        size_bytes = gigabytes * 1e9 if isinstance(gigabytes, (int, float)) else None
        distinct[code] = _with_stated_work(distinct[code], flops, size_bytes)
    return replace(signature_set, distinct=distinct)


def _with_stated_work(
    signature: CallSignature, flops: Any, size_bytes: Any, category: Any = None
) -> CallSignature:
    flops, size_bytes = (
        value if isinstance(value, (int, float)) else None for value in (flops, size_bytes)
    )
    if flops is None and size_bytes is None:
        return signature
    derived, flops = signature.work, float(flops or 0)
    kind = "matrix" if flops else "none"
    kind = "vector" if derived.kind == "vector" else kind
    work = Work(
        category if isinstance(category, str) else derived.category,
        flops=flops,
        model_flops=0.0 if kind == "vector" else flops,
        min_bytes=derived.min_bytes if size_bytes is None else size_bytes,
        kind=kind,
        certainty=STATED,
    )
    return signature._replace(work=work)
