"""Marks and texts of each chart, from small frames."""

import functools
import inspect
import logging
import re

import numpy as np
import pandas as pd
import pytest
from bokeh import models
from bokeh.embed import file_html
from bokeh.resources import CDN
from support import chart_frames as frames, small
from support.chart_reading import bars_of, data_of, plots, right_of, words_of
from support.random_job import write_job

import hta_widgets as hw
from hta_widgets import analysis, charts
from hta_widgets.charts import DARK, figure as in_notebooks
from hta_widgets.charts.lanes import lane_steps
from hta_widgets.charts.theme import blend, theme_of
from hta_widgets.errors import TraceError
from hta_widgets.live.job import PanelEngine
from hta_widgets.trace.names import disambiguate

pytestmark = pytest.mark.slow

CASES = sorted(frames.ALL)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return hw.load(write_job(tmp_path_factory.mktemp("job"), 3), cache=False, progress=False)


# --- all of them ---
@functools.cache
def drawn(name):
    """Return a frame and its chart, which tests must not change."""
    draw, make = frames.ALL[name]
    frame = make()
    return frame, draw(frame)


@pytest.mark.parametrize("name", CASES)
def test_pages_are_written_without_a_warning_and_frames_left_as_they_are(name, caplog):
    draw, make = frames.ALL[name]
    with caplog.at_level(logging.WARNING, logger="bokeh"):
        frame, chart = drawn(name)
        dark = draw(frame, theme="dark", width=360)
        assert "<html" in file_html([chart, dark], CDN, name)
    assert caplog.records == []
    assert (chart.sizing_mode, dark.width) == ("stretch_width", 360)
    pd.testing.assert_frame_equal(frame, make())
    for plot in plots(chart):
        kinds = {type(tool) for tool in plot.toolbar.tools}
        assert {models.BoxSelectTool, models.TapTool, models.HoverTool} <= kinds
        assert plot.toolbar_location is None
        for tool in plot.toolbar.tools:
            if isinstance(tool, models.WheelZoomTool):
                assert tool.modifiers == {"ctrl": True}
            if isinstance(tool, models.HoverTool):
                # Names in a trace are never treated as markup.
                assert "safe" not in tool.tooltips
                assert "<img" not in tool.tooltips
        for source in plot.select({"type": models.ColumnDataSource}):
            assert len({len(column) for column in source.data.values()}) <= 1


@pytest.mark.parametrize("name", CASES)
def test_the_labels_of_a_frames_rows_do_not_matter(name):
    """The caller may have filtered or sorted the frame."""
    draw, make = frames.ALL[name]
    labeled = make()
    labeled.index = pd.Index(range(7 + len(labeled), 7, -1))
    of_labeled, of_plain = (
        sorted(
            repr([list(column) for name, column in source.data.items() if name != "index"])
            for source in chart.select({"type": models.ColumnDataSource})
        )
        for chart in (draw(labeled), drawn(name)[1])
    )
    assert of_labeled == of_plain


@pytest.mark.parametrize("name", CASES)
def test_nothing_to_draw_is_said_in_words(name, caplog):
    draw, make = frames.ALL[name]
    empty = make().iloc[:0]
    empty.attrs |= {"note": "no kernels matched", "matched": {"communication": 0}}
    with caplog.at_level(logging.WARNING, logger="bokeh"):
        figure = draw(empty, width=400)
        file_html(figure, CDN, name)
    assert "No kernels matched · matched: 0 communication" in words_of(figure)
    assert not any(axis.visible for axis in figure.axis)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("name", "options", "make"),
    [
        ("kernel_breakdown", {}, analysis.kernel_breakdown),
        ("arrivals", {}, analysis.collectives),
        ("job_path_summary", {}, lambda traces: analysis.job_path_summary(
            analysis.job_critical_path(traces))),
        ("critical_path", {"rank": 1}, lambda traces: analysis.critical_path(traces, rank=1)),
        ("temporal_breakdown", {"window": ("1us", "3us")},
         lambda traces: analysis.temporal_breakdown(traces, window=(1_000, 3_000))),
        ("step_phases", {}, lambda traces: PanelEngine(traces).frame("steps")),
    ],
)  # fmt: skip
def test_a_chart_of_traces_runs_its_analysis(job, name, options, make):
    draw = getattr(charts, name)
    of_traces, of_frame = draw(job, width=500, **options), draw(make(job), width=500)
    assert words_of(of_traces) == words_of(of_frame)
    both = (of_traces, of_frame)
    np.testing.assert_equal(
        *([dict(each.data_source.data) for each in figure.renderers] for figure in both)
    )


