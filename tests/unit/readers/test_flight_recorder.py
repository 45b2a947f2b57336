"""Flight recorder dumps: states of collectives by rank, and the cause of a hang."""

import json
import pickle
from pathlib import Path

import pytest
from support.flight_dumps import dump, entry, write_dumps, write_hang
from support.small import nccl, write

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.panels.headline import headline


def load(path, **options):
    return hw.load(path, cache=False, progress=False, **options)


def sentences(path):
    return analysis.collective_hangs(load(path))["sentence"].tolist()


@pytest.mark.parametrize("as_json", [False, True])
def test_the_rank_that_did_not_arrive(tmp_path, as_json):
    traces = load(write_hang(tmp_path / "job", as_json=as_json))
    assert (traces.ranks, traces.formats, len(traces.problems)) == (
        [0, 1, 2],
        ["flight-recorder"],
        0,
    )
    assert traces[0].frame()["name"].tolist()[-1] == "nccl:all_reduce (unfinished)"
    states = analysis.collective_states(traces)
    last = states[states["sequence"] == 3]
    assert last["state"].tolist() == ["started", "absent", "started"]
    row = analysis.collective_hangs(traces).iloc[0]
    assert (row["kind"], row["waiting"], row["absent"]) == ("absent", "0, 2", "1")
    assert row["where"] == "train (train.py:42)"
    text = str(headline(traces))
    assert text == row["sentence"]
    assert text.startswith(
        "Rank 1 did not enqueue all_reduce #3 of default_pg (0), for which ranks 0, 2"
    )
    assert headline(traces).late_ranks == [1]


def test_dumps_of_a_real_hang_over_gloo():
    traces = load(Path(__file__).parents[2] / "data/flight_recorder")
    assert (traces.ranks, len(traces.problems)) == ([0, 1], 0)
    assert str(headline(traces)) == (
        "Rank 1 did not enqueue broadcast #4 of default_pg (0), for which rank 0 waits in <module> "
        "(fr.py:10); its last call was all_gather #1 of tp (1), finished, in <module> (fr.py:8)."
    )


def test_a_dump_in_two_encodings_is_one_run(tmp_path):
    job = write_hang(tmp_path / "job")
    for path in write_hang(tmp_path / "again", as_json=True).iterdir():
        path.rename(job / f"as_text_{path.name}")
    traces = load(job)
    assert traces.ranks == [0, 1, 2]
    assert traces.problems["detail"].str.contains("holds the same run").tolist() == [True] * 3
    # Another rank may have the same collectives.
    (job / "nccl_trace_rank_3").write_bytes((job / "nccl_trace_rank_2").read_bytes())
    assert load(job).ranks == [0, 1, 2, 3]


@pytest.mark.parametrize("is_copy", [True, False])
def test_buttons_differ_by_job_and_copies_are_no_job(tmp_path, is_copy):
    job = write_hang(tmp_path / "job")
    for path in write_hang(tmp_path / "again").iterdir():
        path.rename(job / f"later_{path.name}")
    if not is_copy:
        write_dumps(tmp_path / "other", {0: dump([entry("0", 1)], {"0": [0, 1, 2]})})
        (tmp_path / "other/nccl_trace_rank_0").rename(job / "later_nccl_trace_rank_0")
    labels = [finding.label for finding in headline(load(job)).findings]
    assert len(set(labels)) == len(labels)
    assert (labels == ["Select rank 1"]) == is_copy


def test_older_versions_and_missing_keys(tmp_path):
    def old(sequence, state):
        return {"seq_id": sequence, "pg_id": 0, "profiling_name": "nccl:all_reduce", "state": state}

    dumps = {
        rank: {"version": "1.1", "nccl_comm_state": {}, "entries": entries}
        for rank, entries in enumerate(
            ([old(1, "completed"), old(2, "scheduled")], [old(1, "completed"), {"x": 1}, 7])
        )
    }
    traces = load(write_dumps(tmp_path / "job", dumps))
    assert traces.problems[["kind", "count"]].to_numpy().tolist() == [["skipped", 2]]
    assert analysis.collective_hangs(traces)["sentence"].str.startswith("Rank 1").all()


