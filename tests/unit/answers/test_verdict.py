"""Verdicts on two runs: outcomes, exit codes, comments and baselines."""

import json
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from support import small

import hta_widgets as hw
from hta_widgets import cli, diff
from hta_widgets.answers.comparison import compare_jobs
from hta_widgets.answers.job import Job
from hta_widgets.answers.verdict import judge, parse_limit
from hta_widgets.errors import TraceError


def write_run(folder, lengths_us, *, busy=0.5, gpu="A100", kernel="gemm", step="ProfilerStep"):
    """Write a run with one kernel per step, which takes the share `busy` of the step."""
    folder.mkdir(parents=True)
    events, start = [], 0
    for number, length_us in enumerate(lengths_us):
        end = start + round(length_us * 1000)
        events += [
            small.event("user_annotation", f"{step}#{number}", start, end, pid=10),
            small.call(start + 1_000, start + 2_000, launch=number + 1),
            small.kernel(start + 3_000, start + 3_000 + round(length_us * 1000 * busy),
                         launch=number + 1, name=kernel),
        ]  # fmt: skip
        start = end
    document = {"traceEvents": events, "deviceProperties": [{"id": 0, "name": gpu}]}
    (folder / "rank-0.json").write_text(json.dumps(document))
    return folder


BEFORE = [1000, 1010, 990, 1005, 995]


def verdict_of(tmp_path, after, limit=0.05, metric="step", before=BEFORE, **how):
    folders = write_run(tmp_path / "a", before), write_run(tmp_path / "b", after, **how)
    return judge(diff.compare(*map(small.read, folders)), limit, metric)


@pytest.mark.parametrize(
    ("factors", "outcome", "reason"),
    [
        ([1.10] * 5, "regressed", ""),
        ([1.04] * 5, "within", ""),
        ([0.80] * 5, "within", ""),
        ([1.5, 0.9, 1.6, 0.8, 1.2], "cannot tell", "may be chance"),
        ([1.3, 0.8, 1.2, 0.7, 1.0], "cannot tell", "scatter more than the limit"),
        ([1.10], "cannot tell", "one step on a side has no spread"),
        ([1.10, 1.02], "cannot tell", "2 steps on a side are too few"),
    ],
)
def test_outcomes(tmp_path, factors, outcome, reason):
    after = [length * factor for length, factor in zip(BEFORE, factors, strict=False)]
    verdict = verdict_of(tmp_path, after, before=BEFORE[: len(factors)])
    assert (verdict.outcome, reason in verdict.reason) == (outcome, True)
    assert verdict.change_share == pytest.approx(sum(after) / sum(BEFORE[: len(after)]) - 1)


def layered_run(folder, shape, *, layers=2, step_us=1000):
    """Write four steps; each has three operators per layer with this input and a kernel each."""
    folder.mkdir(parents=True)
    events = []
    for number in range(4):
        now = number * step_us * 1000
        end = now + (step_us - number) * 1000
        events.append(small.event("user_annotation", f"ProfilerStep#{number}", now, end, pid=10))
        for place in range(3 * layers):
            start, launch = now + 10_000 * (place + 1), 100 * number + place + 1
            name = ("mm", "gelu", "add")[place % 3]
            dims = {"Input Dims": [shape]}
            events += [
                small.event("cpu_op", f"aten::{name}", start, start + 3_000, pid=10, **dims),
                small.call(start + 1_000, start + 2_000, launch=launch),
                small.kernel(start + 4_000, start + 9_000, launch=launch, name=name),
            ]
    (folder / "rank-0.json").write_text(json.dumps({"traceEvents": events}))
    return small.read(folder)


