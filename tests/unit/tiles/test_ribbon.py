"""Arrivals in bins, on vectors that the page's engine is tested with."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hta_widgets.tiles.cells import unpack
from hta_widgets.tiles.lateness import Lateness, Ribbon


@pytest.mark.parametrize("asked", [(5, 5, 1), (0, 5, 0), (0, 5, 1 << 17)])
def test_windows_and_bins_that_make_no_sense_are_refused(asked):
    with pytest.raises(ValueError, match=r"must end after|a window has"):
        Ribbon(Lateness.nothing({}, "one rank")).within(*asked)


CASES = json.loads((Path(__file__).parents[2] / "vectors/ribbon.json").read_text("utf-8"))["cases"]


def lateness_of(case, shift):
    traces, rows = {}, []
    for rank in case["ranks"]:
        number, entries = rank["rank"], rank["entries"]
        start = np.array([one["start"] for one in entries])
        table = SimpleNamespace(start_ns=start - shift, dur_ns=np.full(len(start), 1 << 40))
        traces[number] = SimpleNamespace(table=table, shift_ns=shift)
        rows += [
            {
                "collective": 3 * one["call"],
                "name": one["name"],
                "rank": number,
                "id": one["id"],
                "arrival_ns": one["start"] + rank["clock"],
                "wait_ns": one["wait"],
            }
            for one in entries
        ]
    if not rows:
        return Lateness.nothing(traces, "nothing")
    frame = pd.DataFrame(rows).sort_values(["collective", "rank"]).reset_index(drop=True)
    return Lateness(traces, frame, {})


@pytest.mark.parametrize("shift", [0, 12_345])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_windows(case, shift):
    ribbon = Ribbon(lateness_of(case, shift))
    for window in case["windows"]:
        asked = [window[name] for name in ("start", "end", "bins", "ranks")]
        reply, buffer = ribbon.within(*asked)
        columns = unpack(reply.pop("columns"), buffer)
        assert reply == case["reply"]
        assert {name: values.tolist() for name, values in columns.items()} == window["columns"]
