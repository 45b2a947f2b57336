"""A kernel name of 1 MB takes few steps, and is shortened where it is shown."""

import json
import random
import string
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from support.small import call, kernel

import hta_widgets as hw
from hta_widgets import analysis

pytestmark = pytest.mark.slow

ANALYSES = ("kernel_breakdown", "operators", "launch_stats", "idle_interval_stats", "step_times")
REQUESTS = (
    {"op": "totals"},
    {"op": "panels", "panels": ["kernels", "kernel_durations", "operators", "idle"]},
    {"op": "tiles", "level": 8, "parts": [{"lanes": [0, 1], "first": 0, "last": 1}]},
)
SIZE = 1_000_000


class Steps(NamedTuple):
    """Results of loading, analyses, requests and a saved page of a job."""

    calls: int
    page: str
    replies: list[dict[str, Any]]
    picture: str


def take_steps(name: str, folder) -> Steps:
    """Run the steps with a job of two kernels, one with this name, and count Python's calls."""
    folder.mkdir()
    records = [*(call(1, 9, launch) for launch in (1, 2)), kernel(20, 50, launch=1)]
    records.append(kernel(60, 90, launch=2, name=name))
    (folder / "job.json").write_text(json.dumps({"traceEvents": records}))
    calls = Counter[str]()
    threading.setprofile(lambda _, event, __: calls.update([event]))
    sys.setprofile(threading.getprofile())
    try:
        traces = hw.load(folder / "job.json", cache=False, progress=False)
        for analyse in ANALYSES:
            getattr(analysis, analyse)(traces)
        dashboard = hw.Dashboard(traces)
        replies = [dashboard.answer(request)[0] for request in REQUESTS]
        dashboard.save_html(folder / "page.html")
        hw.Timeline(traces).to_svg(folder / "view.svg")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    result = [(folder / file).read_text() for file in ("page.html", "view.svg")]
    return Steps(calls["call"] + calls["c_call"], result[0], replies, result[1])


def shown_texts(value: Any) -> Iterator[str]:
    """Yield all texts in a reply except full names, which are in columns called `name`."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from () if key == "name" else shown_texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from shown_texts(part)


@pytest.mark.parametrize("form", ["{}", "void {}<float>(int)", "_ZN{}", "ncclDevKernel_{}"])
def test_a_name_of_a_megabyte_takes_few_steps_and_is_short(form, tmp_path):
    letters = "".join(random.Random(1).choices(string.ascii_letters, k=SIZE))
    take_steps(form.format("warm"), tmp_path / "warm")
    short, long = (
        take_steps(form.format(letters[:size]), tmp_path / f"{size}") for size in (10, SIZE)
    )
    assert long.calls < short.calls + SIZE / 5
    assert len(long.page) - len(short.page) < 2 * SIZE  # once, in base64
    assert max(map(len, shown_texts(long.replies))) < 300
    assert len(long.picture) < len(short.picture) + 5000