@pytest.mark.parametrize(
    ("shape", "layers", "step_us", "work"),
    [
        ([64, 512, 96], 2, 1800, "batch size 32 → 64; time per sample 31.2 µs → 28.1 µs, −9.9 %"),
        ([16, 512, 96], 2, 750, "batch size 32 → 16; time per sample 31.2 µs → 46.8 µs, +50 %"),
        ([32, 1024, 96], 2, 1800, "sequence length 512 → 1 024; time per token −9.9 %"),
        ([16, 512, 96], 6, 2900, "batch size 32 → 16"),
    ],
)
def test_other_work_in_a_step_is_no_regression(tmp_path, shape, layers, step_us, work):
    before = layered_run(tmp_path / "a", [32, 512, 96])
    after = layered_run(tmp_path / "b", shape, layers=layers, step_us=step_us)
    verdict = judge(diff.compare(before, after), 0.05)
    assert (verdict.outcome, verdict.exit_code) == ("cannot tell", 3)
    assert verdict.reason.replace("\u202f", " ") == f"the work of a step differs: {work}"


@pytest.mark.parametrize(
    ("layers", "step_us", "outcome"),
    [
        # 1.5 times the work in 1.4 times the time.
        ((2, 3), 1400, "cannot tell"),
        # 1.04 times the work in 1.02, 1.03, 1.3 and 0.8 times the time.
        ((25, 26), 1020, "within"),
        ((25, 26), 1030, "within"),
        ((25, 26), 1300, "regressed"),
        ((25, 26), 800, "within"),
        # 0.96 times the work in 0.99, 1.02 and 1.2 times the time.
        ((25, 24), 990, "within"),
        ((25, 24), 1020, "cannot tell"),
        ((25, 24), 1200, "regressed"),
    ],
)
def test_more_layers_excuse_a_change_in_proportion_at_most(tmp_path, layers, step_us, outcome):
    runs = [
        layered_run(tmp_path / name, [32, 512, 96], layers=count, step_us=length_us)
        for name, count, length_us in (("a", layers[0], 1000), ("b", layers[1], step_us))
    ]
    verdict = judge(diff.compare(*runs), 0.05)
    assert verdict.outcome == outcome
    factor = {1.5: "1.5", 1.04: "1.04", 0.96: "0.96"}[layers[1] / layers[0]]
    assert verdict.reason == f"a step repeats nearly all of its work {factor} times as often"


def serving_run(
    folder, decode_us, *, prefill_us=3000, name="execute_context_0(0)_generation_16(16)"
):
    """Write vLLM steps: every fourth step is a prefill, all others decode."""
    folder.mkdir(parents=True)
    events, now = [], 0
    for number, length_us in enumerate(decode_us):
        step, busy_us = name, length_us
        if number % 4 == 3:
            step, busy_us = "execute_context_1(512)_generation_0(0)", prefill_us
        start, launch = now * 1000, number + 1
        events += [
            small.event("user_annotation", step, start, start + 100_000, pid=10),
            small.call(start + 10_000, start + 20_000, launch=launch),
            small.kernel(start + 30_000, start + busy_us * 1000, launch=launch),
        ]
        now += busy_us
    (folder / "rank-0.json").write_text(json.dumps({"traceEvents": events}))
    return small.read(folder)


@pytest.mark.parametrize(
    ("factor", "prefill_us", "outcome"),
    [(1.1, 3000, "regressed"), (1.0, 3000, "within"), (0.8, 3300, "within")],
)
def test_the_steps_of_an_inference_engine_are_compared(tmp_path, factor, prefill_us, outcome):
    """The decode steps are compared, because their name takes the most time."""
    decode_us = [2000, 2010, 1990, 2000, 2005, 1995, 2000, 2000] * 3
    before = serving_run(tmp_path / "a", decode_us)
    after_us = [round(length * factor) for length in decode_us]
    after = serving_run(tmp_path / "b", after_us, prefill_us=prefill_us)
    verdict = judge(diff.compare(before, after), 0.05)
    assert verdict.outcome == outcome
    # Decode steps are 18 of 24 steps.
    assert verdict.steps == 18
    text = verdict.text.replace("\u202f", " ")
    assert (
        f": time of execute_context_0(0)_generation_16(16) 2.00 ms → {2 * factor:.2f} ms (" in text
    )
    assert verdict.change_share == pytest.approx(factor - 1, abs=0.002)
    others = serving_run(tmp_path / "c", decode_us, name="execute_context_0(0)_generation_8(8)")
    # Only the prefills have the same names on both sides.
    verdict = judge(diff.compare(before, others), 0.05)
    assert verdict.before == pytest.approx(3_000_000, rel=0.01)
    assert verdict.to_json()["step_name"] == "execute_context_1(512)_generation_0(0)"