def test_a_group_without_a_name_has_its_number(tmp_path):
    entries = [entry("7", 1, process_group={})]
    traces = load(write_dumps(tmp_path / "job", {0: {"entries": entries, "pg_config": {}}}))
    assert analysis.collective_states(traces)["group"].tolist() == ["7"]


def test_gloo_leaves_states_of_finished_collectives(tmp_path):
    retired = entry("0", 1, "scheduled", retired=True)
    status = {"0": {"last_completed_collective": "2", "last_enqueued_collective": "2"}}
    value = {**dump([retired, entry("0", 2, "scheduled")], {}), "pg_status": status}
    assert sentences(write_dumps(tmp_path / "job", {0: value, 1: value}, as_json=True)) == []


def test_shapes_and_operations_that_differ(tmp_path):
    of = {"0": [0, 1, 2]}
    small = entry("0", 1, "started", input_sizes=[[8, 2]])
    usual = dump([entry("0", 1, "started")], of)
    (text,) = sentences(write_dumps(tmp_path / "a", {0: usual, 1: usual, 2: dump([small], of)}))
    assert text.startswith(
        "Rank 2 calls all_reduce of [8, 2] Float as collective #1 of default_pg (0), but ranks 0, 1"
        " call all_reduce of [8, 4] Float"
    )
    uneven = [entry("0", 1, profiling_name="nccl:all_to_all", input_sizes=[[n]]) for n in (1, 2)]
    dumps = {rank: dump([call], {"0": [0, 1]}) for rank, call in enumerate(uneven)}
    assert sentences(write_dumps(tmp_path / "b", dumps)) == []


def test_a_missing_dump_and_all_arrived(tmp_path):
    folder = write_hang(tmp_path / "job")
    (folder / "nccl_trace_rank_1").unlink()
    (text,) = sentences(folder)
    assert "ranks 0, 2 wait" in text
    assert "no dump of rank 1 is loaded" in text
    stuck = dump([entry("0", 1, "started")], {"0": [0, 1]})
    (text,) = sentences(write_dumps(tmp_path / "stuck", {0: stuck, 1: stuck}))
    assert "all of its ranks enqueued it" in text


@pytest.mark.parametrize("as_json", [False, True])
def test_a_dump_that_was_cut_off(tmp_path, as_json):
    of = {"0": [0, 1]}
    entries = [entry("0", number) for number in range(1, 40)]
    folder = write_dumps(
        tmp_path / "job", {0: dump(entries, of), 1: dump(entries, of)}, as_json=as_json
    )
    path = next(folder.glob("*_1*"))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    traces = load(folder)
    assert 5 < len(traces[1]) < 39
    assert traces.problems["kind"].tolist() == ["truncated"]


def test_a_ring_that_has_lost_its_beginning_is_no_absence(tmp_path):
    of = {"0": [0, 1]}
    entries = [entry("0", number) for number in range(1, 9)]
    folder = write_dumps(tmp_path / "job", {0: dump(entries, of), 1: dump(entries[5:], of)})
    assert sentences(folder) == []
    assert len(analysis.collective_states(load(folder))) == 8 + 3


def test_the_cause_comes_first_where_a_rank_waits_in_another_group(tmp_path):
    of = {"0": [0, 1, 2, 3], "1": [2, 3]}
    top = {"0": of["0"]}
    dumps = {
        0: dump([entry("0", 1, "started")], top),
        1: dump([entry("0", 1, "started")], top),
        2: dump([entry("1", 1, "started")], of),
        3: dump([], of),
    }
    hangs = analysis.collective_hangs(load(write_dumps(tmp_path / "job", dumps)))
    assert hangs["group"].tolist()[0] == "dp (1)"
    assert hangs["absent"].tolist() == ["3", "2, 3"]


def test_a_receive_without_its_send(tmp_path):
    of = {"0": [4, 5]}
    receive = entry("0", 0, "started", is_p2p=True, p2p_seq_id=1, profiling_name="nccl:recv 1<-0")
    folder = write_dumps(
        tmp_path / "job", {4: dump([entry("0", 1)], of), 5: dump([entry("0", 1), receive], of)}
    )
    assert any(
        text.startswith("Rank 4 did not call the other side of recv 1<-0")
        for text in sentences(folder)
    )


