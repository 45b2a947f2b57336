"""Discovery of files and ranks, and the problems reported about files that are not loaded."""

import importlib
import json

import pytest

import hta_widgets as hw
from hta_widgets.live.job import TileEngine

from .conftest import event


def trace(rank=None, name="op"):
    top = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 8}}
    return json.dumps({**top, "traceEvents": [event(name)]})


def problems_of(traces, kind):
    result = traces.problems
    return result[result["kind"] == kind]


def test_directory_is_searched_recursively_in_natural_order(write, tmp_path):
    for rank in (0, 2, 10, 1):
        write(trace(), f"node/rank-{rank}.json")
    write(trace(), "node/.hidden/rank-5.json")
    write(trace(), ".rank-6.json")
    traces = hw.load(tmp_path)
    assert traces.ranks == [0, 1, 2, 10]
    assert [trace.path.rsplit("/", 1)[1] for trace in traces.values()] == [
        f"rank-{rank}.json" for rank in (0, 1, 2, 10)
    ]
    guessed = problems_of(traces, "guessed_rank")
    assert guessed["rank"].tolist() == [0, 1, 2, 10]


def test_other_files_of_a_directory_are_listed(write, tmp_path):
    others = {
        "config.json": '{"lr": 0.1}',
        "memory_timeline.json": "[[1, 2], [3, 4]]",
        "picture.json": b"\x89PNG\r\n\x1a\n",
        "README.md": "notes",
        "trace.pftrace": b"\x0a\x02hi\x0a\x01x",
    }
    for name, contents in {**others, "good.json.gz": trace(0), "empty.json": b""}.items():
        write(contents, name)
    traces = hw.load(tmp_path)
    assert traces.ranks == [0]
    foreign = problems_of(traces, "foreign")
    assert {path.rsplit("/", 1)[1] for path in foreign["file"]} == set(others)
    assert len(problems_of(traces, "empty")) == 1


def test_directory_of_other_files_only(write, tmp_path):
    write('{"lr": 0.1}', "config.json")
    write("notes", "README.md")
    with pytest.raises(hw.TraceError, match=r"none of its 2 files is a trace .config") as caught:
        hw.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_thousands_of_other_files_make_few_rows(write, tmp_path):
    write(trace(0), "good.json")
    for number in range(80):
        write("x", f"log/{number}.txt")
    foreign = problems_of(hw.load(tmp_path), "foreign")
    assert len(foreign) == 51
    assert foreign["count"].sum() == 80


def test_stated_rank_wins_over_the_name_wherever_it_stands(write, tmp_path):
    write(trace(4), "rank-0.json")
    late = {"traceEvents": [event()], "deviceProperties": [{"id": 0}]}
    late["distributedInfo"] = {"rank": 7}
    write(json.dumps(late, separators=(",", ":")), "rank-1.json")
    traces = hw.load(tmp_path)
    assert traces.ranks == [4, 7]
    assert not len(traces.problems)
    assert traces[7].metadata["deviceProperties"] == [{"id": 0}]


@pytest.mark.parametrize("value", ["0", '"0"'])
def test_rank_0_of_compact_json(write, value):
    records = json.dumps([event()])
    traces = hw.load(write(f'{{"distributedInfo":{{"rank":{value}}},"traceEvents":{records}}}'))
    assert traces[0].stated_rank == 0
    assert not len(traces.problems)


def test_two_files_of_one_rank_are_both_kept(write, tmp_path):
    write(trace(0, "first"), "a.json")
    write(trace(0, "second"), "b.json")
    write(trace(1), "c.json")
    write(trace(0, "first"), "d.json")
    two = {"distributedInfo": {"rank": 0, "world_size": 8}}
    write(json.dumps({**two, "traceEvents": [event("first"), event("op")]}), "e.json")
    traces = hw.load(tmp_path)
    assert traces.summary()[["rank", "stated_rank"]].values.tolist() == [
        *([0, 0], [1, 1], [2, 0], [3, 0], [4, 0])
    ]
    assert traces[2].events["name"].astype(str).tolist() == ["second"]
    other = ", and is from another run or window: "
    unknown = "; it is unknown which of the two belongs with the other ranks"
    assert problems_of(traces, "duplicate_rank")[["rank", "detail"]].values.tolist() == [
        [rank, f"states rank 0, as a.json does{how}; kept as rank {rank}"]
        for rank, how in (
            (2, f"{other}its events differ{unknown}"),
            (3, ": perhaps a copy"),
            (4, f"{other}it has 2 events, not 1{unknown}"),
        )
    ]