@pytest.mark.parametrize(
    ("batch", "layers", "layers_after"), [(32, 1, 1), (32, 3, 3), (16, 2, 4), (64, 4, 2)]
)
def test_the_same_work_in_a_longer_step_is_a_regression(tmp_path, batch, layers, layers_after):
    """The batch may be split into more or fewer parts, whose gradients are accumulated."""
    before = layered_run(tmp_path / "a", [32, 512, 96], layers=layers)
    after = layered_run(tmp_path / "b", [batch, 512, 96], layers=layers_after, step_us=1400)
    assert judge(diff.compare(before, after), 0.05).outcome == "regressed"


def test_another_gpu_cannot_be_judged(tmp_path):
    verdict = verdict_of(tmp_path, [1200] * 5, gpu="H100")
    assert verdict.outcome == "cannot tell"
    assert "A100" in verdict.reason


@pytest.mark.parametrize(
    ("worlds", "outcome"),
    [((0, 0), "cannot tell"), ((0, 2), "cannot tell"), ((2, 2), "regressed")],
)
def test_other_numbers_of_ranks_cannot_be_judged(tmp_path, worlds, outcome):
    """One file against two: the jobs match if both sides state the same number of ranks."""
    for name, ranks, world, factor in (("a", 1, worlds[0], 1), ("b", 2, worlds[1], 1.3)):
        path = write_run(tmp_path / name, [factor * length for length in BEFORE]) / "rank-0.json"
        document = json.loads(path.read_text())
        for rank in range(ranks):
            if world:
                document["distributedInfo"] = {"rank": rank, "world_size": world}
            path.with_name(f"rank-{rank}.json").write_text(json.dumps(document))
    runs = diff.compare(small.read(tmp_path / "a"), small.read(tmp_path / "b"))
    verdict = judge(runs, 0.05)
    reason = "the runs differ: 1 rank → 2, of unknown world size"
    assert (verdict.outcome, verdict.reason) == (outcome, reason if outcome != "regressed" else "")


def test_runs_without_steps_have_no_step_time(tmp_path):
    runs = (
        write_run(tmp_path / name, [length * factor for length in BEFORE], step="phase")
        for name, factor in (("a", 1.0), ("b", 1.5))
    )
    both = diff.compare(*map(small.read, runs))
    verdict = judge(both, 0.05)
    assert (verdict.exit_code, verdict.steps, verdict.before) == (3, 0, None)
    assert verdict.text == "Cannot tell: step time; the runs have no steps to compare."
    # Five kernels that take half of a step each.
    assert judge(both, 0.05, "kernel:gemm").before == pytest.approx(2_500_000)


def test_metrics_are_judged_by_themselves(tmp_path):
    """Steps keep their length, but the kernel takes 60 % instead of 50 % of them."""
    verdicts = {}
    for metric in ("step", "idle", "kernel:^ge", "kernel:conv", "mfu"):
        folder = tmp_path / metric.replace(":", "")
        verdicts[metric] = verdict_of(folder, BEFORE, metric=metric, busy=0.6)
    assert verdicts["step"].outcome == "within"
    assert verdicts["idle"].change_share < -0.15
    assert verdicts["kernel:^ge"].outcome == "regressed"
    assert verdicts["kernel:^ge"].before == pytest.approx(500_000)
    assert verdicts["kernel:^ge"].after == pytest.approx(600_000)
    assert "no kernel name in the run before matches 'conv'" in verdicts["kernel:conv"].reason
    assert verdicts["mfu"].outcome == "cannot tell"


