"""Contents of charts of small frames: values, texts at the right, titles."""

import numpy as np
import pytest
from support import chart_frames as frames
from support.chart_reading import data_of, right_of, words_of

from hta_widgets import charts

LIGHT = charts.LIGHT
KIND, DELTA = LIGHT.kind, LIGHT.delta


def case(name, data, right=(), words=(), *, of=(), frame=None, **options):
    """Build a case: a chart, columns of its source, parts of its texts; `of` adds columns."""
    identity = "-".join([name, *map(str, options.values())])
    return pytest.param(name, data, right, words, of, frame, options, id=identity)


@pytest.mark.parametrize(("name", "data", "right", "words", "of", "frame", "options"), [
    case("kernel_type_breakdown", {
        "share": [0.6, 0.3, 0.1], "fill": [KIND["compute"], KIND["compute"], KIND["memory"]],
        "hatch": [" ", "/", " "], "hatch_color": [LIGHT.bg, KIND["communication"], LIGHT.bg],
    }, of=["kernel_type"]),
    case("comm_comp_overlap", {}, ["hidden | 25 % | 50 %"], ["42 % of it hidden"]),
    case("user_annotation_breakdown", {"per_rank_ns": [200], "least_ns": [100], "most_ns": [300]}),
    case("critical_path", {"dur_ns": [100, 50, 850]},
         ["of the path | 1.00 µs | 85 % · 850 ns | 10 % · 100 ns | 5.0 % · 50 ns"],
         ["Critical path of rank 0"], of=["start_ns", "end_ns", "bound_by"]),
    case("memory_timeline", {
        "total_text": ["100\u202fB", "150\u202fB", "100\u202fB"],
        "Activation end": [1 - 100 / 150, 0, 1 - 100 / 150],
    }, words=["never used: Input"]),
    case("diff_ops", {
        "diff_ns": [-900, 600, 500], "change_text": ["gone", "new", "+50\u202f%"],
        "fill": [DELTA[1], DELTA[5], DELTA[5]],
    }),
    case("diff_ops", {"diff_count": [-6, 2]}, measure="count"),
    case("diff_ops", {}, words=["All 1 names have the same time"],
         frame=lambda: frames.diff().iloc[3:]),
    case("clock_offsets",
         {"low": [-10, -2040, 50_000], "high_recorded": [2000, 1000, 50_000]},
         ["offset | ±0 ns | −2.00 µs | –", "fitted | ±10 ns | ±40 ns | –"],
         ["what is subtracted from a rank's recorded times", "unknown: 1 rank",
          "2 parts with unknown offsets between them"]),
    case("step_times", {}, words=["no rank stands out", "waits included"], measure="dur"),
    case("stragglers", {"rank": [1, 0], "line": [LIGHT.late, LIGHT.idle_line]},
         ["cause | slower kernels"],
         ["rank 1 is late in most steps, slower kernels"], of=["score", "imposed_wait_ns"]),
    case("stragglers", {}, words=["none of 2 ranks is a straggler"],
         frame=lambda: frames.stragglers().assign(is_straggler=False)),
    case("rank_clusters", {
        "cluster": [1, 0], "ranks": [1, 3], "compute_ns": [900, 630],
        "row": [0, 3],  # two rows show the differences
        "compute": [900, 630], "transfer": [900, 680], "waits": [900, 830], "idle": [1000, 930],
        "rest of the step": [1000, 1000],
    }, ["1 | \u200b | \u200b | 3"], ["rank 2 is an outlier"]),
    case("job_path_summary",
         {"rank": [3, 3, 0, 0], "from": [0, 600, 0, 50], "to": [600, 900, 50, 100]},
         ["of the path | 90 % | 10 %"], ["more than half of it is on rank 3"]),
    case("stragglers_by_step", {"shown": [0, 2, 0, 200, 200, 200, 0, 0, 1000]},
         words=["wait in collectives"], measure="imposed_wait"),
    case("diff_waterfall", {
        # An unchanged name has no bar. The total has a bar.
        "label": ["compute", "sync wait", frames.HOSTILE, "total"],
        "before_ns": [500, 300, 50, 950], "diff_ns": [400, -200, 50, 250],
        "low": [0, 200, 200, 0], "high": [400, 400, 250, 250],
    }, ["+400 ns | −200 ns | +50 ns | +250 ns"], ["in 3 steps, mean over ranks"]),
    # Parts too small to draw are merged into one bar, so that the bars still add up.
    case("diff_waterfall", {"diff_ns": [400, -150, 250]}, of=["low", "high"], top=1),
    case("diff_waterfall", {}, words=["Every part takes the same time"],
         frame=lambda: frames.run_waterfall()[3:]),
    case("diff_steps", {
        "label": ["step 4", "step 5 → 6", "mean before", "mean after"],
        "before_ns": [1_000_000, 1_100_000, 1_050_000, np.nan],
        "low": [1_000_000, 1_000_000, 1_050_000 - 70_710.7, 1_500_000 - 707_106.8],
        "high": [2_000_000, 1_100_000, 1_050_000 + 70_710.7, 1_500_000 + 707_106.8],
    }, words=["in 52 % of such pairs"]),
    case("diff_changes", {"diff_ns": [1e6, -2e5, 0], "fill": [DELTA[5], DELTA[1], DELTA[3]]},
         ["slower · device and host | removed | moved"]),
    case("diff_changes", {}, words=["2 smaller changes not drawn"], top=1),
    # A single step.
    case("diff_names", {"diff_ns": [-450, 300, 250], "before_count": [3, 0, 2.5]}),
    case("diff_icicle", {
        # Widths are means of both runs: 400 and 100, with 200 and 100 below the first.
        "row": [0, 1, 1, 0], "low": [0, 0, 200, 400], "high": [400, 200, 300, 500],
        # 67 % longer, the same, new, the same.
        "fill": [DELTA[5], DELTA[3], DELTA[6], DELTA[3]],
    }, of=["ink"]),
    case("diff_icicle", {}, words=["2 tiles on deeper levels not drawn"], depth=1),
    # Waiting for the root does not count as queuing.
    case("byteps_stages", {"right_0": [25, np.nan, 5], "right_1": [np.nan, 2_500, np.nan]}),
    case("byteps_gradients", {
        "tensor": ["byteps.a", "byteps.a", "<b>", "<b>"],
        "right_2": [40_000, 25_000, 20_000, 12_000],
    }, words=["byteps.a takes longest"]),
    case("mpi_ranks", {"rank": [1, 0, 3, 2], "right_2": [np.nan, np.nan, np.nan, 3e9]},
         words=["rank 2 has the least time in MPI: the other 3 wait for it"]),
])  # fmt: skip
def test_what_is_drawn_and_said(name, data, right, words, of, frame, options):
    draw, make = frames.ALL[name]
    figure = draw((frame or make)(), width=1200, **options)
    if data:
        result = data_of(figure, *data, *of)
        for column, values in data.items():
            np.testing.assert_array_equal(result[column], values, err_msg=column)
    texts = [" | ".join(right_of(figure, place)) for place in range(len(figure.right))]
    assert all(any(part in text for text in texts) for part in right), texts
    message = words_of(figure).replace("\u202f", " ")
    assert all(each in message for each in words), message