def test_a_chart_of_one_rank_or_a_selection_is_of_that(job):
    rank = charts.temporal_breakdown(job[1])
    chosen = charts.temporal_breakdown(job.select(ranks=[1]))
    for figure in (rank, chosen):
        assert data_of(figure, "rank")["rank"].tolist() == [1]
    assert words_of(charts.critical_path(job[1])) == words_of(charts.critical_path(job, rank=1))


def test_every_chart_says_what_it_draws():
    drawing = [
        draw
        for name in charts.__all__
        if inspect.isfunction(draw := getattr(charts, name))
        and next(iter(inspect.signature(draw).parameters)) == "frame"
    ]
    assert len(drawing) > 40
    for draw in drawing:
        words = rf"charts\.{draw.__name__} takes the DataFrame of .* a str"
        with pytest.raises(hw.TraceError, match=words):
            draw("demo-job")


def test_a_chart_of_traces_says_what_is_missing(job):
    with pytest.raises(TypeError, match=r"'operator_name' \(in analysis\.frequent_kernel_seq"):
        charts.frequent_kernel_sequences(job)
    with pytest.raises(TypeError, match=r"'topp' \(in analysis\.kernel_breakdown"):
        charts.kernel_breakdown(job, topp=3)
    with pytest.raises(hw.TraceError, match=r"diff\.steps\(diff\.compare\(before, after\)\)"):
        charts.diff_steps(job)


def test_there_is_a_chart_for_every_analysis_that_has_a_picture():
    missing = {
        "critical_path_summary", "cupti_counters", "device_idle_gaps",
        "idle_interval_stats", "kernels_by_annotation", "launch_outliers", "lateness",
        "memory_bandwidth_summary", "operator_kernels", "operator_launch_delays", "path_selection",
        "time_blocked_on_full_queue",
    }  # fmt: skip
    drawn = {name for name in analysis.__all__ if hasattr(charts, name)}
    assert drawn >= set(analysis.__all__) & set(CASES)
    assert drawn & missing == set()
    assert set(CASES) == {
        name
        for name in charts.__all__
        if inspect.isfunction(getattr(charts, name)) and name not in ("column", "row", "to_html")
    }


# --- one by one ---
def test_temporal_breakdown_stacks_shares_to_the_whole():
    figure = charts.temporal_breakdown(frames.temporal())
    data = data_of(figure, "rank", "compute_ns", "span_ns")
    assert data["compute_ns"].tolist() == [500_000_000] * 2
    edges = data[[f"{side}_{part}" for part in (0, 2, 8, 12) for side in ("left", "right")]]
    np.testing.assert_allclose(edges.iloc[0], [0, 0.5, 0.5, 0.75, 0.75, 0.8, 0.8, 1.0])
    legend = next(each for each in figure.above if each.__class__.__name__ == "Legend")
    labels = [item.label.value for item in legend.items]
    assert labels == ["compute", "communication", "copies", "idle"]
    fills = [bar.glyph.fill_color for bar in bars_of(figure)[:4]]
    kind = charts.LIGHT.kind
    assert fills == [kind["compute"], kind["communication"], kind["memory"], charts.LIGHT.idle]


def test_charts_say_that_the_selection_leaves_out_work(tmp_path):
    rank = [small.kernel(0, 100), small.copy(200, 300), small.copy(400, 500)]
    traces = small.load(tmp_path, rank)
    words = "only selected events count: other work is idle time here"
    for selection in ("kind == 'memory'", traces.select(query="kind == 'memory'")):
        assert words in words_of(charts.temporal_breakdown(traces, selection=selection))
        assert words in words_of(charts.device_idle_breakdown(traces, selection=selection))
    assert words in words_of(charts.temporal_breakdown(traces.select(query="dur_ns > 1")))
    window = traces.select(start_ns=0, end_ns=250)
    assert words not in words_of(charts.temporal_breakdown(traces, selection=window))


