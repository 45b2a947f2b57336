"""FLOPs and minimum bytes of operators in many libraries, calculated by hand from schemas."""

import inspect
import math

import pytest
from support.operators import (
    BF16,
    BYTE,
    E4M3,
    E8M0,
    FLOAT,
    FP4,
    HALF,
    INT,
    LONG,
    PEAKS,
    args,
    op,
)
from support.small import call, kernel, load

from hta_widgets.analysis import operator_efficiency, step_efficiency
from hta_widgets.analysis.efficiency.attention_work import AttentionArguments
from hta_widgets.analysis.efficiency.calls import OperatorCall
from hta_widgets.analysis.efficiency.kernel_names import kernel_category, kernel_units
from hta_widgets.analysis.efficiency.matrix_work import MATRIX_FORMULAS
from hta_widgets.analysis.efficiency.vector_work import VECTOR_FORMULAS
from hta_widgets.analysis.efficiency.work import call_work
from hta_widgets.facts import facts

KEYS = {"formula", "category", "operators"}
CATEGORIES = {
    "gemm", "attention", "convolution", "norm", "softmax", "elementwise", "reduction", "copy",
    "embedding", "optimizer", "triton",
}  # fmt: skip
#: (4, 32) × (32, 16): 4096 FLOPs; 128, 512 and 64 elements.
GEMM = 2 * 4 * 16 * 32


X, W, WT, OUT = ((4, 32), BF16), ((32, 16), BF16), ((16, 32), BF16), ((4, 16), BF16)
X8, W8, WT8 = ((4, 32), E4M3), ((32, 16), E4M3), ((16, 32), E4M3)
#: 4-bit weights in 32-bit integers, with one scale for each of 2 groups.
PACKED, SCALES, ZEROS = ((4, 16), INT), ((2, 16), BF16), ((2, 2), INT)


