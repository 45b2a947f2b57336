"""Runs from profilers other than PyTorch's, from two profilers, and from inference engines."""

import pytest
from support.nsight_export import MS, write_export
from support.small import call, event, kernel, load, read

from hta_widgets import diff as hd
from hta_widgets.answers.verdict import judge
from hta_widgets.demo.job import write_demo


@pytest.mark.parametrize("late_rank", [1, 2])
def test_a_late_rank_of_nsight_is_named(tmp_path, late_rank):
    """The late rank's collective begins 3 ms later; all ranks end together."""
    paths = [tmp_path / name / "job.sqlite" for name in ("even", "late")]
    for path, late_ns in zip(paths, (0, 3 * MS), strict=True):
        path.parent.mkdir()
        write_export(path, ranks=late_rank + 1, steps=5, late_ns=late_ns)
    findings = hd.findings(hd.compare(*map(read, paths)))
    (late,) = [finding for finding in findings if finding.ranks]
    assert (late.ranks, late.measure, late.diff_ns) == ((late_rank,), "idle", 3 * MS)
    waits = [part.diff_ns for part in late.parts if part.kind == "wait"]
    assert waits == [3 * MS] * late_rank


def test_the_verdict_on_runs_of_two_profilers_is_that_it_cannot_tell(tmp_path):
    nsight, kineto = tmp_path / "nsight", tmp_path / "kineto"
    nsight.mkdir()
    write_export(nsight / "job.sqlite", ranks=2, steps=4)
    write_demo(kineto, ranks=2, steps=4, events_per_step=700)
    runs = hd.compare(read(nsight), read(kineto))
    # Shown after the total, not only in the list of cautions.
    assert "different formats: nsight → kineto" in hd.findings(runs)[1].text
    verdict = judge(runs, 0.05)
    assert verdict.exit_code == 3
    assert "different formats: nsight → kineto" in verdict.text


def serving_job(tmp_path, phases, context):
    """Write vLLM steps, whose names contain request and token numbers; decoding takes 1 ms."""
    records, now = [], 0
    for number, phase in enumerate(phases):
        tokens = context + number
        name = f"execute_context_1({tokens})_generation_0(0)"
        if phase == "d":
            name = f"execute_context_0(0)_generation_{8 + number % 2}({8 + number % 2})"
        length = 1_000_000 if phase == "d" else 4_000_000
        records += [
            event("user_annotation", name, now, now + length, pid=10),
            call(now + 10, now + 20, launch=number + 1),
            kernel(now + 1000, now + length - 1000 + number, launch=number + 1),
        ]
        now += length
    return load(tmp_path, records)


def test_steps_of_an_engine_match_by_phase(tmp_path):
    first = serving_job(tmp_path, "pdddpddd", 500)
    assert hd.findings(hd.compare(first, serving_job(tmp_path, "pdddpddd", 7000))) == []
    more = hd.compare(first, serving_job(tmp_path, "pdpdpdpd", 500))
    texts = [finding.text.replace("\u202f", " ") for finding in hd.findings(more)]
    assert "prefill step: 2 → 4, 2 more outside other operators, +8.00 ms." in texts
    assert "decode step: 6 → 4, 2 fewer outside other operators, −2.00 ms." in texts