def test_a_lower_mfu_is_a_negative_change_and_a_regression(tmp_path, monkeypatch):
    samples = [[0.40, 0.41, 0.39, 0.40, 0.40], [0.20, 0.21, 0.19, 0.20, 0.20]]
    monkeypatch.setattr(
        "hta_widgets.answers.verdict._mfu_samples", lambda *_: np.array(samples.pop(0))
    )
    verdict = verdict_of(tmp_path, BEFORE, metric="mfu")
    assert (verdict.outcome, verdict.change_share) == ("regressed", pytest.approx(-0.5))
    assert "−50" in verdict.text


def test_patterns_are_of_an_engine_that_does_not_backtrack(tmp_path):
    with pytest.raises(TraceError, match=r"'kernel:.*' is not a regular expression"):
        verdict_of(tmp_path, BEFORE, metric=r"kernel:(g)\1")


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("0.1", 0.1), (" 2.5 % ", 0.025)])
def test_limits(text, value):
    assert parse_limit(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "0%", "-1%", "200%", "much"])
def test_what_is_no_limit(text):
    with pytest.raises(TraceError, match="5%"):
        parse_limit(text)


def test_a_command_exits_with_the_verdict(tmp_path, monkeypatch, capsys, reply_errors):
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    slow = write_run(tmp_path / "slow", [length * 1.1 for length in BEFORE], kernel="<b>|x")
    assert cli.main(["baseline", "save", "main", str(write_run(tmp_path / "run", BEFORE))]) == 0
    assert cli.main(["baseline", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "main"
    command = ["diff", "baseline:main", str(slow), "--fail-above", "5%"]
    assert cli.main([*command, "--json"]) == 1
    reply = json.loads(capsys.readouterr().out)
    assert reply_errors(reply) == []
    assert reply["verdict"]["outcome"] == "regressed"
    assert reply["metrics"]["step"]["change_share"] == pytest.approx(0.1)
    assert cli.main([*command, "--markdown", "--svg", "both.svg"]) == 1
    assert ET.parse("both.svg").getroot().tag.endswith("}svg")
    assert not (tmp_path / "diff.html").exists()
    comment = capsys.readouterr().out.replace("\u202f", " ")
    assert comment.startswith("**Regressed: step time 1.00 ms → 1.10 ms (+10 %, limit 5.0 %")
    assert "| step time | 1.00 ms | 1.10 ms | +10 % |" in comment
    assert "step time  before  " + "█" * 29 + "▏ 1.00 ms\n" in comment
    assert " after   " + "█" * 32 + " 1.10 ms\n" in comment
    assert "<b>" not in comment
    assert len(comment) < 2_000
    assert cli.main(["diff", "baseline:main", "baseline:main", "--fail-above", "5%"]) == 0
    assert not (tmp_path / "diff.html").exists()
    assert cli.main([*command, "--metric", "speed"]) == 2
    assert "step, exposed_comm" in capsys.readouterr().err
    assert cli.main(["baseline", "remove", "main"]) == 0
    assert cli.main(command) == 2
    assert "no baseline 'main'" in capsys.readouterr().err
    assert cli.main(["baseline", "save", "../x", "y"]) == 2
    assert cli.main(["baseline", "list", "main"]) == 2
    assert "`baseline list` got the wrong arguments" in capsys.readouterr().err


def test_a_comparison_is_a_table(tmp_path):
    folders = write_run(tmp_path / "a", BEFORE), write_run(tmp_path / "b", [1200] * 5)
    sides = [Job(small.read(folder), (str(folder),)) for folder in folders]
    reply = compare_jobs(*sides)
    found = diff.findings(diff.compare(*(side.traces for side in sides)))
    assert reply.frame["text"].tolist() == [finding.text for finding in found]
    assert reply.more["before"]["paths"] == [str(folders[0])]
    names = {"hw": hw}
    exec(reply.code, names)
    assert [finding.text for finding in names["frame"]] == reply.frame["text"].tolist()