@pytest.mark.parametrize(
    ("name", "call_args", "size"),
    [
        # In place, so 64 more elements are read.
        ("aten::addmm_", args(_0=OUT, _1=X, _2=W, _3="1", _4="1"), 2 * (64 + 128 + 512 + 64)),
        ("_C::cutlass_scaled_mm",
         args(_0=OUT, _1=X8, _2=W8, _3=((4, 1), FLOAT), _4=((1, 16), FLOAT), _5=((16,), BF16)),
         128 + 512 + 16 + 64 + 32 + 128),
        ("_C::cutlass_scaled_fp4_mm",
         args(_0=OUT, _1=((4, 16), BYTE), _2=((16, 16), BYTE), _3=((4, 2), E4M3),
              _4=((16, 2), E4M3), _5=((), FLOAT)), 64 + 256 + 8 + 32 + 128),
        ("sgl_kernel::fp8_scaled_mm",
         args(_0=X8, _1=W8, _2=((4, 1), FLOAT), _3=((16, 1), FLOAT), _4="15"),
         128 + 512 + 16 + 64 + 128),
        # Until PyTorch 2.4, the bias and the type preceded the scales.
        ("aten::_scaled_mm",
         args(_0=X8, _1=W8, _2=((16,), BF16), _3="15", _4=((4, 1), FLOAT), _5=((1, 16), FLOAT),
              _7="True"), 128 + 512 + 32 + 16 + 64 + 128),
        ("aten::_scaled_mm",
         args(_0=X8, _1=W8, _2=((4, 1), FLOAT), _3=((1, 16), FLOAT), _4=((16,), BF16), _6="15",
              _7="True"), 128 + 512 + 16 + 64 + 32 + 128),
        ("vllm::fp8_gemm_nt_op",
         args(_0=X8, _1=((4, 1), FLOAT), _2=WT8, _3=((1, 1), FLOAT), _4=OUT, _5="False"),
         128 + 16 + 512 + 4 + 128),
        ("sglang::deep_gemm_fp8_fp8_bf16_nt",
         args(_0=X8, _1=((4, 1), FLOAT), _2=WT8, _3=((1, 1), FLOAT), _4=OUT),
         128 + 16 + 512 + 4 + 128),
        ("fbgemm::f8f8bf16_rowwise",
         args(_0=X8, _1=WT8, _2=((4,), FLOAT), _3=((16,), FLOAT), _4="", _5="True"),
         128 + 512 + 16 + 64 + 128),
        ("sgl_kernel::dsv3_router_gemm", args(_0=((4, 16), FLOAT), _1=X, _2=WT),
         256 + 1024 + 256),
        ("mkldnn::_linear_pointwise", args(_0=((2, 2, 32), FLOAT), _1=((16, 32), FLOAT),
         _2=((16,), FLOAT), _3="none"), 4 * (128 + 512 + 16 + 64)),
        # The weight is the first argument.
        ("_rocm_C::wvSplitK", args(_0=WT, _1=X, _2="304"), 1024 + 256 + 128),
        ("aten::_weight_int8pack_mm", args(_0=X, _1=((16, 32), "signed char"), _2=((16,), BF16)),
         256 + 512 + 32 + 128),
        # 512 weights of 4 bits take 256 bytes, plus scales and zeros for 2 groups.
        ("aten::_weight_int4pack_mm",
         args(_0=X, _1=((2, 1, 32, 1), INT), _2="16", _3=((2, 16, 2), BF16)),
         256 + 256 + 128 + 128),
        ("aten::_dyn_quant_matmul_4bit", args(_0=X, _1=((288,), BYTE), _2="32", _3="32", _4="16"),
         256 + 288 + 128),
        ("_C::awq_gemm", args(_0=X, _1=((32, 2), INT), _2=SCALES, _3=ZEROS, _4="8"),
         256 + 256 + 64 + 16 + 128),
        ("_C::gptq_gemm", args(_0=X, _1=PACKED, _2=ZEROS, _3=SCALES, _4=((32,), INT), _5="True",
         _6="4"), 256 + 256 + 16 + 64 + 128 + 128),
        ("_C::machete_mm", args(_0=X, _1=PACKED, _2="4", _3="15", _4=SCALES), 256 + 256 + 64 + 128),
        # Three versions of Marlin. None of them reads the workspace.
        ("_C::marlin_gemm", args(_0=X, _1=((2, 32), INT), _2=SCALES, _3=((128,), INT), _4="4",
         _5="16", _6="32"), 256 + 256 + 64 + 128),
        ("_C::gptq_marlin_gemm",
         args(_0=X, _1=((2, 32), INT), _2=SCALES, _3=((0,), INT), _4=((0,), INT), _5=((0,), INT),
              _6=((128,), INT), _7="1030792151296", _8="4", _9="16", _10="32", _11="True"),
         256 + 256 + 64 + 128),
        ("_C::gptq_marlin_gemm",
         args(_0=X, _1=OUT, _2=((2, 32), INT), _4=SCALES, _10=((128,), INT), _11="1030792151296",
              _12="4", _13="16", _14="32", _15="True", _16="False"), 256 + 256 + 64 + 128),
        ("tex_ts::te_gemm_ts", args(_0=WT, _4="1", _5=X, _9="0", _10=OUT, _14=((16,), BF16),
         _20="0"), 1024 + 256 + 128 + 32),
        # The weight gradient: (32, 16) × (32, 4), transposed.
        ("tex_ts::te_gemm_ts", args(_0=((32, 16), BF16), _4="0", _5=((32, 4), BF16), _9="1",
         _10=OUT, _20="1"), 1024 + 256 + 128 + 128),
        # The rows belong to 2 groups.
        ("_C::cutlass_moe_mm", args(_0=OUT, _1=X8, _2=((2, 32, 16), E4M3), _3=((4, 1), FLOAT),
         _4=((2, 1, 16), FLOAT), _5=((2,), INT)), 128 + 1024 + 16 + 128 + 8 + 128),
        ("fbgemm::bf16bf16bf16_grouped_stacked",
         args(_0=X, _1=((2, 16, 32), BF16), _2=((2,), LONG)), 256 + 2048 + 16 + 128),
        # 512 weights of 4 bits in 8 blocks of 64; the size of the weight is a list of numbers.
        ("bitsandbytes::gemv_4bit",
         args(_0=X, _1=((256, 1), BYTE), _2="[16, 32]", _3=((8,), FLOAT), _4=((16,), FLOAT),
              _5="64"), 256 + 256 + 32 + 64 + 128),
        ("bitsandbytes::gemm_4bit",
         args(_0=((2, 2, 32), BF16), _1=((256, 1), BYTE), _2="[16, 32]", _3=((8,), FLOAT), _4="64",
              _5="nf4", _6=((16,), BF16)), 256 + 256 + 32 + 32 + 128),
        ("_C::allspark_w8a16_gemm", args(_0=X, _1=((32, 16), BYTE), _2=((1, 16), BF16), _4="16"),
         256 + 512 + 32 + 128),
        ("_C::allspark_w8a16_gemm",
         args(_0=X, _1=((32, 16), BYTE), _2=((1, 16), BF16), _3=((1, 16), BF16), _4="16"),
         256 + 512 + 32 + 32 + 128),
        # A row of 32 weights consists of a block of 16 bytes and a scale of 2.
        ("_C::ggml_mul_mat_a8", args(_0=((16, 18), BYTE), _1=((4, 32), HALF), _2="2", _3="16"),
         288 + 256 + 128),
        ("_C::ggml_mul_mat_vec_a8", args(_0=((16, 34), BYTE), _1=((4, 32), HALF), _2="8", _3="16"),
         544 + 256 + 128),
        # 6 bits per weight: 6 numbers of 4 bytes for 32 weights.
        ("torchao::quant_llm_linear",
         args(_0="3", _1="2", _2=((4, 32), HALF), _3=((16, 6), INT), _4=((16,), HALF), _5="1"),
         256 + 384 + 32 + 128),
        ("torchao::mx_fp8_bf16", args(_0=X8, _1=W8, _2=((4, 1), E8M0), _3=((16, 1), E8M0)),
         128 + 512 + 4 + 16 + 128),
        ("torchao::mx_fp4_bf16", args(_0=((4, 16), BYTE), _1=((16, 16), BYTE), _2=((4, 1), E8M0),
         _3=((16, 1), E8M0)), 64 + 256 + 4 + 16 + 128),
        ("aten::_scaled_mm", args(_0=X8, _1=W8, _2=((4, 1), E8M0), _3=((16, 1), E8M0), _6="15"),
         128 + 512 + 4 + 16 + 128),
        # Each element holds two values, so 16 elements per row are 32 values.
        ("aten::_scaled_mm", args(_0=((4, 16), FP4), _1=((16, 16), FP4), _2=((4, 2), E4M3),
         _3=((16, 2), E4M3), _6="15"), 64 + 256 + 8 + 32 + 128),
        # The result in FP8, then in AMD's variant of FP8.
        ("aten::_scaled_mm", args(_0=X8, _1=W8, _2=((4, 1), FLOAT), _3=((1, 16), FLOAT), _6="24"),
         128 + 512 + 16 + 64 + 64),
        ("aten::_scaled_mm", args(_0=X8, _1=W8, _2=((4, 1), FLOAT), _3=((1, 16), FLOAT), _6="26"),
         128 + 512 + 16 + 64 + 64),
        # Integers are multiplied; the result is FP16.
        ("torchao::marlin_qqq_gemm",
         args(_0=((4, 32), "signed char"), _1=((2, 32), INT), _2=((4, 1), FLOAT),
              _3=((1, 16), FLOAT), _4=((2, 16), HALF), _5=((128,), INT), _6="4", _7="16", _8="32"),
         128 + 256 + 16 + 64 + 64 + 128),
        ("_C::marlin_qqq_gemm",
         args(_0=((4, 32), "signed char"), _1=((2, 32), INT), _2=((4, 1), FLOAT),
              _3=((1, 16), FLOAT), _4=((0,), HALF), _5=((128,), INT), _6="4", _7="16", _8="32"),
         128 + 256 + 16 + 64 + 128),
        ("torchao::marlin_24_gemm",
         args(_0=((4, 32), HALF), _1=((1, 32), INT), _2=((32, 2), "short int"), _3=((1, 16), HALF),
              _4=((128,), INT), _5="4", _6="4", _7="16", _8="32"), 256 + 128 + 128 + 32 + 128),
    ],
)  # fmt: skip
def test_products_of_libraries(name, call_args, size):
    work = call_work(OperatorCall(name, *call_args))
    assert (work.category, work.flops, work.min_bytes) == ("gemm", GEMM, size), work.reason
    shape = {"m": 4, "n": 16, "k": 32}
    assert {key: work.parameters[key] for key in shape} == shape


