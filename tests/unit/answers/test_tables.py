"""Tables for programs: the envelope, its columns, scopes, formats and errors."""

import io
import json
import re

import pandas as pd
import pytest
from support import small
from support.flight_dumps import write_hang
from support.memory_snapshots import write_snapshot

import hta_widgets as hw
from hta_widgets import analysis, cli
from hta_widgets.answers.columns import column_meanings, describe_columns, unit_of
from hta_widgets.answers.job import Job
from hta_widgets.answers.reply import TableReply
from hta_widgets.answers.summary import summarize_job
from hta_widgets.answers.tables import (
    describe_event,
    list_tables,
    required_options,
    run_table,
    table_functions,
)
from hta_widgets.errors import TraceError

pytestmark = pytest.mark.slow

OPTIONS = {"rank": 0, "operator_name": "aten::linear"}


def rows_of(envelope):
    names = [column["name"] for column in envelope["columns"]]
    return [dict(zip(names, row, strict=True)) for row in envelope["rows"]]


@pytest.mark.parametrize("format_", ["kineto", "byteps", "mpi"])
def test_every_reply_fits_the_schema_and_explains_its_columns(jobs, format_, reply_errors):
    """Add a line to `facts/columns.json` for columns without an explanation in the docstring."""
    job = jobs[format_]
    unexplained, wrong = set(), []
    for name, function in table_functions(job.traces).items():
        options = {option: OPTIONS[option] for option in required_options(function)}
        reply = run_table(job, name, limit=3, options=options)
        unexplained |= {(name, c["name"]) for c in reply.columns if not c["meaning"]}
        wrong += [(name, error) for error in reply_errors(reply.envelope())]
    for reply in (
        *(run_table(job, name, limit=3) for name in ("events", "ranks", "problems")),
        *(list_tables(job), summarize_job(job), describe_event(job, job.traces.ranks[0], 5)),
    ):
        wrong += [(reply.table, error) for error in reply_errors(reply.envelope())]
    assert unexplained == set()
    assert wrong == []


def test_meanings_come_from_the_docstring():
    meanings = column_meanings("comm_comp_overlap", ("rank", "exposed_ns", "overlap_share"))
    assert meanings == {
        "rank": "rank in the job",
        "exposed_ns": "communicating and not computing",
        "overlap_share": "0..1, NaN without communication",
    }
    # Text in parentheses explains only the last of several names.
    names = "job server key iteration node start_ns lag_ns last imposed_wait_ns"
    arrivals = column_meanings("byteps_arrivals", tuple(names.split()))
    assert arrivals["iteration"] == "iteration, counted from 0 in the file"
    assert arrivals["lag_ns"] == "after the first arrival"
    names = "count communication_ns overlapped_ns exposed_ns overlap_share sum_ns max_ns"
    same = column_meanings("communication_by_group", tuple(names.split()))
    assert same["exposed_ns"] == "the rest"


def test_columns_of_counters_and_statistics_are_explained():
    counters = describe_columns(pd.DataFrame({"rank": [0], "any__name": [1.5]}), "cupti_counters")
    assert counters[1]["meaning"] == "the counter of this name, as in the file"
    rates = pd.DataFrame({"rank": [0], "50%": [1.5], "count": [2]})
    units = [column["unit"] for column in describe_columns(rates, "memory_bandwidth_summary")]
    assert units == ["", "GB/s", ""]


@pytest.mark.parametrize(
    ("name", "unit"),
    [("dur_ns", "ns"), ("late_ns_mean", "ns"), ("size_bytes", "bytes"), ("busbw_gb_s", "GB/s"),
     ("idle_pct", "%"), ("lost_share", "share 0..1"), ("count", ""), ("steps", ""),
     ("share_of_time", "share 0..1"), ("hfu", "share 0..1"), ("size_hi", "bytes")],
)  # fmt: skip
def test_units_follow_from_names(name, unit):
    assert unit_of(name) == unit


