"""FLOPs and minimum bytes of attention in many libraries, calculated by hand from schemas."""

import math

import pytest
from support.operators import BF16, E4M3, FLOAT, INT, LONG, PEAKS, args, op
from support.small import call, kernel, load

from hta_widgets.analysis import operator_efficiency
from hta_widgets.analysis.efficiency.attention_work import attention_pairs
from hta_widgets.analysis.efficiency.calls import OperatorCall
from hta_widgets.analysis.efficiency.work import call_work

#: 2 sequences of 8 tokens with 4 heads of 16, batched or packed; P = 36 causal pairs.
Q, PACK = ((2, 8, 4, 16), BF16), ((16, 4, 16), BF16)
HEADS = ((2, 4, 8, 16), BF16)
LENGTHS = ((3,), INT)
PAIRS = 2 * 4 * 36
BYTES = 4 * 2 * 1024 + 2 * 4 * 8 * 4


@pytest.mark.parametrize(
    ("name", "call_args", "pairs", "size"),
    [
        ("flash_attn_3::fwd", args(_0=Q, _1=Q, _2=Q, _23="0.25", _24="True", _25="-1", _26="-1"),
         PAIRS, BYTES),
        # A window of 2 earlier tokens leaves 1 + 2 + 6 · 3 pairs.
        ("flash_attn_3::_flash_attn_forward",
         args(_0=Q, _1=Q, _2=Q, _24="True", _25="2", _26="0"), 8 * 21, BYTES),
        ("flash_attn::_flash_attn_varlen_forward",
         args(_0=PACK, _1=PACK, _2=PACK, _3=LENGTHS, _4=LENGTHS, _5="8", _6="8", _7="0.",
              _8="0.25", _9="True", _10="-1", _11="-1"), PAIRS, BYTES),
        ("aten::_flash_attention_forward",
         args(_0=PACK, _1=PACK, _2=PACK, _3=LENGTHS, _4=LENGTHS, _5="8", _6="8", _7="0.",
              _8="False", _9="False"), 8 * 64, BYTES),
        ("aten::_efficient_attention_forward",
         args(_0=((1, 16, 4, 16), BF16), _1=((1, 16, 4, 16), BF16), _2=((1, 16, 4, 16), BF16),
              _4=LENGTHS, _5=LENGTHS, _6="8", _7="8", _8="0.", _9="1", _10="True"), PAIRS, BYTES),
        ("xformers_flash::flash_fwd",
         args(_0=Q, _1=Q, _2=Q, _6="8", _7="8", _8="0.", _9="0.25", _10="True", _11="-1",
              _12="-1"), PAIRS, BYTES),
        ("aten::_cudnn_attention_forward",
         args(_0=HEADS, _1=HEADS, _2=HEADS, _6="8", _7="8", _8="True", _9="0.", _10="True"),
         PAIRS, BYTES),
        # The schema in PyTorch 2.1 has no key lengths; that in 2.0 has no bias.
        ("aten::_efficient_attention_forward",
         args(_0=Q, _1=Q, _2=Q, _7="0.", _8="1", _9="True", _11="False"), PAIRS, BYTES),
        ("aten::_efficient_attention_forward", args(_0=Q, _1=Q, _2=Q, _6="False", _7="True"),
         PAIRS, BYTES - 256),
        ("aiter::mha_fwd", args(_0=Q, _1=Q, _2=Q, _3="0.", _4="0.25", _5="True", _6="-1", _7="-1",
         _8="False", _9="False"), PAIRS, BYTES - 256),
        ("aiter::fmha_v3_fwd", args(_0=Q, _1=Q, _2=Q, _3="0.", _4="0.25", _5="True", _6="2",
         _7="0", _8="True", _9="False", _10="1"), 8 * 21, BYTES),
        # FP8 with scales, since 2.14, with BF16 output.
        ("aten::_scaled_dot_product_flash_attention",
         args(_0=(HEADS[0], E4M3), _1=(HEADS[0], E4M3), _2=(HEADS[0], E4M3), _3=((2, 4), FLOAT),
              _4=((2, 4), FLOAT), _5=((2, 4), FLOAT), _6="0.", _7="True", _8="False"),
         PAIRS, 3 * 1024 + 2 * 1024 + 256),
        # Grouped queries with one key and value head.
        ("flash_attn_3::fwd", args(_0=Q, _1=((2, 8, 1, 16), BF16), _2=((2, 8, 1, 16), BF16),
         _24="False"), 8 * 64, 2 * (2 * 1024 + 2 * 256) + 256),
    ],
)  # fmt: skip
def test_attention_of_libraries(name, call_args, pairs, size):
    work = call_work(OperatorCall(name, *call_args))
    expected = ("attention", 2 * pairs * 32, size, "exact")
    assert (work.category, work.flops, work.min_bytes, work.certainty) == expected, work.reason