@pytest.mark.parametrize("rows", [(4, 32), (2, 2, 32)])
def test_weights_of_onednn_have_no_strides(rows):
    """The weights are transposed to (32, 16), with a scale and a zero point per column."""
    places = {"_0": (rows, BYTE), "_1": "0.1", "_2": "3", "_3": ((32, 16), "signed char"),
              "_4": ((16,), FLOAT), "_5": ((16,), INT), "_6": ((16,), FLOAT), "_7": "1.",
              "_8": "0", "_9": "15"}  # fmt: skip
    dims, types, _, values = args(**places)
    strides = [[32, 1], [], [], [], [1], [1], [1], [], [], []]
    work = call_work(OperatorCall("onednn::qlinear_pointwise", dims, types, strides, values))
    assert (work.flops, work.min_bytes) == (GEMM, 128 + 512 + 64 + 64 + 64 + 128)


@pytest.mark.parametrize("name", ["quantized::linear", "quantized::linear_relu_dynamic"])
def test_weights_within_an_object_are_unknown(name):
    work = call_work(OperatorCall(name, [[4, 32], []], ["c10::quint8", ""]))
    assert (work.category, work.kind, math.isnan(work.flops)) == ("gemm", "matrix", True)
    assert work.reason == "the file does not describe packed weights"


def test_experts_of_marlin_are_an_estimate():
    """4 rows go to 2 of 8 experts each: 8 rows and the weights of 8 experts."""
    places = {"_0": X, "_2": ((8, 2, 32), INT), "_4": ((8, 2, 16), BF16), "_10": ((128,), INT),
              "_11": ((8,), INT), "_15": "16", "_16": "2", "_17": "False", "_18": "False",
              "_19": "7", "_20": "4", "_21": "16", "_22": "32"}  # fmt: skip
    work = call_work(OperatorCall("_moe_C::moe_wna16_marlin_gemm", *args(**places)))
    assert (work.flops, work.certainty) == (2 * GEMM, "estimate")
    assert work.min_bytes == 256 + 8 * (256 + 64) + 2 * 128


@pytest.mark.parametrize(
    ("name", "types", "size"),
    [
        # Two operands of 10 elements; a wider type of the same category wins.
        ("aten::div", ["torch.float16", "torch.float16"], 20 + 20 + 20),
        ("aten::div", ["BFloat16", "float32"], 20 + 40 + 40),
        ("aten::div", ["Half", "c10::BFloat16"], 20 + 20 + 40),
        ("aten::add", ["Long", "int32"], 80 + 40 + 80),
        ("aten::mul", ["ComplexFloat", "Float"], 80 + 40 + 80),
        ("aten::mean", ["torch.bfloat16"], 20 + 2),
        # The absolute value of a complex number is real.
        ("aten::abs", ["c10::complex<double>"], 160 + 80),
        ("aten::abs", ["c10::BFloat16"], 20 + 20),
    ],
)
def test_types_have_other_names_in_other_tools(name, types, size):
    assert call_work(OperatorCall(name, [[10]] * len(types), types)).min_bytes == size


