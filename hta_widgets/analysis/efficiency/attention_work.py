"""FLOPs and minimum bytes of attention.

Let P be the number of (query, key) pairs per head that the mask allows; causal attention of 8
queries and 8 keys has 36. The forward pass computes 2 · P · (Dqk + Dv) FLOPs, the backward pass P ·
(6 · Dqk + 4 · Dv), including 2 · P · Dqk to recompute the scores. Softmax is not counted.

Sequences of different lengths are packed into one. Their lengths are values in a tensor, which a
trace does not record, but the number of tokens, the number of sequences and the maximum length
bound the number of pairs. For example, 24 tokens in 3 sequences of at most 12 have at least 144 +
36 + 36 pairs, with lengths 12, 6 and 6, and at most 144 + 121 + 1, with lengths 12, 11 and 1. If
all sequences have the maximum length, the number is exact.

Ascend's profiler omits arguments that are strings or numbers, including the layout and the mask.
For a query and a key of shape (2, 8, 1024, 64), the longer of the two middle dimensions is taken as
the sequence, and all 1024² pairs count. This is an upper bound. A query of shape (2, 8, 1, 64) is
one step of generation and attends to at most all keys.

Inference engines read keys and values from a paged cache, and state sums of lengths in step names.
In ``execute_32_context_0(…)_generation_32(sq32sk55086sqsq32sqsk55086)``, 32 queries attend to 55086
keys. With 64 heads of 64 elements, a layer computes 2 · 64 · 55086 · (64 + 64) FLOPs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan, prod
from typing import Any, Final

from hta_widgets.analysis.efficiency.calls import (
    CallError,
    OperatorCall,
    Reason,
    Work,
    bits_of_small_float,
    item_bytes,
    matrix_work,
)

_HIDDEN_MASK: Final = "the arguments do not state whether a mask or a window leaves fewer pairs"
_HIDDEN_LAYOUT: Final = "all pairs count; the longer dimension is assumed to be the sequence"
_HIDDEN_WINDOWS: Final = "layers with a sliding window compute less"


def attention_pairs(
    queries: int, keys: int, *, left: int = -1, right: int = -1, bottom_right: bool = False
) -> int:
    """Return the number of (query, key) pairs that the mask allows.

    `left` and `right` count earlier and later keys in a query's window; -1 for all, 0 if causal.

    Examples
    --------
    >>> attention_pairs(8, 8, right=0)
    36
    """
    shift = keys - queries if bottom_right else 0
    hidden_before = 0 if left < 0 else _triangle(queries, keys, shift - left - 1)
    ends = queries * keys if right < 0 else _triangle(queries, keys, shift + right)
    return ends - hidden_before


def _triangle(queries: int, keys: int, shift: int) -> int:
    """Return the sum over queries i of ``min(max(i + 1 + shift, 0), keys)``."""
    return _ramp_sum(queries + shift, keys) - _ramp_sum(shift, keys)


def _ramp_sum(last: int, limit: int) -> int:
    """Return the sum of ``min(i, limit)`` for i from 1 to `last`; 0 if `last` is negative."""
    rising = min(max(last, 0), limit)
    return rising * (rising + 1) // 2 + max(last - limit, 0) * limit


#: Keyed by mask argument: whether the mask is causal, and whether it aligns with the last query.
_MASKS: Final = {
    "False": (False, False), "True": (True, False),
    "0": (False, False), "1": (True, False), "2": (True, True),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttentionArguments:
    """Argument positions in one version of an attention operator; None for missing arguments.

    Key and value follow `query`. `mask` is an additive bias, `window` the first of two window
    sizes. `lengths` are tensors with the lengths of packed sequences; the first holds the
    cumulative query lengths. `longest` is the maximum query length, followed by the maximum key
    length. `saved` is the flag that requests logsumexp, or True if the operator always writes it.
    `flag` is a flag that only this version has. `local` is a window that the formulas do not
    support. With `bottom_right`, the last query attends to all keys. With `is_bound`, the arguments
    may omit a mask or a window, so the work is an upper bound.
    """

    causal: int | None = None
    query: int = 0
    mask: int | None = None
    window: int | None = None
    lengths: Sequence[int] = ()
    longest: int = -1
    saved: bool | int = True
    flag: int | None = None
    local: int | None = None
    backward: bool = False
    heads_last: bool = False
    bottom_right: bool = False
    is_bound: bool = False

    def fits(self, call: OperatorCall) -> bool:
        """Return whether the flags and the mask of a call fit this version."""
        flags = [self.flag, None if isinstance(self.saved, bool) else self.saved]
        has_flags = all(call.value(at) in {"False", "True"} for at in flags if at is not None)
        is_local = self.local is not None and call.number(self.local) > 0
        return has_flags and self.mask_of(call) in _MASKS and not is_local

    def mask_of(self, call: OperatorCall) -> str:
        """Return the mask argument, or ``False`` if the operator has none."""
        return "False" if self.causal is None else call.value(self.causal)


def attention_work(call: OperatorCall, versions: Sequence[Mapping[str, Any]]) -> Work:
    """Return the work of an attention call, using the first of `versions` that fits its arguments.

    The newest version comes first. For example, before PyTorch 2.1, efficient attention had no
    bias, so its causal flag was argument 4 instead of 6.
    """
    candidates = (AttentionArguments(**version) for version in versions)
    arguments = next((version for version in candidates if version.fits(call)), None)
    if arguments is None:
        raise CallError(Reason.OTHER_ARGUMENTS)
    q, k, v = (call.shape(arguments.query + number) for number in range(3))
    is_packed = any(map(call.is_present, arguments.lengths))
    heads_axis = -2 if is_packed or arguments.heads_last else -3
    heads, kv_heads = q[heads_axis], k[heads_axis]
    if q[-1] != k[-1] or heads % kv_heads:
        raise CallError(Reason.OTHER_ARGUMENTS)
    lengths_and_pairs = _packed_pairs if is_packed else _batch_pairs
    (batch, queries, keys), pairs_of_head = lengths_and_pairs(call, arguments)
    parameters = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "head_size": q[-1]}
    parameters |= {"query_length": queries, "key_length": keys}
    rows = prod(q[:-1])  # one row per query and head

    def work_of_pairs(pairs: int) -> Work:
        return _work_of_products(
            call,
            arguments.query,
            scores=heads * pairs * q[-1],
            outputs=heads * pairs * v[-1],
            out_elements=rows * v[-1],
            backward=arguments.backward,
        )

    masks = [] if arguments.mask is None else [arguments.mask]
    is_upper_bound = any(map(call.is_present, masks)) or arguments.is_bound
    if len(pairs_of_head) > 1:
        if not is_upper_bound:
            bounds = (int(work_of_pairs(pairs).flops) for pairs in pairs_of_head)
            parameters["min_flops"], parameters["max_flops"] = bounds
        return Work(reason=Reason.DATA_DEPENDENT, parameters=parameters)
    work = work_of_pairs(pairs_of_head[0])
    is_saved = arguments.saved if isinstance(arguments.saved, bool) else call.flag(arguments.saved)
    return replace(
        work,
        min_bytes=work.min_bytes + call.size_bytes(*masks) + 4 * rows * is_saved,
        certainty="upper bound" if is_upper_bound else "exact",
        reason=_HIDDEN_MASK if arguments.is_bound else "",
        parameters=parameters,
    )


def _pairs_function(call: OperatorCall, arguments: AttentionArguments) -> Callable[[int, int], int]:
    """Return a function that computes the number of pairs from numbers of queries and keys."""
    left = right = -1
    if arguments.window is not None:
        left, right = (int(call.number(arguments.window + number, -1)) for number in range(2))
    is_causal, bottom_right = _MASKS[arguments.mask_of(call)]
    right = 0 if is_causal else right
    bottom_right |= arguments.bottom_right
    return partial(attention_pairs, left=left, right=right, bottom_right=bottom_right)


def _batch_pairs(
    call: OperatorCall, arguments: AttentionArguments
) -> tuple[tuple[int, int, int], list[int]]:
    """Return (sequences, queries, keys) of a dense batch, and its number of pairs per head."""
    q, k, _ = (call.shape(arguments.query + number, 4) for number in range(3))
    sequence_axis = 1 if arguments.heads_last else 2
    batch, queries, keys = q[0], q[sequence_axis], k[sequence_axis]
    return (batch, queries, keys), [batch * _pairs_function(call, arguments)(queries, keys)]


def _packed_pairs(
    call: OperatorCall, arguments: AttentionArguments
) -> tuple[tuple[int, int, int], list[int]]:
    """Return (sequences, longest queries, longest keys), and the pairs per head or their bounds.

    Query and key have the dimensions (token, head, element), possibly in a batch of 1. If queries
    and keys agree in number and maximum length, the bounds assume one query for each key. Some
    sequences may be empty, as in a batch that is padded for a CUDA graph.
    """
    pairs_of = _pairs_function(call, arguments)
    shapes = [call.shape(arguments.query + number) for number in range(2)]
    if any(len(shape) != 3 and (len(shape) != 4 or shape[0] != 1) for shape in shapes):
        raise CallError(Reason.DATA_DEPENDENT)
    if [*filter(call.is_present, arguments.lengths)] != [arguments.lengths[0]]:  # a paged cache
        raise CallError(Reason.DATA_DEPENDENT)
    tokens, cached = shapes[0][-3], shapes[1][-3]
    sequences = call.shape(arguments.lengths[0])[0] - 1
    queries, keys = (int(call.number(arguments.longest + number, -1)) for number in range(2))
    if not (0 < tokens <= sequences * queries and 0 < cached <= sequences * keys):
        raise CallError(Reason.DATA_DEPENDENT)
    if (tokens, cached) == (sequences * queries, sequences * keys):
        pairs = [sequences * pairs_of(queries, keys)]
    elif queries == 1 and tokens == sequences and pairs_of(1, keys) == keys:
        pairs = [cached]
    elif (tokens, queries) == (cached, keys) and tokens >= queries and sequences > 1:
        # Pairs grow faster than lengths, so equal lengths give the fewest pairs.
        shorter, longer = divmod(tokens - queries, sequences - 1)
        full, rest = divmod(tokens, queries)
        even = [(1, queries), (longer, shorter + 1), (sequences - 1 - longer, shorter)]
        uneven = [(full, queries), (1, rest)]
        pairs = [
            sum(count * pairs_of(length, length) for count, length in lengths if length)
            for lengths in (even, uneven)
        ]
    else:
        raise CallError(Reason.DATA_DEPENDENT)
    return (sequences, queries, keys), pairs


def unmasked_attention_work(
    call: OperatorCall, *, rope: int | None = None, backward: bool = False
) -> Work:
    """Return an upper bound of the work of attention with unknown layout and mask.

    Query, key and value have three dimensions, (batch, sequence, size) or (sequence, batch, size),
    or four, with heads before or after the sequence. Argument `rope` extends the queries.
    """
    q, k, v = (call.shape(place) for place in range(3))
    has_rope = rope is not None and call.is_present(rope)
    if {len(q), len(k), len(v)} not in ({3}, {4}) or has_rope:
        raise CallError(Reason.OTHER_ARGUMENTS)
    axes = (0, 1) if len(k) == 3 else (1, 2)
    generates = [axis for axis in axes if q[axis] == 1 < k[axis]]
    axis = generates[0] if generates else max(axes, key=k.__getitem__)
    batch = 1 - axis if len(k) == 3 else 0
    has_pages = any(
        len(tensor.dims) == 2 and tensor.type in {"int", "long int"} for tensor in call.tensors()
    )
    # A list of numbers holds the lengths of sequences that are packed or in a padded batch.
    if has_pages or q[batch] != k[batch] or ("ScalarList" in call.types and not generates):
        raise CallError(Reason.DATA_DEPENDENT)
    out_elements = prod(q) * v[-1] // k[-1]
    work = _work_of_products(
        call,
        query=0,
        scores=prod(q) * k[axis],
        outputs=out_elements * k[axis],
        out_elements=out_elements,
        backward=backward,
    )
    parameters = {"query_length": q[axis], "key_length": k[axis]}
    return replace(work, certainty="upper bound", reason=_HIDDEN_LAYOUT, parameters=parameters)


def _work_of_products(
    call: OperatorCall, query: int, *, scores: int, outputs: int, out_elements: int, backward: bool
) -> Work:
    """Return the work of attention with given multiply-adds for scores and outputs.

    Key and value follow the argument `query`. The output has `out_elements` elements.
    """
    inputs, type_name = range(query, query + 3), call.type_of(query)
    out_type = "c10::BFloat16" if bits_of_small_float(type_name) else type_name
    out_bytes = out_elements * item_bytes(out_type)
    size = call.size_bytes(*inputs) + out_bytes
    if not backward:
        return matrix_work(2 * (scores + outputs), size)
    # The backward pass recomputes scores, reads output and gradient, and writes three gradients.
    size += out_bytes
    size += sum(prod(call.shape(place)) * item_bytes(type_name) for place in inputs)
    return matrix_work(6 * scores + 4 * outputs, size, model_flops=4 * scores + 4 * outputs)


def paged_attention_work(call: OperatorCall, query: int, key: int, value: int) -> Work:
    """Return an upper bound of the work of attention over a paged cache in an engine step.

    Queries have dimensions (token, head, element). Keys and values end with (head, element).
    """
    step = call.context.step
    if step is None:
        raise CallError(Reason.DATA_DEPENDENT)
    if isnan(step.attention_pairs) or step.visible_tokens < 0:
        raise CallError("the engine's step does not state the sums of lengths")
    tokens, heads, width = call.shape(query, 3)
    (kv_heads, key_width), (_, value_width) = call.shape(key)[-2:], call.shape(value)[-2:]
    if step.tokens > tokens:
        raise CallError("the engine's step has more tokens than the call")
    if key_width != width or heads % kv_heads:
        raise CallError(Reason.OTHER_ARGUMENTS)
    visible = step.visible_tokens * kv_heads
    size = visible * key_width * item_bytes(call.type_of(key))
    size += visible * value_width * item_bytes(call.type_of(value)) + call.size_bytes(query)
    size += tokens * heads * value_width * item_bytes(call.type_of(query))
    parameters: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads, "head_size": width}
    flops = int(2 * heads * step.attention_pairs * (width + value_width))
    return matrix_work(flops, size, certainty="upper bound", reason=_HIDDEN_WINDOWS, **parameters)