def test_groups_of_one_name_are_apart_by_their_ranks(tmp_path):
    done, waits = entry("1", 1), entry("1", 1, "started", input_sizes=[[2]])
    dumps = {
        rank: dump([done if rank < 2 else waits], {"1": [0, 1] if rank < 2 else [2, 3]})
        for rank in range(4)
    }
    hangs = analysis.collective_hangs(load(write_dumps(tmp_path / "job", dumps)))
    assert hangs["waiting"].tolist() == ["2, 3"]


def test_a_store_has_the_dumps(tmp_path):
    traces = load(write_hang(tmp_path / "job"))
    traces.save(tmp_path / "job.store")
    assert load(tmp_path / "job.store")[0].profile == traces[0].profile


def test_dumps_through_the_cache_are_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("hta_widgets.readers.load._MIN_CACHED_BYTES", 0)
    folder = write_hang(tmp_path / "job")
    first, again = (hw.load(folder, progress=False) for _ in range(2))
    assert again[0].profile == first[0].profile == load(folder)[0].profile
    assert again[0].args(0) == load(folder)[0].args(0)


def test_other_pickles_and_json_are_no_dumps(tmp_path):
    (tmp_path / "a").write_bytes(pickle.dumps({"entries": 7, "pg_config": {}}))
    (tmp_path / "b").write_text(json.dumps({"entries": {}, "pg_config": {}}))
    for name in "ab":
        with pytest.raises(hw.TraceError, match="no list of entries"):
            load(tmp_path / name)


def test_collectives_next_to_the_profilers_traces(tmp_path):
    folder = write_hang(tmp_path / "job")

    def events(*numbers):
        group = {"Process Group Name": "0"}
        return [nccl(n * 10_000, n * 10_000 + 5_000, Seq=n, **group) for n in numbers]

    write(folder, events(2, 3), events(2), events(2, 3))
    traces = load(folder)
    states = analysis.collective_states(traces)
    of = states[states["sequence"] >= 2]
    assert of["event_rank"].tolist() == [0, 1, 2, 0, -1, 2]
    assert of["event_id"].tolist() == [0, 0, 0, 1, -1, 1]
    job = headline(traces)
    assert job.text.startswith("Rank 1 did not enqueue all_reduce #3")
    assert "of 6" not in str(job)


def test_dumps_without_collectives_tell_how_far_groups_got(tmp_path):
    def status(enqueued):
        numbers = {"enqueued": enqueued, "started": enqueued, "completed": 2}
        reached = {f"last_{what}_collective": str(number) for what, number in numbers.items()}
        return {**dump([], {"0": [0, 1]}), "pg_status": {"0": reached}}

    dumps = {0: status(3), 1: status(2)}
    (sentence,) = sentences(write_dumps(tmp_path / "job", dumps, as_json=True))
    assert sentence.startswith("Rank 1 did not enqueue collective #3 of 0, for which rank 0 waits")
    traces = load(write_dumps(tmp_path / "none", {0: dump([], {"0": [0]})}))
    assert str(headline(traces)) == "No rank waits in a collective: the dumps have no collectives."


def _bare_entries(number):
    """Return entries from before PyTorch 2.3: numbers in `seq_id`, times in µs, no group name."""
    keys = ("frames", "record_id", "pg_id", "profiling_name", "input_sizes", "state", "retired")
    states = ["completed", "completed", "started"][:number]
    whole = [entry("0", place + 1, state) for place, state in enumerate(states)]
    return [
        {**{key: each[key] for key in keys}, "seq_id": each["record_id"], "time_created_us": 7}
        for each in whole
    ]


@pytest.mark.parametrize(
    "contents",
    [
        _bare_entries,
        lambda number: {"version": "1.1", "entries": _bare_entries(number)},
        lambda number: {
            **dump([{**each, "pg_name": "0"} for each in _bare_entries(number)], {"0": [0, 1]}),
            "version": "2.0",
        },
    ],
)
def test_dumps_of_older_versions(tmp_path, contents):
    for rank, number in enumerate((3, 2)):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(contents(number), 2))
    (sentence,) = sentences(tmp_path)
    assert sentence.startswith("Rank 1 did not enqueue all_reduce #3 of 0, for which rank 0 waits")
    created = analysis.collective_states(load(tmp_path))["created_ns"]
    assert set(created) == {7000, -1}