def test_temporal_breakdown_of_the_contracts_columns_alone():
    frame = frames.temporal().drop(columns=["exposed_communication_ns", "exposed_memory_ns"])
    data = data_of(charts.temporal_breakdown(frame), "rank", "non_compute_ns")
    np.testing.assert_allclose(data["right_10"], [0.8, 0.8])


def test_kernel_types_of_several_ranks_are_added_up():
    two = pd.concat([frames.kernel_types().assign(rank=rank) for rank in (0, 1)])
    data = data_of(charts.kernel_type_breakdown(two), "kernel_type", "sum_ns")
    assert data["sum_ns"].tolist() == [1200, 600, 200]
    assert data["share"].tolist() == [0.6, 0.3, 0.1]


NOTHING = {"communication_ns": 0, "overlapped_ns": 0, "overlap_share": np.nan}
UNMATCHED = {"compute": 3, "communication": 0, "memory": 0}


@pytest.mark.parametrize("top", [0, -1])
@pytest.mark.parametrize(
    "name",
    [name for name, (draw, _) in frames.ALL.items() if "top" in inspect.signature(draw).parameters],
)
def test_a_number_of_rows_below_one_is_refused(name, top):
    draw, make = frames.ALL[name]
    with pytest.raises(TraceError, match=f"top= takes a whole number from 1, not {top}"):
        draw(make(), top=top)


