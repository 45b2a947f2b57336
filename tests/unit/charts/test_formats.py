"""Numbers read as the timeline's do: js/src/ui/formats.format.test.ts has the same cases."""

import math

import pytest

from hta_widgets import text as formats
from hta_widgets.charts.rows import nice_ticks


def plain(text: str) -> str:
    return text.replace("\u202f", " ").replace("\u202f", " ")


@pytest.mark.parametrize(
    ("ns", "words"),
    [
        (0, "0 ns"),
        (415, "415 ns"),
        (999, "999 ns"),
        (1000, "1.00 µs"),
        (1_984, "1.98 µs"),
        (9_996, "10.0 µs"),
        (999_499, "999 µs"),
        (999_700, "1.00 ms"),
        (1_210_000, "1.21 ms"),
        (12_250_000, "12.3 ms"),
        (148_200_000, "148 ms"),
        (999_960_000, "1.00 s"),
        (3_600_000_000_000, "3 600 s"),
        (-5_830_000, "−5.83 ms"),
        (12.34, "12.3 ns"),
        (0.25, "0.25 ns"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_durations_keep_three_significant_digits(ns, words):
    assert plain(formats.duration(ns)) == words


def test_units_are_parted_by_a_thin_space_and_groups_by_a_narrow_one():
    assert formats.duration(1_210_000) == "1.21\u202fms"
    assert formats.count(215_456) == "215\u202f456"


@pytest.mark.parametrize(
    ("part", "words"),
    [(0.66, "66 %"), (0.028, "2.8 %"), (0.001, "<1 %"), (0, "0 %"), (1, "100 %"), (math.nan, "–"),
     (0.0995, "10 %"), (0.0994, "9.9 %"), (0.996, ">99 %")],
)  # fmt: skip
def test_shares(part, words):
    assert plain(formats.share(part)) == words


def test_differences_carry_their_sign_zero_too():
    assert plain(formats.duration_delta(24_800_000)) == "+24.8 ms"
    assert plain(formats.duration_delta(-3_000)) == "−3.00 µs"
    assert plain(formats.duration_delta(0)) == "±0 ns"
    assert plain(formats.share_delta(0.6)) == "+60 %"
    assert plain(formats.share_delta(-0.028)) == "−2.8 %"
    assert plain(formats.share_delta(0.0001)) == "±0 %"


def test_sizes_and_rates_are_decimal():
    assert plain(formats.size(26_600_000)) == "26.6 MB"
    assert plain(formats.size(999)) == "999 B"
    assert plain(formats.size(0)) == "0 B"
    assert plain(formats.rate(22.0)) == "22.0 GB/s"
    assert formats.rate(math.nan) == "–"


def test_ticks_have_the_decimals_of_their_step():
    assert plain(formats.axis_time(200_000_000, 100_000_000)) == "200 ms"
    assert plain(formats.axis_time(500_000, 500_000)) == "0.5 ms"
    assert plain(formats.axis_time(95_150_000, 50_000, 95_450_000)) == "95.15 ms"
    assert plain(formats.axis_time(900_000, 50_000, 950_000)) == "900 µs"
    assert plain(formats.axis_time(1_500_000_000, 500_000_000)) == "1 500 ms"
    assert plain(formats.axis_time(-50_000_000, 50_000_000)) == "−50 ms"


def test_values_and_plurals():
    assert plain(formats.value(1024)) == "1 024"
    assert plain(formats.value(0.12345)) == "0.1235"
    assert formats.plural(1, "rank") == "1 rank"
    assert formats.plural(8, "rank") == "8 ranks"


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_an_axis_has_a_tick_besides_zero(most):
    for end in (1.0, 1.99, 2.01, 4.99, 9.99, 4_990_000.0):
        ticks = nice_ticks(end, most, -end)
        assert len(ticks) >= 3
        assert max(ticks) <= end
