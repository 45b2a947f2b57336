"""FLOPs and minimum bytes of attention.

With P pairs of query and key that the mask leaves for each head, the forward pass computes
2 · P · (Dqk + Dv) FLOPs and the backward pass P · (6 · Dqk + 4 · Dv), of which 2 · P · Dqk
recompute the scores. Softmax is not counted. For example, causal attention of 8 queries and 8 keys
leaves 36 pairs.

Sequences of different lengths are packed into one, and their lengths are values in a tensor, which
a trace does not record. All have the same length if the number of tokens is the number of sequences
times the maximum length.

Ascend's operators have their layout and mask as a text and a number, which its profiler leaves out.
For a query and a key of (2, 8, 1024, 64), the longer of the two middle dimensions is taken as the
sequence, and all 1024² pairs count: an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from hta_widgets.analysis.efficiency.calls import (
    DATA_DEPENDENT,
    OTHER_ARGUMENTS,
    CallError,
    OperatorCall,
    Work,
    elements_bytes,
    is_float8,
    matrix_work,
)

_HIDDEN_WINDOW: Final = "a window of the attention would not be among the arguments"
_HIDDEN_LAYOUT: Final = "all pairs count; the longer dimension is taken for the sequence"


def attention_pairs(
    queries: int, keys: int, *, left: int = -1, right: int = -1, bottom_right: bool = False
) -> int:
    """Return the number of (query, key) pairs that the mask leaves.

    `left` and `right` are the numbers of earlier and later keys that a window shows, -1 for all: a
    causal mask shows 0 later keys.

    Examples
    --------
    >>> attention_pairs(8, 8, right=0)
    36
    """
    shift = keys - queries if bottom_right else 0
    ends = queries * keys if right < 0 else _triangle(queries, keys, shift + right)
    return ends - (0 if left < 0 else _triangle(queries, keys, shift - left - 1))


def _triangle(queries: int, keys: int, shift: int) -> int:
    """Return the sum over queries i of ``min(max(i + 1 + shift, 0), keys)``."""
    return _ramp_sum(queries + shift, keys) - _ramp_sum(shift, keys)


def _ramp_sum(last: int, limit: int) -> int:
    """Return the sum over i from 1 to `last` of ``min(i, limit)``, 0 if `last` is negative."""
    rising = min(max(last, 0), limit)
    return rising * (rising + 1) // 2 + max(last - limit, 0) * limit


#: Whether a mask is causal, and whether the last query sees all keys, by the text of its argument.
_MASKS: Final = {
    "False": (False, False), "True": (True, False),
    "0": (False, False), "1": (True, False), "2": (True, True),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttentionArguments:
    """Places of the arguments of one version of an attention operator; None if it lacks one.

    `query` is followed by key and value; `mask` is a bias, `window` the first of two sizes.
    `lengths` are tensors with the lengths of sequences, the first their sums over queries, and
    `longest` the place of the longest query, before that of the longest key. `saved` is the flag
    that asks for logsumexp, True if it is always written. `bottom_right`: the last query sees all
    keys. `is_bound`: the arguments may lack a window.
    """

    causal: int
    query: int = 0
    mask: int | None = None
    window: int | None = None
    lengths: Sequence[int] = ()
    longest: int = -1
    saved: bool | int = True
    backward: bool = False
    heads_last: bool = False
    bottom_right: bool = False
    is_bound: bool = False

    def fits(self, call: OperatorCall) -> bool:
        """Return whether a call has these arguments: its causal one is a flag or kind of mask."""
        return call.value(self.causal) in _MASKS


def _sequences(call: OperatorCall, places: AttentionArguments) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of query, key and value: (batch, heads, length, size).

    The lengths of sequences are values in a tensor, which is not recorded. If all have the maximum
    length, as a single sequence has, that length times their number is the number of tokens.
    """
    shapes = [call.shape(places.query + number) for number in range(3)]
    present = [place for place in places.lengths if call.is_present(place)]
    if present and len(shapes[0]) == 4 and shapes[0][0] == 1:
        shapes = [shape[1:] for shape in shapes]
    if present:
        if present != [places.lengths[0]] or len(shapes[1]) != 3:
            raise CallError(DATA_DEPENDENT)
        batch = call.shape(present[0])[0] - 1
        longest = [int(call.number(places.longest + number, -1)) for number in (0, 1, 1)]
        if any(batch * length != s[0] for s, length in zip(shapes, longest, strict=True)):
            raise CallError(DATA_DEPENDENT)
        return tuple((batch, s[1], length, s[2]) for s, length in zip(shapes, longest, strict=True))
    if any(len(shape) != 4 for shape in shapes):
        raise CallError(OTHER_ARGUMENTS)
    if places.heads_last:
        return tuple((s[0], s[2], s[1], s[3]) for s in shapes)
    return tuple(shapes)


