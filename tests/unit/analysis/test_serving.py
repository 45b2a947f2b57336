"""Steps of inference engines, calculated by hand."""

import pytest
from support.small import call, event, kernel, load

from hta_widgets.analysis import serving_steps
from hta_widgets.panels.added import whole_job_frame


def step(name, start, end):
    return event("user_annotation", name, start, end, pid=10)


#: A prefill of 100 tokens (400 ns on the device), then after 100 ns a decode of 4 (100 ns, a graph
#: of two overlapping kernels), inside which another engine's name repeats the tokens.
STEPS = [
    step("execute_context_2(100)_generation_0(0)", 100, 200), call(110, 120, 1),
    step("execute_context_0(0)_generation_4(4)", 300, 400),
    step("step[DECODE bs=4]", 310, 390), call(320, 330, 2, name="cudaGraphLaunch"),
    kernel(1_000, 1_400, launch=1),
    kernel(1_500, 1_580, launch=2), kernel(1_560, 1_600, launch=2, stream=8),
]  # fmt: skip


def test_steps_have_the_tokens_of_their_names_and_the_time_of_their_work(tmp_path):
    frame = serving_steps(load(tmp_path, STEPS))
    columns = ["phase", "tokens", "device_ns", "device_span_ns", "gap_ns", "replayed"]
    assert frame[columns].to_numpy().tolist() == [
        ["prefill", 100, 400, 400, 100, False],
        ["decode", 4, 100, 100, 0, True],
    ]
    assert frame["tokens_per_s"].tolist() == pytest.approx([2e8, 4e7])
    rates = {"prefill": 2e8, "decode": 4e7, "all": 104 / 600e-9}
    assert frame.attrs["tokens_per_s"] == pytest.approx(rates)
    assert frame.attrs["output_tokens"] == (4, 6)


def test_a_first_step_that_waits_for_unrecorded_work_counts_from_its_end(tmp_path):
    events = [
        step("step[DECODE bs=8]", 100, 9_000_000), call(110, 120, 1), call(130, 140, 2),
        kernel(200, 300, launch=1), kernel(8_000_000, 8_000_400, launch=2),
    ]  # fmt: skip
    frame = serving_steps(load(tmp_path, events))
    assert frame[["device_span_ns", "waited_ns"]].to_numpy().tolist() == [[400, 7_999_800]]
    assert "for work launched before recording began" in frame.attrs["note"]


def test_a_launch_of_another_thread_belongs_to_the_step_at_that_time(tmp_path):
    events = [*STEPS, call(150, 160, 3, tid=2), kernel(1_700, 1_800, launch=3)]
    assert serving_steps(load(tmp_path, events))["device_ns"].tolist() == [500, 100]


def test_dots_of_the_panel_select_the_time_on_the_device(tmp_path):
    frame = whole_job_frame(load(tmp_path, STEPS), "serving")
    assert frame[["start_ns", "end_ns"]].to_numpy().tolist() == [[1_000, 1_400], [1_500, 1_600]]


def test_a_step_of_an_unknown_mode_has_unknown_tokens(tmp_path):
    events = [step("step[TARGET_VERIFY bs=4]", 100, 200), call(110, 120, 1)]
    frame = serving_steps(load(tmp_path, [*events, kernel(1_000, 1_400, launch=1)]))
    columns = ["engine", "phase", "tokens", "decode_requests", "device_ns"]
    assert frame[columns].to_numpy().tolist() == [["sglang", "", -1, -1, 400]]
    assert "all" not in frame.attrs["tokens_per_s"]


@pytest.mark.parametrize("number", ["9" * 19, "9" * 30])
def test_a_name_with_numbers_beyond_64_bits_is_no_step(tmp_path, number):
    names = (f"execute_context_2({number})_generation_0(0)", f"step[DECODE bs={number}]")
    frame = serving_steps(load(tmp_path, [*STEPS, *(step(name, 900, 950) for name in names)]))
    assert frame["tokens"].tolist() == [100, 4]
