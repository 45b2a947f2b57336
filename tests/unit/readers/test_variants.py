"""Variants of public cases: each loads or is refused, and each lost record is reported."""

import json
import random

import pytest

import hta_widgets as hw
from hta_widgets import TraceError, analysis

pytestmark = pytest.mark.slow

IDS = [
    0,
    -1,
    -2,
    7,
    1 << 31,
    -(1 << 31),
    139718037617728,
    (1 << 63) - 1,
    1 << 63,
    "7",
    "0x7f",
    None,
]
TIMES = [0, -5, 1e-3, 1.8e13, 3_150_000, 1.7e15, 9.3e15, "12.5", None]
CASES = ["rocm-corr/wide/rank0", "rocm-overflow/rank0", "rocm-zero/rank0", "async-order/only"]
CASES += ["async-order/a", "be-order/a", "ts0/worker0.pt.trace"]


def change(records, rng):
    """Replace some values in some records with odd ones."""
    for record in rng.sample(records, min(len(records), 1 + rng.randrange(6))):
        args = record.setdefault("args", {})
        match rng.randrange(6):
            case 0 | 1:
                args[rng.choice(["stream", "correlation", "device"])] = rng.choice(IDS)
            case 2 | 3:
                record[rng.choice(["ts", "dur"])] = rng.choice(TIMES)
            case 4:
                record[rng.choice(["pid", "tid", "id"])] = rng.choice(IDS)
            case _:
                record["name"] = rng.choice([r"torch\nn\modules", "", "x" * 300, "</script>"])


@pytest.mark.parametrize("case", CASES)
def test_variants_load_or_are_refused(shared, tmp_path, case):
    document = json.loads((shared / "cases" / f"{case}.json").read_text())
    for seed in range(12):
        copy = json.loads(json.dumps(document))
        records = copy if isinstance(copy, list) else copy["traceEvents"]
        change(records, random.Random(seed))
        text = json.dumps(copy)
        path = tmp_path / f"{seed}.json"
        path.write_text(text.replace(r"\\n", r"\n").replace(r"\\m", r"\m") if seed % 2 else text)
        try:
            traces = hw.load(path, cache=False)
        except TraceError:
            continue
        trace, problems = next(iter(traces.values())), traces.problems
        complete = sum(record.get("ph") in {"X", "B"} for record in records)
        unsaid = complete - sum(len(rank) + len(rank.instants) for rank in traces.values())
        assert unsaid <= problems["count"].sum()
        for name in ("temporal_breakdown", "operators", "launch_stats", "idle_time_breakdown"):
            getattr(analysis, name)(traces)
        hw.export_trace(traces, tmp_path / "copy.json")
        assert None not in json.loads((tmp_path / "copy.json").read_text())["traceEvents"]
        assert len(hw.load(traces.save(tmp_path / f"{seed}.store"))[trace.rank]) == len(trace)
