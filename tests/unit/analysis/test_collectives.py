"""Collectives over ranks: matching, waits and bandwidths."""

import json

import pytest
from support.collective_job import US, collective
from support.small import ORIGIN, call, event, kernel, load, nccl

import hta_widgets as hw
from hta_widgets.analysis import collectives, parallel_groups

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
    runs = []
    for run in range(2):
        (tmp_path / f"run{run}").mkdir()
        for rank in range(2):
            one = collective((10 * (run + 1) + rank) * US, 50 * US, seq=1)
            document = {"distributedInfo": {"rank": rank}, "traceEvents": [ORIGIN, one]}
            path = tmp_path / f"run{run}/rank-{rank}.json"
            path.write_text(json.dumps(document))
            runs.append(path)
    traces = hw.load(runs, cache=False, progress=False)
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
    with pytest.raises(hw.TraceError, match="no clock 'utc'"):
        collectives(traces, clock="utc")