@pytest.mark.parametrize("types", [["c10::Float6_e3m2fn"] * 2, []])
@pytest.mark.parametrize(
    ("name", "dims", "flops"),
    [
        ("aten::mm", [[4, 32], [32, 16]], GEMM),
        ("aten::add", [[4, 32], [4, 32]], 128),
        ("aten::convolution", [[1, 4, 8], [6, 4, 1]], 2 * 4 * 6 * 8),
    ],
)
def test_work_on_an_unknown_type_has_flops_but_no_bytes(name, types, dims, flops):
    values = ["", "", "", "[1]", "[0]", "[1]", "False", "[0]", "1"]
    work = call_work(OperatorCall(name, dims, types, [], values))
    assert (work.flops, work.reason) == (flops, "unlisted type")
    assert math.isnan(work.min_bytes)


@pytest.mark.parametrize("type_name", ["c10::BFloat16", "torch.bfloat16", "BFloat16"])
def test_precision_by_other_names_of_types(tmp_path, type_name):
    events = [
        op("aten::mm", 100, 200, [[4, 32], [32, 16]], [type_name] * 2),
        call(110, 120, 1), kernel(300, 400, launch=1, name="unknown_product"),
    ]  # fmt: skip
    frame = operator_efficiency(load(tmp_path, events), peaks=PEAKS)
    assert frame["precision"].tolist() == ["bf16"]


@pytest.mark.parametrize(
    ("name", "dims", "strides"),
    [
        ("aten::mm", [[4, 32], [32, 16]], [[], [16, 1]]),
        ("aten::addmm", [[16], [4, 32], [32, 16], [], []], [[1], [], [16, 1], [], []]),
        ("aten::add", [[4, 32], [4, 32], []], [[32, 1], [], []]),
    ],
)
def test_a_sparse_operand_has_no_strides(name, dims, strides):
    values = [""] * 3 + ["1"] * (len(dims) - 3)
    work = call_work(OperatorCall(name, dims, [FLOAT] * len(dims), strides, values))
    assert (math.isnan(work.flops), math.isnan(work.min_bytes)) == (True, True)
    assert work.reason.startswith("a sparse tensor")


@pytest.mark.parametrize(
    ("name", "call_args", "flops"),
    [
        # conv1d with a dilation: 8 + 2 · 2 - 2 · (3 - 1) = 8; then a transposed one of stride 2.
        ("aten::conv1d", args(_0=((2, 4, 8), FLOAT), _1=((6, 4, 3), FLOAT), _3="[1]", _4="[2]",
         _5="[2]", _6="1"), 2 * 12 * 2 * 6 * 8),
        ("aten::conv_transpose1d", args(_0=((2, 4, 8), FLOAT), _1=((4, 6, 3), FLOAT), _3="[2]",
         _4="[1]", _5="[1]", _6="1", _7="[1]"), 2 * 18 * 2 * 4 * 8),
        ("aten::_slow_conv2d_forward", args(_0=((1, 2, 5, 5), FLOAT), _1=((3, 2, 3, 3), FLOAT),
         _2="[3, 3]", _4="[2, 2]", _5="[0, 0]"), 2 * 18 * 3 * 4),
        ("aten::conv_depthwise3d", args(_0=((1, 2, 4, 4, 4), FLOAT), _1=((2, 1, 3, 3, 3), FLOAT),
         _2="[3, 3, 3]", _4="[1, 1, 1]", _5="[1, 1, 1]", _6="[1, 1, 1]"), 2 * 27 * 2 * 64),
        ("aten::_mps_convolution", args(_0=((1, 2, 5, 5), FLOAT), _1=((3, 2, 3, 3), FLOAT),
         _3="[1, 1]", _4="[2, 2]", _5="[1, 1]", _6="1"), 2 * 18 * 3 * 9),
        ("aten::cudnn_convolution_add_relu",
         args(_0=((1, 2, 4, 4), FLOAT), _1=((3, 2, 1, 1), FLOAT), _2=((1, 3, 4, 4), FLOAT),
              _3="1", _5="[1, 1]", _6="[0, 0]", _7="[1, 1]", _8="1"), 2 * 2 * 3 * 16),
    ],
)  # fmt: skip
def test_forms_of_convolutions(name, call_args, flops):
    work = call_work(OperatorCall(name, *call_args))
    assert (work.category, work.flops, work.certainty) == ("convolution", flops, "exact")


def test_channels_of_a_transposed_convolution_and_its_gradients():
    """Weights have the shape (input channels, output channels of a group, sizes)."""
    sizes = ["[2, 2]", "[0, 0]", "[1, 1]", "True", "[0, 0]", "2"]
    x, w, out = [1, 4, 8, 8], [4, 3, 2, 2], [1, 6, 16, 16]
    forward = OperatorCall("aten::convolution", [x, w, *[[]] * 7], [FLOAT] * 9, [],
                           ["", "", "", *sizes])  # fmt: skip
    backward = OperatorCall("aten::convolution_backward", [out, x, w, *[[]] * 8], [FLOAT] * 11, [],
                            ["", "", "", "[6]", *sizes, "[True, False, False]"])  # fmt: skip
    for work in map(call_work, (forward, backward)):
        assert work.flops == 2 * 3 * 4 * 4 * 64
        channels = {"channels_in": 4, "channels_out": 6, "groups": 2}
        assert {key: work.parameters[key] for key in channels} == channels