#: First arguments of a backward pass: gradient, query, key and value.
GRADIENT = {"_0": Q, "_1": Q, "_2": Q, "_3": Q}
STATISTICS = ((2, 4, 8), FLOAT)


@pytest.mark.parametrize(
    ("name", "places", "pairs"),
    [
        ("xformers_flash::flash_bwd",
         {"_4": Q, "_5": STATISTICS, "_6": Q, "_7": Q, "_8": Q, "_11": "8", "_12": "8", "_13": "0.",
          "_14": "0.25", "_15": "True", "_16": "-1", "_17": "-1", "_18": ((2,), LONG)}, PAIRS),
        # The schema before windows were added, and with a window of 2 earlier tokens.
        ("xformers_flash::flash_bwd",
         {"_4": Q, "_5": STATISTICS, "_6": Q, "_7": Q, "_8": Q, "_11": "8", "_12": "8", "_13": "0.",
          "_14": "0.25", "_15": "False", "_16": ((2,), LONG)}, 8 * 64),
        ("xformers_flash::flash_bwd",
         {"_4": Q, "_5": STATISTICS, "_6": Q, "_7": Q, "_8": Q, "_11": "8", "_12": "8", "_13": "0.",
          "_14": "0.25", "_15": "True", "_16": "2", "_17": "0"}, 8 * 21),
        # The output precedes the lengths; until 2024 it followed them.
        ("xformers::efficient_attention_backward_cutlass",
         {"_5": Q, "_8": "8", "_9": "8", "_10": STATISTICS, "_11": "0.", "_14": "1",
          "_15": "False", "_16": "0.25"}, PAIRS),
        ("xformers::efficient_attention_backward_cutlass",
         {"_7": "8", "_8": "8", "_9": STATISTICS, "_10": Q, "_11": "0.", "_14": "0",
          "_15": "0.25", "_16": "-1"}, 8 * 64),
        ("aten::_scaled_dot_product_cudnn_attention_backward",
         {"_0": HEADS, "_1": HEADS, "_2": HEADS, "_3": HEADS, "_4": HEADS, "_5": STATISTICS,
          "_11": "8", "_12": "8", "_13": "0.", "_14": "True"}, PAIRS),
        ("aten::_cudnn_attention_backward",
         {"_0": HEADS, "_1": HEADS, "_2": HEADS, "_3": HEADS, "_4": HEADS, "_5": STATISTICS,
          "_11": "8", "_12": "8", "_13": "0.", "_14": "False"}, 8 * 64),
    ],
)  # fmt: skip
def test_gradients_of_attention_of_libraries(name, places, pairs):
    """One product recomputes the scores, four follow; three tensors are written."""
    work = call_work(OperatorCall(name, *args(**GRADIENT | places)))
    assert (work.category, work.certainty) == ("attention", "exact"), work.reason
    assert (work.flops, work.model_flops) == (pairs * 10 * 16, pairs * 8 * 16)
    assert work.min_bytes == 8 * 2 * 1024 + 256


@pytest.mark.parametrize(
    "window",
    [
        {"_5": Q, "_8": "8", "_9": "8", "_14": "1", "_15": "False", "_17": "", "_18": "4"},
        {"_7": "8", "_8": "8", "_10": Q, "_14": "1", "_15": "", "_16": "-1", "_17": "4"},
    ],
)
def test_a_window_of_the_efficient_attention_of_xformers_is_unknown(window):
    name = "xformers::efficient_attention_backward_cutlass"
    work = call_work(OperatorCall(name, *args(**GRADIENT | window)))
    assert (math.isnan(work.flops), bool(work.reason)) == (True, True)


@pytest.mark.parametrize(
    ("name", "flops", "model_flops", "size"),
    [
        ("flex_attention", 4 * 16, 4 * 16, 2 * (2 * 1024 + 2 * 2048) + 256),
        ("triton_tem_fused_flex_attention_view_3", 4 * 16, 4 * 16,
         2 * (2 * 1024 + 2 * 2048) + 256),
        ("triton_tem_fused_flex_attention_backward_0", 10 * 16, 8 * 16,
         2 * (4 * 1024 + 4 * 2048) + 256),
    ],
)  # fmt: skip
def test_flex_attention_computes_at_most_all_pairs(name, flops, model_flops, size):
    """2 · 4 heads · 8 queries · 32 keys (2 key heads): 2048 pairs of 16 elements."""
    key = ((2, 2, 32, 16), BF16)
    blocks = {"_3": ((2, 4, 8), FLOAT), "_4": ((2, 1, 1), INT), "_5": ((2, 1, 1, 1), INT)}
    call_args = args(_0=((2, 4, 8, 16), BF16), _1=key, _2=key, **blocks)
    work = call_work(OperatorCall(name, *call_args))
    assert (work.category, work.kind, work.certainty) == ("attention", "matrix", "upper bound")
    assert (work.flops, work.model_flops) == (2048 * flops, 2048 * model_flops)
    assert work.min_bytes == size
    assert work.reason.startswith("the arguments do not state")


