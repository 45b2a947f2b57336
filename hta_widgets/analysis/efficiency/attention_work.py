"""FLOPs and least bytes of attention, and where each operator has its arguments.

With P pairs of query and key that the mask leaves for each head, the forward pass computes
2 · P · (Dqk + Dv) FLOPs and the backward pass P · (6 · Dqk + 4 · Dv), of which 2 · P · Dqk are the
scores again. Softmax is not counted. For example, causal attention of 8 queries and 8 keys leaves
36 pairs.

Sequences of different lengths are packed into one, and their lengths are the contents of a tensor.
Where the number of tokens is that of sequences times the longest length, they are equally long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final

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
    first = max(-shift, 0)  # the first query that sees a key
    last = min(max(keys - shift, first), queries)  # from here on, queries see all keys
    if first >= queries:
        return 0
    count = last - first
    partly = count * (first + 1 + shift + last + shift) // 2
    return partly + (queries - last) * keys


#: Whether a mask is causal, and whether the last query sees all keys, by the text of its argument.
_MASKS: Final = {
    "False": (False, False), "True": (True, False),
    "0": (False, False), "1": (True, False), "2": (True, True),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttentionArguments:
    """Places of the arguments of one version of an attention operator; None for none.

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
    lengths: tuple[int, ...] = ()
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

    The lengths of sequences are the contents of a tensor, but if all are as long as the longest,
    as a single sequence is, its length times their number is the number of tokens.
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


def attention_work(call: OperatorCall, versions: Sequence[AttentionArguments]) -> Work:
    """Return the work of attention, with the arguments of the first version that fits."""
    places = next((version for version in versions if version.fits(call)), None)
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
    if places.backward:
        flops = rows * pairs * (6 * width + 4 * value_width)
        model = rows * pairs * (4 * width + 4 * value_width)
        # The gradient of the output and the output are as large; three gradients are written.
        size += 2 * out + sum(elements_bytes(prod(shape), type_name) for shape in (q, k, v))
    else:
        flops = model = 2 * rows * pairs * (width + value_width)
        size += out
    return matrix_work(
        "attention",
        flops,
        size,
        model_flops=model,
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


_V = AttentionArguments
_flash: Final = partial(AttentionArguments, heads_last=True)
#: Tensors of lengths in FlashAttention 3; a cache of pages, or new keys, hide them as well.
_FA3: Final = (7, 3, 10, 11, 14)
_SDPA: Final = "aten::_scaled_dot_product_"
#: Versions of operators, the newest first: 2.0 had no bias, and cuDNN's had none until 2.4. The
#: outermost of nested operators counts.
ATTENTION: Final = {
    f"{_SDPA}flash_attention": (_V(4),),
    f"{_SDPA}flash_attention_backward": (_V(11, query=1, backward=True),),
    f"{_SDPA}flash_attention_for_cpu": (_V(4, mask=5),),
    f"{_SDPA}flash_attention_for_cpu_backward": (_V(7, query=1, mask=8, backward=True),),
    f"{_SDPA}efficient_attention": (_V(6, mask=3, saved=4), _V(4, saved=3)),
    f"{_SDPA}efficient_attention_backward": (
        _V(11, query=1, mask=4, backward=True),
        _V(6, query=1, backward=True),
    ),
    f"{_SDPA}cudnn_attention": (_V(6, mask=3, saved=4), _V(4)),
    f"{_SDPA}cudnn_attention_backward": (
        _V(14, query=1, mask=8, backward=True),
        _V(11, query=1, backward=True),
    ),
    f"{_SDPA}fused_attention_overrideable": (_V(5, mask=3),),
    f"{_SDPA}fused_attention_overrideable_backward": (_V(13, query=1, mask=4, backward=True),),
    "flash_attn::_flash_attn_forward": (_flash(5, window=6, bottom_right=True),),
    "flash_attn::_flash_attn_backward": (
        _flash(11, query=1, window=12, backward=True, bottom_right=True),
    ),
    "flash_attn::_flash_attn_varlen_forward": (
        _flash(9, window=10, lengths=(3,), longest=5, bottom_right=True),
    ),
    "flash_attn::_flash_attn_varlen_backward": (
        _flash(15, query=1, window=16, lengths=(9,), longest=11, backward=True, bottom_right=True),
    ),
    # FlashAttention 3: its window was one argument, and rotary lengths were none.
    **dict.fromkeys(
        ("flash_attn_3::_flash_attn_forward", "flash_attn_3::fwd", "_vllm_fa3_C::fwd"),
        tuple(
            _flash(causal, window=causal + 1, lengths=_FA3, longest=12, bottom_right=True)
            for causal in (24, 23)
        ),
    ),
    "flash_attn_3::_flash_attn_backward": (
        _flash(16, query=1, window=17, lengths=(6, 8, 9), longest=10, backward=True,
               bottom_right=True),
    ),
    "flash_attn_3::bwd": (
        _flash(16, query=1, window=17, lengths=(9, 11, 12), longest=13, backward=True,
               bottom_right=True),
    ),
    "_vllm_fa2_C::varlen_fwd": (
        _flash(15, window=16, lengths=(4, 6, 8), longest=10, bottom_right=True),
    ),
    "xformers_flash::flash_fwd": (
        _flash(10, window=11, lengths=(3, 5), longest=6, bottom_right=True),
        _flash(9, lengths=(3,), longest=5, bottom_right=True, is_bound=True),
    ),
    "xformers::efficient_attention_forward_cutlass": (
        _flash(9, mask=3, lengths=(4,), longest=6, saved=8),
    ),
}  # fmt: skip
ATTENTION_KERNELS: Final = {
    "aten::_flash_attention_forward": (_flash(8, lengths=(3,), longest=5, window=11),),
    "aten::_flash_attention_forward_no_dropout_inplace": (
        _flash(9, query=1, lengths=(4,), longest=6, window=12),
    ),
    "aten::_flash_attention_backward": (
        _flash(11, query=1, lengths=(6,), longest=8, window=15, backward=True),
    ),
    "aten::_efficient_attention_forward": (
        _flash(9, mask=3, lengths=(4,), longest=6, saved=10),
    ),
    "aten::_efficient_attention_backward": (
        _flash(14, query=1, mask=4, lengths=(6,), longest=8, backward=True),
    ),
    "aten::_cudnn_attention_forward": (_V(10, mask=3, lengths=(4,), longest=6, saved=8),),
    "aten::_cudnn_attention_backward": (
        _V(14, query=1, mask=8, lengths=(9,), longest=11, backward=True),
    ),
    # An autograd function: numbers and flags among its arguments, without those that are None.
    "FlashAttnFunc": tuple(
        _flash(causal, bottom_right=True, is_bound=True) for causal in (3, 4, 5)
    ),
}  # fmt: skip