def test_a_transposed_convolution_that_takes_no_groups_has_one():
    places = {"_0": ((1, 4, 8, 8), FLOAT), "_1": ((4, 2, 2, 2), FLOAT), "_2": "[2, 2]", "_3": "",
              "_4": "[2, 2]", "_5": "[0, 0]", "_6": "[0, 0]", "_7": "[1, 1]"}  # fmt: skip
    work = call_work(OperatorCall("aten::slow_conv_transpose2d", *args(**places)))
    assert [work.parameters[key] for key in ("channels_in", "channels_out", "groups")] == [4, 2, 1]
    assert work.flops == 2 * 4 * 2 * 4 * 64
    assert work.min_bytes == 4 * (4 * 64 + 4 * 2 * 4 + 2 * 16 * 16)


def test_recurrent_layers_multiply_each_matrix_at_each_time_step():
    """5 · 3 inputs times (4 · 8, 6) and (4 · 8, 8): 2 · 15 · 32 · 14 FLOPs."""
    weights = [[32, 6], [32, 8], [32], [32]]
    work = call_work(
        OperatorCall("aten::_cudnn_rnn", [[5, 3, 6], weights], [FLOAT, "TensorList"], [], [""] * 15)
    )
    assert (work.category, work.flops, work.certainty) == ("gemm", 13_440, "estimate")
    layer = OperatorCall("aten::mkldnn_rnn_layer_backward", [[5, 3, 6], *weights], [FLOAT] * 5)
    assert call_work(layer).flops == 2 * 13_440


def test_rows_of_a_grouped_layer_go_through_one_weight_each():
    """Ten rows of 8, split in any way, each times one of three (6, 8): 2 · 10 · 8 · 6 FLOPs."""
    weights = {f"_{at}": ((6, 8), FLOAT) for at in (4, 5, 6)}
    grouped = args(_0=((2, 5, 8), FLOAT), _1="[3, 5, 2]", **weights)
    work = call_work(OperatorCall("_GroupedLinear", *grouped))
    assert (work.flops, work.certainty) == (960, "estimate")
    assert work.min_bytes == 4 * (80 + 3 * 48 + 60)
    other = args(_0=((10, 8), FLOAT), _4=((6, 8), FLOAT), _5=((7, 8), FLOAT))
    assert math.isnan(call_work(OperatorCall("_GroupedLinear", *other)).flops)


@pytest.mark.parametrize(
    ("name", "size"),
    [("c10::qint8", 1), ("c10::quint8", 1), ("c10::qint32", 4), ("unsigned short", 2),
     ("unsigned long", 8), ("long long", 8), ("unsigned long long int", 8), ("uint32_t", 4),
     ("c10::complex<double>", 16), ("c10::Float8_e8m0fnu", 1)],
)  # fmt: skip
def test_bytes_of_types_as_files_write_them(name, size):
    work = call_work(OperatorCall("aten::clone", [[4, 6]], [name]))
    assert work.min_bytes == 2 * 24 * size


def test_gradients_of_a_convolution_without_a_mask_are_an_upper_bound():
    dims = [[1, 3, 4, 4], [1, 2, 4, 4], [3, 2, 1, 1]]
    work = call_work(OperatorCall("aten::convolution_backward", dims, [FLOAT] * 3))
    assert (work.flops, work.certainty) == (2 * 2 * 2 * 3 * 16, "upper bound")
    transposed = OperatorCall("aten::convolution_backward", [[1, 2, 8, 8], *dims[1:]], [FLOAT] * 3)
    assert math.isnan(call_work(transposed).flops)