@pytest.mark.parametrize("query", [(2, 4, 1, 8, 16), (2, 3, 8, 16), (2, 4, 8, 32)])
def test_kernels_of_flex_attention_with_other_arguments_are_unknown(query):
    key = ((2, 2, 32, 16), BF16)
    work = call_work(OperatorCall("flex_attention", *args(_0=(query, BF16), _1=key, _2=key)))
    assert (math.isnan(work.flops), work.reason) == (True, "arguments of an unknown version")


@pytest.mark.parametrize(
    ("mask", "certainty"), [({}, "exact"), ({"_3": ((2, 1, 8, 8), "bool")}, "upper bound")]
)
@pytest.mark.parametrize(
    "name",
    ["scaled_dot_product_attention", "_scaled_dot_product_attention_math_for_mps"],
)
def test_attention_of_a_device_with_no_kernel_of_its_own_below(name, mask, certainty):
    causal = "False" if mask else "True"
    places = {"_0": HEADS, "_1": HEADS, "_2": HEADS, "_4": "0.", "_5": causal} | mask
    work = call_work(OperatorCall(f"aten::{name}", *args(**places)))
    pairs = 8 * 64 if mask else PAIRS
    assert (work.flops, work.certainty) == (2 * pairs * 32, certainty)
    assert work.min_bytes == BYTES - 256 + (128 if mask else 0)


@pytest.mark.parametrize("changed", [{"_5": "12"}, {"_3": ((5,), INT)}, {"_1": Q}])
def test_attention_over_sequences_of_other_lengths_is_unknown(changed):
    places = {"_0": PACK, "_1": PACK, "_2": PACK, "_3": LENGTHS, "_5": "8", "_6": "8", "_9": "True"}
    call_args = args(**places | changed)
    work = call_work(OperatorCall("flash_attn::_flash_attn_varlen_forward", *call_args))
    assert math.isnan(work.flops)
    assert work.reason == "data-dependent"


@pytest.mark.parametrize(
    ("name", "places", "reason"),
    [
        # Pages and the lengths of keys are contents of tensors.
        ("flash_attn::_flash_attn_varlen_forward",
         {"_3": LENGTHS, "_4": LENGTHS, "_5": "8", "_6": "8", "_9": "True", "_15": ((2, 4), INT)},
         "data-dependent"),
        ("flash_attn::_flash_attn_varlen_forward",
         {"_3": LENGTHS, "_4": LENGTHS, "_5": "8", "_6": "8", "_9": "True", "_17": ((2,), INT)},
         "data-dependent"),
        ("aten::_flash_attention_forward",
         {"_3": LENGTHS, "_4": LENGTHS, "_5": "8", "_6": "8", "_7": "0.", "_8": "True",
          "_13": ((2,), INT)}, "data-dependent"),
        # Efficient attention has a window argument of its own.
        ("aten::_efficient_attention_forward",
         {"_8": "0.", "_9": "1", "_10": "True", "_13": "4"}, "arguments of an unknown version"),
        # An AITER version with an additional number before the flags.
        ("aiter::mha_fwd", {"_3": "0.", "_4": "0.25", "_5": "True", "_6": "-1", "_7": "-1",
                            "_8": "0", "_9": "False", "_10": "False"},
         "arguments of an unknown version"),
    ],
)  # fmt: skip
def test_attention_over_keys_that_the_file_does_not_count_is_unknown(name, places, reason):
    tensors = dict.fromkeys(("_0", "_1", "_2"), PACK if "_3" in places and "_4" in places else Q)
    if name.startswith("aiter"):
        tensors = dict.fromkeys(("_0", "_1", "_2"), Q)
    work = call_work(OperatorCall(name, *args(**tensors | places)))
    assert (math.isnan(work.flops), work.reason) == (True, reason)


