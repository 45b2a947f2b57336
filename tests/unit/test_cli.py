"""The command line: printed output, written files, and one-line error messages."""

import argparse
import io
import json
import os
import re
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest
from support import small
from support.nsight_export import write_export

import hta_widgets as hw
from hta_widgets import cli
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.job import write_demo
from hta_widgets.panels.headline import headline

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "job"
    write_demo(folder, ranks=3, steps=1)
    return folder


@pytest.fixture(scope="module")
def slow_job(tmp_path_factory):
    """A job with enough steps to show that rank 2 is slow."""
    folder = tmp_path_factory.mktemp("cli") / "slow"
    write_demo(folder, ranks=3, steps=5, straggler=2, events_per_step=1200)
    return folder


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12.3ms", 12_300_000),
        ("18 ms", 18_000_000),
        ("250us", 250_000),
        ("0.5µs", 500),
        ("1.5s", 1_500_000_000),
        ("7ns", 7),
        ("-3ms", -3_000_000),
        ("0.1000000001s", 100_000_000),
    ],
)
def test_times(text, expected):
    assert cli.parse_time(text) == expected


@pytest.mark.parametrize("text", ["", "ms", "42", "12 hours", "1e3ms", "1,5ms"])
def test_what_is_no_time(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"12\.3ms"):
        cli.parse_time(text)


def test_ranks():
    assert cli.parse_ranks("0-3,5") == [0, 1, 2, 3, 5]
    assert cli.parse_ranks("7, 2 ,2") == [2, 7]


@pytest.mark.parametrize("text", ["", "3-1", "a", "1-", "-1", "1..3"])
def test_what_are_no_ranks(text):
    with pytest.raises(argparse.ArgumentTypeError, match="0-3,5"):
        cli.parse_ranks(text)