def test_tables_lists_what_has_rows(jobs):
    listed = {row["table"]: row for row in rows_of(list_tables(jobs["kineto"]).envelope())}
    assert {"events", "ranks", "stragglers", "critical_path", "operators"} <= {*listed}
    assert not {"byteps_gradients", "cupti_counters", "horovod_readiness", "diff_ops"} & {*listed}
    assert listed["critical_path"]["needs"] == "rank"
    assert listed["stragglers"]["question"] == analysis.stragglers.__doc__.split("\n")[0]
    byteps = {row["table"] for row in rows_of(list_tables(jobs["byteps"]).envelope())}
    assert "byteps_gradients" in byteps
    assert not {"mpi_ranks", "step_times", "operators"} & byteps


def reasons_of(reply):
    """Return the reasons for missing data by table."""
    groups = reply.more["without_data"]
    return {name: group["reason"] for group in groups for name in group["tables"]}


def test_tables_says_why_others_have_no_data(tmp_path):
    # A rank's row of unknown values does not count as data.
    job = Job(small.load(tmp_path, [small.kernel(0, 10), small.copy(20, 30)]), ("x",))
    reply = list_tables(job)
    reasons = reasons_of(reply)
    assert reasons["comm_comp_overlap"] == "no communication kernels matched"
    assert reasons["memory_bandwidth_summary"] == "no mean is known"
    assert reasons["rank_clusters"] == "a single rank cannot be compared: load several ranks"
    assert "record_shapes=True" in reasons["step_efficiency"]
    assert reasons["problems"].startswith("nothing was")
    listed = {*reply.frame["table"]}
    assert {"events", "kernel_breakdown", "job_critical_path", "device_idle_gaps"} <= listed
    assert not listed & {*reasons}
    assert {*table_functions(job.traces)} <= listed | {*reasons}


def test_tables_of_dumps_are_few(tmp_path, capsys):
    assert cli.main(["tables", str(write_hang(tmp_path / "hang"))]) == 0
    table, _, reasons = capsys.readouterr().out.partition("\nNo data for:\n")
    names = [line.split()[0] for line in table.splitlines()]
    assert names == ["table", "events", "ranks", "collective_hangs", "collective_states"]
    assert "- critical_path, job_critical_path, rank_clusters: dumps contain no host" in reasons
    snapshot = Job.open([str(write_snapshot(tmp_path / "snapshot.pickle"))])
    assert {"step_efficiency", "critical_path"} <= {*reasons_of(list_tables(snapshot))}


def test_tables_leaves_out_what_fails(tmp_path, monkeypatch):
    def fails(traces):
        """Return nothing."""
        raise TraceError("needs something else")

    monkeypatch.setattr(analysis, "kernel_breakdown", fails)
    job = Job(small.load(tmp_path, [small.kernel(0, 10)]), ("https://me:secret@host/x.json?k=1",))
    reply = list_tables(job)
    listed = reply.frame["table"].tolist()
    assert "temporal_breakdown" in listed
    assert not {"kernel_breakdown", "step_times"} & {*listed}
    assert reasons_of(reply)["kernel_breakdown"] == "needs something else"
    assert "secret" not in reply.format("json")


def test_names_are_sorted_as_texts_and_the_code_does_the_same(jobs):
    reply = run_table(jobs["kineto"], "launch_stats", sort="kernel", descending=True, limit=30)
    names = analysis.launch_stats(jobs["kineto"].traces)["kernel"].astype(str)
    assert reply.frame["kernel"].tolist() == sorted(names, reverse=True)[:30]
    found = {"hw": hw}
    exec(reply.code, found)
    assert found["frame"]["kernel_id"].tolist() == reply.frame["kernel_id"].tolist()


