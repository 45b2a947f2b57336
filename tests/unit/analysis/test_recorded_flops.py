"""FLOPs of recorded CPU models, compared with PyTorch's ``torch.utils.flop_counter``."""

from pathlib import Path

import hta_widgets as hw
from hta_widgets.analysis import modules, operator_efficiency

DATA = Path(__file__).parents[2] / "data"


def flops_by_name(recording: str):
    frame = operator_efficiency(hw.load(DATA / recording))
    return frame.groupby(["name", "recompute"], observed=True)["total_flops"].sum()


def test_matrix_products_of_a_checkpointed_block_are_counted_with_their_recomputation():
    flops = flops_by_name("checkpoint.json.gz")
    # For addmm, the counter reports 11_304_960, and 7_110_656 without a checkpoint.
    assert flops["aten::addmm"].to_dict() == {False: 7_110_656, True: 11_304_960 - 7_110_656}
    assert flops["aten::mm"].to_dict() == {False: 14_221_312}


def test_convolutions_are_strided_grouped_and_transposed():
    flops = flops_by_name("convolutions.json.gz")
    assert flops["aten::convolution", False] == 9_113_600
    # With 4 groups, the counter overstates the gradient of the weights by a factor of 4.
    grouped_flops = 2 * 4 * 32 * 14 * 14 * 36
    assert flops["aten::convolution_backward", False] == 22_761_472 - 3 * grouped_flops


def test_attention_that_pytorch_fuses_on_the_cpu_is_causal():
    flops = flops_by_name("checkpoint.json.gz")
    heads, tokens, width = 2 * 4, 32, 16
    forward_flops = 2 * 2 * heads * tokens * (tokens + 1) // 2 * width
    fused = flops["aten::_scaled_dot_product_flash_attention_for_cpu"]
    assert fused.to_dict() == {False: forward_flops, True: forward_flops}


def test_recurrent_layers_are_counted_and_belong_to_their_module():
    """21 inputs, 2 layers, 2 directions: (32, 12) and (32, 8), then (32, 16) and (32, 8)."""
    forward_flops = 2 * 21 * 2 * 32 * (12 + 8 + 16 + 8)
    flops = flops_by_name("lstm.json.gz")
    assert flops["aten::mkldnn_rnn_layer", False] == forward_flops
    assert flops["aten::mkldnn_rnn_layer_backward", False] == 2 * forward_flops
    assert flops["aten::mm", False] == 100_800  # the counter's figure for the head
    tree = modules(hw.load(DATA / "lstm.json.gz")).set_index("path")
    assert tree.loc["LSTM_0.LSTM_0", ["forward_flops", "backward_flops"]].tolist() == [
        forward_flops, 2 * forward_flops,
    ]  # fmt: skip