@pytest.mark.parametrize(("job", "code"), [("{job}", 0), ("nowhere", 2)])
@pytest.mark.parametrize(
    "last", ["atexit.register(print, 'last')", "Timer(0.2, print, ['last']).start()"]
)
def test_a_program_ends_after_its_exit_functions_and_threads(slow_job, job, code, last):
    words = ["hta-widgets", "table", job.format(job=slow_job), "ranks", "--csv"]
    script = f"""
import atexit, sys
from threading import Timer
from hta_widgets import cli
sys.argv, main = {words}, cli.main
def main_with_more():
    code = main()
    {last}
    return code
cli.main = main_with_more
cli.run()
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert result.returncode == code
    assert result.stdout.endswith("last\n")
    assert result.stdout.count("\n") == (1 if code else 5)  # titles, three ranks
    assert ("does not exist" in result.stderr) == (code == 2)


def test_summary_shows_headline_ranks_and_stragglers(slow_job, capsys):
    assert cli.main(["summary", str(slow_job)]) == 0
    out = capsys.readouterr().out
    assert "3 ranks" in out
    assert not re.search(r"\d,\d{3}", out)  # the same number format everywhere
    traces = hw.load(slow_job, progress=False)
    assert str(headline(traces)) in " ".join(out.splitlines())
    table = [line.split(" ") for line in out.splitlines() if line.startswith(("rank  ", "   "))]
    cells = [[cell for cell in row if cell] for row in table]
    assert [row[0] for row in cells] == ["rank", "0", "1", "2"]
    events = [f"{len(trace):,}".replace(",", "\u202f") for trace in traces.values()]
    assert [row[1] for row in cells[1:]] == events
    late = hw.analysis.stragglers(traces).set_index("rank").loc[2]
    last = f"{late.score * late.collectives:.0f} of {late.collectives} collectives"
    assert f"rank 2 is a straggler (slower kernels): last at {last} of its groups\n" in out


def test_summary_agrees_with_the_headline_and_adds_up(slow_job, capsys):
    assert cli.main(["summary", str(slow_job)]) == 0
    out = capsys.readouterr().out.replace("\u202f", " ").replace(" ", " ")
    (mean,) = [line for line in out.splitlines() if line.startswith("mean")]
    cost = re.search(r"exposed waiting takes .* span, ([\d.]+ [mµ]s) a rank", out)[1]
    assert cost in mean
    rows = re.findall(r" (\d+)/\d+  ", out)
    frame = hw.analysis.collectives(hw.load(slow_job, progress=False))
    total = f"adds up to {sum(map(int, rows))} of the job's {frame['collective'].nunique()} "
    assert total in out


def test_summary_is_json_where_asked(slow_job, capsys):
    assert cli.main(["summary", str(slow_job), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [rank_entry["rank"] for rank_entry in result["ranks"]] == [0, 1, 2]
    assert result["stragglers"] == [{"rank": 2, "cause": "slower kernels"}]
    traces = hw.load(slow_job, progress=False)
    assert " ".join(result["headline"]) == str(headline(traces))
    assert [rank_entry["compute_ns"] for rank_entry in result["ranks"]] == (
        hw.analysis.temporal_breakdown(traces)["compute_ns"].tolist()
    )
    assert result["ranks"][0]["end_ns"] == traces[0].end_ns


def test_summary_has_the_mfu_where_asked(job, capsys):
    flops = json.loads(Path(f"{job}_truth.json").read_text())["step_flops"]["model_flops"]
    steps = hw.analysis.step_times(hw.load(job, cache=False, progress=False))
    mfu = (flops / steps["dur_ns"] / 312e3).mean()
    assert cli.main(["summary", str(job), "--efficiency", "--json"]) == 0
    efficiency = json.loads(capsys.readouterr().out)["efficiency"]
    assert efficiency["mfu"] == pytest.approx(mfu)
    assert all(row["roofline_share"] < 0.3 for row in efficiency["operators"])
    assert cli.main(["summary", str(job), "--efficiency"]) == 0
    assert f"MFU {mfu:.0%}".replace("%", " %") in capsys.readouterr().out.replace("\u202f", " ")


def test_summary_names_no_straggler_where_files_are_missing(job, capsys):
    assert cli.main(["summary", str(job), "--ranks", "0,1"]) == 0
    out = capsys.readouterr().out
    assert "no straggler is named" in out
    assert "files of 1 rank are missing" in out
    assert " is a straggler" not in out


@pytest.mark.parametrize("format_", ["byteps", "mpi"])
def test_summary_of_other_formats_has_no_device_columns(format_, tmp_path, capsys):
    folder = tmp_path / "job"
    assert cli.main(["demo", str(folder), "--format", format_, "--steps", "2"]) == 0
    capsys.readouterr()
    assert cli.main(["summary", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "exposed communication" not in out
    assert str(headline(hw.load(folder, progress=False))) in " ".join(out.splitlines())


def test_summary_of_profiles_names_a_straggler_without_a_contradiction(tmp_path, capsys):
    slow = ["--format", "mpi", "--factor", "5", "--steps", "20"]
    assert cli.main(["demo", str(tmp_path / "job"), *slow]) == 0
    capsys.readouterr()
    assert cli.main(["summary", str(tmp_path / "job/mpi_profile.*")]) == 0
    out = capsys.readouterr().out
    assert "is a straggler: it spends the least time in MPI" in out
    assert "waits for other ranks are unknown" not in out
    # Profiles have no events, so their own figures are shown instead of zeros.
    titles = next(line for line in out.splitlines() if line.startswith("rank "))
    assert titles.split("  ") == ["rank", " in MPI", "elapsed", "file"]
    assert " 0 events" not in out
    assert "0.000\u202fms" not in out
    assert cli.main(["summary", str(tmp_path / "job/mpi_profile.*"), "--json"]) == 0
    rank = json.loads(capsys.readouterr().out)["ranks"][0]
    assert rank["start_ns"] is None
    assert 0 < rank["comm_s"] < rank["elapsed_s"]


def test_summary_is_on_the_clock_that_views_draw(tmp_path, capsys):
    ranks = [
        [small.nccl(k * 9_000 + off, k * 9_000 + off + 8_000) for k in range(3)]
        for off in (0, 50_000)
    ]
    folder = str(small.write(tmp_path, *ranks))
    assert cli.main(["summary", folder]) == 0
    # The recorded times end at 76 µs.
    assert "0.026\u202fms · complete · on the fitted clock" in capsys.readouterr().out
    assert cli.main(["summary", folder, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["clock"], result["end_ns"] - result["start_ns"]) == ("fitted", 26_000)


def test_summary_groups_problems(tmp_path, capsys):
    record = '{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}'
    for rank in range(3):
        path = tmp_path / f"rank-{rank}.json"
        path.write_text(f'{{"traceEvents": [{record}, {record[:30]}')
    assert cli.main(["summary", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("  truncated: 3 × ")]
    assert line.endswith("(3 files)")
    assert cli.main(["summary", str(tmp_path), "--json"]) == 0
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [(each["file"], each["files"]) for each in problems if each["kind"] == "truncated"] == [
        (None, 3)
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nb\t\x1b[31m\x9b1m\u202e", r"a\u000ab\u0009\u001b[31m\u009b1m\u202e"),
        ("x" * 10_000, "x" * 200 + "… (0d55a4a3)"),
        ("x" * 199, "x" * 199),
        ("", "Work without a name"),
    ],
)
def test_names_in_a_terminal(tmp_path, capsys, name, shown):
    """A kernel takes 600 of 800 µs: names are escaped, shortened, and never empty."""
    small.write(
        tmp_path, [small.kernel(0, 600_000, name=name), small.kernel(600_000, 800_000, name="b")]
    )
    assert cli.main(["summary", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[2] == f"{shown} takes 75\u202f% of GPU work, in 1 call."
    assert cli.main(["summary", "--json", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert set(out) <= {"\n", "\u202f"} | {char for char in out if char.isprintable()}
    text = json.loads(out)["headline"][0]
    assert text.startswith(name[:200] or "Work without a name")


def test_a_rank_of_an_exported_window_is_as_long_as_the_window(tmp_path, capsys):
    """The operator (0 to 9 ms) encloses the window (2 to 6 ms); rank 1 only works until 5 ms."""
    around = small.event("cpu_op", "around", 0, 9_000_000, pid=10)
    folder = tmp_path / "job"
    folder.mkdir()
    small.write(
        folder,
        [around, small.kernel(1_000_000, 8_000_000)],
        [small.kernel(0, 1_000_000), small.kernel(3_000_000, 5_000_000)],
    )
    part = tmp_path / "part.json"
    hw.export_trace(hw.load(folder), part, hw.load(folder).select(start_ns="2ms", end_ns="6ms"))
    traces = hw.load(part)
    assert "4.000\u202fms" in repr(traces)
    assert "4.000\u202fms" in repr(traces[0])
    low = traces.window_ns[0]
    assert traces.summary()[["start_ns", "end_ns"]].to_numpy().tolist() == [
        [low, low + 4_000_000],
        [low + 1_000_000, low + 3_000_000],
    ]
    assert cli.main(["summary", str(part)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[4] for row in rows if row[:1] in (["0"], ["1"])] == ["4.000", "2.000"]


def test_an_error_does_not_change_the_terminal(capsys):
    assert cli.main(["summary", "no\x1b[31m\udc80"]) == 2
    assert r"no\u001b[31m\udc80" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[]", '{"traceEvents": []}'])
def test_summary_of_no_events_fails(tmp_path, capsys, text):
    path = tmp_path / "nothing.json"
    path.write_text(text)
    assert cli.main(["summary", str(path)]) == 2
    assert "nothing.json: holds no trace events." in capsys.readouterr().err


def test_export_writes_the_window(job, tmp_path, capsys):
    out = tmp_path / "window.json.gz"
    arguments = ["export", str(job), "-o", str(out), "--start", "2ms", "--end", "4.5ms"]
    assert cli.main([*arguments, "--ranks", "0,2", "--no-parents"]) == 0
    traces = hw.load(job, ranks=[0, 2], progress=False)
    window = traces.select(start_ns=2_000_000, end_ns=4_500_000)
    back = hw.load(out, progress=False)
    assert back.ranks == [0, 2]
    assert len(back.events()) == len(window.events())
    assert f"{len(window.events()):,} events" in capsys.readouterr().out


def test_export_queries_clips_and_scrubs(job, tmp_path):
    out = tmp_path / "nccl"
    query = "kind == 'communication'"
    arguments = ["export", str(job), "-o", str(out), "--query", query, "--start", "2ms"]
    assert cli.main([*arguments, "--end", "40ms", "--clip", "--scrub", "--no-parents"]) == 0
    back = hw.load(out, progress=False)
    assert back.ranks == [0, 1, 2]
    assert set(back.events()["kind"]) == {"communication"}
    assert all("host_name" not in trace.metadata for trace in back.values())


def test_demo_is_the_functions_demo(job, tmp_path, capsys):
    folder = tmp_path / "job"
    assert cli.main(["demo", str(folder), "--ranks", "3", "--steps", "1", "--seed", "0"]) == 0
    for path in job.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()
    out = capsys.readouterr().out
    assert "rank 2 is slow" in out
    assert str(tmp_path / "job_truth.json") in out


def test_demo_changes_what_is_asked_for(tmp_path, capsys):
    folder = tmp_path / "job"
    arguments = ["demo", str(folder), "--ranks", "2", "--steps", "1"]
    assert cli.main([*arguments, "--changes", "slow_operator, extra_copy"]) == 0
    out = capsys.readouterr().out
    assert "slow_operator: aten::gelu is slower" in out
    assert "extra_copy: aten::contiguous is added" in out
    assert cli.main([*arguments, "--changes", "faster"]) != 0
    assert "changes= takes a list of 'slow_operator'" in capsys.readouterr().err
    assert cli.main([*arguments, "--changes", "extra_copy", "--format", "mpi"]) != 0


def test_demo_does_not_mix_with_an_earlier_job(tmp_path, capsys):
    command = ["demo", str(tmp_path / "job"), "--kind", "moe"]
    assert cli.main(command) == 0
    assert cli.main(command) == 0  # the same files
    (tmp_path / "job/rank-7.trace.json.gz").touch()
    assert cli.main(command) == 2
    assert "(1), such as rank-7.trace.json.gz, and would be loaded" in capsys.readouterr().err


def test_demo_writes_byteps_jobs_too(tmp_path, capsys):
    folder = tmp_path / "byteps"
    assert cli.main(["demo", str(folder), "--format", "byteps", "--steps", "1", "--seed", "3"]) == 0
    text = capsys.readouterr().out
    assert "worker 1 is slow" in text
    write_byteps_job(tmp_path / "same", steps=1, seed=3)
    for file in ("worker1/traces/0/comm.json", "server1/server_profile.json"):
        assert (folder / file).read_bytes() == (tmp_path / "same" / file).read_bytes()
    assert cli.main(["summary", str(folder)]) == 0
    assert "6 ranks" in capsys.readouterr().out


def test_demo_takes_its_other_options(tmp_path, capsys):
    folder = tmp_path / "job"
    arguments = ["demo", str(folder), "--ranks", "4", "--steps", "1", "--healthy", "--plain"]
    assert cli.main([*arguments, "--missing", "1-2", "--uneven", "1ms"]) == 0
    assert sorted(p.name for p in folder.iterdir()) == ["rank-0.trace.json", "rank-3.trace.json"]
    truth = json.loads((tmp_path / "job_truth.json").read_text())
    assert (truth["straggler"], truth["missing"]) == (None, [1, 2])
    assert 0 < max(truth["record_from_ns"]) <= 1_000_000
    assert "no rank is slow" in capsys.readouterr().out


def test_report_writes_a_page(job, tmp_path, capsys, repo, monkeypatch):
    if not (repo / "hta_widgets/static/timeline.js").exists():
        pytest.skip("the front end is not built: `make build` builds it")
    out = tmp_path / "report.html"
    assert cli.main(["report", str(job), "-o", str(out), "--ranks", "0"]) == 0
    message = capsys.readouterr().out
    assert str(headline(hw.load(job, ranks=[0], progress=False))) in message
    assert message.splitlines()[-1].startswith(f"{out.as_uri()} (")
    text = out.read_text("utf-8")
    assert text.lstrip().lower().startswith("<!doctype html>")
    assert 'id="hta-dashboard.js"' in text
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or False)
    again = ["report", str(job), "-o", str(out), "--timeline-only"]
    assert cli.main([*again, "--open"]) == 0
    assert opened == [out.as_uri()]
    assert "no browser was found" in capsys.readouterr().out
    assert 'id="hta-dashboard.js"' not in out.read_text("utf-8")
    assert cli.main(["report", str(job), "-o", str(out), "--max-mb", "0"]) == 2
    assert "max_mb" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["summary", "no/such/file.json"],
        ["export", "{job}", "-o", "no/such/folder/out.json"],
        ["export", "{job}", "-o", "{tmp}/out.json", "--query", "nonsense =="],
        ["export", "{job}", "-o", "{tmp}/out.json", "--start", "900s"],
        ["export", "{job}", "-o", "{tmp}/out.json", "--ranks", "77"],
        ["export", "{job}", "-o", "{tmp}/out.json", "--start", "3ms", "--end", "2ms"],
        ["demo", "{tmp}/job", "--ranks", "0"],
        ["demo", "/proc/no/place"],
    ],
    ids=lambda arguments: " ".join(arguments[0:1] + arguments[2:]),
)
def test_what_goes_wrong_is_one_line(job, tmp_path, capsys, arguments):
    filled = [text.format(job=job, tmp=tmp_path) for text in arguments]
    assert cli.main(filled) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("hta-widgets: ")
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    "arguments", [[], ["export", "x"], ["export", "x", "-o", "y", "--start", "soon"], ["dance"]]
)
def test_wrong_usage_exits_with_2(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "usage: hta-widgets" in capsys.readouterr().err


def test_an_unknown_argument_shows_the_commands_usage(capsys):
    with pytest.raises(SystemExit):
        cli.main(["diff", "before", "after", "--nope"])
    assert capsys.readouterr().err.startswith("usage: hta-widgets diff ")


@pytest.mark.parametrize("command", [[], ["summary"], ["export"], ["report"], ["demo"]])
def test_help_says_what_to_type(capsys, command):
    with pytest.raises(SystemExit) as stop:
        cli.main([*command, "--help"])
    assert stop.value.code == 0
    assert "usage: hta-widgets" in capsys.readouterr().out


def test_it_runs_as_a_program_and_into_a_closed_pipe(job):
    program = [sys.executable, "-m", "hta_widgets"]
    version = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.split() == ["hta-widgets", hw.__version__]
    shell = f"{' '.join(program)} summary {job} | true"
    closed = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
    assert closed.stderr == ""


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_characters_that_the_output_lacks_are_spelled_out(job, monkeypatch, encoding):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
    assert cli.main(["summary", str(job)]) == 0
    printed = sys.stdout.buffer.getvalue().decode(encoding)
    assert re.search(r"takes \d+ % of", printed)  # thin spaces are replaced by ordinary ones
    assert "?" not in printed


def test_python_m_imports_nothing_from_the_working_directory(tmp_path):
    for name in ("pandas", "numpy", "json", "pathlib", "ast", "typing", "re"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted')")
    program = [sys.executable, "-m", "hta_widgets", "summary", "none.json"]
    env = {**os.environ, "PYTHONPATH": str(Path(hw.__file__).parents[1])}
    done = subprocess.run(program, capture_output=True, cwd=tmp_path, env=env, check=False)
    assert b"none.json: does not exist" in done.stderr


def test_the_user_names_the_ranges_that_are_steps(tmp_path, capsys):
    export = write_export(tmp_path / "a.sqlite", ranks=1, range_name="epoch 1 part={}")
    assert cli.main(["summary", str(export), "--steps", "part=", "--json"]) == 0
    assert "that match 'part='" in capsys.readouterr().out
    assert cli.main(["table", str(export), "step_times", "--steps", "part=", "--json"]) == 0
    assert "that match 'part='" in capsys.readouterr().out
    assert cli.main(["summary", str(export), "--json"]) == 0
    assert hw.options.steps is None
    assert "that match" not in capsys.readouterr().out
