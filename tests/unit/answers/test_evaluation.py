"""A script asks the tools 40 questions about demo jobs; truth files hold the answers.

Each question takes one call with a reply of at most `MAX_REPLY` bytes. The script reads the answer
from the columns, as a model would, and compares it with the changes made to the job.
"""

import json

import pytest

from hta_widgets.answers.agents import AgentTools
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.training_step import CHANGES

MAX_REPLY = 4_500


@pytest.fixture(scope="session")
def truth(demo_folder, truths):
    """The truths of all jobs, including a healthy job and one with four changes."""
    shape = {"ranks": 2, "steps": 5, "straggler": None, "events_per_step": 700}
    write_demo(demo_folder / "healthy", seed=3, **shape)
    changed = write_demo(demo_folder / "changed", seed=4, changes=CHANGES, **shape)
    return {**truths, "changed": changed}


@pytest.fixture(scope="session")
def tools(demo_folder, truth):
    return AgentTools([demo_folder])


def rows(reply):
    names = [column["name"] for column in reply["columns"]]
    return [dict(zip(names, row, strict=True)) for row in reply["rows"]]


def column(reply, name):
    return [row[name] for row in rows(reply)]


def table(job, name, columns, **scope):
    return "run_analysis", {"job": job, "name": name, "columns": columns.split(), **scope}


def close(values, expected, tolerance):
    return all(abs(a - b) <= tolerance for a, b in zip(values, expected, strict=True))


def in_ns(times_us):
    return [round(time * 1000) for time in times_us]


def groups_of(reply, key="group"):
    groups = {}
    for row in rows(reply):
        groups.setdefault(row[key], set()).add(row["rank"])
    return groups


OPEN = {job: ("open_job", {"job": job}) for job in ("kineto", "byteps", "mpi", "healthy")}
LATE = table("kineto", "stragglers", "rank score collectives imposed_wait_ns wait_ns")
GROUPS = table("kineto", "parallel_groups", "group rank description")
FLOPS = table("kineto", "step_efficiency", "rank step forward_flops model_flops", limit=4)
NODES = table(
    "byteps", "byteps_worker_lag", "node mean_lag_ns iterations imposed_wait_ns straggler"
)
SERVERS = table("byteps", "byteps_servers", "server requests iterations")
STAGES = table(
    "byteps", "byteps_stages", "worker local_rank stage count sum_ns root", ranks=[0, 1], limit=30
)
CALLS = table("kineto", "collectives", "collective group last_rank", query="step == 0", limit=60)


def reduce_stage(reply, name):
    return next(
        row[name] for row in rows(reply) if row["stage"] == "REDUCE" and row["local_rank"] == 0
    )


def first_of_group(truth, group):
    calls = [call for call in truth["kineto"]["collective_list"] if call["group"] == group]
    return next(call["last_rank"] for call in calls if call["step"] == 0)


