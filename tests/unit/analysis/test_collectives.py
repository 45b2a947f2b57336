"""Collectives over ranks, communication by stream and group, and process groups."""

import json

import numpy as np
import pytest
from support.collective_job import US, collective, collective as described
from support.small import ORIGIN, call, event, kernel, load, nccl, read, write as write_ranks

import hta_widgets as hw
from hta_widgets.analysis import (
    collectives,
    communication_by_group,
    communication_by_stream,
    parallel_groups,
)
from hta_widgets.analysis.groups import stage_of
from hta_widgets.demo.job import write_demo

PLAIN = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"


def rows(frame, **columns):
    """Rows as tuples of the given columns."""
    return list(zip(*(frame[name].tolist() for name in columns["of"]), strict=True))


def members(frame):
    """Return the (rank, arrival in µs) of each collective."""
    return [
        sorted(zip(part["rank"], part.arrival_ns // US, strict=True))
        for _, part in frame.groupby("collective")
    ]


def test_waits_and_transfers_of_one_all_reduce(tmp_path):
    traces = load(
        tmp_path,
        [collective(10 * US, 90 * US, ranks=(0, 1, 2)), kernel(0, 50 * US)],
        [collective(40 * US, 90 * US, ranks=(0, 1, 2))],
        [collective(20 * US, 91 * US, ranks=(0, 1, 2))],
    )
    frame = collectives(traces)
    assert frame["rank"].tolist() == [0, 1, 2]
    assert frame.collective.tolist() == [0, 0, 0]
    assert frame.name.tolist() == ["allreduce"] * 3
    assert frame.group.tolist() == ["0"] * 3
    assert frame.arrival_ns.tolist() == [10_000, 40_000, 20_000]
    assert frame.wait_ns.tolist() == [30_000, 0, 20_000]
    assert frame.transfer_ns.tolist() == [50_000, 50_000, 51_000]
    assert frame.end_ns.tolist() == [90_000, 90_000, 91_000]
    assert frame.last_rank.tolist() == [1, 1, 1]
    # Rank 0 computes until 50 µs.
    assert frame.exposed_ns.tolist() == [40_000, 50_000, 71_000]
    assert frame.size_bytes.tolist() == [4000] * 3
    assert frame.algbw_gb_s.tolist() == pytest.approx([0.08, 0.08, 4000 / 51_000])
    assert frame.busbw_gb_s[0] == pytest.approx(0.08 * 4 / 3)
    assert frame.attrs["matched"] == {
        "communication": 3,
        "matched": 1,
        "partly_matched": 0,
        "unmatched": 0,
        "alone": 0,
    }
    assert "note" not in frame.attrs
    for row in frame.itertuples():
        assert traces[row.rank].events.start_ns[row.id] == row.arrival_ns


@pytest.mark.parametrize(
    ("types", "size"),
    [
        ("Byte Char Bool UInt1 UInt7 Int1 Int7 torch.int8 torch.uint8", 1),
        ("QInt8 QUInt8 QUInt4x2 QUInt2x4 Bits1x8 Bits2x4 Bits4x2 Bits8 torch.quint8", 1),
        ("Float8_e5m2 Float8_e4m3fn Float8_e5m2fnuz Float8_e4m3fnuz Float8_e8m0fnu", 1),
        ("Float4_e2m1fn_x2 torch.float8_e4m3fn torch.float4_e2m1fn_x2", 1),
        ("Short Half BFloat16 UInt16 Bits16 torch.bfloat16 float16 c10::Half", 2),
        ("Int Float QInt32 UInt32 ComplexHalf complex32 torch.float32", 4),
        ("Long Double ComplexFloat UInt64 complex64 float64", 8),
        ("ComplexDouble complex128", 16),
    ],
)
def test_every_type_of_torch_has_its_size(tmp_path, types, size):
    each = [collective(k * US, k * US + 500, dtype=one) for k, one in enumerate(types.split())]
    frame = collectives(load(tmp_path, each, each))
    assert set(frame.size_bytes) == {1000 * size}
    assert "note" not in frame.attrs


def test_types_that_are_not_known_are_said(tmp_path):
    known, new = collective(0, US), collective(2 * US, 3 * US, dtype="Posit16")
    silent = collective(4 * US, 5 * US)
    del silent["args"]["dtype"]
    traces = load(tmp_path, [known, new, silent], [known, new, silent])
    frame = collectives(traces)
    assert frame.size_bytes.tolist() == [4000, 4000, -1, -1, -1, -1]
    assert frame.attrs["note"] == "sizes of 2 events are unknown: elements of type 'Posit16'"
    assert "note" not in collectives(traces, window=(0, US)).attrs
    groups = parallel_groups(traces)
    assert groups.bytes.tolist() == [4000, 4000]
    assert groups.attrs["note"] == frame.attrs["note"]


@pytest.mark.parametrize(
    ("name", "elements", "out_elements", "size", "factor"),
    [
        ("allreduce", 1000, 1000, 4000, 2 * 3 / 4),
        ("_allgather_base", 250, 1000, 4000, 3 / 4),
        ("_reduce_scatter_base", 1000, 250, 4000, 3 / 4),
        ("all_to_all", 1000, 1000, 4000, 3 / 4),
        ("broadcast", 1000, 1000, 4000, 1),
        ("reduce", 1000, 1000, 4000, 1),
    ],
)
def test_bandwidths_are_those_of_nccl_tests(tmp_path, name, elements, out_elements, size, factor):
    one = collective(
        0, 8 * US, name=name, elements=elements, out_elements=out_elements, ranks=(0, 1, 2, 3)
    )
    frame = collectives(load(tmp_path, [one], [one], [one], [one]))
    assert frame.size_bytes.tolist() == [size] * 4
    assert frame.algbw_gb_s.tolist() == pytest.approx([0.5] * 4)
    assert frame.busbw_gb_s.tolist() == pytest.approx([0.5 * factor] * 4)


def test_groups_of_one_name_on_other_ranks_are_apart(tmp_path):
    traces = load(
        tmp_path,
        [collective(10 * US, 20 * US, group="tp", ranks=(0, 1))],
        [collective(11 * US, 20 * US, group="tp", ranks=(0, 1))],
        [collective(10 * US, 20 * US, group="tp", ranks=(2, 3))],
        [collective(12 * US, 20 * US, group="tp", ranks=(2, 3))],
    )
    frame = collectives(traces)
    assert members(frame) == [[(0, 10), (1, 11)], [(2, 10), (3, 12)]]
    assert frame.group.tolist() == ["tp [0, 1]"] * 2 + ["tp [2, 3]"] * 2


def test_long_lists_of_ranks_are_cut_short_and_completed_by_the_header(tmp_path):
    """PyTorch writes 30 ranks of a group; not every file has a header with all of them."""
    cut = {"Process Group Ranks": str(list(range(30)))[:-1] + ", ...]", "Group size": 40}
    paths = {}
    for rank, info in enumerate(
        [{"pg_config": [{"pg_name": "0", "ranks": list(range(40))}], "world_size": 40}, {}]
    ):
        one = collective((10 + rank) * US, 20 * US, seq=1)
        one["args"] |= cut
        paths[rank] = tmp_path / f"rank-{rank}.json"
        document = {"distributedInfo": {"rank": rank, **info}, "traceEvents": [ORIGIN, one]}
        paths[rank].write_text(json.dumps(document))
    frame = collectives(hw.load(paths, cache=False, progress=False))
    assert members(frame) == [[(0, 10), (1, 11)]]
    assert frame.group_size.tolist() == [40, 40]
    assert frame.attrs["groups"]["0"]["ranks"] == list(range(40))
    assert "files of 38 of 40 ranks are missing" in frame.attrs["note"]


def test_runs_that_are_loaded_together_do_not_meet(tmp_path):
    for run in range(2):
        (tmp_path / f"run{run}").mkdir()
        start = 10 * (run + 1)
        ranks = ([ORIGIN, collective((start + k) * US, 50 * US, seq=1)] for k in range(2))
        write_ranks(tmp_path / f"run{run}", *ranks)
    traces = read(sorted(tmp_path.glob("run*/*")))
    assert len(traces) == 4
    frame = collectives(traces)
    assert sorted(frame.groupby("collective").arrival_ns.agg(list)) == [
        [10_000, 11_000],
        [20_000, 21_000],
    ]
    assert sorted(frame.group.unique()) == ["0", "0 (2)"]


def test_ranks_may_call_a_group_by_names_of_their_own(tmp_path):
    traces = load(
        tmp_path,
        [collective(10 * US, 20 * US, group="3"), collective(30 * US, 40 * US, group="8")],
        [collective(11 * US, 20 * US, group="5"), collective(31 * US, 40 * US, group="6")],
    )
    assert members(collectives(traces)) == [[(0, 10), (1, 11)], [(0, 30), (1, 31)]]


def test_two_groups_of_the_same_ranks_are_apart(tmp_path):
    traces = load(
        tmp_path,
        [
            collective(10 * US, 40 * US, group="a"),
            collective(12 * US, 20 * US, group="b", stream=9),
        ],
        [
            collective(15 * US, 40 * US, group="a"),
            collective(11 * US, 20 * US, group="b", stream=9),
        ],
    )
    assert members(collectives(traces)) == [[(0, 10), (1, 15)], [(0, 12), (1, 11)]]


def test_sequence_numbers_decide(tmp_path):
    # In order, rank 0's first would meet rank 1's first, which is another one.
    traces = load(
        tmp_path,
        [collective(k * 100 * US, (k * 100 + 50) * US, seq=k) for k in (1, 2, 4)],
        [collective((k * 100 + 7) * US, (k * 100 + 50) * US, seq=k) for k in (2, 3, 4, 5)],
    )
    frame = collectives(traces)
    assert members(frame) == [[(0, 200), (1, 207)], [(0, 400), (1, 407)]]
    assert frame.attrs["matched"]["unmatched"] == 3
    assert "3 events are on one rank only" in frame.attrs["note"]
    assert frame.attrs["matched_by"] == {"sequence_number": 2, "order_and_time": 0}


@pytest.mark.parametrize("skew", [0, 3_000, -250_000])
def test_without_numbers_what_one_rank_did_not_record_shows_in_the_ends(tmp_path, skew):
    """All contents are equal, and intervals differ: only the right place makes ends agree."""
    ends = [1000, 1900, 3500, 4100, 6000, 7300, 8100]
    first = [collective((end - 200) * US, end * US) for end in ends]
    second = [collective((end - 150 + skew) * US, (end + skew) * US) for end in ends[2:]]
    traces = load(tmp_path, first, second) if skew >= 0 else load(tmp_path, second, first)
    frame = collectives(traces)
    assert frame.groupby("collective").size().tolist() == [2] * 5
    assert frame.attrs["matched"]["unmatched"] == 2
    durations = (frame.end_ns - frame.arrival_ns).to_numpy().reshape(-1, 2) // US
    assert {tuple(sorted(pair)) for pair in durations.tolist()} == {(150, 200)}
    apart = frame.groupby("collective").end_ns.agg(lambda ends: ends.max() - ends.min())
    assert apart.nunique() == 1


def test_without_numbers_sizes_decide_before_times(tmp_path):
    sizes = [10, 20, 30, 10, 20, 30, 10]
    first = [
        collective(k * 1000 * US, (k * 1000 + 100) * US, elements=n) for k, n in enumerate(sizes)
    ]
    second = [
        collective((k * 1000 + 300) * US, (k * 1000 + 400) * US, elements=n)
        for k, n in enumerate(sizes)
    ][1:]
    frame = collectives(load(tmp_path, first, second))
    assert frame.groupby("collective").size().tolist() == [2] * 6
    assert frame.groupby("collective").size_bytes.nunique().tolist() == [1] * 6


def test_without_numbers_and_with_gaps_times_decide(tmp_path):
    """Sampled traces lack events in between."""
    ends = [1_000, 9_000, 20_000, 26_000, 43_000, 60_000, 71_000, 95_000]

    def some(chosen, early):
        return [nccl((ends[k] - early) * US, ends[k] * US) for k in chosen]

    frame = collectives(load(tmp_path, some([0, 1, 3, 4, 6], 90), some([1, 2, 4, 5, 7, 6], 60)))
    assert members(frame) == [
        [(0, 8_910), (1, 8_940)],
        [(0, 42_910), (1, 42_940)],
        [(0, 70_910), (1, 70_940)],
    ]
    assert frame.attrs["matched"]["unmatched"] == 5
    assert frame.group.tolist() == ["stream 20"] * 6
    assert frame.size_bytes.tolist() == [-1] * 6
    assert frame.algbw_gb_s.isna().all()


def test_kernels_without_args_that_agree_in_nothing_are_not_matched(tmp_path):
    first = [nccl(start * US, (start + 10) * US) for start in (0, 2_100, 7_900, 30_000)]
    second = [nccl(start * US, (start + 10) * US) for start in (900, 5_000, 13_500, 19_700)]
    frame = collectives(load(tmp_path, first, second))
    assert len(frame) == 0
    assert frame.attrs["matched"]["unmatched"] == 8
    assert "8 events" in frame.attrs["note"]


def test_args_may_stand_on_the_operator_that_launched(tmp_path):
    def rank(start, number):
        args = collective(0, 1, elements=64)["args"]
        return [
            event("cpu_op", "record_param_comms", 0, 9 * US, pid=10, **args),
            call(1 * US, 2 * US, launch=number),
            kernel(start, 90 * US, name=PLAIN, stream=20, launch=number),
        ]

    frame = collectives(load(tmp_path, rank(20 * US, 5), rank(30 * US, 6)))
    assert frame.size_bytes.tolist() == [256, 256]
    assert frame.group.tolist() == ["0", "0"]
    assert frame.wait_ns.tolist() == [10 * US, 0]


def test_a_generic_kernel_is_called_as_the_range_around_it(tmp_path):
    name = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"

    def rank(start):
        return [
            # The nearest range counts; a kernel without one keeps its name.
            event("cpu_op", "c10d::allreduce_", 0, 9 * US, pid=10),
            event("user_annotation", "nccl:all_reduce", 0, 8 * US, pid=10),
            call(1 * US, 2 * US, launch=5),
            kernel(start, 40 * US, name=name, stream=20, launch=5),
            event("cpu_op", "c10d::_allgather_base_", 10 * US, 19 * US, pid=10),
            call(11 * US, 12 * US, launch=6),
            kernel(start + 40 * US, 85 * US, name=name, stream=20, launch=6),
            kernel(start + 90 * US, 140 * US, name=name, stream=20),
        ]

    frame = collectives(load(tmp_path, rank(10 * US), rank(20 * US)))
    assert frame["name"].tolist()[::2] == ["all_reduce", "_allgather_base_", name]
    assert frame["wait_ns"].tolist() == [10 * US, 0] * 3


def test_sends_meet_their_receives(tmp_path):
    """PyTorch states the other side only; each pair and direction has an order of its own."""
    send, receive = {"name": "send"}, {"name": "recv"}
    ranks = (0, 1, 2)
    traces = load(
        tmp_path,
        [
            collective(10 * US, 20 * US, ranks=ranks, **send, **{"Dst Rank": 1}),
            collective(30 * US, 40 * US, ranks=ranks, **send, **{"Dst Rank": 2}),
            collective(50 * US, 60 * US, ranks=ranks, **receive, **{"Src Rank": 1}),
        ],
        [
            collective(12 * US, 20 * US, ranks=ranks, **receive, **{"Src Rank": 0}),
            collective(55 * US, 60 * US, ranks=ranks, **send, **{"Dst Rank": 0}),
        ],
        [collective(31 * US, 40 * US, ranks=ranks, **receive, **{"Src Rank": 0})],
    )
    frame = collectives(traces)
    assert members(frame) == [[(0, 10), (1, 12)], [(0, 30), (2, 31)], [(0, 50), (1, 55)]]
    assert frame.operation.tolist() == ["send_recv"] * 6
    assert frame.attrs["matched"]["matched"] == 3
    assert frame.attrs["matched"]["partly_matched"] == 0


def test_sends_that_do_not_say_to_whom_are_not_guessed(tmp_path):
    ranks = (0, 1, 2, 3)
    one = [collective(10 * US, 20 * US, ranks=ranks, name="send", seq=1)]
    frame = collectives(load(tmp_path, one, one, one, one))
    assert len(frame) == 0
    assert frame.attrs["matched"]["unmatched"] == 4


def test_who_comes_at_once_is_not_last_alone(tmp_path):
    one = [collective(10 * US, 20 * US)]
    frame = collectives(load(tmp_path, one, one))
    assert frame.last_rank.tolist() == [-1, -1]
    assert frame.wait_ns.tolist() == [0, 0]


def test_groups_that_lack_a_rank_say_so(tmp_path):
    one = [collective(10 * US, 20 * US, ranks=(0, 1, 2), seq=1)]
    frame = collectives(load(tmp_path, one, one))
    assert frame.attrs["matched"]["partly_matched"] == 1
    assert frame.ranks.tolist() == [2, 2]
    assert frame.group_size.tolist() == [3, 3]
    assert "files of 1 of 3 ranks are missing" in frame.attrs["note"]


def test_selections_pick_rows_of_whole_collectives(tmp_path):
    traces = load(
        tmp_path,
        [collective(10 * US, 50 * US, seq=1), collective(60 * US, 90 * US, seq=2)],
        [collective(40 * US, 50 * US, seq=1), collective(70 * US, 90 * US, seq=2)],
    )
    frame = collectives(traces, ranks=[0])
    assert frame["rank"].tolist() == [0, 0]
    assert frame.wait_ns.tolist() == [30 * US, 10 * US]
    assert frame.attrs["matched"]["communication"] == 2
    frame = collectives(traces, window=(65 * US, 70 * US))
    assert rows(frame, of=("collective", "rank", "arrival_ns")) == [(1, 0, 60 * US)]


def test_one_rank_gives_an_empty_frame_and_a_reason(tmp_path):
    frame = collectives(load(tmp_path, [collective(10 * US, 50 * US)]))
    assert len(frame) == 0
    assert "1 events are on one rank only" in frame.attrs["note"]
    assert frame.wait_ns.dtype == "int64"
    assert frame.busbw_gb_s.dtype == "float64"


def test_groups_of_one_rank_wait_for_nobody(tmp_path):
    frame = collectives(load(tmp_path, [collective(10 * US, 50 * US, ranks=(0,))], []))
    assert len(frame) == 0
    assert frame.attrs["matched"]["alone"] == 1
    assert frame.attrs["matched"]["unmatched"] == 0


def test_no_communication(tmp_path):
    frame = collectives(load(tmp_path, [kernel(0, 5 * US)], []))
    assert len(frame) == 0
    assert frame.attrs["note"] == "no communication on a device is selected"


def test_an_unknown_clock_is_refused(tmp_path):
    traces = load(tmp_path, [collective(10 * US, 50 * US)], [collective(10 * US, 50 * US)])
    with pytest.raises(hw.TraceError, match="clock= takes 'host' or 'fitted', not 'utc'"):
        collectives(traces, clock="utc")


# --- communication by stream and by group ---------------------------------------------------------


def args_of(name, elements, dtype, group, out=None, ranks="[0, 1]", what="fsdp"):
    return {
        "Collective name": name,
        "In msg nelems": elements,
        "Out msg nelems": elements if out is None else out,
        "dtype": dtype,
        "Process Group Name": group,
        "Process Group Description": what,
        "Process Group Ranks": ranks,
    }


@pytest.fixture
def job(tmp_path):
    rank = [
        kernel(0, 100), kernel(150, 250),
        nccl(50, 120, stream=20, **args_of("allreduce", 10, "Float", "0")),
        nccl(110, 160, stream=21, **args_of("all_gather", 8, "BFloat16", "0", out=16)),
        nccl(200, 300, stream=20, **args_of("allreduce", 3, "Long", "1", ranks="[0, 2]")),
        nccl(400, 410, stream=20),
    ]  # fmt: skip
    return load(tmp_path, rank, [kernel(0, 5), nccl(10, 20, stream=0)])


def test_time_of_each_stream(job):
    frame = communication_by_stream(job)
    columns = ["rank", "stream", "count", "communication_ns", "overlapped_ns", "exposed_ns"]
    assert frame[columns].to_numpy().tolist() == [
        [0, 20, 3, 70 + 100 + 10, 50 + 50, 80],
        [0, 21, 1, 50, 10, 40],
        [1, 0, 1, 10, 0, 10],
    ]
    assert frame["overlap_share"].tolist() == pytest.approx([100 / 180, 0.2, 0])
    assert frame["max_ns"].tolist() == [100, 50, 10]
    assert frame.attrs["matched"] == {"compute": 3, "communication": 5}


def test_time_and_bytes_of_each_group(job):
    frame = communication_by_group(job)
    columns = [
        "rank", "group", "group_ranks", "count", "communication_ns", "overlapped_ns", "sum_ns",
        "in_bytes", "out_bytes",
    ]  # fmt: skip
    assert frame[columns].to_numpy().tolist() == [
        # 50 to 160 on both streams; 40 bytes and 16, 40 and 32
        [0, "0", "[0, 1]", 2, 110, 60, 120, 56, 72],
        [0, "1", "[0, 2]", 1, 100, 50, 100, 24, 24],
        [0, "", "", 1, 10, 0, 10, -1, -1],
        [1, "", "", 1, 10, 0, 10, -1, -1],
    ]
    assert frame["description"].tolist() == ["fsdp", "fsdp", "", ""]
    assert "note" not in frame.attrs


def test_collectives_of_each_group(job):
    frame = communication_by_group(job, by_collective=True, ranks=[0])
    assert frame[["group", "collective", "sum_ns", "out_bytes"]].to_numpy().tolist() == [
        ["1", "allreduce", 100, 24],
        ["0", "allreduce", 70, 40],
        ["0", "all_gather", 50, 32],
        ["", "", 10, -1],
    ]


def test_times_are_clipped_and_bytes_are_not(job):
    frame = communication_by_group(job, window=(60, 110), ranks=[0])
    assert frame[
        ["count", "communication_ns", "overlapped_ns", "in_bytes"]
    ].to_numpy().tolist() == [[1, 50, 40, 40]]


@pytest.mark.parametrize(
    ("elements", "dtype", "size"),
    [
        (7, "Half", 14),
        (7, "Float8_e4m3fn", 7),
        (7, "ComplexDouble", 112),
        (0, "Float", 0),
        ("9", "Double", 72),
        (7, "Unheard", -1),
        (7, None, -1),
        (-1, "Float", -1),
        (1 << 62, "Double", -1),
        ([1, 2], "Float", -1),
    ],
)
def test_sizes_by_type(tmp_path, elements, dtype, size):
    args = {**args_of("x", elements, dtype, "0")}
    frame = communication_by_group(load(tmp_path, [nccl(0, 10, **args)]))
    assert frame["in_bytes"].tolist() == [size]


def test_files_that_do_not_say_groups_give_a_note(tmp_path):
    frame = communication_by_group(load(tmp_path, [nccl(0, 10)]))
    assert frame["group"].tolist() == [""]
    assert frame.attrs["note"] == "the files do not say which process group a kernel belongs to"


def test_a_kernel_without_length_has_no_share(tmp_path):
    frame = communication_by_stream(load(tmp_path, [nccl(5, 5)]))
    assert frame[["count", "communication_ns"]].to_numpy().tolist() == [[1, 0]]
    assert np.isnan(frame["overlap_share"][0])


# --- process groups -------------------------------------------------------------------------------


def comm(start, end, name, group, ranks, *, collective="allreduce", count=4, **args):
    args["Process Group Description"] = name
    return described(
        start, end, name=collective, group=group, ranks=tuple(ranks), elements=count, **args
    )


def write(folder, world, ranks):
    """Write files of ranks, {rank: (pg_config, events)}."""
    paths = {}
    for rank, (config, events) in ranks.items():
        path = folder / f"rank-{rank}.json"
        info = {"rank": rank, "world_size": world, "pg_config": config}
        path.write_text(json.dumps({"distributedInfo": info, "traceEvents": [ORIGIN, *events]}))
        paths[rank] = str(path)
    return hw.load(paths, cache=False, progress=False)


def entry(name, description, ranks):
    return {"pg_name": name, "pg_desc": description, "pg_size": len(ranks), "ranks": list(ranks)}


def kinds(frame):
    return {
        group: (str(kind), bool(guessed))
        for group, kind, guessed in zip(
            frame["group"], frame["kind"], frame["guessed"], strict=True
        )
    }


@pytest.mark.parametrize(
    ("description", "kind"),
    [
        ("mesh_tp", "tensor"), ("TENSOR_MODEL_PARALLEL_GROUP", "tensor"), ("dp", "data"),
        ("mesh_dp_shard", "data"), ("EXPERT_DATA_PARALLEL_GROUP", "data"), ("pp", "pipeline"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", "pipeline"), ("MODEL_PARALLEL_GROUP", "tensor"),
        ("EXPERT_MODEL_PARALLEL_GROUP", "expert"), ("mesh_cp", "context"), ("ep_group", "expert"),
    ],
)  # fmt: skip
def test_descriptions_are_taken_at_their_word(tmp_path, description, kind):
    traces = write(tmp_path, 8, {0: ([entry("3", description, [0, 5])], [])})
    assert kinds(parallel_groups(traces)) == {"3": (kind, False)}


@pytest.mark.parametrize(
    ("ranks", "collective", "kind"),
    [
        ([0, 1], "allreduce", "tensor"),
        ([0, 2, 4, 6], "allreduce", "data"),
        ([0, 1, 3], "allreduce", "unknown"),
        ([0, 4], "all_to_all", "expert"),
        ([0, 4], "send", "pipeline"),
        ([0], "allreduce", "unknown"),
    ],
)
@pytest.mark.parametrize("description", ["undefined", "", "default_pg"])
def test_without_words_the_pattern_is_guessed(tmp_path, description, ranks, collective, kind):
    peers = {"Dst Rank": ranks[-1]} if collective == "send" else {}
    events = [comm(10, 30, description, "7", ranks, collective=collective, **peers)]
    traces = write(tmp_path, 8, {0: ([], events)})
    assert kinds(parallel_groups(traces)) == {"7": (kind, True)}


def test_a_group_of_everyone_is_no_guess(tmp_path):
    config = [entry("0", "undefined", range(4))]
    frame = parallel_groups(write(tmp_path, 4, {2: (config, [])}))
    assert kinds(frame) == {"0": ("all", False)}
    row = frame.iloc[0]
    assert (row["rank"], row["ranks"], row["position"], row["size"]) == (2, "0-3", 2, 4)
    assert (row["collectives"], row["time_ns"], row["bytes"]) == (0, 0, -1)
    assert frame.attrs["note"] == "files of 3 ranks are missing"


def test_counts_times_and_bytes_by_hand(tmp_path):
    config = [entry("0", "default_pg", range(2)), entry("5", "pp", [0, 1])]
    events = [
        comm(100, 200, "default_pg", "0", [0, 1], count=1000),
        comm(150, 260, "default_pg", "0", [0, 1], count=10, collective="broadcast"),
        comm(300, 340, "default_pg", "0", [0, 1], count=10),
    ]
    traces = write(tmp_path, 2, dict.fromkeys(range(2), (config, events)))
    frame = parallel_groups(traces)
    assert frame[["group", "rank"]].to_numpy().tolist() == [["0", 0], ["0", 1], ["5", 0], ["5", 1]]
    first = frame.iloc[0]
    assert first["operations"] == "all_reduce 2, broadcast 1"
    # 100 to 260 and 300 to 340; a float has 4 bytes.
    assert (first["collectives"], first["time_ns"], first["bytes"]) == (3, 200, 4080)
    assert frame["collectives"].tolist() == [3, 3, 0, 0]
    assert stage_of(traces) == {0: 0, 1: 1}
    cut = parallel_groups(traces, window=(180, 320), ranks=[1])
    assert cut["rank"].tolist() == [1, 1]
    assert (cut["collectives"][0], cut["time_ns"][0]) == (3, 100)


def test_kernels_that_name_no_group_leave_it_open(tmp_path):
    frame = parallel_groups(load(tmp_path, [nccl(10, 20)], [nccl(11, 20)]))
    assert kinds(frame) == {"stream 20": ("unknown", True)}
    assert frame["ranks"].tolist() == ["", ""]
    assert frame["position"].tolist() == [-1, -1]


def test_the_demo_job(tmp_path):
    truth = write_demo(
        tmp_path / "job", ranks=8, steps=1, strided=True, missing=[3], events_per_step=600
    )
    frame = parallel_groups(hw.load(tmp_path / "job", cache=False, progress=False))
    found = {
        group: (str(kind), ranks)
        for group, kind, ranks in zip(frame["group"], frame["kind"], frame["ranks"], strict=True)
    }
    purpose = {"default_pg": "all", "mesh_dp": "data", "mesh_tp": "tensor"}
    assert found.keys() - truth["groups"].keys() == {"0"}
    for name, group in truth["groups"].items():
        listed = ", ".join(map(str, group["ranks"]))
        assert found[name] == (purpose[group["description"]], listed)
    assert 3 not in set(frame["rank"])
    assert not frame["guessed"].any()


def test_nothing_known_is_told_in_words(tmp_path):
    traces = load(tmp_path, [kernel(1, 2)])
    frame = parallel_groups(traces)
    assert frame.empty
    assert frame.attrs["note"] == "neither headers nor communication kernels name process groups"
    some = parallel_groups(load(tmp_path, [nccl(10, 20)]))
    assert frame.dtypes.to_dict() == some.dtypes.to_dict()
    assert parallel_groups(traces, ranks=[]).attrs["note"] == "no ranks are selected"