@pytest.mark.parametrize(
    ("name", "changed", "least", "most"),
    [
        # 24 tokens in 3 sequences of up to 12: (12, 6, 6) to (12, 12, 0), all or causal pairs.
        ("flash_attn::_flash_attn_varlen_forward", {}, 144 + 36 + 36, 144 + 144),
        ("flash_attn::_flash_attn_varlen_forward", {"_9": "True"}, 78 + 21 + 21, 78 + 78),
        # 4 sequences: (12, 4, 4, 4) to (12, 12, 0, 0).
        ("flash_attn::_flash_attn_varlen_forward", {"_3": ((5,), INT)}, 144 + 48, 144 + 144),
        # 33 sequences, more than tokens: (12, 12 times 1, 20 times 0) to (12, 12, 31 times 0).
        ("flash_attn::_flash_attn_varlen_forward", {"_3": ((34,), INT)}, 144 + 12, 144 + 144),
        # 3 sequences of up to 11: (11, 7, 6) to (11, 11, 2).
        ("flash_attn::_flash_attn_varlen_forward", {"_5": "11", "_6": "11"},
         121 + 49 + 36, 121 + 121 + 4),
        # A window of each token and the one before it.
        ("flash_attn::_flash_attn_varlen_forward", {"_9": "True", "_10": "1", "_11": "0"},
         23 + 11 + 11, 23 + 23),
        ("aten::_flash_attention_forward", {"_8": "True", "_9": "False", "_10": "", "_11": ""},
         78 + 21 + 21, 78 + 78),
    ],
)  # fmt: skip
def test_attention_over_sequences_of_unknown_lengths_has_bounds(name, changed, least, most):
    tokens = ((24, 4, 16), BF16)
    places = {"_0": tokens, "_1": tokens, "_2": tokens, "_3": ((4,), INT), "_4": ((4,), INT),
              "_5": "12", "_6": "12", "_7": "0.", "_8": "0.25", "_9": "False", "_10": "-1",
              "_11": "-1"}  # fmt: skip
    work = call_work(OperatorCall(name, *args(**places | changed)))
    assert (math.isnan(work.flops), work.reason) == (True, "data-dependent")
    bounds = [work.parameters[key] for key in ("min_flops", "max_flops")]
    assert bounds == [4 * 2 * 2 * 16 * least, 4 * 2 * 2 * 16 * most]


def test_one_query_of_each_sequence_sees_all_of_its_keys():
    """3 queries of 4 heads and 24 keys in total: 24 pairs per head for any lengths."""
    places = {"_0": ((3, 4, 16), BF16), "_1": ((24, 4, 16), BF16), "_2": ((24, 4, 16), BF16),
              "_3": ((4,), INT), "_4": ((4,), INT), "_5": "1", "_6": "20", "_7": "0.",
              "_8": "0.25", "_9": "True", "_10": "-1", "_11": "-1"}  # fmt: skip
    work = call_work(OperatorCall("flash_attn::_flash_attn_varlen_forward", *args(**places)))
    assert (work.flops, work.certainty) == (4 * 24 * 2 * 32, "exact")
    assert work.min_bytes == 2 * (2 * 3 * 64 + 2 * 24 * 64) + 4 * 3 * 4
    windowed = places | {"_10": "7", "_11": "0"}
    work = call_work(OperatorCall("flash_attn::_flash_attn_varlen_forward", *args(**windowed)))
    assert math.isnan(work.flops)


def test_a_mask_over_sequences_of_unknown_lengths_leaves_no_bounds():
    tokens = ((1, 24, 4, 16), BF16)
    places = {"_0": tokens, "_1": tokens, "_2": tokens, "_3": ((1, 4, 24, 24), BF16),
              "_4": ((4,), INT), "_5": ((4,), INT), "_6": "12", "_7": "12", "_8": "0.", "_9": "1",
              "_10": "True"}  # fmt: skip
    work = call_work(OperatorCall("aten::_efficient_attention_forward", *args(**places)))
    assert work.reason == "data-dependent"
    assert "min_flops" not in work.parameters


def test_bounds_of_attention_are_columns(tmp_path):
    shape, lengths = [24, 4, 16], [4]
    values = [*[""] * 5, "12", "12", "0.", "0.25", "False", "-1", "-1"]
    dims = [shape, shape, shape, lengths, lengths, *[[]] * 7]
    types = [*[BF16] * 3, INT, INT, *["Scalar"] * 7]
    events = [
        op("flash_attn::_flash_attn_varlen_forward", 100, 200, dims, types,
           **{"Concrete Inputs": values}),
        call(110, 120, 1), kernel(300, 400, launch=1, name="flash_fwd_kernel"),
        op("aten::mm", 500, 600, [[4, 32], [32, 16]]), call(510, 520, 2),
        kernel(700, 800, launch=2),
    ]  # fmt: skip
    frame = operator_efficiency(load(tmp_path, events), peaks=PEAKS).set_index("name")
    bounds = frame[["min_flops", "max_flops"]]
    assert bounds.loc["flash_attn::_flash_attn_varlen_forward"].tolist() == [55_296, 73_728]
    assert bounds.loc["aten::mm"].tolist() == [-1, -1]