def attention_work(call: OperatorCall, versions: Sequence[Mapping[str, Any]]) -> Work:
    """Return the work of attention, with the arguments of the first version that fits.

    The newest version comes first. For example, the efficient attention of PyTorch had no bias
    before 2.1, so that its causal flag was argument 4, not 6.
    """
    candidates = (AttentionArguments(**version) for version in versions)
    places = next((version for version in candidates if version.fits(call)), None)
    if places is None:
        raise CallError(OTHER_ARGUMENTS)
    q, k, v = _sequences(call, places)
    batch, heads, queries, width = q
    keys, value_width = k[2], v[3]
    left = right = -1
    if places.window is not None:
        left, right = (int(call.number(places.window + number, -1)) for number in range(2))
    is_causal, bottom_right = _MASKS[call.value(places.causal)]
    right = 0 if is_causal else right
    bottom_right |= places.bottom_right
    pairs = attention_pairs(queries, keys, left=left, right=right, bottom_right=bottom_right)
    rows, type_name = batch * heads, call.type_of(places.query)
    is_masked = places.mask is not None and call.is_present(places.mask)
    size = sum(call.size_bytes(places.query + number) for number in range(3))
    size += call.size_bytes(places.mask) if places.mask is not None else 0
    out_type = "c10::BFloat16" if is_float8(type_name) else type_name
    out = elements_bytes(rows * queries * value_width, out_type)
    is_saved = places.saved if isinstance(places.saved, bool) else call.flag(places.saved)
    size += 4 * rows * queries * is_saved
    flops, model_flops = _attention_flops(
        rows * pairs * width, rows * pairs * value_width, backward=places.backward
    )
    size += _output_bytes(out, (q, k, v), type_name, backward=places.backward)
    return matrix_work(
        flops,
        size,
        model_flops=model_flops,
        certainty="upper bound" if is_masked or places.is_bound else "exact",
        reason=_HIDDEN_WINDOW if places.is_bound else "",
        batch=batch,
        heads=heads,
        kv_heads=k[1],
        query_length=queries,
        key_length=keys,
        head_size=width,
        causal=right == 0,
    )


def unmasked_attention_work(call: OperatorCall, *, backward: bool = False) -> Work:
    """Return an upper bound of the work of attention whose layout and mask are not in the file.

    Query, key and value are of (batch, sequence, size) or (sequence, batch, size), or have the
    heads before or after the sequence.
    """
    q, k, v = shapes = [call.shape(place) for place in range(3)]
    if {*map(len, shapes)} not in ({3}, {4}):
        raise CallError(OTHER_ARGUMENTS)
    if "ScalarList" in call.types:  # the lengths of packed sequences
        raise CallError(DATA_DEPENDENT)
    axis = max((0, 1) if len(k) == 3 else (1, 2), key=lambda axis: k[axis])
    type_name, out_elements = call.type_of(0), prod(q) * v[-1] // k[-1]
    flops, model_flops = _attention_flops(
        prod(q) * k[axis], out_elements * k[axis], backward=backward
    )
    size = call.size_bytes(0, 1, 2)
    size += _output_bytes(
        elements_bytes(out_elements, type_name), shapes, type_name, backward=backward
    )
    return matrix_work(
        flops,
        size,
        model_flops=model_flops,
        certainty="upper bound",
        reason=_HIDDEN_LAYOUT,
        query_length=q[axis],
        key_length=k[axis],
    )


def _attention_flops(scores: int, outputs: int, *, backward: bool) -> tuple[int, int]:
    """Return FLOPs and model FLOPs from the multiply-adds of the scores and of the outputs."""
    if backward:  # the scores are computed again
        return 6 * scores + 4 * outputs, 4 * scores + 4 * outputs
    return 2 * (scores + outputs), 2 * (scores + outputs)


def _output_bytes(
    out_bytes: int, shapes: Iterable[Sequence[int]], type_name: str, *, backward: bool
) -> int:
    """Return the bytes of the output; in a backward, also of its and the inputs' gradients."""
    if not backward:
        return out_bytes
    return 2 * out_bytes + sum(elements_bytes(prod(shape), type_name) for shape in shapes)
