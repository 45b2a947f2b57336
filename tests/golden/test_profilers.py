"""Files of other profilers against figures that independent programs computed."""

import json

import pytest
from support.golden import MISSING, SHARED

import hta_widgets as hw
from hta_widgets.analysis import temporal_breakdown

TRACES, GOLDEN = SHARED / "traces/profilers", SHARED / "golden/profilers"
pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason=MISSING)


def load(path):
    return hw.load(path, cache=False, progress=False)


def test_devices_of_a_jax_profile():
    golden = json.loads((GOLDEN / "xplane_jax_conv_8gpu.json").read_text())
    traces = load(TRACES / "xprof/jax_conv_8gpu.xplane.pb")
    planes = [one for one in golden["planes"] if one.get("gpu")]
    breakdown = temporal_breakdown(traces).set_index("rank")
    assert len(traces) == len(planes)
    linked = 0
    for trace, figures in zip(traces.values(), planes, strict=True):
        work = trace.events.query("category == 'kernel'")
        gpu, row = figures["gpu"], breakdown.loc[trace.rank]
        assert len(work) == gpu["events"]
        # Each interval is rounded to ns; the figures are in ps.
        assert row.busy_ns * 1000 == pytest.approx(gpu["busy_ps"], abs=1000 * len(work))
        assert row.communication_ns * 1000 == gpu["communication_ps"]
        assert row.compute_ns + row.memory_ns == row.busy_ns
        totals = work.groupby("name", observed=True).dur_ns.agg(["count", "sum"])
        for name, count, total_ps in gpu["top"]:
            assert totals.loc[name, "count"] == count
            assert totals.loc[name, "sum"] * 1000 == pytest.approx(total_ps, abs=1000 * count)
        linked += (trace.launch_of[work.index] >= 0).sum()
    assert [linked, sum(one["gpu"]["events"] for one in planes)] == golden["launches_found"]