@pytest.mark.parametrize(
    ("name", "call_args", "flops", "size"),
    [
        # 3 indices into a table of 100 rows; the result is unknown without loops of 12 elements.
        ("triton_poi_fused_embedding_0",
         args(_0=((3,), LONG), _1=((100, 4), FLOAT), _2=((3, 4), FLOAT), _3="12"),
         math.nan, 24 + 48 + 48),
        # Filled with random numbers, so only written.
        ("aten::normal_", args(_0=((10,), FLOAT), _1="0.", _2="1."), 10, 40),
        ("aten::sort", args(_0=((10,), FLOAT), _1="-1"), 10, 40 + 40 + 80),
        ("aten::avg_pool2d", args(_0=((1, 2, 4, 4), FLOAT), _1="[2, 2]", _2="[]", _3="[0, 0]"),
         32, 128 + 32),
        ("aten::_adaptive_avg_pool2d", args(_0=((1, 2, 4, 4), FLOAT), _1="[1, 1]"), 32, 128 + 8),
        ("aten::upsample_nearest2d", args(_0=((1, 2, 4, 4), FLOAT), _1="[8, 8]"), 0, 128 + 512),
        ("aten::nll_loss_backward", args(_0=((), FLOAT), _1=((4, 10), FLOAT), _2=((4,), LONG)),
         0, 160 + 32),
        ("sgl_kernel::fused_add_rmsnorm", args(_0=X, _1=X, _2=((32,), BF16)), 5 * 128, 64 + 1024),
        ("_C::dynamic_per_token_scaled_fp8_quant", args(_0=X8, _1=X, _2=((4, 1), FLOAT)),
         256, 128 + 256 + 16),
        ("sgl_kernel::sgl_per_token_quant_fp8", args(_0=X, _1=X8, _2=((4, 1), FLOAT)),
         256, 128 + 256 + 16),
        # Scalars change the result type only if they are of a higher category.
        ("aten::add", args(_0=((10,), LONG), _1=((), "double")), 10, 80 + 40),
        ("aten::mul", args(_0=((10,), "bool"), _1=((), LONG)), 10, 10 + 80),
        ("aten::mul", args(_0=((10,), BF16), _1=((), "double")), 10, 20 + 20),
        ("aten::add", args(_0=((10,), INT), _1=((), LONG)), 10, 40 + 40),
        # Sums of integers have 8 bytes.
        ("aten::cumsum", args(_0=((10,), INT), _1="0"), 10, 40 + 80),
        ("aten::cumprod", args(_0=((10,), "bool"), _1="0"), 10, 10 + 80),
        ("aten::cumsum", args(_0=((10,), BF16), _1="0"), 10, 20 + 20),
        # Complex numbers keep their type.
        ("aten::cumsum", args(_0=((10,), "c10::complex<double>"), _1="0"), 10, 160 + 160),
        ("aten::exp", args(_0=((10,), "c10::complex<double>")), 10, 160 + 160),
        ("aten::sum", args(_0=((10,), "c10::complex<double>"), _1=""), 10, 160 + 16),
        # Statistics of 4 rows or 2 · 2 groups have the type of the weight.
        ("aten::native_layer_norm", args(_0=((4, 6), BF16), _1="[6]", _2=((6,), FLOAT),
         _3=((6,), FLOAT)), 7 * 24, 48 + 48 + 48 + 32),
        ("aten::native_layer_norm", args(_0=((4, 6), BF16), _1="[6]", _2=((6,), BF16),
         _3=((6,), BF16)), 7 * 24, 48 + 48 + 24 + 16),
        ("aten::native_group_norm", args(_0=((2, 6, 4, 4), BF16), _1=((6,), FLOAT),
         _2=((6,), FLOAT), _3="2", _4="6", _5="16", _6="2"), 7 * 192, 384 + 384 + 48 + 32),
        # BF16 parameters, with states of 4 bytes or 1 byte.
        ("bitsandbytes::optimizer_update_32bit", args(_0="adam", _1=((10,), BF16), _2=((10,), BF16),
         _3=((10,), FLOAT), _4=((10,), FLOAT)), 150, 20 + 2 * (20 + 40 + 40)),
        ("bitsandbytes::optimizer_update_8bit_blockwise", args(_0="lion", _1=((10,), BF16),
         _2=((10,), BF16), _3=((10,), BYTE), _4="", _5="0.9"), 150, 20 + 2 * (20 + 10)),
        # Windows start at 0, 2 and 4 of 5 elements; the last window ends outside.
        ("aten::max_pool2d_with_indices", args(_0=((1, 2, 5, 5), FLOAT), _1="[2, 2]", _2="[2, 2]",
         _3="[0, 0]", _4="[1, 1]", _5="True"), 2 * 9 * 4, 200 + 18 * 12),
        ("aten::max_pool2d_with_indices", args(_0=((1, 2, 5, 5), FLOAT), _1="[2, 2]", _2="[2, 2]",
         _3="[0, 0]", _4="[1, 1]", _5="False"), 2 * 4 * 4, 200 + 8 * 12),
        # With a padding of 1, a fourth window would start in the padding.
        ("aten::avg_pool2d", args(_0=((1, 2, 5, 5), FLOAT), _1="[2, 2]", _2="[2, 2]", _3="[1, 1]",
         _4="True"), 2 * 9 * 4, 200 + 18 * 4),
    ],
)  # fmt: skip
def test_vector_operators(name, call_args, flops, size):
    work = call_work(OperatorCall(name, *call_args))
    assert (work.kind, work.min_bytes) == ("vector", size)
    assert work.flops == flops or (math.isnan(flops) and math.isnan(work.flops))


@pytest.mark.parametrize(
    ("name", "lists", "tensors"),
    [
        ("aten::_fused_adamw_", 4, 7), ("aten::_fused_adam_", 5, 9),  # with amsgrad
        ("aten::_fused_sgd_", 2, 3), ("aten::_fused_sgd_", 3, 5),  # with momentum
        ("aten::_fused_adagrad_", 3, 5), ("aten::_fused_adagrad_", 4, 5),  # with steps
    ],
)  # fmt: skip
def test_optimizers_read_and_write_the_states_that_they_have(name, lists, tensors):
    """Parameters and states are read and written; gradients are only read."""
    dims = [[[4, 6], [5]]] * lists + [[]] * (6 - lists)
    work = call_work(OperatorCall(name, dims, ["TensorList"] * 6))
    assert (work.min_bytes, work.certainty) == (tensors * 4 * 29, "estimate")


def test_a_lookup_within_a_kernel_of_inductor_without_its_loops_is_unknown():
    call_args = args(_0=((3,), LONG), _1=((100, 4), FLOAT), _2=((3, 4), FLOAT))
    work = call_work(OperatorCall("triton_poi_fused_embedding_0", *call_args))
    assert (math.isnan(work.min_bytes), work.reason) == (True, "data-dependent")


