"""FLOPs and rates of single calls and of the events that show them, calculated by hand."""

import json
import math

import pytest
from support.small import call, copy, event, kernel, load

import hta_widgets as hw
from hta_widgets.analysis.efficiency.call_efficiency import bound_classes, call_efficiency
from hta_widgets.export import export_trace
from hta_widgets.export.pictures.picture import timeline_svg
from hta_widgets.facts import facts
from hta_widgets.live.job import TileEngine

#: 2 · 64³ FLOPs and 3 · 64² elements of 2 bytes.
FLOPS, BYTES = 524_288, 24_576


def op(name, start, end, dims):
    shapes = {"Input Dims": dims, "Input type": ["c10::BFloat16"] * len(dims)}
    return event("cpu_op", name, start, end, pid=10, tid=1, **shapes)


def matrix_call(start, number, kernel_ns):
    """Return aten::linear, which encloses aten::mm, which launches a kernel."""
    begin = 10_000 * number
    return [
        op("aten::linear", start, start + 90, [[64, 64]] * 2),
        op("aten::mm", start + 10, start + 80, [[64, 64]] * 2),
        call(start + 20, start + 25, number),
        kernel(begin, begin + kernel_ns, launch=number),
    ]


@pytest.fixture
def cards():
    try:
        hw.devices.add("Card", pattern="", bf16=1.0, memory_gb_s=100.0)
        yield
    finally:
        hw.devices.reset()


@pytest.fixture
def traces(tmp_path, cards):
    events = [*matrix_call(100, 1, 1_000), *matrix_call(200, 2, 4_000)]
    outer = op("aten::outer", 90, 300, [[64]])
    return load(tmp_path, [outer, *events])


def figures_by_name(traces):
    engine, names = TileEngine(traces), traces[0].table.names
    for row, code in enumerate(traces[0].table.name.tolist()):
        reply = engine.answer({"op": "efficiency", "rank": 0, "id": row})[0]
        yield names[code], reply["figures"]


def test_each_event_of_a_call_has_the_figures_of_that_call(traces):
    shown = [(name, figures) for name, figures in figures_by_name(traces) if figures]
    assert sorted(name for name, _ in shown) == sorted(["aten::linear", "aten::mm", "gemm"] * 2)
    for _, figures in shown:
        assert (figures["flops"], figures["least_bytes"]) == (FLOPS, BYTES)
    rates = {figures["device_ns"]: figures["tflop_per_s"] for _, figures in shown}
    assert rates == {1_000: pytest.approx(0.524288), 4_000: pytest.approx(0.131072)}


def test_a_device_that_is_added_again_has_its_new_peaks(traces):
    def shares():
        shown = [figures for _, figures in figures_by_name(traces) if figures]
        return {figures["device_ns"]: figures["roofline_share"] for figures in shown}

    assert shares() == {1_000: pytest.approx(0.524288), 4_000: pytest.approx(0.131072)}
    hw.devices.reset()
    hw.devices.add("Card", pattern="", bf16=10.0, memory_gb_s=1_000.0)  # FLOPs are still the limit
    assert shares() == {1_000: pytest.approx(0.0524288), 4_000: pytest.approx(0.0131072)}


def test_the_rate_over_time_is_a_counter(traces):
    counters = hw.analysis.with_counters(traces, ["tflop_per_s"])[0].counters
    assert set(counters["name"]) == {"Achieved TFLOP/s"}
    begin = counters["time_ns"].iloc[0]
    assert (counters["time_ns"] - begin).tolist() == [0, 1_000, 10_000, 14_000]
    assert counters["value"].tolist() == pytest.approx([0.524288, 0, 0.131072, 0])


def test_the_rate_has_a_gap_while_only_work_of_unknown_flops_computes(tmp_path, cards):
    """mm runs from 10 to 14 µs, the kernel of an unlisted operator from 12 to 16, a copy later."""
    events = [
        *matrix_call(100, 1, 4_000), op("my::op", 300, 400, [[4]]), call(310, 320, 2),
        kernel(12_000, 16_000, launch=2, stream=8), copy(20_000, 21_000),
    ]  # fmt: skip
    traces = hw.analysis.with_counters(load(tmp_path, events), ["tflop_per_s"])
    samples = traces[0].counters
    assert (samples["time_ns"].diff().dropna()).tolist() == [2_000, 2_000, 2_000]
    rate = pytest.approx(0.131072)
    assert samples["value"].tolist() == [rate, rate, pytest.approx(math.nan, nan_ok=True), 0]
    tracks = TileEngine(traces).scene()["ranks"][0]["tracks"]
    track = next(track for track in tracks if track["role"] == "counter")
    assert (track["label"], track["unit"]) == ("Achieved TFLOP/s", "TFLOP/s")
    assert track["range"] == [0, rate]
    export_trace(traces, tmp_path / "rates.json", counters="own")  # files do not store gaps
    written = json.loads((tmp_path / "rates.json").read_text())["traceEvents"]
    values = [sample["args"]["of known FLOPs"] for sample in written if sample["ph"] == "C"]
    assert values == [rate, rate, 0, 0]


@pytest.mark.parametrize(
    ("kernel_ns", "name"),  # lower bounds: 524 ns by FLOPs, 246 ns by bytes
    [(500, "above_peak"), (700, "compute_near"), (1_000, "compute"), (4_000, "far")],
)
def test_a_call_has_a_class_by_its_limit_and_its_share_of_it(tmp_path, cards, kernel_ns, name):
    traces = load(tmp_path, matrix_call(100, 1, kernel_ns))
    codes = bound_classes(traces[0]) - len(facts("event_classes")["light"])
    names = [list(facts("bound_classes")["light"])[code] for code in codes]
    events = traces[0].events["name"].tolist()
    expected = {"aten::linear": name, "aten::mm": name, "gemm": name}
    assert names == [expected.get(event, "no_figure") for event in events]


def test_a_memory_bound_call_and_a_picture_of_it(tmp_path, cards):
    add = op("aten::add", 0, 90, [[512, 512], [512, 512]])  # 3 · 512² · 2 bytes: 15.7 µs
    events = [add, call(20, 25, 1), kernel(1_000, 1_020, launch=1)]
    engine = TileEngine(load(tmp_path, events))
    picture = timeline_svg(engine, engine.scene(), {"color": "bound"})
    assert facts("bound_classes")["light"]["memory_near"] in picture.split("<path", 1)[1]
    assert "memory-bound" in picture
    assert "memory-bound" not in timeline_svg(engine, engine.scene(), {})


def test_a_rank_without_shapes_has_no_figures(tmp_path):
    events = [
        event("cpu_op", "aten::mm", 0, 9, pid=10, tid=1),
        call(2, 3, 1),
        kernel(10, 20, launch=1),
    ]
    traces = load(tmp_path, events)
    assert call_efficiency(traces[0]) is None
    assert TileEngine(traces).scene()["without_bounds"].startswith("no shapes: record_shapes=True")
