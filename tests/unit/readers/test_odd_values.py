"""Odd numbers, marks and texts are reported on load, and no later call fails."""

import json
import re
import sys

import pytest

import hta_widgets as hw
from hta_widgets import analysis, diff
from hta_widgets.demo import write_mpi_job

from .conftest import event

pytestmark = pytest.mark.slow

TOP = [1, -1, 1.5, True, None, "", "x", "7", "²", [], [1], {}, {"a": [1]}, 1 << 31, 1 << 63]
TOP += [1 << 70, -(1 << 70), 1e300, "9" * 5000, "\ud800"]


def used(traces, folder):
    """Call functions that read most of a set; return the contents of its export and its store."""
    traces.summary(), traces.problems, traces.events(), repr(traces), traces._repr_html_()
    for name in ("temporal_breakdown", "operators", "step_times", "collectives", "clock_offsets"):
        getattr(analysis, name)(traces)
    if sum(map(len, traces.values())):
        hw.export_trace(traces, folder / "copy.json")
        again = hw.load(folder / "copy.json", cache=False)
        assert sum(map(len, again.values())) == sum(map(len, traces.values()))
        assert again.ranks == traces.ranks or len(traces) == 1
    hw.load(traces.save(folder / "kept.store"))
    hw.Dashboard(traces)
    return traces


def problems(traces, kind):
    result = traces.problems
    return int(result["count"][result["kind"] == kind].sum())


@pytest.mark.parametrize(
    ("odd", "kept"),
    [
        ({"ts": 3.5e15}, 1),
        ({"ts": -1.2e15}, 1),
        ({"ts": 9.2e15}, 1),
        ({"ts": 1, "dur": 9.2e15}, 1),
        ({"ts": 3.4e15, "dur": 1e15}, 1),
        ({"ts": 3.4e15, "dur": 1}, 2),
        ({"ts": -1.1e15, "dur": 4e15}, 2),
        ({"ph": "i", "ts": 9.2e15}, 1),
        ({"ph": "C", "ts": -9.2e15, "args": {"v": 1}}, 1),
    ],
)
def test_times_whose_sums_overflow_are_excluded(write, tmp_path, odd, kept):
    traces = used(hw.load(write([event(), event("far", **odd)])), tmp_path)
    assert len(traces[0]) == kept
    assert problems(traces, "overflow") == 2 - kept
    start, end = traces.span_ns
    assert 0 <= start <= end < 1 << 62


def test_of_pairs_both_records_count(write, tmp_path):
    pair = [{"ph": ph, "name": "b", "pid": 1, "tid": 1, "ts": 9.2e15} for ph in "BE"]
    scoped = {"ph": "i", "s": "g", "name": "late", "pid": 1, "tid": 1, "ts": 7}
    traces = used(hw.load(write([event(), *pair, scoped])), tmp_path)
    assert problems(traces, "overflow") == 2
    assert traces[0].instants["scope"].tolist() == ["g"]


@pytest.mark.parametrize("value", TOP, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("name", ["rank", "base", "dist", "world", "mark", "properties", "merged"])
def test_top_level_values_of_any_type(write, tmp_path, name, value):
    key, value = {
        "rank": ("distributedInfo", {"rank": value}),
        "base": ("baseTimeNanoseconds", value),
        "dist": ("distributedInfo", value),
        "world": ("distributedInfo", {"world_size": value, "pg_config": value}),
        "mark": ("hta_widgets", {"identity": {"worker": value, "job": value}, "part": value}),
        "properties": ("deviceProperties", value),
        "merged": ("hta_widgets", {"merged": 1, "ranks": value}),
    }[name]
    traces = used(hw.load(write([event(), event("b", 5)], **{key: value})), tmp_path)
    assert len(next(iter(traces.values()))) == 2


@pytest.mark.parametrize("info", ["7", "[]", "null", "9" * 5000, '{"a": ' + "9" * 5000 + "}"])
def test_ranks_are_stated_beside_odd_job_metadata(tmp_path, info):
    for rank in (0, 1):
        text = f'{{"traceEvents": [{json.dumps(event())}], "distributedInfo": {info}}}'
        (tmp_path / f"rank-{rank}.json").write_text(text)
    hw.export_trace(hw.load(tmp_path, cache=False), tmp_path / "copies")
    assert hw.load(tmp_path / "copies").ranks == [0, 1]


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("baseTimeNanoseconds", 1 << 62, "overflow"),
        ("baseTimeNanoseconds", -(1 << 63), "overflow"),
        ("baseTimeNanoseconds", "soon", "repaired"),
        ("baseTimeNanoseconds", [1], "repaired"),
        ("distributedInfo", {"rank": 1 << 31}, "repaired"),
        ("hta_widgets", {"merged": 1, "ranks": 7}, "repaired"),
    ],
)
def test_what_is_left_out_is_reported(write, key, value, kind):
    traces = hw.load(write([event(), event("b", 5)], **{key: value}))
    assert len(traces[0]) == 2
    assert problems(traces, kind) == 1


