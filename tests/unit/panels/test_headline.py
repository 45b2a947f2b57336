"""What a job's headline says, and that it says nothing of ranks where none stands out."""

import json

import pytest
from support import small

import hta_widgets as hw
from hta_widgets.demo import write_demo
from hta_widgets.panels import headline

THIN = "\u2009"


def said(traces) -> str:
    return str(headline(traces)).replace(THIN, " ")


def ranks_named(found) -> set[int]:
    pieces = [part for parts in (found.text_parts, *found.sentences) for part in parts]
    return {part["rank"] for part in pieces if isinstance(part, dict)}


def test_the_slow_rank_of_a_job_of_eight(shared):
    traces = hw.load(shared / "traces/made/ddp_8rank", progress=False)
    truth = json.loads((shared / "traces/made/ddp_8rank_truth.json").read_text())
    found = headline(traces)
    waits = [wait for wait in truth["wait_us_total"] if wait > 0]
    mean_ms = sum(waits) / len(waits) / 1000
    assert len(waits) == 7
    assert found.text_parts[-2] == {"rank": truth["slow"], "text": "rank 5"}
    assert found.text.replace(THIN, " ") == (
        f"7 of 8 ranks wait {mean_ms:.0f} ms each, 18 % of the run, for rank 5."
    )
    assert said(traces).startswith(
        "7 of 8 ranks wait 149 ms each, 18 % of the run, for rank 5. Rank 5 arrives last at 21 of"
        " 21 collectives; its forward pass takes 128 ms, 13 % over the median rank. GPUs are idle"
        " 67 % of the time"
    )
    assert found.findings[0].label == "Select rank 5"
    assert found.findings[0].selection == hw.Selection(ranks=(5,))
    assert [one.kind for one in found.findings] == [
        "waiting", "idle", "exposed_communication", "step",
    ]  # fmt: skip
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_healthy_job_names_no_rank(tmp_path, seed):
    write_demo(tmp_path / "job", ranks=4, steps=3, seed=seed, straggler=None)
    found = headline(hw.load(tmp_path / "job", cache=False, progress=False))
    assert found.text
    assert ranks_named(found) == set()
    assert len(found.sentences) <= 2


def test_the_slow_rank_of_a_demo_job(tmp_path):
    write_demo(tmp_path / "job", ranks=4, steps=3, seed=4, straggler=2, factor=1.4)
    found = headline(hw.load(tmp_path / "job", cache=False, progress=False))
    assert found.text_parts[0] == "3 of 4 ranks wait "
    assert ranks_named(found) == {2}


def names(count: int, length: int, *, start: int = 1000):
    """Kernels of different names, one right behind the other."""
    return [
        small.kernel(start + k * length, start + (k + 1) * length, name=f"kernel_{k}")
        for k in range(count)
    ]


def test_nothing_stands_out(tmp_path):
    # The origin at 0 is 1 ns long; a run of 100 000 ns is 1 % idle.
    traces = small.load(tmp_path, names(9, 11_000))
    assert said(traces) == "No single cause stands out: compute 99 %, idle 1.0 %."
    assert headline(traces).findings == []


def test_one_kernel(tmp_path):
    traces = small.load(tmp_path, [*names(5, 10_000), small.kernel(51_000, 101_000, name="gemm")])
    found = headline(traces)
    assert found.text.replace(THIN, " ") == "gemm takes 50 % of GPU work, in 1 call."
    assert found.findings[0].selection.query == "name in ['gemm']"


def test_an_idle_device_and_what_for(tmp_path):
    events = []
    for k in range(10):
        at = 1000 + k * 10_000
        events += [
            small.call(at, at + 100, k + 1),
            small.kernel(at + 200, at + 6_000, launch=k + 1),
        ]
        events[-1]["name"] = f"kernel_{k}"
    found = headline(small.load(tmp_path, events))
    # The run: 1 000 + 9 · 10 000 + 6 000 ns, busy 58 000 of 97 000. Each of 9 gaps is 4 200 ns
    # long, and 4 000 of it before the call.
    assert found.text.replace(THIN, " ").startswith("The GPU is idle 40 % of the time; for 95 % of")
    assert "the host has not launched the next work yet" in found.text
    shown = found.findings[0].selection
    assert shown.end_ns - shown.start_ns == 4_200
    assert shown.ranks == (0,)


def test_communication_that_nothing_hides(tmp_path):
    traces = small.load(
        tmp_path, [*names(6, 10_000), small.nccl(61_000, 101_000)], names(10, 10_000)
    )
    text = said(traces)
    assert text.startswith(
        "GPUs are communicating 20 % of the time with no compute to hide it, 20.0 µs a rank."
    )


def test_what_takes_little_does_not_come_first(tmp_path):
    # 3 % communication, 80 % idle.
    events = [*names(8, 2_000), small.nccl(17_000, 20_000), small.kernel(99_000, 100_000)]
    found = headline(small.load(tmp_path, events))
    assert [one.kind for one in found.findings] == ["idle", "exposed_communication"]


def test_no_device(tmp_path):
    traces = small.load(tmp_path, [small.event("cpu_op", "aten::mm", 100, 900, pid=1)])
    assert said(traces) == (
        "No GPU work in these files: 2 events of 1 rank over 900 ns. "
        "aten::mm takes 100 % of the operators' own time, 800 ns."
    )


def test_no_events(tmp_path):
    path = tmp_path / "empty.json"
    path.write_text(json.dumps({"traceEvents": [], "deviceProperties": []}))
    found = headline(hw.load(path, cache=False, progress=False))
    assert found.to_json() == {"headline": [], "more": [], "findings": []}