def test_of_two_files_of_one_rank_the_whole_one_has_it(write, tmp_path):
    full = json.dumps(
        {"distributedInfo": {"rank": 0}, "traceEvents": [event("op", i) for i in range(100)]}
    )
    # The copy's name sorts first, but the copy is incomplete.
    write(full[: len(full) // 4], "a.json")
    write(full, "b.json")
    traces = hw.load(tmp_path)
    assert [trace.path.rsplit("/", 1)[1] for trace in traces.values()] == ["b.json", "a.json"]
    detail = problems_of(traces, "duplicate_rank")["detail"].item()
    assert detail == "states rank 0, as b.json does, and ends early: perhaps a copy; kept as rank 1"
    cut = problems_of(traces, "truncated")["detail"].iloc[0]
    events = len(traces[1])
    assert cut.endswith(
        f"; {events} events before the cut were read,"
        f" {events}\u202f% of the median of complete files"
    )
    assert "1 rank stated twice" in TileEngine(traces).scene()["truth"]["text"]
    assert TileEngine(traces).scene()["truth"]["level"] == "warn"


def recorded(rank, start_s=0.0, events=10, **top):
    """Return a trace of `events` µs that starts at `start_s`, from a job of 4 ranks."""
    info = {"rank": rank, "world_size": top.pop("world_size", 4)}
    # Each run is another process.
    pid = 1000 + int(start_s)
    records = [event(f"op {rank}", start_s * 1e6 + k, pid=pid) for k in range(events)]
    return json.dumps({"distributedInfo": info, **top, "traceEvents": records})


def files_of(traces):
    return {rank: trace.path.rsplit("/", 1)[1] for rank, trace in traces.items()}


MONTH_S = 30 * 86_400


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"world_size": 16}, "its world size is 16, not 4"),
        ({"start_s": MONTH_S}, "it starts 2 592 000 s later"),
        ({"start_s": 5}, "it starts 5.00 s later"),
        ({"host_name": "b"}, "its host is b, not a"),
        (
            {"world_size": 16, "start_s": MONTH_S},
            "its world size is 16, not 4, it starts 2 592 000 s later",
        ),
    ],
)
@pytest.mark.parametrize("name", ["0.json", "z.json"])
def test_a_file_of_another_run_does_not_take_a_rank(write, tmp_path, other, why, name):
    for rank in range(4):
        write(recorded(rank, host_name="a"), f"rank-{rank}.json")
    write(recorded(2, **{"host_name": "a", **other}), name)
    traces = hw.load(tmp_path)
    assert files_of(traces) == {**{rank: f"rank-{rank}.json" for rank in range(4)}, 4: name}
    (problem,) = problems_of(traces, "duplicate_rank").itertuples()
    assert (problem.rank, problem.file) == (4, str(tmp_path / name))
    assert problem.detail.replace("\u202f", " ") == (
        f"states rank 2, as rank-2.json does, and is from another run or window: {why};"
        " files of 3 other ranks agree with rank-2.json, and 0 with this file; kept as rank 4"
    )
    # A clock that is far off is a separate problem.
    assert ("2 problems" if other.get("start_s") == MONTH_S else "1 problem") in repr(traces)
    assert "of 16 ranks" not in repr(traces)
    assert hw.load(tmp_path, ranks=[2])[2].path.endswith("rank-2.json")


