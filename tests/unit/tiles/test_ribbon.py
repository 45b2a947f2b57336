"""Arrivals in bins, compared with vectors that also test the page's engine."""

import json
from pathlib import Path

import pytest

from hta_widgets.tiles.lateness import LatenessIndex, Ribbon
from hta_widgets.tiles.packing import unpack


@pytest.mark.parametrize("asked", [(5, 5, 1), (0, 5, 0), (0, 5, 1 << 17)])
def test_windows_and_bins_that_make_no_sense_are_refused(asked):
    with pytest.raises(ValueError, match=r"must end after|bins must be within"):
        Ribbon(LatenessIndex.empty({}, "one rank")).bins_in_window(*asked)


CASES = json.loads((Path(__file__).parents[2] / "vectors/ribbon.json").read_text("utf-8"))["cases"]


@pytest.mark.parametrize("shift", [0, 12_345])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_windows(case, shift, lateness_of):
    ribbon = Ribbon(lateness_of(case, shift))
    for window in case["windows"]:
        requested = [window[name] for name in ("start", "end", "bins", "ranks")]
        reply, buffer = ribbon.bins_in_window(*requested)
        columns = unpack(reply.pop("columns"), buffer)
        assert reply == case["reply"]
        assert {name: values.tolist() for name, values in columns.items()} == window["columns"]


def test_bins_of_a_window_of_months_are_exact(lateness_of):
    """Half of 100 days is in bin 2048 of 4096; the product exceeds int64."""
    days_ns = 100 * 86_400 * 10**9
    entries = [{"call": 0, "start": days_ns // 2, "id": 0}]
    ranks = [{"rank": rank, "clock": 0, "entries": entries} for rank in (0, 1)]
    header, buffer = Ribbon(lateness_of({"ranks": ranks}, 0)).bins_in_window(0, days_ns, 4096)
    assert unpack(header["columns"], buffer)["bin"].tolist() == [2048, 2048]
