"""Number formats, as in the timeline; js/src/ui/formats.format.test.ts has the same cases."""

import math

import pytest

from hta_widgets import text as formats
from hta_widgets.charts.rows import round_ticks


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        (
            "duration",  # three significant digits
            [(0, "0 ns"), (415, "415 ns"), (999, "999 ns"), (1000, "1.00 µs"), (1_984, "1.98 µs"),
             (9_996, "10.0 µs"), (999_499, "999 µs"), (999_700, "1.00 ms"), (1_210_000, "1.21 ms"),
             (12_250_000, "12.3 ms"), (148_200_000, "148 ms"), (999_960_000, "1.00 s"),
             (3_600_000_000_000, "3 600 s"), (-5_830_000, "−5.83 ms"), (12.34, "12.3 ns"),
             (0.25, "0.25 ns"), (None, "–"), (math.nan, "–")],
        ),
        (
            "share",
            [(0.66, "66 %"), (0.028, "2.8 %"), (0.001, "<1 %"), (0, "0 %"), (1, "100 %"),
             (math.nan, "–"), (0.0995, "10 %"), (0.0994, "9.9 %"), (0.996, ">99 %")],
        ),
        # Differences have a sign, even zero.
        ("duration_delta", [(24_800_000, "+24.8 ms"), (-3_000, "−3.00 µs"), (0, "±0 ns")]),
        ("share_delta", [(0.6, "+60 %"), (-0.028, "−2.8 %"), (0.0001, "±0 %")]),
        # Sizes and rates use decimal prefixes.
        ("size", [(26_600_000, "26.6 MB"), (999, "999 B"), (0, "0 B")]),
        ("rate", [(22.0, "22.0 GB/s"), (math.nan, "–")]),
        ("p_value", [(1.0, "p 1"), (0.999, "p 1"), (0.0601, "p 0.06"), (0.00432, "p 0.0043"),
                     (0.00009, "p < 0.0001")]),
        ("value", [(1024, "1 024"), (0.12345, "0.1235")]),
    ],
)  # fmt: skip
def test_figures(name, cases):
    text = [(value, getattr(formats, name)(value).replace("\u202f", " ")) for value, _ in cases]
    assert text == cases


def test_groups_are_parted_by_a_narrow_space_and_counts_have_plurals():
    assert formats.duration(1_210_000) == "1.21\u202fms"
    assert formats.count(215_456) == "215\u202f456"
    assert [formats.plural(count, "rank") for count in (1, 8)] == ["1 rank", "8 ranks"]


@pytest.mark.parametrize(
    ("tick", "words"),
    [
        ((200_000_000, 100_000_000), "200 ms"),
        ((500_000, 500_000), "0.5 ms"),
        ((95_150_000, 50_000, 95_450_000), "95.15 ms"),
        ((900_000, 50_000, 950_000), "900 µs"),
        ((1_500_000_000, 500_000_000), "1 500 ms"),
        ((-50_000_000, 50_000_000), "−50 ms"),
    ],
)
def test_ticks_have_the_decimals_of_their_step(tick, words):
    assert formats.axis_time(*tick).replace("\u202f", " ") == words


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_an_axis_has_a_tick_besides_zero(most):
    for end in (1.0, 1.99, 2.01, 4.99, 9.99, 4_990_000.0):
        ticks = round_ticks(end, most, -end)
        assert len(ticks) >= 3
        assert max(ticks) <= end