def test_the_scope_reaches_the_analysis_and_the_code_repeats_it(jobs):
    job = jobs["kineto"]
    scope = {"window": ("2ms", "30ms"), "ranks": [0, 2], "query": "stream == 7"}
    reply = run_table(
        job, "kernel_breakdown", **scope, sort="count", descending=True, limit=4,
        options={"include_memory": False},
    )  # fmt: skip
    selection = job.traces.select("stream == 7")
    full = analysis.kernel_breakdown(
        job.traces, window=scope["window"], ranks=[0, 2], selection=selection, include_memory=False
    )
    expected = full.sort_values("count", ascending=False, kind="stable").head(4)
    assert reply.total_rows == len(full) > 4
    pd.testing.assert_frame_equal(reply.frame, expected.reset_index(drop=True), check_like=True)
    names = {"hw": hw}
    exec(reply.code, names)
    pd.testing.assert_frame_equal(names["frame"].reset_index(drop=True), reply.frame)


def test_the_code_repeats_the_ranks_and_steps_that_were_loaded(demo_folder, capsys):
    job = str(demo_folder / "kineto")
    for command in (
        ["summary", job, "--ranks", "1,3"],
        ["diff", job, job, "--ranks", "0-1", "--after-ranks", "2-3"],
        ["table", job, "step_times", "--steps", "step.*", "--ranks", "1"],
    ):
        assert cli.main([*command, "--json"]) == 0
        envelope = json.loads(capsys.readouterr().out)
        names = {"hw": hw}
        exec(envelope["code"], names)
        assert len(names["frame"]) == envelope["total_rows"] > 0
    assert envelope["code"].startswith("hw.options.steps = 'step.*'; traces = hw.load(")
    hw.options.steps = None


def test_events_are_a_table(jobs):
    job = jobs["kineto"]
    reply = run_table(job, "events", query="kind == 'communication'", ranks=[1], limit=2)
    events = job.traces.select("kind == 'communication'", ranks=[1]).events()
    assert reply.total_rows == len(events)
    assert [(row["rank"], row["id"]) for row in rows_of(reply.envelope())] == [
        (1, id_) for id_ in events.index[:2]
    ]
    names = {"hw": hw}
    exec(reply.code, names)
    assert names["frame"]["id"].tolist() == reply.frame["id"].tolist()


def test_an_event_has_its_callers_and_launches(tmp_path):
    job = Job(
        small.load(
            tmp_path,
            [
                small.event("cpu_op", "aten::mm", 1_000, 9_000, pid=10, note="x" * 9_000),
                small.call(2_000, 3_000, launch=5),
                small.kernel(20_000, 24_000, launch=5),
            ],
        ),
        (str(tmp_path),),
    )
    events = job.traces.events().reset_index().set_index("name")["id"]
    kernel = describe_event(job, 0, int(events["gemm"])).envelope()
    assert [op["name"] for op in kernel["launched_by"]["operators"]] == ["aten::mm"]
    assert rows_of(kernel)[0]["dur_ns"] == 4_000
    operator = describe_event(job, 0, int(events["aten::mm"])).envelope()
    assert operator["kernels"]["count"] == 1
    assert operator["args"]["note"].endswith("… (9,000 characters)")


def test_ranks_without_a_device_are_clustered(tmp_path):
    step = small.event("user_annotation", "ProfilerStep#0", 0, 90_000, pid=10)
    job = Job(small.load(tmp_path, [step], [step]), (str(tmp_path),))
    assert "rank_clusters" in set(list_tables(job).frame["table"])
    assert len(run_table(job, "rank_clusters").frame) == 2


def test_an_event_states_how_many_callers_are_left_out(tmp_path):
    calls = [
        small.event("python_function", f"f{depth}", depth * 1_000, 100_000 - depth * 1_000)
        for depth in range(24)
    ]
    job = Job(small.load(tmp_path, calls), (str(tmp_path),))
    ids = job.traces.events().reset_index().set_index("name")["id"]
    reply = describe_event(job, 0, int(ids["f23"])).envelope()
    assert reply["note"] == "the first 20 of 23 parents are shown"
    assert [parent["name"] for parent in reply["parents"]] == [f"f{n}" for n in range(22, 2, -1)]
    assert describe_event(job, 0, int(ids["f20"])).note == ""