@pytest.mark.parametrize("scale", [(), ("0.25",)])
def test_an_autograd_function_lists_no_arguments_that_are_none(scale):
    values = ["", "", "", "0.", *scale, "True", "0."]
    dims, types = [list(Q[0])] * 3 + [[]] * (len(values) - 3), [BF16] * 3
    work = call_work(OperatorCall("FlashAttnFunc", dims, types, [], values))
    assert (work.flops, work.certainty) == (2 * PAIRS * 32, "upper bound")


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ((2, 4, 8, 16), (2, 2, 32, 16)),  # batch, heads, sequence; fewer key heads
        ((2, 8, 4, 16), (2, 32, 2, 16)),  # batch, sequence, heads
        ((2, 8, 64), (2, 32, 32)),  # batch, sequence
        ((8, 2, 64), (32, 2, 32)),  # sequence, batch
    ],
)
def test_attention_whose_layout_and_mask_are_hidden_is_an_upper_bound(query, key):
    """2 · 4 heads · 8 queries · 32 keys: 2048 pairs of 16 elements, 2 · 2 · 16 FLOPs each."""
    dims, types = [list(query), list(key), list(key)], [BF16] * 3
    work = call_work(OperatorCall("npu::npu_fusion_attention", dims, types))
    assert (work.category, work.flops, work.certainty) == ("attention", 131_072, "upper bound")
    assert work.min_bytes == 2 * (2 * 1024 + 2 * 2048)
    backward = call_work(OperatorCall("npu::npu_fusion_attention_grad", dims, types))
    assert (backward.flops, backward.model_flops) == (327_680, 262_144)
    packed = OperatorCall("npu::npu_fusion_attention", dims, [*types, "ScalarList"])
    assert math.isnan(call_work(packed).flops)


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ((64, 1, 64), (64, 32, 32)),  # batch, sequence; the batch is larger than the cache
        ((64, 4, 1, 16), (64, 2, 32, 16)),  # batch, heads, sequence
        ((64, 1, 4, 16), (64, 32, 2, 16)),  # batch, sequence, heads; more heads than tokens
        ((1, 64, 64), (32, 64, 32)),  # sequence, batch
    ],
)
@pytest.mark.parametrize("name", ["npu_incre_flash_attention", "npu_fused_infer_attention_score"])
def test_a_step_of_generation_on_an_npu_sees_at_most_all_keys(name, query, key):
    """64 · 4 heads · 1 query · 32 keys of 16 elements; the file may lack the lengths."""
    dims, types = [list(query), list(key), list(key), []], [BF16, BF16, BF16, "ScalarList"]
    for numbers in (3, 4):
        work = call_work(OperatorCall(f"npu::{name}", dims[:numbers], types[:numbers]))
        assert (work.flops, work.certainty) == (2 * 64 * 4 * 32 * 32, "upper bound")
        assert work.min_bytes == 2 * (2 * 64 * 64 + 2 * 64 * 32 * 32)


@pytest.mark.parametrize(
    "more",
    [
        {"_14": ((64, 8), INT)},  # a block table
        {"_1": ((512, 128, 32), BF16), "_2": ((512, 128, 32), BF16)},  # blocks
        {"_24": ((64, 1, 16), BF16)},  # positions in separate tensors
    ],
)
def test_generation_over_a_paged_cache_on_an_npu_is_unknown(more):
    places = {"_0": ((64, 1, 64), BF16), "_1": ((64, 32, 32), BF16), "_2": ((64, 32, 32), BF16)}
    call_args = args(**places | more)
    work = call_work(OperatorCall("npu::npu_fused_infer_attention_score", *call_args))
    assert (work.category, math.isnan(work.flops)) == ("attention", True)


def test_pairs_of_a_causal_mask_are_exact_for_any_length():
    """Each of two million queries sees itself and all earlier ones: n · (n + 1) / 2."""
    assert attention_pairs(2_000_000, 2_000_000, right=0) == 2_000_001_000_000
    assert attention_pairs(3, 5, right=0, bottom_right=True) == 3 + 4 + 5
    assert attention_pairs(5, 3, right=0, bottom_right=True) == 1 + 2 + 3
    assert attention_pairs(4, 4, left=1, right=0) == 1 + 2 + 2 + 2