@pytest.mark.parametrize("entry", [*TOP, {"rank": 0}, {"rank": "x", "metadata": {}}], ids=repr)
def test_lists_of_merged_ranks_that_are_damaged(write, tmp_path, entry):
    mark = {"merged": 1, "ranks": [entry]}
    named = {"ph": "M", "name": "hta_widgets", "pid": 1, "args": {"rank": entry, "pid": entry}}
    traces = used(hw.load(write([named, event()], hta_widgets=mark)), tmp_path)
    assert len(next(iter(traces.values()))) == 1
    assert "merged ranks" in " ".join(traces.problems["detail"])


@pytest.mark.parametrize("value", TOP, ids=lambda value: repr(value)[:20])
def test_ids_and_args_of_any_type(write, tmp_path, value):
    args = dict.fromkeys(
        ("correlation", "stream", "External id", "bytes", "Seq", "Collective name", "dtype"), value
    )
    flow = {"id": value, "cat": "ac2g", "name": "l", "pid": 1}
    records = [
        event("a", 0, id=value, args=args),
        event("ncclDevKernel_AllReduce", 5, cat="kernel", tid=7, args={**args, "stream": 7}),
        {**flow, "ph": "s", "tid": 2, "ts": 0.5},
        {**flow, "ph": "f", "tid": 7, "ts": 5, "bp": "e"},
        {"ph": "C", "id": value, "name": "c", "pid": 1, "ts": 1, "args": {"v": value}},
        {"ph": "M", "name": "process_sort_index", "pid": 1, "args": {"sort_index": value}},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": value}},
        event("b", 9, pid=value, tid=value),
    ]
    traces = used(hw.load(write(records)), tmp_path)
    assert len(traces[0]) == 3
    traces[0].args(0)


def test_integers_of_thousands_of_digits(write, tmp_path):
    records = json.dumps(
        [event(), event("b", 5, pid=77, tid=77, id=77, args={"x": 77, "stream": 77})]
    )
    traces = used(
        hw.load(write(records.replace("77", "9" * (sys.get_int_max_str_digits() + 1)))), tmp_path
    )
    assert len(traces[0]) == 2


def test_args_of_thousands_of_digits_are_text(write, tmp_path):
    many = "9" * 5000
    args = {"Collective name": "allreduce", "In msg nelems": 77, "stream": -7}
    records = json.dumps([event("ncclDevKernel", cat="kernel", args=args)])
    traces = hw.load(write(records.replace("77", many)), cache=False)
    assert traces[0].args(0)["In msg nelems"] == many
    assert traces[0].args(0)["stream"] == -7
    used(traces, tmp_path)


def test_texts_that_are_not_text(write, tmp_path):
    half, odd = r'"\ud800"', r'"\q \ud800"'
    named = f'{{"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {{"name": {odd}}}}}'
    count = f'{{"ph": "C", "name": {half}, "pid": 1, "ts": 1, "args": {{{half}: 1}}}}'
    single = json.dumps(event("HALF", cat="HALF", pid="HALF", tid="HALF", args={"HALF": "HALF"}))
    records = f"{json.dumps(event())}, {single}, {named}, {count}".replace('"HALF"', half)
    text = f'{{{half}: {half}, "traceEvents": [{records}], "distributedInfo": {{"host": {half}}}}}'
    traces = used(hw.load(write(text)), tmp_path)
    assert sorted(traces[0].events["name"]) == ["op", "\ufffd"]
    assert json.dumps(traces[0].metadata, ensure_ascii=False).encode()