#: Question, call, and a function that checks the reply.
QUESTIONS = [
    ("Which rank keeps the others waiting?", OPEN["kineto"],
     lambda r, t: [late["rank"] for late in r["stragglers"]] == [t["kineto"]["straggler"]]),
    ("Why?", OPEN["kineto"], lambda r, _: r["stragglers"][0]["cause"] == "slower kernels"),
    ("Does the headline name it?", OPEN["kineto"],
     lambda r, t: f"wait for rank {t['kineto']['straggler']}" in r["headline"][0]),
    ("How many ranks?", OPEN["kineto"], lambda r, t: r["job"]["ranks"] == t["kineto"]["ranks"]),
    ("How many events?", OPEN["kineto"],
     lambda r, t: r["job"]["events"] == sum(t["kineto"]["events"])),
    ("How many collectives?", OPEN["kineto"],
     lambda r, t: r["collectives"] == t["kineto"]["collectives"]),
    ("Was anything wrong with the files?", OPEN["kineto"], lambda r, _: r["problems"] == []),
    ("Whose clock was off?", OPEN["kineto"], lambda r, _: r["job"]["clock"] == "fitted"),
    ("At how many collectives does each rank come last?", LATE,
     lambda r, t: [round(row["score"] * row["collectives"]) for row in rows(r)]
     == t["kineto"]["last_arrivals"]),
    ("How long do the others wait for each rank?", LATE,
     lambda r, t: column(r, "imposed_wait_ns") == in_ns(t["kineto"]["imposed_wait_us"])),
    ("How long does each rank wait?", LATE,
     lambda r, t: column(r, "wait_ns") == in_ns(t["kineto"]["wait_us_total"])),
    ("By how much is each clock off?", table("kineto", "clock_offsets", "rank offset_ns"),
     lambda r, t: column(r, "offset_ns") == in_ns(t["kineto"]["skew_us"])),
    ("Which process groups are there?", GROUPS,
     lambda r, t: groups_of(r)
     == {name: set(group["ranks"]) for name, group in t["kineto"]["groups"].items()}),
    ("What are the groups for?", GROUPS,
     lambda r, t: {row["group"]: row["description"] for row in rows(r)}
     == {name: group["description"] for name, group in t["kineto"]["groups"].items()}),
    ("How many FLOPs has a step?", FLOPS,
     lambda r, t: set(column(r, "model_flops")) == {t["kineto"]["step_flops"]["model_flops"]}),
    ("How many has a forward pass?", FLOPS,
     lambda r, t: set(column(r, "forward_flops")) == {t["kineto"]["step_flops"]["forward_flops"]}),
    ("How many steps?", table("kineto", "step_times", "rank step"),
     lambda r, t: len(set(column(r, "step"))) == t["kineto"]["steps"]),
    ("Who is late in step 3?",
     table("kineto", "stragglers_by_step", "rank step lost_ns", sort="lost_ns", descending=True),
     lambda r, t: next(row["rank"] for row in rows(r) if row["step"] == 3)
     == t["kineto"]["straggler"]),
    ("Which rank computes longest?",
     table("kineto", "temporal_breakdown", "rank compute_ns", sort="compute_ns", descending=True),
     lambda r, t: column(r, "rank")[0] == t["kineto"]["straggler"]),
    ("Which rank waits least?", table("kineto", "exposed_waits", "rank wait_ns", sort="wait_ns"),
     lambda r, t: column(r, "rank")[0] == t["kineto"]["straggler"]),
    ("How many collectives has step 0?", CALLS,
     lambda r, t: len(set(column(r, "collective")))
     == sum(call["step"] == 0 for call in t["kineto"]["collective_list"])),
    ("Who came last at the first collective of group 1?", CALLS,
     lambda r, t: next(row["last_rank"] for row in rows(r) if row["group"] == "1")
     == first_of_group(t, "1")),
    ("And of the whole job?", CALLS,
     lambda r, t: next(row["last_rank"] for row in rows(r) if row["group"] == "0")
     == first_of_group(t, "0")),
    ("Which BytePS worker do the others wait for?",
     table("byteps", "byteps_pull_blame", "worker blame straggler"),
     lambda r, t: [row["worker"] for row in rows(r) if row["straggler"]]
     == [t["byteps"]["slow_worker"]]),
    ("Does the headline name the worker?", OPEN["byteps"],
     lambda r, t: f"Worker {t['byteps']['slow_worker']} is last" in r["headline"][0]),
    ("Which node pushes late?", NODES,
     lambda r, t: [row["node"] for row in rows(r) if row["straggler"]]
     == [t["byteps"]["nodes"][t["byteps"]["slow_worker"]]]),
    ("By how much altogether?", NODES,
     lambda r, t: {str(row["node"]): row["mean_lag_ns"] * row["iterations"] / 1000
                   for row in rows(r)} == pytest.approx(t["byteps"]["lag_us"])),
    ("How long do the others' pulls wait for it?", NODES,
     lambda r, t: max(column(r, "imposed_wait_ns")) / 1000
     == sum(t["byteps"]["pull_waits_us"].values())),
    ("How many requests has each server?", SERVERS,
     lambda r, t: column(r, "requests") == t["byteps"]["requests"]),
    ("How many iterations did they serve?", SERVERS,
     lambda r, t: sum(column(r, "iterations")) == t["byteps"]["iterations"]),
    ("By how much do workers' and servers' clocks differ?",
     table("byteps", "byteps_clock", "worker server offset_ns error_ns"),
     lambda r, t: all(
         abs(row["offset_ns"] / 1000 - t["byteps"]["clock_us"]["server"][row["server"]]
             + t["byteps"]["clock_us"]["worker"][row["worker"]]) <= row["error_ns"] / 1000
         for row in rows(r))),
    ("How many REDUCEs does GPU 0 of worker 0 do?", STAGES,
     lambda r, t: reduce_stage(r, "count") == t["byteps"]["stages"]["w0g0"]["REDUCE"]["count"]),
    ("How long do they take?", STAGES,
     lambda r, t: reduce_stage(r, "sum_ns") / 1000
     == t["byteps"]["stages"]["w0g0"]["REDUCE"]["sum_us"]),
    ("Which GPU talks to the servers?", STAGES,
     lambda r, t: {row["local_rank"] for row in rows(r) if row["root"]}
     == {t["byteps"]["root_local_rank"]}),
    ("Which MPI rank do the others wait for?",
     table("mpi", "mpi_imbalance", "straggler_rank is_straggler"),
     lambda r, t: rows(r) == [{"straggler_rank": t["mpi"]["slow_rank"], "is_straggler": True}]),
    ("Where do the MPI ranks run, and how long are they in MPI?",
     table("mpi", "mpi_ranks", "rank host comm_s"),
     lambda r, t: column(r, "host") == t["mpi"]["hosts"]
     and close(column(r, "comm_s"), t["mpi"]["comm_s"], 0.006)),
    ("How often is each MPI routine called?",
     table("mpi", "mpi_routines", "rank routine calls", ranks=[0]),
     lambda r, t: {row["routine"]: row["calls"] for row in rows(r)} == t["mpi"]["calls"]),
    ("How many calls only negotiate?",
     table("mpi", "mpi_negotiation", "rank calls share_of_calls"),
     lambda r, t: {(row["calls"], row["share_of_calls"]) for row in rows(r)}
     == {(t["mpi"]["negotiation"]["calls"], t["mpi"]["negotiation"]["share_of_calls"])}),
    ("Does a rank of the healthy job keep others waiting?", OPEN["healthy"],
     lambda r, _: r["stragglers"] == []),
    ("What changed?", ("compare", {"before": "healthy", "after": "changed"}),
     lambda r, t: {change["name"] for change in t["changed"]["changes"]}
     <= {row["name"] for row in rows(r)}),
]  # fmt: skip


def test_there_are_40_questions_of_one_call_each():
    assert len({question for question, *_ in QUESTIONS}) == len(QUESTIONS) == 40


@pytest.mark.parametrize(
    ("question", "call", "has_answer"), QUESTIONS, ids=[question for question, *_ in QUESTIONS]
)
def test_the_reply_has_the_answer(question, call, has_answer, tools, truth):
    name, arguments = call
    reply = getattr(tools, name)(**arguments)
    assert reply["answered"], reply["reason"]
    assert len(json.dumps(reply, ensure_ascii=False).encode()) <= MAX_REPLY
    assert has_answer(reply, truth)