def test_each_row_of_the_table_fits_its_formula_and_each_operator_has_one():
    formulas = MATRIX_FORMULAS | VECTOR_FORMULAS
    rows = [row for listed in facts("operators").values() for row in listed]
    for row in rows:
        arguments = {key: value for key, value in row.items() if key not in KEYS}
        if row["formula"] != "backward":
            inspect.signature(formulas[row["formula"]]).bind(None, **arguments)
        for version in arguments.get("versions", ()):
            AttentionArguments(**version)
        assert row["category"] in CATEGORIES
    names = [name for row in rows for name in row["operators"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("_moe_C::topk_softmax", "reduction"), ("_moe_C::moe_align_block_size", "reduction"),
        ("FlashAttnVarlenFunc", "attention"), ("LigerRMSNormFunction", "norm"),
        ("LigerSiLUMulFunction", "elementwise"), ("LigerCrossEntropyFunction", "reduction"),
        ("fsdp::all_gather_copy_in", "copy"), ("FusedAdam", "optimizer"),
        ("FusedRoPEFunc", "elementwise"), ("npu::npu_fusion_attention", "attention"),
        ("sgl_kernel::top_k_renorm_probs", "other"), ("_GroupedLinear", "gemm"),
        ("_C_flashmla::fwd_kvcache_mla", "attention"),
        ("sgl_kernel::flash_mla_with_kvcache", "attention"),
        ("_C_cache_ops::concat_and_cache_mla", "copy"),
    ],
)  # fmt: skip
def test_categories_of_unlisted_operators(name, category):
    work = call_work(OperatorCall(name, [[4, 8]], [BF16]))
    assert (work.category, work.certainty) == (category, "unknown")


def test_a_wrapper_with_a_kernel_of_its_own_does_not_count_its_product_again(tmp_path):
    events = [
        op("aten::linear", 100, 200, [[4, 32], [16, 32]]),
        op("aten::mm", 120, 150, [[4, 32], [32, 16]]),
        call(130, 135, 1), kernel(1_000, 2_000, launch=1),
        call(160, 165, 2), kernel(2_000, 2_100, launch=2, name="cast"),
    ]  # fmt: skip
    frame = operator_efficiency(load(tmp_path, events), peaks=PEAKS)
    assert frame["total_flops"].tolist() == [GEMM, 0]
    assert frame["reason"].tolist() == [
        "",
        "its matrix products are counted as the operators below it",
    ]
    assert frame.attrs["known_share"] == 1


@pytest.mark.parametrize(
    ("name", "types", "precision"),
    [("_C::cutlass_scaled_mm", E4M3, "fp8"), ("_C::cutlass_scaled_fp4_mm", BYTE, "fp4")],
)
def test_the_precision_is_that_of_operands_that_follow_the_output(tmp_path, name, types, precision):
    dims, types = [[4, 16], [4, 32], [32, 32], [4, 1], [32, 1]], [BF16, types, types, E4M3, E4M3]
    events = [
        op(name, 100, 200, dims, types),
        call(110, 120, 1), kernel(300, 400, launch=1, name="Kernel2"),
    ]  # fmt: skip
    frame = operator_efficiency(load(tmp_path, events), peaks=PEAKS)
    assert frame["precision"].tolist() == [precision]


def test_shapes_written_as_text_with_semicolons_are_read(tmp_path):
    """Ascend's timeline has a line break after each semicolon, and none for a single argument."""
    events = [
        op("aten::mm", 100, 200, "4,32;\r\n32,16", f"{BF16};\r\n{BF16}"),
        call(110, 120, 1), kernel(300, 400, launch=1),
        op("aten::zero_", 500, 600, "10", FLOAT),
        call(510, 520, 2), kernel(700, 800, launch=2),
    ]  # fmt: skip
    frame = operator_efficiency(load(tmp_path, events), peaks=PEAKS).set_index("name")
    assert frame["flops"].to_dict() == {"aten::mm": GEMM, "aten::zero_": 0}
    assert frame["least_bytes"].to_dict() == {"aten::mm": 2 * 704, "aten::zero_": 40}
    assert frame["input_shapes"].tolist() == ["[[4, 32], [32, 16]]", "[[10]]"]


def test_gradients_of_an_autograd_function_follow_from_its_forward(tmp_path):
    """Transformer Engine: weight, then input; both gradients take as many FLOPs as the product."""
    numbers = {"Sequence number": 7, "Fwd thread id": 0}
    events = [
        op("_Linear", 100, 200, [[16, 32], [2, 2, 32], [16], []], **numbers),
        call(110, 120, 1), kernel(300, 400, launch=1, name="nvjet_tst_64x8"),
        op("_LinearBackward", 500, 600, [[2, 2, 16]], **numbers | {"Fwd thread id": 1}),
        call(510, 520, 2), kernel(700, 900, launch=2, name="nvjet_tst_64x8"),
    ]  # fmt: skip
    job = load(tmp_path, events)
    frame = operator_efficiency(job, peaks=PEAKS).set_index("name")
    assert frame["flops"].to_dict() == {"_Linear": GEMM, "_LinearBackward": 2 * GEMM}
    assert set(frame["certainty"]) == {"estimate"}
    row = step_efficiency(job, peaks=PEAKS).iloc[0]
    assert (row["forward_flops"], row["backward_flops"]) == (GEMM, 2 * GEMM)