@pytest.fixture
def opened(jobs, monkeypatch):
    """Let commands find the loaded Kineto job."""
    monkeypatch.setattr(Job, "open", lambda *_: jobs["kineto"])
    return jobs["kineto"]


def test_forms(opened, capsys):
    command = ["table", "job", "temporal_breakdown", "--limit", "2"]
    expected = analysis.temporal_breakdown(opened.traces).head(2)
    assert cli.main([*command, "--csv"]) == 0
    out, err = capsys.readouterr()
    assert pd.read_csv(io.StringIO(out))["busy_ns"].tolist() == expected["busy_ns"].tolist()
    assert err == "2 of 4 rows\n"
    assert cli.main([*command, "--json"]) == 0
    envelope = json.loads(capsys.readouterr().out)
    assert [row["busy_ns"] for row in rows_of(envelope)] == expected["busy_ns"].tolist()
    assert cli.main([*command, "--markdown", "--ranks", "1,3", "--window", "0ms-9ms"]) == 0
    head, rule, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("| rank | idle_ns |")
    assert rule.count("---:") == len(expected.columns)
    assert [row.split(" | ")[0] for row in rows] == ["| 1", "| 3"]
    assert cli.main(command) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 of 4 rows"
    assert cli.main(["table", "job", "events", "--query", "dur_ns < 0"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no rows"


WIDE = pd.DataFrame(
    {"rank": [0, 1], "name": ["gemm " * 12, "copy"], "sum_ns": [123_456_789_012, 5]}
    | {f"column_{number}": [number, number] for number in range(9)}
)


@pytest.mark.parametrize("width", [50, 80, 120])
def test_wide_tables_fit_and_state_what_is_left_out(width):
    reply = TableReply(WIDE, "sql", {}, 7)
    lines = reply.format("text", width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[-1] == "2 of 7 rows"
    shown = lines[0].split()
    words = re.split(r"[\s,]+", " ".join(lines[4:-1]).partition("Left out: ")[2])
    assert shown + list(filter(None, words)) == list(WIDE)
    assert lines[1].split()[-1] == ("123456789012" if shown[-1] == "sum_ns" else shown[-1][-1])
    assert "…" in lines[1]


def test_a_wide_row_is_a_list_of_all_its_values():
    lines = TableReply(WIDE.head(1), "sql", {}, 1).format("text", 60).splitlines()
    assert [line.split()[0] for line in lines] == list(WIDE)
    assert lines[2].split() == ["sum_ns", "123456789012"]


def test_columns_are_chosen(opened, capsys):
    command = ["table", "job", "kernel_breakdown", "--sort", "count", "--columns"]
    assert cli.main([*command, "name, sum_ns,name", "--csv"]) == 0
    frame = analysis.kernel_breakdown(opened.traces).sort_values("count", kind="stable")
    assert pd.read_csv(io.StringIO(capsys.readouterr().out)).equals(
        frame[["name", "sum_ns"]].head(50).reset_index(drop=True)
    )
    assert cli.main([*command, " , "]) == 0
    capsys.readouterr()
    assert cli.main([*command, " , ", "--csv"]) == 0  # no columns named, so all are shown
    assert capsys.readouterr().out.splitlines()[0] == ",".join(frame)
    for name in ("kernel_breakdown", "events"):
        reply = run_table(opened, name, columns=["name", "rank"], limit=3)
        names = {"hw": hw}
        exec(reply.code, names)
        pd.testing.assert_frame_equal(names["frame"].reset_index(drop=True), reply.frame)
    assert cli.main([*command, "name,nope"]) == 2
    assert "no column 'nope'. The columns are rank, kind, name" in capsys.readouterr().err


def test_names_from_traces_are_no_markup(tmp_path):
    name = "a|b <img src=x> [l](http://e) \x1b[31m `c` *d*"
    job = Job(small.load(tmp_path, [small.kernel(0, 10, name=name)]), ("x",))
    reply = run_table(job, "kernel_breakdown")
    row = reply.format("markdown").splitlines()[2]
    assert row.replace("\\|", "").count("|") == len(reply.frame.columns) + 1
    assert r"a\|b &lt;img src=x&gt; \[l\](http://e) \\u001b\[31m \`c\` \*d\*" in row
    assert "\x1b" not in reply.format("json")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table", "{job}", "nope"], "no table 'nope'"),
        (["table", "{job}", "critical_path"], "critical_path needs rank"),
        (["table", "{job}", "stragglers", "--sort", "nope"], "no column 'nope' to sort by"),
        (["table", "{job}", "stragglers", "--option", "nope=1"], "stragglers takes no nope"),
        (["table", "{job}", "stragglers", "--limit", "-1"], "--limit must be 0 or more"),
        (["table", "{job}", "memory_events", "--query", "step == 1"], "memory_events takes no"),
        (["table", "{job}", "operators", "--query", "nope =="], "the query 'nope ==' does not"),
        (["table", "{job}", "operators", "--ranks", "9"], "no rank 9"),
        (["event", "{job}", "0", "99999999"], "rank 0 has events 0 to"),
        (["table", "{job}", "operators", "--window", "soon"], "soon"),
        (["table"], "the following arguments are required"),
        (["diff", "{job}", "{job}", "--fail-above", "5%", "--metric", "no"], "unknown metric 'no'"),
    ],
)
def test_errors_are_json_where_asked(opened, capsys, arguments, message):
    words = [word.format(job="job") for word in arguments]
    try:
        code = cli.main([*words, "--json"])
    except SystemExit as stop:
        code = stop.code
    reply = json.loads(capsys.readouterr().out)
    assert (code, reply["schema"], reply["version"]) == (2, "hta-widgets/error", 1)
    assert message in reply["error"]["message"]
    if len(words) > 1 and "--window" not in words:
        assert cli.main(words) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["tables", "summary", "table", "event", "diff"])
