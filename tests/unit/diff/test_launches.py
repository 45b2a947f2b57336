"""Changes in how work is launched: by graphs, and on which streams."""

import pytest
from support.small import call, event, kernel, load
from support.turned import assert_mirrored

from hta_widgets import diff as hd

NAMES = ("gemm", "relu", "layer_norm", "softmax")
STEP_NS = 100_000


def job(tmp_path, *, streams=(7, 7, 7, 7), graph="", launches=True):
    """Load three steps of four kernels; with `graph`, one call launches all kernels of a step."""
    records = []
    for number in range(1, 4):
        now = number * STEP_NS
        records.append(event("user_annotation", f"ProfilerStep#{number}", now, now + 90_000))
        for place, (name, stream) in enumerate(zip(NAMES, streams, strict=True)):
            start = now + 10_000 * place
            launch = number if graph else 4 * number + place
            if launches and not (graph and place):
                name_of_call = graph or "cudaLaunchKernel"
                records.append(call(start + 1_000, start + 2_000, launch, name=name_of_call))
            work = kernel(start + 3_000, start + 9_000, launch=launch, name=name, stream=stream)
            records.append(work)
    return load(tmp_path, records)


def texts(diff):
    return [finding.text.replace("\u202f", " ") for finding in hd.findings(diff)]


@pytest.mark.parametrize("name", ["cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch"])
def test_graphs_that_launch_the_kernels_are_said(tmp_path, name):
    present, back = assert_mirrored(job(tmp_path), job(tmp_path, graph=name))
    assert "Graphs launch 0 % → 100 % of device work." in texts(present)
    assert "Graphs launch 100 % → 0 % of device work." in texts(back)
    # A file without calls does not show what launches its work.
    unknown = hd.compare(job(tmp_path, launches=False), job(tmp_path, graph=name))
    assert not any(text.startswith("Graphs") for text in texts(unknown))


def test_kernels_that_move_to_another_stream_are_said(tmp_path):
    diff, back = assert_mirrored(job(tmp_path), job(tmp_path, streams=(7, 7, 13, 7)))
    reason = "of compute kernels; most of the difference comes from layer_norm."
    assert f"The busiest stream runs 100 % → 75 % {reason}" in texts(diff)
    assert f"The busiest stream runs 75 % → 100 % {reason}" in texts(back)
    # The kernel is neither removed nor added.
    assert set(hd.pairs(diff).query("name == 'layer_norm'")["status"]) == {"moved"}
    assert len(texts(diff)) == 2


def test_streams_with_other_numbers_are_no_change(tmp_path):
    before, after = (job(tmp_path, streams=(a, a, b, a)) for a, b in ((7, 13), (9, 8)))
    assert texts(hd.compare(before, after)) == []