def test_the_rank_that_a_dump_states_and_times_as_floats_are_read(tmp_path):
    value = {**dump([entry("0", 1, time_created_ns=1.75e18)], {"0": [3]}), "rank": 3}
    (tmp_path / "dump.json").write_text(json.dumps(value))
    traces = load(tmp_path)
    assert (traces.ranks, traces.origin_ns) == ([3], 1_750_000_000_000_000_000)


def test_dumps_whose_names_begin_with_hosts_are_one_job(tmp_path):
    of = {"0": [0, 1]}
    for rank, last in enumerate(([entry("0", 2, "started")], [])):
        value = dump([entry("0", 1), *last], of)
        (tmp_path / f"host{rank}-trace_{rank}").write_bytes(pickle.dumps(value, 2))
    (text,) = sentences(tmp_path)
    assert text.startswith("Rank 1 did not enqueue all_reduce #2 of default_pg (0)")


def test_coalesced_sends_do_not_state_their_peers(tmp_path):
    call = {"is_p2p": True, "p2p_seq_id": 1, "profiling_name": "nccl:coalesced"}
    dumps = {rank: dump([entry("0", 1, state, **call)], {"0": [0, 1]})
             for rank, state in enumerate(("started", "completed"))}  # fmt: skip
    (text,) = sentences(write_dumps(tmp_path / "job", dumps))
    assert text.endswith("rank 0 waits in train (train.py:42). The dump does not state its peers.")


def test_enqueued_collectives_of_gloo_have_no_length_to_analyse(tmp_path):
    calls = [entry("0", n, "scheduled", profiling_name="gloo:all_reduce") for n in (1, 2)]
    traces = load(write_dumps(tmp_path / "job", {r: dump(calls, {"0": [0, 1]}) for r in (0, 1)}))
    assert len(analysis.collectives(traces)) == 0


def test_a_group_has_the_description_that_any_dump_states(tmp_path):
    of = {"1": [0, 1]}
    dumps = {0: dump([], of), 1: dump([entry("1", 1, "started")], of)}
    (text,) = sentences(write_dumps(tmp_path / "job", dumps))
    assert text.startswith("Rank 0 did not enqueue all_reduce #1 of dp (1)")


def test_a_job_of_thousands_of_ranks_lists_them_before_its_entries(tmp_path):
    of = {"0": list(range(8192))}
    job = write_dumps(tmp_path / "job", {0: dump([entry("0", 1)], of)})
    assert load(job).formats == ["flight-recorder"]
    assert len(analysis.collective_states(load(job))) == 1


@pytest.mark.parametrize(("number", "rank"), [("2147483647", 2147483647), ("4294967296", None),
                                              ("9" * 30, None)])  # fmt: skip
def test_a_number_beyond_all_ranks_is_no_rank(tmp_path, number, rank):
    folder = write_dumps(tmp_path, {number: dump([entry("0", 1)], {"0": [0]})})
    (trace,) = load(folder).values()
    assert trace.stated_rank == rank
    assert trace.job == ("nccl_trace" if rank else f"nccl_trace_rank_{number}")