def test_a_missing_job_is_json_too_with_an_abbreviated_option(command, capsys):
    more = {"table": ["operators"], "event": ["0", "1"], "diff": ["no/such/run"]}.get(command, [])
    assert cli.main([command, "no/such/job", *more, "--js"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["path"] == "no/such/job"


def test_a_misspelt_table_is_met_with_similar_ones(opened, capsys):
    assert cli.main(["table", "job", "kernel_brekdown"]) == 2
    assert "Did you mean kernel_breakdown" in capsys.readouterr().err


def test_a_window_outside_of_the_job_is_named(jobs):
    note = run_table(jobs["kineto"], "kernel_breakdown", window=("100s", "200s")).note
    assert "the window is outside the job, whose events are from " in note
    assert "outside" not in run_table(jobs["kineto"], "cupti_counters", window=(0, 10**6)).note


def test_outputs_without_unicode_keep_signs_and_names(tmp_path, capsys, monkeypatch):
    small.write(tmp_path, [small.kernel(0, 10, name="é − 5\u202fµs → x")])
    folder = tmp_path.rename(tmp_path.with_name("caf\udce9"))  # not valid UTF-8
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", output)
    assert cli.main(["table", str(folder), "kernel_breakdown"]) == 0
    assert cli.main(["summary", str(folder)]) == 0
    text = output.buffer.getvalue().decode()
    assert "? - 5 us -> x" in text
    assert "rank-0.json" in text


def test_unknown_numbers_are_null(tmp_path):
    job = Job(small.load(tmp_path, [small.kernel(0, 10)]), ("x",))
    (row,) = rows_of(run_table(job, "comm_comp_overlap").envelope())
    assert (row["overlap_share"], row["compute_ns"]) == (None, 10)