def test_a_forward_call_without_a_sequence_number_is_not_that_of_a_gradient(tmp_path):
    events = [
        op("_Linear", 100, 200, [[16, 32], [2, 2, 32], [16], []]),
        call(110, 120, 1), kernel(300, 400, launch=1, name="nvjet_tst_64x8"),
        op("_LinearBackward", 500, 600, [[2, 2, 16]]),
        call(510, 520, 2), kernel(700, 900, launch=2, name="nvjet_tst_64x8"),
    ]  # fmt: skip
    frame = operator_efficiency(load(tmp_path, events), peaks=PEAKS).set_index("name")
    assert math.isnan(frame.loc["_LinearBackward", "flops"])
    assert frame.loc["_LinearBackward", "reason"] == "the forward call is not in the file"


def test_an_output_of_a_convolution_is_not_that_of_a_call_without_a_number(tmp_path):
    """With two strides, a gradient without a number fits both; later gradients fit neither."""
    x, w = [2, 3, 8, 8], [4, 3, 3, 3]
    backward = "aten::cudnn_convolution_backward"
    events = [
        op("aten::cudnn_convolution", 100, 200, [x, w]),
        call(110, 120, 1), kernel(300, 400, launch=1),
        op("FusedBackward", 490, 690, [[2, 4, 4, 4]]),
        op(backward, 500, 600, [x, [2, 4, 4, 4], w]),
        op(f"{backward}_input", 510, 590, [[2, 4, 4, 4], w]),
        call(520, 530, 2), kernel(700, 900, launch=2),
    ]  # fmt: skip
    frame = operator_efficiency(load(tmp_path, events), peaks=PEAKS).set_index("name")
    assert math.isnan(frame.loc["aten::cudnn_convolution", "flops"])


@pytest.mark.parametrize(
    ("name", "kind"), [("triton_tem_mm_0", "matrix"), ("triton_poi_0", "vector")]
)
def test_what_inductor_counts_takes_the_place_of_ours(tmp_path, name, kind):
    stated = {"kernel_flop": 1_000, "kernel_num_gb": 2e-6}
    events = [
        op(name, 100, 200, [[4, 32], [32, 16]], **stated),
        call(110, 120, 1), kernel(300, 400, launch=1, name=name),
    ]  # fmt: skip
    row = operator_efficiency(load(tmp_path, events), peaks=PEAKS).iloc[0]
    assert (row["flops"], row["least_bytes"], row["certainty"]) == (1_000, 2_000, "stated")
    assert row["flops_kind"] == kind


@pytest.mark.parametrize(
    ("name", "category", "tensor_core", "precision"),
    [
        ("void marlin::Marlin<__nv_bfloat16, 1125899906909960l, 256, 1, 8, 8, false>(int4 const*)",
         "gemm", "yes", "bf16"),
        ("gemm_forward_4bit_cuda_m16n128k32", "gemm", "yes", ""),
        ("void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u, 2048u>", "gemm", "yes", "fp8"),
        ("void ck_tile::kentry<256, ck_tile::GemmKernel<ck_tile::bf16_t>>", "gemm", "yes", "bf16"),
        ("Custom_Cijk_Alik_Bljk_BBS_BH_Bias_SAV_MT256x256x64_MI16x16x1", "gemm", "yes", "bf16"),
        ("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<>>>",
         "attention", "yes", ""),
        ("_rms_norm_forward_kernel", "norm", "no", ""),
        ("liger_cross_entropy_kernel", "reduction", "unknown", ""),
        ("void flashinfer::SinglePrefillWithKVCacheKernel<bfloat16>", "attention", "yes", "bf16"),
        ("aclnnMatmul_MatMulV3Common_MatMulV3", "gemm", "unknown", ""),
        ("void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<bf16>", "norm", "no",
         "bf16"),
        ("void moe::dev::finalize::finalizeKernelVecLoad<bf16>", "other", "no", "bf16"),
        ("void at::native::max_pool_forward_nchw<c10::BFloat16>", "reduction", "no", "bf16"),
        ("void vllm::moe::topkGatingSoftmax<8, 256>", "reduction", "no", ""),
        ("void (anonymous namespace)::gather_topk", "reduction", "unknown", ""),
    ],
)  # fmt: skip
def test_kernels_by_name(name, category, tensor_core, precision):
    assert (kernel_category(name), *kernel_units(name)) == (category, tensor_core, precision)


@pytest.mark.parametrize(
    ("name", "dims", "values"),
    [
        ("aten::mm", [[10**19, 2], [2, 3]], []),
        ("aten::bmm", [[2**40, 2**40, 2], [2**40, 2, 3]], []),
        ("aten::add", [[10**19], [1]], []),
        ("aten::_scaled_dot_product_flash_attention", [[1, 1, 10**12, 64]] * 3,
         ["", "", "", "0", "True", "False", ""]),
    ],
)  # fmt: skip
def test_figures_beyond_64_bits_are_unknown(tmp_path, name, dims, values):
    events = [
        op(name, 100, 200, dims, **({"Concrete Inputs": values} if values else {})),
        call(110, 120, 1), kernel(300, 400, launch=1),
    ]  # fmt: skip
    row = operator_efficiency(load(tmp_path, events), peaks={"bf16": 1e-9}).iloc[0]
    assert math.isnan(row["flops"])
    assert row["reason"] == "arguments of an unknown version"