def batch(state, kind, numbers):
    """Return the parts of a batch, which stay scheduled, and the entry with the batch's state."""
    names = {
        "p2p": ("nccl:send 0->1", "nccl:recv 0<-1", "nccl:coalesced"),
        "collective": ("nccl:_all_gather_base",) * 2 + ("nccl:_all_gather_base_coalesced",),
    }[kind]
    states = ["scheduled"] * (len(names) - 1) + [state]
    return [
        entry("0", numbers[0], part_state, profiling_name=name, p2p_seq_id=numbers[1],
              is_p2p=kind == "p2p")
        for name, part_state in zip(names, states, strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["p2p", "collective"])
@pytest.mark.parametrize("as_json", [False, True])
def test_parts_of_a_finished_batch_are_finished(tmp_path, kind, as_json):
    entries = [entry("0", 1), *batch("completed", kind, (2, 3))]
    job = write_dumps(tmp_path / "job", {0: dump(entries, {"0": [0]})}, as_json=as_json)
    assert analysis.collective_hangs(load(job)).empty
    entries += batch("started", kind, (5, 3))
    job = write_dumps(tmp_path / "job", {0: dump(entries, {"0": [0]})}, as_json=as_json)
    states = analysis.collective_states(load(job))
    assert states.state.tolist().count("finished") == 1 + 3
    assert len(analysis.collective_hangs(load(job))) >= 1


@pytest.mark.parametrize("kind", ["p2p", "collective"])
@pytest.mark.parametrize("as_json", [False, True])
def test_parts_of_a_batch_have_its_state_and_it_is_no_further_hang(tmp_path, kind, as_json):
    entries = [entry("0", 1), *batch("started", kind, (2, 3))]
    dumps = {0: dump(entries, {"0": [0, 1]}), 1: dump([entry("0", 1)], {"0": [0, 1]})}
    traces = load(write_dumps(tmp_path / "job", dumps, as_json=as_json))
    states = analysis.collective_states(traces).query("rank == 0 and state != 'finished'")
    assert states["state"].tolist() == ["started"] * 3
    hangs = analysis.collective_hangs(traces)
    called = {"p2p": ["nccl:recv 0<-1", "nccl:send 0->1"], "collective": ["nccl:_all_gather_base"]}
    assert sorted(hangs["operation"]) == called[kind]
    assert hangs["absent"].tolist() == ["1"] * len(hangs)


@pytest.mark.parametrize("state", ["started", "completed"])
def test_the_table_of_collectives_counts_a_rank_of_a_batch_once(tmp_path, state):
    dumps = {rank: dump(batch(state, "collective", (4, 0)), {"0": [0, 1]}) for rank in (0, 1)}
    traces = load(write_dumps(tmp_path / "job", dumps))
    row = hw.Dashboard(traces).panel_frame("flight_collectives").iloc[0]
    is_finished = state == "completed"
    figures = [row[name] for name in ("finished", "ranks", "waiting", "missing")]
    assert figures == ([2, 2, "", ""] if is_finished else [0, 2, "0, 1", ""])


@pytest.mark.parametrize("group", ["0", "7"])
@pytest.mark.parametrize("first", ["receive", "collective"])
def test_a_call_before_a_collective_that_all_ranks_enqueued_is_the_cause(tmp_path, group, first):
    """Rank 1 skips the collective that rank 0 waits in and continues with the next shared one."""
    ranks = {group: [0, 1], "3": [0, 1, 2]}
    call = {
        "receive": entry(group, 5, "started", is_p2p=True, p2p_seq_id=1,
                         profiling_name="nccl:recv 0<-1"),
        "collective": entry("3", 5, "started"),
    }[first]  # fmt: skip
    last = entry(group, 9, "started")
    dumps = {0: dump([call, last], ranks), 1: dump([last], ranks), 2: dump([], ranks)}
    hangs = analysis.collective_hangs(load(write_dumps(tmp_path / "job", dumps)))
    assert hangs["is_cause"].tolist() == [True, False]
    assert hangs["kind"].tolist() == ["absent", "stuck"]
    assert hangs["absent"].tolist()[0] == {"receive": "1", "collective": "1, 2"}[first]
    assert (
        hangs["sentence"].tolist()[1].endswith("One of these ranks waits in an earlier call too.")
    )


@pytest.mark.parametrize("shape", [[8, 4], [8, 5]])
def test_ranks_without_a_dump_are_named_beside_the_rank_that_is_to_blame(tmp_path, shape):
    ranks = {"0": [0, 1, 2, 3]}
    last = [entry("0", 2, "started", input_sizes=[shape])] if shape != [8, 4] else []
    waiting = dump([entry("0", 1), entry("0", 2, "started")], ranks)
    dumps = {0: waiting, 1: waiting, 2: dump([entry("0", 1), *last], ranks)}
    (text,) = sentences(write_dumps(tmp_path / "job", dumps))
    assert text.startswith("Rank 2 ")
    assert text.endswith(". No dump of rank 3 is loaded.")


@pytest.mark.parametrize("name", ["nccl:coalesced", "nccl:all_reduce_coalesced"])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_batch_of_old_dumps_finishes_no_other_call(tmp_path, name, as_json):
    calls = [(1, "completed", name), (2, "started", "nccl:all_reduce")]
    entries = [
        {"seq_id": number, "pg_id": 0, "state": state, "profiling_name": operation, "frames": []}
        for number, state, operation in calls
    ]
    job = write_dumps(tmp_path / "job", {0: dump(entries, {"0": [0]})}, as_json=as_json)
    states = analysis.collective_states(load(job))
    assert dict(zip(states.sequence, states.state, strict=True)) == {1: "finished", 2: "started"}


@pytest.mark.parametrize("state", ["started", "scheduled"])
def test_the_last_number_of_sends_finishes_no_collective(tmp_path, state):
    send = entry("0", 0, profiling_name="nccl:send 0->1", is_p2p=True, p2p_seq_id=900)
    value = dump([send, entry("0", 6, state)], {"0": [0]})
    value["pg_status"] = {"0": {"last_completed_collective": 900, "last_enqueued_collective": 6}}
    (hang,) = analysis.collective_hangs(
        load(write_dumps(tmp_path / "job", {0: value}))
    ).itertuples()
    assert (hang.sequence, hang.kind) == (6, "stuck")


def cut_dump(path, keep):
    """Truncate a dump within the entry after the first `keep` ones."""
    data = path.read_bytes()
    mark = b"record_id"
    position = -1
    for _ in range(keep + 1):
        position = data.index(mark, position + 1)
    path.write_bytes(data[: position + len(mark)])


@pytest.mark.parametrize("state", ["completed", "started"])
def test_a_rank_whose_dump_was_cut_off_is_not_accused(tmp_path, state):
    calls = [entry("0", number, "completed") for number in range(1, 6)]
    waiting = dump([*calls, entry("0", 6, state)], {"0": [0, 1, 2]})
    folder = write_dumps(tmp_path / "job", dict.fromkeys(range(3), waiting), as_json=True)
    cut_dump(folder / "nccl_trace_rank_1.json", 3)
    traces = load(folder)
    assert "truncated" in set(traces.problems["kind"])
    hangs = analysis.collective_hangs(traces)
    if state == "completed":
        assert not len(hangs)
        return
    row = hangs.iloc[0]
    assert (row["kind"], row["sequence"], row["without_dump"]) == ("no dump", 6, "1")
    assert row["sentence"].endswith("and no complete dump of rank 1 is loaded.")
    assert not headline(traces).late_ranks
    assert headline(load(save(traces, tmp_path))).late_ranks == []


def test_the_status_of_a_group_counts_for_a_dump_that_was_cut_off(tmp_path):
    calls = [entry("0", number, "completed") for number in range(1, 6)]
    of = {"0": [0, 1]}
    waiting = dump([*calls, entry("0", 6, "started")], of)
    waiting["pg_status"] = {"0": {"last_enqueued_collective": 6, "last_completed_collective": 5}}
    folder = write_dumps(tmp_path / "job", {0: waiting, 1: waiting}, as_json=True)
    cut_dump(folder / "nccl_trace_rank_1.json", 3)
    row = analysis.collective_hangs(load(folder)).iloc[0]
    assert (row["kind"], row["absent"], row["without_dump"]) == ("stuck", "", "")


def test_a_peer_whose_dump_was_cut_off_is_not_accused(tmp_path):
    send = entry("0", 0, "started", is_p2p=True, p2p_seq_id=1, profiling_name="nccl:send 0->1")
    calls = [entry("0", number) for number in range(1, 6)]
    of = {"0": [0, 1]}
    folder = tmp_path / "job"
    write_dumps(folder, {0: dump([*calls, send], of), 1: dump(calls, of)}, as_json=True)
    cut_dump(folder / "nccl_trace_rank_1.json", 3)
    row = analysis.collective_hangs(load(folder)).iloc[0]
    assert (row["kind"], row["absent"], row["without_dump"]) == ("no dump", "", "1")


def save(traces, folder):
    traces.save(folder / "job.store")
    return folder / "job.store"
