"""SQL on a job: the same results as pandas, and access to its tables only."""

import json
import re
import shutil

import pandas as pd
import pytest
from support import small

import hta_widgets as hw
from hta_widgets import cli
from hta_widgets.errors import TraceError

duckdb = pytest.importorskip("duckdb", reason="the extra sql is not installed")


def test_the_recipes_of_the_pages_have_the_answers_of_pandas(
    repo, demo_folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(demo_folder / "kineto", "runs/job")
    pages = ("sql", "sql-events", "sql-ranks")
    text = "\n".join((repo / f"docs/{page}.md").read_text("utf-8") for page in pages)
    names, rows = {}, []
    for block in re.finditer(r"^```(python|sql)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        if block[1] == "sql":
            rows.append(names["traces"].sql(block[2]))
            continue
        exec(compile(block[2], block[2][:60], "exec"), names)
        if "frame" in names:
            frame = names.pop("frame").reset_index(drop=True)
            pd.testing.assert_frame_equal(rows[-1], frame, check_dtype=False)
    assert all(map(len, rows))
    assert len(rows) == 21
    assert str(rows[0]["ns"].dtype) == "int64"
    assert (names["timeline"].selected_events()["dur_ns"] > 1_000_000).all()


def test_the_command_replies_in_the_envelope(demo_folder, capsys, reply_errors):
    query = "select rank, name as kernel, 7::utinyint as byte, date '2026-01-02' as day from events"
    command = ["sql", str(demo_folder / "kineto"), query, "--limit", "2"]
    assert cli.main([*command, "--json"]) == 0
    reply = json.loads(capsys.readouterr().out)
    assert reply_errors(reply) == []
    assert [column["dtype"] for column in reply["columns"]] == ["int64", "str", "uint64", "str"]
    assert [row[2:] for row in reply["rows"]] == [[7, "2026-01-02"]] * 2
    assert reply["total_rows"] > 1_000
    assert cli.main(["sql", command[1], "select nope from events", "--json"]) == 2
    assert "nope" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_names_that_a_query_chose_have_no_meaning_of_an_analysis(demo_folder, capsys):
    """The names are also columns of `byteps_requests` and `stragglers`."""
    query = "select start_ns, avg(dur_ns), count(dur_ns), 2 as lost_ns, 1 as total_ns from events"
    command = ["sql", str(demo_folder / "kineto"), f"{query} group by all", "--json"]
    assert cli.main(command) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    expression = "the expression of this name in the query"
    assert [(column["unit"], column["meaning"]) for column in columns] == [
        ("ns", "start, counted from the earliest event of the job"),
        ("ns", expression),
        ("", expression),
        ("ns", expression),
        ("ns", expression),
    ]


def test_a_share_that_a_query_named_has_no_unit(demo_folder, capsys):
    """In analyses, `score`, `mfu` and `share` are shares; in a query they may be any number."""
    query = "select 7 as score, 40 as mfu, 12 as share, lost_share, sum(lost_ns) from stragglers"
    assert cli.main(["sql", str(demo_folder / "kineto"), f"{query} group by all", "--json"]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert [column["unit"] for column in columns] == ["", "", "", "share 0..1", "ns"]


def test_values_that_json_lacks_are_null_or_text(demo_folder, capsys, reply_errors):
    query = """
        select sum(dur_ns) as ns, 'x'::blob as bytes, [null, 'nan'::double] as list,
        {'a': 'inf'::double, 'b': date '2026-01-02'} as struct,
        '6d1f5e0c-6d1f-4e0c-8d1f-6d1f5e0c6d1f'::uuid as id from events where false
    """
    assert cli.main(["sql", str(demo_folder / "kineto"), query, "--json"]) == 0
    reply = json.loads(capsys.readouterr().out)
    assert reply_errors(reply) == []
    (row,) = reply["rows"]
    assert (row[0], row[2], row[3]["a"]) == (None, [None, None], None)
    assert "2026-01-02" in row[3]["b"]
    assert row[4].startswith("6d1f5e0c-")
    assert reply["columns"][0]["dtype"] == "int64"


def test_args_are_texts_and_json_as_in_the_file(tmp_path):
    args = {"stream": 7, "text": 'a"b', "dims": [[2, 3], []], "ratio": 0.50}
    events = [small.kernel(0, 10, **args), small.kernel(20, 30, text="\ud800")]
    traces = small.load(tmp_path, events, [small.kernel(5, 6, big=10**30)])
    query = "select key, value from args where rank = {} and key not in ('stream', 'device')"
    assert traces.sql(query.format(0)).values.tolist() == [
        ["text", 'a"b'],
        ["dims", "[[2, 3], []]"],
        ["ratio", "0.5"],
        ["text", "\ufffd"],
    ]
    assert traces.sql(query.format(1)).values.tolist() == [["big", str(10**30)]]
    both = traces.sql(
        "select count(*) from Events join args a using (rank, id) join args using (rank, id, key)"
    )
    assert both.iloc[0, 0] == traces.sql("select count(*) from args").iloc[0, 0]


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "copy events to 'out.csv'",
        "select 1; select 2",
        "install httpfs",
        "select * from nope",
        "select nope from events",
        "select",
        "secret",
    ],
)
def test_nothing_but_tables_of_the_job(jobs, query):
    with pytest.raises(TraceError):
        jobs["kineto"].traces.sql(query)


def test_errors_name_similar_tables_of_the_job_and_no_others(jobs):
    with pytest.raises(TraceError, match="Did you mean stragglers") as e:
        jobs["kineto"].traces.sql("select * from straglers")
    assert "pg_" not in str(e.value)  # DuckDB's own guess
    with pytest.raises(TraceError, match="syntax error") as e:
        jobs["kineto"].traces.sql("selec 1")
    assert "The tables are" not in str(e.value)


def test_a_timeline_selects_what_a_query_finds(tmp_path):
    traces = small.load(tmp_path, [small.kernel(0, 10), small.kernel(20, 90, name="long")])
    timeline = hw.Timeline(traces)
    timeline.select(sql="select rank, id from events where dur_ns > 50")
    assert timeline.selected_events()["name"].tolist() == ["long"]
    with pytest.raises(TraceError, match="sql="):
        timeline.select("dur_ns > 1", sql="select rank, id from events")