@pytest.mark.parametrize("depth", [900, 1000, 5000])
@pytest.mark.parametrize("ends", ["[]", ('{"a":', "}")])
@pytest.mark.parametrize(
    "place", ['"args": {"x": DEEP}', '"name": DEEP', '"pid": DEEP, "tid": DEEP', '"id": DEEP']
)
def test_deep_values(write, tmp_path, depth, ends, place):
    deep = ends[0] * depth + ("1" if ends[0] != "[" else "") + ends[1] * depth
    odd = f'{{"ph": "X", "ts": 5, "dur": 1, {place.replace("DEEP", deep)}}}'
    text = f'{{"traceEvents": [{json.dumps(event())}, {odd}], "top": {deep}}}'
    traces = used(hw.load(write(text)), tmp_path)
    lost = problems(traces, "skipped") + problems(traces, "truncated")
    assert len(traces[0]) == 2 or lost


@pytest.mark.parametrize("rank", [9_005, 9_007, 9_223_371, 9_223_372, (1 << 31) - 1])
def test_merged_exports_of_high_ranks_load_again(write, tmp_path, rank):
    call = event("cudaLaunchKernel", 1, cat="cuda_runtime", args={"correlation": 7})
    work = event("gemm", 5, cat="kernel", tid=9, args={"correlation": 7, "stream": 9})
    paths = [
        write([call, work], f"{number}.json", distributedInfo={"rank": number})
        for number in (0, rank)
    ]
    traces = used(hw.load(paths), tmp_path)
    assert traces.ranks == [0, rank]
    again = hw.load(tmp_path / "copy.json", cache=False)
    assert again[rank].flows.equals(traces[rank].flows)
    assert again[rank].events.equals(traces[rank].events)


def test_metadata_of_thousands_of_digits(write, tmp_path):
    text = json.dumps({"traceEvents": [event()], "distributedInfo": {"rank": 77, "a": 1}})
    traces = used(hw.load(write(text.replace("77", "9" * 5000))), tmp_path)
    hw.export_trace(traces, tmp_path / "scrubbed.json", scrub=True)


@pytest.mark.parametrize("time", ["inf", "nan", "1e999", "9" * 400])
def test_times_of_profiles_that_no_program_reaches(tmp_path, time):
    write_mpi_job(tmp_path / "job", ranks=2, steps=2, traces=False)
    for path in (tmp_path / "job").iterdir():
        text = re.sub(r"(MPI_Allreduce +\d+ +\S+ +)\S+", rf"\g<1>{time}", path.read_text())
        path.write_text(re.sub(r"(elapsed time += *)\S+", rf"\g<1>{time}", text))
    traces = used(hw.load(tmp_path / "job"), tmp_path)
    analysis.mpi_routines(traces), analysis.mpi_ranks(traces), analysis.mpi_imbalance(traces)
    result = diff.compare(traces, traces)
    diff.findings(result), diff.tables(result)


@pytest.mark.parametrize("huge", [str(1 << 63), "9" * 5000])
def test_figures_of_profiles_that_no_program_reaches(tmp_path, huge):
    write_mpi_job(tmp_path / "job", ranks=2, steps=2, traces=False)
    for path in (tmp_path / "job").iterdir():
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if line.startswith(("MPI_Allreduce", "MPI_Bcast")):
                lines[number] = line.replace(line.split()[1], huge, 1)
        path.write_text("\n".join(lines) + "\n")
    traces = used(hw.load(tmp_path / "job"), tmp_path)
    assert problems(traces, "skipped")
    analysis.mpi_routines(traces), analysis.mpi_ranks(traces), analysis.mpi_message_sizes(traces)