@pytest.mark.parametrize(
    ("name", "columns", "attrs", "words"),
    [
        ("comm_comp_overlap", NOTHING, {}, "not 0 %"),
        ("temporal_breakdown", {}, {"matched": UNMATCHED},
         "no communication and no copies"),
        ("idle_time_breakdown", {"idle_ns": 0}, {}, "Never idle"),
        ("operators", {"device_total_ns": 0, "device_self_ns": 0}, {},
         "no device work is linked to operators"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said(name, columns, attrs, words):
    draw, make = frames.ALL[name]
    frame = make().assign(**columns)
    frame.attrs |= attrs
    assert words in words_of(draw(frame))


def test_idle_time_stacks_by_stream():
    figure = charts.idle_time_breakdown(frames.idle())
    data = data_of(figure, "rank", "stream", "idle_category", "idle_ns")
    assert data["idle_ns"].tolist() == frames.idle()["idle_ns"].tolist()
    drawn = {getattr(bar.view.filter, "group", None) for bar in bars_of(figure)} - {None}
    assert drawn == set(frames.idle()["idle_category"])
    assert data["left"].tolist() == [0, 700, 900] * 2
    assert data["right"].tolist() == [700, 900, 1000] * 2
    assert data["row"].tolist() == [0, 0, 0, 1, 1, 1]
    assert figure.yaxis[0].major_label_overrides[0] == "stream 7"


def test_top_kernels_add_up_and_say_how_many_others_there_are():
    frame = frames.kernels(names=10)
    data = data_of(charts.kernel_breakdown(frame, top=4), "name", "sum_ns", "per_rank_ns")
    assert len(data) == 5
    assert data["sum_ns"].sum() == frame["sum_ns"].sum()
    assert data["count"].sum() == frame["count"].sum()
    assert data["name"].iloc[-1] == "6 other kernels"
    assert data["per_rank_ns"][0] == (10_000 + 10_001) / 2
    assert (data["least_ns"][0], data["most_ns"][0]) == (10_000, 10_001)
    # The minimum is 0 for a kernel that does not run on every rank.
    frame = frames.kernels()
    frame = frame.drop(frame.index[(frame["rank"] == 1) & frame["name"].str.endswith("2")])
    data = data_of(charts.kernel_breakdown(frame), "name", "least_ns").set_index("name")
    assert data["least_ns"]["void k<int>(float*)2"] == 0
    assert data["least_ns"]["void k<int>(float*)1"] == 2000


def test_kernel_durations_stand_against_the_median_rank():
    frame = pd.DataFrame(
        {"rank": [0, 1, 2], "name": "k", "count": 1, "mean_ns": [100.0, 100.0, 125.0],
         "min_ns": 90, "max_ns": 130}
    )  # fmt: skip
    figure = charts.kernel_duration_by_rank(frame)
    assert data_of(figure, "at")["at"].tolist() == [0, 0, 0.25]
    assert right_of(figure)[1] == "rank 2 +25 %"
    named = charts.kernel_duration_by_rank(frame, name="k")
    assert data_of(named, "mean_ns", "min_ns", "max_ns")["mean_ns"].tolist() == [100, 100, 125]
    none = charts.kernel_duration_by_rank(frame, name="other")
    assert "No kernel has this name" in words_of(none)


def test_launches_are_counted_once_in_each_histogram():
    chart = charts.launch_stats(frames.launches())
    assert isinstance(chart, models.Column)
    result = [data_of(figure, "count", "solid") for figure in chart.children]
    assert [each["count"].sum() for each in result] == [3, 3, 3]
    assert [each["solid"].sum() for each in result] == [1, 1, 1]
    delay = result[0]
    assert delay["count"].iloc[0] == 1, "a delay of 0 has a bar of its own"
    late = delay[delay["solid"] > 0].iloc[0]
    assert late["from_ns"] <= 150_000 <= late["to_ns"]


def test_steps_hold_until_the_next_change():
    figure = charts.queue_length(frames.queue())
    data = data_of(figure, "rank", "stream", "time_ns", "queue_length")
    assert data["queue_length"].tolist() == [1, 2, 0, 1, 0]
    assert data["time_ns"].tolist() == [100, 200, 300, 150, 250]
    assert data["until_ns"].tolist() == [200, 300, 300, 250, 300]
    modes = [each.glyph.mode for each in figure.renderers if hasattr(each.glyph, "mode")]
    assert modes == ["after", "after"]
    assert right_of(figure)[1:] == ["2", "1"]


def test_many_changes_keep_their_least_and_most_and_say_so():
    count = 50_000
    values = np.zeros(count, dtype=np.int64)
    values[12_345] = 999
    rows = {"rank": 0, "stream": 7, "time_ns": np.arange(count), "queue_length": values}
    figure = charts.queue_length(pd.DataFrame(rows))
    data = data_of(figure, "queue_length", "most")
    assert len(data) == 20_000
    assert data["most"].max() == 999
    assert (data["most"] == 999).sum() == 1
    assert data["queue_length"].max() == 0
    text = words_of(figure).replace("\u202f", " ")
    assert "50 000 changes, drawn as the minimum and maximum of each of 20 000 time slices" in text
    # A slice without changes keeps the previous value.
    steps = lane_steps([0, 1, 2, 100], [5, 1, 7, 3], 100, max_steps=3)
    assert not steps.exact
    assert (steps.value.tolist(), steps.most.tolist()) == ([1, 7, 3], [7, 7, 7])


def test_memory_used_at_an_instant_that_is_not_drawn_counts_as_used():
    count = 60_000
    rows = {"time_ns": np.arange(count), "Parameter": np.arange(count) % 3 * 100}
    frame = pd.DataFrame(rows | {"Input": 0, "Gradient": 0})
    frame.loc[30_001, "Input"] = 1  # 101 bytes in total, between neighbors with 0 and 200
    figure = charts.memory_timeline(frame)
    assert not data_of(figure, "Input")["Input"].any()
    assert "never used: Gradient" in words_of(figure)


def test_memory_that_is_never_used_has_a_peak_of_zero():
    frame = pd.DataFrame({"time_ns": [0, 10], "Parameter": [0, 0]})
    assert "peak 0 B" in words_of(charts.memory_timeline(frame)).replace("\u202f", " ")


def test_operators_are_means_of_ranks():
    data = data_of(charts.operators(frames.operators()), "name", "device_self_ns")
    columns = ["name", "device_self_ns", "cpu_self_ns", "count"]
    assert data[columns].iloc[0].tolist() == ["aten::mm", 2000, 80, 8]


def test_sequences_of_one_operator_are_named_by_their_kernels():
    figure = charts.frequent_kernel_sequences(frames.sequences())
    assert figure.title.text.endswith(": aten::mm")
    assert figure.yaxis[0].major_label_overrides[0] == "gemm → add"
    assert data_of(figure, "pattern", "count", "kernel_ns")["count"].tolist() == [5, 2]


def test_groups_without_a_name_say_so():
    frame = frames.groups().assign(group="", description="")
    figure = charts.communication_by_group(frame)
    assert "not stated" in "".join(figure.yaxis[0].major_label_overrides.values())


def test_many_segments_are_joined_without_losing_time(monkeypatch):
    monkeypatch.setattr("hta_widgets.charts.paths._MAX_SEGMENTS", 10)
    frame = pd.DataFrame(
        {"rank": 0, "start_ns": np.arange(100) * 10, "dur_ns": 10, "id": 1, "name": "k",
         "bound_by": ["cpu_bound", "gpu_compute_bound"] * 50}
    )  # fmt: skip
    figure = charts.critical_path(frame)
    data = data_of(figure, "start_ns", "dur_ns", "bound_by")
    assert data["dur_ns"].sum() == 1000
    assert "100 segments" in words_of(figure)


def test_differences_have_room_on_their_side_of_zero():
    figure = charts.diff_ops(frames.diff())
    assert figure.x_range.start < -900
    assert figure.x_range.end > 600


# --- many ranks, long names, hostile names ---
@pytest.mark.parametrize("count", [1, 8, 64, 1024])
def test_any_number_of_ranks_keeps_its_values_and_a_bounded_height(count):
    figure = charts.temporal_breakdown(frames.temporal(range(count)))
    assert len(data_of(figure, "rank", "compute_ns")) == count
    assert figure.frame_height <= 1100
    names = [text for text in figure.yaxis[0].major_label_overrides.values() if text.strip()]
    assert figure.frame_height / len(names) >= 14, "names do not touch"
    if count > 16:
        assert "idle 20\u202f% on each" in words_of(figure)


def test_the_ranks_with_least_and_most_are_named():
    frame = frames.temporal(range(100))
    frame.loc[17, ["idle_ns", "compute_ns"]] = [600_000_000, 100_000_000]
    text = words_of(charts.temporal_breakdown(frame))
    assert "idle 20\u202f% (rank 0) to 60\u202f% (rank 17)" in text


def test_long_names_lose_their_middle_and_keep_their_end():
    name = "void " + "a_very_long_kernel_name_" * 10 + "tail(int)"
    figure = charts.kernel_breakdown(frames.kernels(name=name), width=400)
    labels = list(figure.yaxis[0].major_label_overrides.values())
    assert all(len(text) <= 24 for text in labels)
    assert data_of(figure, "name", "sum_ns")["name"][0].startswith(name)


def test_words_are_broken_to_the_width():
    titles = charts.temporal_breakdown(frames.temporal(), width=360).select({"type": models.Title})
    lines = [line for each in titles for line in each.text.split("\n")]
    assert len(lines) > 1
    assert max(map(len, lines)) * 6.4 <= 360


def test_names_are_no_formulas():
    figure = charts.kernel_breakdown(frames.kernels(name=frames.HOSTILE), width=2000)
    drawn = "".join(figure.yaxis[0].major_label_overrides.values())
    assert "$$" not in drawn
    assert "\\(" not in drawn
    titled = charts.temporal_breakdown(frames.temporal(), title="$$x$$ \\[y\\]")
    assert "$$" not in titled.title.text
    assert "\\[" not in titled.title.text


def test_a_page_is_one_file_without_a_network(tmp_path):
    figure = charts.temporal_breakdown(frames.temporal())
    page = charts.to_html(figure, tmp_path / "a.html", title="<b>a</b>").read_text("utf-8")
    assert "<b>a</b>" not in page
    assert "<script src=" not in page
    assert re.search(r"<(script|link|img)[^>]+(src|href)=", page.partition("<script")[0]) is None


# --- rows that stand for others, rows of one short name ---
def test_other_kernels_reach_from_the_least_to_the_most_sum_of_a_rank():
    # Without the first kernel, the sums are 30 + 20 = 50 on rank 0 and 1 + 60 = 61 on rank 1.
    frame = frames.kernels(names=3)
    frame["sum_ns"] = [20, 30, 1000, 60, 1, 1000]
    frame["name"] = ["a", "b", "most"] * 2
    with_both = pd.concat([frame, frame[:1].assign(name="c", sum_ns=7)], ignore_index=True)
    figure = charts.kernel_breakdown(with_both, top=1)
    data = data_of(figure, "name", "least_ns", "most_ns").set_index("name")
    assert data.loc["3 other kernels", ["least_ns", "most_ns"]].tolist() == [57, 61]
    assert data.loc["3 other kernels", "per_rank_ns"] == 59
    assert data.loc["most", ["least_ns", "most_ns"]].tolist() == [1000, 1000]


def _labels(figure) -> list[str]:
    texts = figure.yaxis[0].major_label_overrides
    return [texts[row].replace("\u202f", " ") for row in sorted(texts) if row >= 0]


ADDS = [
    f"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<{each}> >(int)"
    for each in ("float", "c10::Half")
]


def test_rows_of_one_short_name_are_told_apart():
    frame = frames.kernels(names=2, ranks=(0,)).assign(name=ADDS)
    kernels = charts.kernel_breakdown(frame, width=1200)
    assert sorted(_labels(kernels)) == ["add (Half)", "add (float)"]
    assert set(data_of(kernels, "name", "sum_ns")["name"]) == set(ADDS), "the hover has all of it"
    durations = charts.kernel_duration_by_rank(frame, width=1200)
    assert sorted(_labels(durations)) == ["add (Half)", "add (float)"]

    changed = frames.diff()[:3].assign(name=[*ADDS, "aten::add"], kind=["compute"] * 2 + ["op"])
    labels = ["add (float)", "add (Half)", "aten::add"]
    assert _labels(charts.diff_ops(changed, width=1200)) == labels
    patterns = frames.sequences().assign(pattern=[f"aten::add|{each}" for each in ADDS])
    sequences = charts.frequent_kernel_sequences(patterns, width=1200)
    assert _labels(sequences) == ["add (float)", "add (Half)"]
    shapes = frames.operators()[:2].assign(name="aten::mm", input_shapes=["[1]", "[2]"])
    assert _labels(charts.operators(shapes, width=1200)) == ["aten::mm [1]", "aten::mm [2]"]


# --- frames of another analysis ---
@pytest.mark.parametrize("name", CASES)
def test_a_frame_without_a_column_is_refused_by_the_name_of_its_analysis(name):
    draw, make = frames.ALL[name]
    inputs = {"arrivals": "collectives"}.get(name, name)
    panel = {"step_phases": "steps"}.get(name)
    text = f"hta_widgets.analysis.{inputs}" if panel is None else f'panel_frame\\("{panel}"\\)'
    if name.startswith("diff_") and name != "diff_ops":
        text = f"hta_widgets.diff.{name.removeprefix('diff_')}"
    with pytest.raises(TraceError, match=text):
        draw(pd.DataFrame({"unrelated": [1]}))
    frame = make()
    for column in frame.columns:
        try:
            draw(frame.drop(columns=[column]))
        except TraceError as error:
            assert f"'{column}'" in str(error)  # noqa: PT017 - many columns can be done without
    with pytest.raises(TraceError, match=r"'span_ns', 'idle_ns'.*analysis\.temporal"):
        charts.temporal_breakdown(frames.kernels())


@pytest.mark.parametrize("name", [*CASES, "to_html"])
def test_every_chart_has_an_example(name):
    assert f">>> charts.{name}(" in inspect.getdoc(getattr(charts, name))


def test_names_that_differ_only_where_they_are_cut_are_numbered():
    names = [f"a_long_beginning_{middle}_{'x' * 40}_a_long_end" for middle in ("b", "c", "d")]
    frame = frames.kernels(names=3, ranks=(0,)).assign(name=names)
    labels = _labels(charts.kernel_breakdown(frame, width=400))
    assert len(set(labels)) == 3
    assert [text[-4:] for text in labels[1:]] == [" (2)", " (3)"]
    assert max(map(len, labels)) * 6.4 <= 0.36 * 400


def test_themes_and_mixed_colors():
    with pytest.raises(TraceError, match="theme= takes 'light', 'dark' or a Theme, not 'sepia'"):
        charts.operators(pd.DataFrame(), theme="sepia")
    assert theme_of(DARK) is DARK
    assert blend("#000000", "#ffffff", 0.25) == "#bfbfbf"
    assert blend("#1f77c0", "#ffffff", 1.0) == "#1f77c0"


@pytest.mark.parametrize("name", ["temporal_breakdown", "launch_stats", "rank_clusters"])
def test_a_chart_is_drawn_where_it_is_a_cells_value(name, monkeypatch):
    formatter = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    monkeypatch.setattr(in_notebooks, "_loaded_by", {})
    draw, make = frames.ALL[name]
    chart = draw(make())
    for expected in (True, False):
        html = formatter.format(chart)[0]["text/html"]
        assert "embed_item(item)" in html
        assert (len(html) > 300_000) is expected, "BokehJS comes once"


@pytest.mark.parametrize("layout", [charts.row, charts.column])
def test_charts_beside_each_other_are_drawn_as_one(layout, tmp_path, monkeypatch):
    formatter = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    monkeypatch.setattr(in_notebooks, "_loaded_by", {})
    overlap = charts.comm_comp_overlap(frames.overlap())
    both = layout(charts.temporal_breakdown(frames.temporal()), layout(overlap))
    html = formatter.format(both)[0]["text/html"]
    # A chart can be written after it was shown.
    page = charts.to_html(both, tmp_path / "a.html").read_text("utf-8")
    for text in (html, page):
        assert "Where GPU time goes" in text
        assert "Communication and overlap" in text


ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<{}>, {}>(int)"


LONG = ["x" * 60, "y" * 60, "z" * 60]


@pytest.mark.parametrize(
    ("labels", "names", "kinds", "expected"),
    [
        # Different labels stay as they are.
        (["add", "mul"], ["k<add>", "k<mul>"], ["compute", "memory"], ["add", "mul"]),
        # Equal labels get their kinds. If two of them share a kind, a distinguishing word follows.
        (["add"] * 3, ["aten::add", "add", "k<add>"], ["operator", "x", "compute"],
         ["add (operator)", "add (x)", "add (compute)"]),
        (["a"] * 3, ["a", "f<int>", "f<long>"], ["operator", "compute", "compute"],
         ["a (operator)", "a (compute, int)", "a (compute, long)"]),
        # Within a kind, the first different word is enough; a longer name shows its extra words.
        (["add"] * 3, [ADD.format("float", 1), ADD.format("c10::Half", 1), ADD.format("float", 2)],
         ["compute"] * 3, ["add (float, 1)", "add (Half)", "add (float, 2)"]),
        (["a", "a"], ["f", "f<int>"], None, ["a", "a (int)"]),
        # Labels without a short distinguishing word are numbered.
        (["a"] * 3, LONG, None, ["a", "a (2)", "a (3)"]),
        (["a", "a (2)", "a"], ["?", "b", "!"], None, ["a", "a (2)", "a (3)"]),
        (["same"] * 2, ["same"] * 2, None, ["same", "same (2)"]),
        ([], [], None, []),
    ],
)  # fmt: skip
def test_labels_are_told_apart(labels, names, kinds, expected):
    assert disambiguate(labels, names, *([] if kinds is None else [kinds])) == expected


def test_a_roofline_has_a_mark_per_operator_with_flops_and_a_roof_per_precision():
    figure = charts.operator_efficiency(frames.efficiency())
    marks = data_of(figure, "name", "size")
    assert all(isinstance(s, models.LogScale) for s in (figure.x_scale, figure.y_scale))
    assert marks["intensity"].tolist() == pytest.approx([500, 0.1])
    assert marks["tflop_per_s"].tolist() == pytest.approx([156, 0.1])
    assert marks["size"][0] ** 2 == pytest.approx(9 * marks["size"][1] ** 2)
    roofs = [
        line.data_source.data for line in figure.renderers if isinstance(line.glyph, models.Line)
    ]
    ridges = [(roof["x"][1], roof["y"][1]) for roof in roofs]
    assert ridges[0] == pytest.approx((312_000 / 2039, 312))
    assert len(ridges) == 2
    assert "1 row without FLOPs, or with little time, not drawn" in words_of(figure)
