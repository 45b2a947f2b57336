"""Texts use the right word for the devices of a job: GPUs, NPUs, TPUs."""

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

import hta_widgets as hw
from hta_widgets import analysis, charts
from hta_widgets.facts import facts
from hta_widgets.panels.headline import headline
from tests.support import small

#: The word, then the name and category of device work that implies it.
JOBS = {
    "GPU": ("GPU 0", "kernel"),
    "NPU": ("NPU 3", "kernel"),
    "TPU": ("/device:TPU:0", "kernel"),
    "HPU": ("device 0", "hpu_op"),
}


@pytest.mark.parametrize("word", JOBS)
def test_python_names_the_devices_of_the_job(word, tmp_path):
    label, category = JOBS[word]
    name = {"ph": "M", "pid": 0, "name": "process_labels", "args": {"labels": label}}
    work = [small.kernel(at, at + 2_000, name="gemm", cat=category) for at in (0, 50_000)]
    traces = small.load(tmp_path, [name, *work, small.call(1_000, 1_010)])
    frames = [analysis.temporal_breakdown(traces), analysis.device_idle_breakdown(traces)]
    figures = [charts.temporal_breakdown(frames[0]), charts.device_idle_breakdown(frames[1])]
    picture = Path(hw.Timeline(traces).to_svg(tmp_path / "job.svg")).read_text("utf-8")
    texts = [str(headline(traces)), picture]
    texts += [figure.title.text for figure in figures]
    for text in texts:
        assert set(re.findall(r"\b([A-Z]PU)s?\b", text)) - {"CPU"} == {word}, text


def test_texts_of_panels_leave_the_word_for_devices_open():
    """BytePS runs on GPUs only."""
    folder = files("hta_widgets.charts") / "definitions"
    texts = {path.name: path.read_text("utf-8") for path in folder.iterdir()}
    texts |= {name: json.dumps(fact) for name, fact in (facts("panels") | facts("metrics")).items()}
    named = {name for name, text in texts.items() if re.search(r"\bGPUs?\b", text)}
    assert {name for name in named if not name.startswith("byteps")} == set()