@pytest.mark.parametrize("key", ["job_id", "run_id"])
def test_a_file_of_another_job_by_its_own_word_does_not_take_a_rank(write, tmp_path, key):
    for rank in range(3):
        write(recorded(rank, **{key: "new"}), f"rank-{rank}.json")
    write(recorded(1, **{key: "old"}), "a.json")
    traces = hw.load(tmp_path)
    assert files_of(traces)[3] == "a.json"
    assert problems_of(traces, "duplicate_rank")["detail"].item() == (
        "states rank 1, as rank-1.json does, and belongs to job old, not new; kept as rank 3"
    )


def test_a_whole_leftover_does_not_take_the_rank_of_a_cut_file(write, tmp_path):
    for rank in range(3):
        text = recorded(rank, events=100)
        write(text[: len(text) // 2] if rank == 1 else text, f"rank-{rank}.json")
    write(recorded(1, MONTH_S), "a.json")
    traces = hw.load(tmp_path)
    assert files_of(traces) == {0: "rank-0.json", 1: "rank-1.json", 2: "rank-2.json", 3: "a.json"}


@pytest.mark.parametrize("apart_s", [5, MONTH_S])
def test_of_two_complete_runs_all_ranks_of_one_keep_their_numbers(write, tmp_path, apart_s):
    # File names alternate between the runs; the second window of rank 0 is truncated.
    for rank in range(4):
        for number in range(2):
            text = recorded(rank, number * apart_s, events=50)
            cut = rank == 0 and number == 0
            write(text[: len(text) // 2] if cut else text, f"{rank * 2 + (number ^ rank % 2)}.json")
    traces = hw.load(tmp_path)
    assert traces.ranks == list(range(8))
    starts = [trace.zero_ns // 1_000_000_000 for trace in traces.values()]
    assert starts == [0] * 4 + [apart_s] * 4
    assert [trace.stated_rank for trace in traces.values()] == [0, 1, 2, 3] * 2
    details = problems_of(traces, "duplicate_rank")["detail"]
    assert len(details) == 4
    for detail in details:
        assert "it is unknown which of the two belongs with the other ranks" in detail
    assert "ranks stated twice" in TileEngine(traces).scene()["truth"]["text"]


def test_the_larger_run_keeps_its_ranks(write, tmp_path):
    for rank in range(3):
        write(recorded(rank, MONTH_S), f"old/rank-{rank}.json")
    for rank in range(4):
        write(recorded(rank), f"run/rank-{rank}.json")
    traces = hw.load(tmp_path)
    assert [trace.path.split("/")[-2] for trace in traces.values()] == ["run"] * 4 + ["old"] * 3
    first = problems_of(traces, "duplicate_rank")["detail"].iloc[0]
    assert f"as {tmp_path}/run/rank-0.json does" in first
    assert "files of 3 other ranks agree with " in first
    assert "and 2 with this file" in first


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        ("rank-3.json, rank_11.json", [3, 11]),
        ("rank3.pt.trace.json, rank[5].json", [3, 5]),
        ("worker3.1623143089861.pt.trace.json, worker12.1623143089861.pt.trace.json", [3, 12]),
        ("Rank 2.json, RANK_4.json", [2, 4]),
        ("rank2/trace.json, rank9/trace.json", [2, 9]),
        (
            ", ".join(f"t-TP-{k % 2}-DP-{k // 2}-PP-0-EP-0.trace.json" for k in range(4)),
            [0, 1, 2, 3],
        ),
        ("b.json, a.json", [1, 0]),
        ("rank1.json, other.json", [1, 0]),
        ("crank7.json, frank8.json", [0, 1]),
        ("rank1/rank1.json, rank2/rank1.json", [0, 1]),
    ],
)
def test_ranks_from_names(write, tmp_path, names, ranks):
    for number, name in enumerate(names.split(", ")):
        write(trace(name=f"file {number}"), name)
    traces = hw.load(tmp_path)
    result = {traces[rank].events["name"].astype(str).iloc[0]: rank for rank in traces.ranks}
    assert [result[f"file {number}"] for number in range(len(ranks))] == ranks
    assert problems_of(traces, "guessed_rank")["count"].sum() == len(ranks)


def test_guesses_keep_clear_of_stated_ranks(write, tmp_path):
    write(trace(1), "a.json")
    write(trace(), "rank-1.json")
    traces = hw.load(tmp_path)
    assert traces.ranks == [0, 1]
    assert traces[1].path.endswith("a.json")


@pytest.mark.parametrize(
    ("names", "holder"),
    [
        ("a.json, dumps/rank_0.json", "a.json"),
        ("rank_0.json, dumps/rank_0.json", "{folder}/rank_0.json"),
        ("a.json, worker0.json", "a.json"),
    ],
)
def test_a_guess_says_that_another_file_has_the_rank_of_the_name(write, tmp_path, names, holder):
    first, second = names.split(", ")
    write(trace(0), first)
    path = write(trace(), second)
    traces = hw.load(tmp_path)
    assert traces[1].path == str(path)
    detail = problems_of(traces, "guessed_rank")["detail"].item()
    reason = f"its name states rank 0, which is that of {holder.format(folder=tmp_path)}"
    assert detail == f"{reason}; taken as 1 from its position in the sorted names"


def test_mapping(write):
    paths = {7: write(trace(0), "a.json"), 3: write(trace(0), "b.json")}
    traces = hw.load(paths)
    assert traces.ranks == [3, 7]
    assert traces[7].path.endswith("a.json")
    assert not len(traces.problems)


def test_list_and_pattern(write, tmp_path):
    paths = [write(trace(rank), f"r{rank}.json") for rank in range(4)]
    assert hw.load(paths[1:3]).ranks == [1, 2]
    assert hw.load(map(str, paths)).ranks == [0, 1, 2, 3]
    assert hw.load(str(tmp_path / "r[0-2].json")).ranks == [0, 1, 2]
    assert hw.load(str(tmp_path / "**" / "*.json")).ranks == [0, 1, 2, 3]


def test_a_name_with_brackets_is_not_a_pattern(write):
    assert len(hw.load(str(write(trace(), "rank[3].json")))[3]) == 1


def test_a_file_that_was_named_must_be_a_trace(write):
    good, bad = write(trace(0), "a.json"), write('{"lr": 1}', "b.json")
    with pytest.raises(hw.TraceError, match=r"b\.json"):
        hw.load([good, bad])


@pytest.mark.parametrize("ranks", [2, [2], range(2, 3), (2,)])
def test_only_some_ranks(write, tmp_path, ranks):
    for rank in range(4):
        write(trace(rank), f"rank-{rank}.json")
    traces = hw.load(tmp_path, ranks=ranks)
    assert traces.ranks == [2]


def test_only_some_ranks_where_files_state_them_late(write, tmp_path):
    for rank in range(3):
        late = {"traceEvents": [event(f"of {rank}")], "distributedInfo": {"rank": rank}}
        write(json.dumps(late), f"{2 - rank}.json")
    write("junk", "junk.txt")
    traces = hw.load(tmp_path, ranks=[0, 2])
    assert traces.ranks == [0, 2]
    assert traces[2].events["name"].astype(str).tolist() == ["of 2"]


@pytest.mark.parametrize("ranks", [9, [0, 9], []])
def test_ranks_that_are_not_there(write, tmp_path, ranks):
    write(trace(0), "rank-0.json")
    write(trace(1), "rank-1.json")
    with pytest.raises(hw.TraceError, match=r"no rank 9|ranks is empty"):
        hw.load(tmp_path, ranks=ranks)


def test_files_that_are_not_asked_for_are_not_read(write, tmp_path, monkeypatch):
    for rank in range(3):
        write(trace(rank), f"rank-{rank}.json")
    read = []
    module = importlib.import_module("hta_widgets.formats.kineto.reader")
    original = module.read_file
    monkeypatch.setattr(
        module, "read_file", lambda path, **more: read.append(path) or original(path, **more)
    )
    hw.load(tmp_path, ranks=1)
    assert [path.rsplit("/", 1)[1] for path in read] == ["rank-1.json"]
