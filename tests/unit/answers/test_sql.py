"""SQL over a job: the same as in pandas, and nothing but its tables."""

import pytest
from support import small

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.errors import TraceError

duckdb = pytest.importorskip("duckdb", reason="the extra sql is not installed")


def test_questions_have_the_answers_of_pandas(jobs):
    traces = jobs["kineto"].traces
    events, calls = traces.events().reset_index(), analysis.collectives(traces)
    compute = events[events["kind"] == "compute"]
    late = analysis.stragglers(traces).query("is_straggler")["rank"].tolist()
    questions = {
        "select count(*) from events": [len(events)],
        "select sum(dur_ns) from events where kind = 'compute' group by rank order by rank":
            compute.groupby("rank")["dur_ns"].sum().tolist(),
        "select max(start_ns + dur_ns) from events": [traces.end_ns],
        "select count(distinct name) from events": [events["name"].nunique()],
        "select rank from stragglers where is_straggler": late,
        "select count(distinct collective) from collectives": [calls["collective"].nunique()],
        "select count(*) from flows": [sum(len(trace.flows) for trace in traces.values())],
        "select count(*) from events k join flows f on f.rank = k.rank and f.target = k.id":
            [sum(len(trace.flows) for trace in traces.values())],
        "select rank from ranks order by rank": traces.ranks,
        "select count(*) from problems": [len(traces.problems)],
        "with late as (select max(wait_ns) w from exposed_waits) select w from late":
            [analysis.exposed_waits(traces)["wait_ns"].max()],
    }  # fmt: skip
    assert {query: traces.sql(query).iloc[:, 0].tolist() for query in questions} == questions
    sums = traces.sql("select kind, sum(dur_ns) as ns from events group by kind")
    assert str(sums["ns"].dtype) == "int64"


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


def test_a_timeline_selects_what_a_query_finds(tmp_path):
    traces = small.load(tmp_path, [small.kernel(0, 10), small.kernel(20, 90, name="long")])
    timeline = hw.Timeline(traces)
    timeline.select(sql="select rank, id from events where dur_ns > 50")
    assert timeline.selected_events()["name"].tolist() == ["long"]
    with pytest.raises(TraceError, match="sql="):
        timeline.select("dur_ns > 1", sql="select rank, id from events")
