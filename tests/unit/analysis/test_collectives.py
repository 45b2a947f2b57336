"""Collectives across ranks, communication by stream and by group, and process groups."""

import json

import numpy as np
import pytest
from support.collective_job import US, collective
from support.small import ORIGIN, call, event, kernel, load, nccl, read, write as write_ranks

import hta_widgets as hw
from hta_widgets.analysis import (
    collectives,
    communication_by_group,
    communication_by_stream,
    parallel_groups,
    stragglers,
)
from hta_widgets.analysis.cross_rank import alignment
from hta_widgets.analysis.cross_rank.parallel_groups import pipeline_stages
from hta_widgets.demo.job import write_demo

PLAIN = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"


def one(start, end, **args):
    """Return a collective from `start` to `end` in µs."""
    return collective(start * US, end * US, **args)


def members(frame):
    """Return (rank, arrival in µs) for each collective."""
    return [
        sorted(zip(part["rank"], part.arrival_ns // US, strict=True))
        for _, part in frame.groupby("collective")
    ]


def write(folder, world, ranks):
    """Write the files of ranks given as {rank: (pg_config, events)}."""
    paths = {}
    for rank, (config, events) in ranks.items():
        path = folder / f"rank-{rank}.json"
        info = {"rank": rank, "world_size": world, "pg_config": config}
        path.write_text(json.dumps({"distributedInfo": info, "traceEvents": [ORIGIN, *events]}))
        paths[rank] = str(path)
    return hw.load(paths, cache=False, progress=False)


def test_waits_and_transfers_of_one_all_reduce(tmp_path):
    group = {"ranks": (0, 1, 2)}
    first = [one(10, 90, **group), kernel(0, 50 * US)]
    traces = load(tmp_path, first, [one(40, 90, **group)], [one(20, 91, **group)])
    frame = collectives(traces)
    columns = ["rank", "collective", "name", "group", "last_rank"]
    assert frame[columns].to_numpy().tolist() == [
        [rank, 0, "allreduce", "0", 1] for rank in range(3)
    ]
    # Rank 0 computes until 50 µs.
    columns = ["arrival_ns", "wait_ns", "transfer_ns", "end_ns", "exposed_ns"]
    assert frame[columns].to_numpy().tolist() == [
        [10_000, 30_000, 50_000, 90_000, 40_000],
        [40_000, 0, 50_000, 90_000, 50_000],
        [20_000, 20_000, 51_000, 91_000, 71_000],
    ]
    assert frame.size_bytes.tolist() == [4000] * 3
    assert frame.algbw_gb_s.tolist() == pytest.approx([0.08, 0.08, 4000 / 51_000])
    assert frame.busbw_gb_s[0] == pytest.approx(0.08 * 4 / 3)
    none = dict.fromkeys(("partly_matched", "unmatched", "alone"), 0)
    assert frame.attrs["matched"] == {"communication": 3, "matched": 1} | none
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
    each = [collective(k * US, k * US + 500, dtype=each) for k, each in enumerate(types.split())]
    frame = collectives(load(tmp_path, each, each))
    assert set(frame.size_bytes) == {1000 * size}
    assert "note" not in frame.attrs


def test_types_that_are_not_known_are_said(tmp_path):
    expected, new, silent = one(0, 1), one(2, 3, dtype="Posit16"), one(4, 5)
    del silent["args"]["dtype"]
    traces = load(tmp_path, *[[expected, new, silent]] * 2)
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
    sizes = {"elements": elements, "out_elements": out_elements}
    every = [one(0, 8, name=name, ranks=(0, 1, 2, 3), **sizes)]
    frame = collectives(load(tmp_path, *[every] * 4))
    assert frame.size_bytes.tolist() == [size] * 4
    assert frame.algbw_gb_s.tolist() == pytest.approx([0.5] * 4)
    assert frame.busbw_gb_s.tolist() == pytest.approx([0.5 * factor] * 4)


@pytest.mark.parametrize(
    ("ranks", "expected", "names"),
    [
        (
            [
                [one(start, 20, group="tp", ranks=ranks)]
                for start, ranks in ((10, (0, 1)), (11, (0, 1)), (10, (2, 3)), (12, (2, 3)))
            ],
            [[(0, 10), (1, 11)], [(2, 10), (3, 12)]],
            ["tp [0, 1]", "tp [2, 3]"],
        ),
        (
            [
                [one(10, 40, group="a"), one(12, 20, group="b", stream=9)],
                [one(15, 40, group="a"), one(11, 20, group="b", stream=9)],
            ],
            [[(0, 10), (1, 15)], [(0, 12), (1, 11)]],
            ["a", "b"],
        ),
        (  # ranks may name the same group differently
            [
                [one(10, 20, group="3"), one(30, 40, group="8")],
                [one(11, 20, group="5"), one(31, 40, group="6")],
            ],
            [[(0, 10), (1, 11)], [(0, 30), (1, 31)]],
            ["3", "8"],
        ),
    ],
)
def test_groups_are_told_apart(tmp_path, ranks, expected, names):
    frame = collectives(load(tmp_path, *ranks))
    assert members(frame) == expected
    assert frame.group.unique().tolist() == names


def test_long_lists_of_ranks_are_cut_short_and_completed_by_the_header(tmp_path):
    """PyTorch lists only 30 ranks of a group, and not every header lists all of them."""
    cut = {"Process Group Ranks": str(list(range(30)))[:-1] + ", ...]", "Group size": 40}
    config = [{"pg_name": "0", "ranks": list(range(40))}]
    ranks = {}
    for rank in range(2):
        short = one(10 + rank, 20, seq=1)
        short["args"] |= cut
        ranks[rank] = (config if rank == 0 else [], [short])
    frame = collectives(write(tmp_path, 40, ranks))
    assert members(frame) == [[(0, 10), (1, 11)]]
    assert frame.group_size.tolist() == [40, 40]
    assert frame.attrs["groups"]["0"]["ranks"] == list(range(40))
    assert "files of 38 of 40 ranks are missing" in frame.attrs["note"]


def test_runs_that_are_loaded_together_do_not_meet(tmp_path):
    for run in range(2):
        (tmp_path / f"run{run}").mkdir()
        start = 10 * (run + 1)
        ranks = ([ORIGIN, one(start + k, 50, seq=1)] for k in range(2))
        write_ranks(tmp_path / f"run{run}", *ranks)
    frame = collectives(read(sorted(tmp_path.glob("run*/*"))))
    arrivals = sorted(frame.groupby("collective").arrival_ns.agg(list))
    assert arrivals == [[10_000, 11_000], [20_000, 21_000]]
    assert sorted(frame.group.unique()) == ["0", "0 (2)"]


def test_sequence_numbers_decide(tmp_path):
    # Matched by order, the first collectives of ranks 0 and 1 would be paired, but they differ.
    traces = load(
        tmp_path,
        [one(k * 100, k * 100 + 50, seq=k) for k in (1, 2, 4)],
        [one(k * 100 + 7, k * 100 + 50, seq=k) for k in (2, 3, 4, 5)],
    )
    frame = collectives(traces)
    assert members(frame) == [[(0, 200), (1, 207)], [(0, 400), (1, 407)]]
    assert frame.attrs["matched"]["unmatched"] == 3
    assert "3 events have no match on another rank" in frame.attrs["note"]
    assert frame.attrs["matched_by"] == {"sequence_number": 2, "order_and_time": 0}


@pytest.mark.parametrize("skew", [0, 3_000, -250_000])
def test_without_numbers_what_one_rank_did_not_record_shows_in_the_ends(tmp_path, skew):
    """All collectives are equal but their intervals differ: ends agree in one position only."""
    ends = [1000, 1900, 3500, 4100, 6000, 7300, 8100]
    first = [one(end - 200, end) for end in ends]
    second = [one(end - 150 + skew, end + skew) for end in ends[2:]]
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
    first, second = (
        [one(k * 1000 + late, k * 1000 + late + 100, elements=n) for k, n in enumerate(sizes)]
        for late in (0, 300)
    )
    frame = collectives(load(tmp_path, first, second[1:]))
    assert frame.groupby("collective").size().tolist() == [2] * 6
    assert frame.groupby("collective").size_bytes.nunique().tolist() == [1] * 6


def test_without_numbers_and_with_gaps_times_decide(tmp_path):
    """Sampled traces lack some events."""
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
    # Collectives without anything in common are not matched.
    ranks = [(0, 2_100, 7_900, 30_000), (900, 5_000, 13_500, 19_700)]
    ranks = [[nccl(start * US, (start + 10) * US) for start in starts] for starts in ranks]
    frame = collectives(load(tmp_path, *ranks))
    assert len(frame) == 0
    assert frame.attrs["matched"]["unmatched"] == 8
    assert "8 events" in frame.attrs["note"]


def tensor_parallel(pace, late):
    """Return two steps: six all-reduces of a pair, `pace` µs apart, and one of all ranks."""
    return [
        nccl((step + k * pace + late) * US, (step + k * pace + 100) * US)
        for step in (0, 20_000)
        for k in range(6)
    ] + [nccl((step + 15_000) * US, (step + 15_200) * US, stream=24) for step in (0, 20_000)]


#: Ranks 2 and 3 are slower; the second rank of each pair arrives 10 µs later.
PAIRS = [tensor_parallel(pace, late) for pace in (1_000, 1_600) for late in (0, 10)]


def test_the_headers_groups_and_the_times_say_whose_a_stream_is(tmp_path):
    def config(rank):
        ranks = [[0, 1, 2, 3], [rank & 2, rank | 1], [rank & 1, rank | 2]]
        return [{"pg_name": str(k), "ranks": sorted(set(item))} for k, item in enumerate(ranks)]

    assert config(1)[1:] == [{"pg_name": "1", "ranks": [0, 1]}, {"pg_name": "2", "ranks": [1, 3]}]
    traces = write(tmp_path, 4, {rank: (config(rank), one) for rank, one in enumerate(PAIRS)})
    frame = collectives(traces)
    result = frame.groupby("group", observed=True).collective.nunique().to_dict()
    assert result == {"stream 20 [0, 1]": 12, "stream 20 [2, 3]": 12, "stream 24": 2}
    pairs = frame[frame.group != "stream 24"]
    assert pairs.groupby("rank").last_rank.unique().tolist() == [[1], [1], [3], [3]]
    assert pairs.groupby("rank").wait_ns.unique().tolist() == [[10_000], [0], [10_000], [0]]
    assert set(pairs.transfer_ns) == {90_000}
    assert set(pairs.group_size) == {2}
    assert frame.attrs["matched"]["unmatched"] == 0


def test_events_that_end_before_others_begin_are_not_of_one_collective(tmp_path):
    frame = collectives(load(tmp_path, *PAIRS))
    by_stream = frame.groupby("group", observed=True)
    assert by_stream.collective.nunique().to_dict() == {"stream 20": 12, "stream 24": 2}
    assert set(frame[frame.group == "stream 20"]["rank"]) == {0, 1}
    assert frame.transfer_ns.min() == 90_000
    # The events of ranks 2 and 3.
    assert frame.attrs["matched"]["unmatched"] == 24
    assert "24 events have no match on another rank" in frame.attrs["note"]
    # One mismatch in twenty does not invalidate the others.
    ends = [k * 1_000 + k * k * 10 for k in range(20)]
    first, second = (
        [nccl((end - 50) * US, end * US) for end in own]
        for own in (ends, [*ends[:7], ends[7] + 300, *ends[8:]])
    )
    frame = collectives(load(tmp_path, first, second))
    assert frame.groupby("rank").size().tolist() == [19, 19]
    assert frame.attrs["matched"]["unmatched"] == 2


def test_ranks_of_equally_many_collectives_match_in_order_on_any_clock(tmp_path):
    # Clocks of ranks are five steps apart; a shift by five steps would make them agree.
    def rank(number):
        ends = [step * 10_000 + number * 50_000 for step in range(8)]
        return [nccl((end - 100) * US, end * US) for end in ends]

    frame = collectives(load(tmp_path, *map(rank, range(1, 5))))
    assert frame.groupby("rank").size().tolist() == [8] * 4
    assert frame.attrs["matched"]["matched"] == 8


def test_time_without_numbers_grows_with_the_number_of_collectives(monkeypatch):
    compared = []
    cost = alignment._cost
    monkeypatch.setattr(
        alignment, "_cost", lambda apart, *rest: compared.append(apart.size) or cost(apart, *rest)
    )

    def pairs(count):
        # Ends differ by up to 200 µs and clocks by 3 ms; the second rank started recording later.
        rng = np.random.default_rng(count)
        end_ns = np.cumsum(rng.integers(500_000, 1_500_000, count))
        other_ns = (end_ns + rng.integers(-100_000, 100_000, count) + 3_000_000)[37:]
        same = np.zeros(count, dtype=np.int64)
        compared.clear()
        result = alignment.align_sequences(same, end_ns, same[37:], other_ns, sure=False)
        assert result.tolist() == list(range(37, count))
        return sum(compared)

    few, many = pairs(20_000), pairs(40_000)
    # All pairs for all shifts would be 300 million, then four times as many.
    assert few < 20_000 * 64 * 8
    assert many / few < 2.5


def test_one_content_decides_among_many_that_are_equal():
    # Only the third collective from the end differs; by time, ranks agree one position further on.
    content = np.zeros(5_000, dtype=np.int64)
    content[-3] = 1
    end_ns = np.arange(5_000) * 1_000_000
    result = alignment.align_sequences(
        content, end_ns, content[1:], end_ns[:-1] + 90_000, sure=True
    )
    assert result.tolist() == list(range(1, 5_000))


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
            # The nearest range is used; a kernel without a range keeps its name.
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
    """PyTorch records only the peer; each pair and direction is numbered separately."""

    def side(start, end, name, other):
        key = "Dst Rank" if name == "send" else "Src Rank"
        return one(start, end, ranks=(0, 1, 2), name=name, **{key: other})

    traces = load(
        tmp_path,
        [side(10, 20, "send", 1), side(30, 40, "send", 2), side(50, 60, "recv", 1)],
        [side(12, 20, "recv", 0), side(55, 60, "send", 0)],
        [side(31, 40, "recv", 0)],
    )
    frame = collectives(traces)
    assert members(frame) == [[(0, 10), (1, 12)], [(0, 30), (2, 31)], [(0, 50), (1, 55)]]
    assert frame.operation.tolist() == ["send_recv"] * 6
    assert frame.attrs["matched"]["matched"] == 3
    assert frame.attrs["matched"]["partly_matched"] == 0
    # The receiver of a send is never guessed.
    alone = [one(10, 20, ranks=(0, 1, 2, 3), name="send", seq=1)]
    frame = collectives(load(tmp_path, *[alone] * 4))
    assert len(frame) == 0
    assert frame.attrs["matched"]["unmatched"] == 4


def test_coming_at_once_and_groups_that_lack_a_rank(tmp_path):
    frame = collectives(load(tmp_path, *[[one(10, 20, ranks=(0, 1, 2), seq=1)]] * 2))
    assert frame.attrs["matched"]["partly_matched"] == 1
    # The last ranks arrive together.
    columns = ["last_rank", "wait_ns", "ranks", "group_size"]
    assert frame[columns].to_numpy().tolist() == [[-1, 0, 2, 3]] * 2
    assert "files of 1 of 3 ranks are missing" in frame.attrs["note"]


def test_selections_pick_rows_of_whole_collectives(tmp_path):
    traces = load(
        tmp_path, [one(10, 50, seq=1), one(60, 90, seq=2)], [one(40, 50, seq=1), one(70, 90, seq=2)]
    )
    frame = collectives(traces, ranks=[0])
    assert frame["rank"].tolist() == [0, 0]
    assert frame.wait_ns.tolist() == [30 * US, 10 * US]
    assert frame.attrs["matched"]["communication"] == 2
    frame = collectives(traces, window=(65 * US, 70 * US))
    columns = ["collective", "rank", "arrival_ns"]
    assert frame[columns].to_numpy().tolist() == [[1, 0, 60 * US]]


@pytest.mark.parametrize(
    ("events", "counts", "note"),
    [
        ([one(10, 50)], {"unmatched": 1, "alone": 0}, "1 events have no match on another rank"),
        ([one(10, 50, ranks=(0,))], {"unmatched": 0, "alone": 1}, ""),
    ],
)
def test_nothing_that_ranks_meet_in(tmp_path, events, counts, note):
    traces = load(tmp_path, events, [])
    frame = collectives(traces)
    assert len(frame) == 0
    assert frame.attrs["matched"] | counts == frame.attrs["matched"]
    assert note in frame.attrs.get("note", "")
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


def test_time_of_each_stream(job, tmp_path):
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
    # A kernel of zero duration has no share.
    frame = communication_by_stream(load(tmp_path, [nccl(5, 5)]))
    assert frame[["count", "communication_ns"]].to_numpy().tolist() == [[1, 0]]
    assert np.isnan(frame["overlap_share"][0])


def test_time_and_bytes_of_each_group(job, tmp_path):
    frame = communication_by_group(job)
    columns = [
        "rank", "group", "group_ranks", "count", "communication_ns", "overlapped_ns", "sum_ns",
        "in_bytes", "out_bytes",
    ]  # fmt: skip
    assert frame[columns].to_numpy().tolist() == [
        # 50 to 160 on two streams; 40 and 16 bytes in, 40 and 32 out
        [0, "0", "[0, 1]", 2, 110, 60, 120, 56, 72],
        [0, "1", "[0, 2]", 1, 100, 50, 100, 24, 24],
        [0, "", "", 1, 10, 0, 10, -1, -1],
        [1, "", "", 1, 10, 0, 10, -1, -1],
    ]
    assert frame["description"].tolist() == ["fsdp", "fsdp", "", ""]
    assert "note" not in frame.attrs
    frame = communication_by_group(job, by_collective=True, ranks=[0])
    assert frame[["group", "collective", "sum_ns", "out_bytes"]].to_numpy().tolist() == [
        ["1", "allreduce", 100, 24],
        ["0", "allreduce", 70, 40],
        ["0", "all_gather", 50, 32],
        ["", "", 10, -1],
    ]
    # Times are clipped; bytes are not.
    frame = communication_by_group(job, window=(60, 110), ranks=[0])
    columns = ["count", "communication_ns", "overlapped_ns", "in_bytes"]
    assert frame[columns].to_numpy().tolist() == [[1, 50, 40, 40]]
    silent = communication_by_group(load(tmp_path, [nccl(0, 10)]))
    note = "the files do not state which process group a kernel belongs to"
    assert (silent["group"].tolist(), silent.attrs["note"]) == ([""], note)


def test_kernels_without_a_purpose_have_that_of_the_header(tmp_path):
    config = [{"pg_name": "4", "pg_desc": "mesh_pp", "ranks": [0, 1]}]
    stated = args_of("x", 1, "Float", "4", what="mine")
    silent = {key: value for key, value in stated.items() if "Description" not in key}
    unlisted = silent | {"Process Group Name": "5"}
    ranks = {0: (config, [nccl(0, 9, **silent), nccl(9, 12, **unlisted)]),
             1: (config, [nccl(0, 9, **stated)])}  # fmt: skip
    frame = communication_by_group(write(tmp_path, 2, ranks))
    assert frame["description"].tolist() == ["mesh_pp", "", "mine"]


@pytest.mark.parametrize(
    ("elements", "dtype", "size"),
    [
        (7, "Half", 14),
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
    traces = load(tmp_path, [nccl(0, 10, **args_of("x", elements, dtype, "0"))])
    frame = communication_by_group(traces)
    assert frame["in_bytes"].tolist() == [size]


# --- process groups -------------------------------------------------------------------------------


def entry(name, description, ranks):
    return {"pg_name": name, "pg_desc": description, "pg_size": len(ranks), "ranks": list(ranks)}


def kinds(frame):
    columns = frame[["group", "kind", "guessed"]].itertuples(index=False)
    return {group: (str(kind), bool(guessed)) for group, kind, guessed in columns}


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
    ("ranks", "name", "kind"),
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
def test_without_words_the_pattern_is_guessed(tmp_path, description, ranks, name, kind):
    peers = {"Dst Rank": ranks[-1]} if name == "send" else {}
    peers["Process Group Description"] = description
    events = [collective(10, 30, name=name, group="7", ranks=tuple(ranks), **peers)]
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
        collective(100, 200, elements=1000),
        collective(150, 260, elements=10, name="broadcast"),
        collective(300, 340, elements=10),
    ]
    traces = write(tmp_path, 2, dict.fromkeys(range(2), (config, events)))
    frame = parallel_groups(traces)
    assert frame[["group", "rank"]].to_numpy().tolist() == [["0", 0], ["0", 1], ["5", 0], ["5", 1]]
    first = frame.iloc[0]
    assert first["operations"] == "all_reduce 2, broadcast 1"
    # 100 to 260 and 300 to 340; a float has 4 bytes.
    assert (first["collectives"], first["time_ns"], first["bytes"]) == (3, 200, 4080)
    assert frame["collectives"].tolist() == [3, 3, 0, 0]
    assert pipeline_stages(traces) == {0: 0, 1: 1}
    cut = parallel_groups(traces, window=(180, 320), ranks=[1])
    assert cut["rank"].tolist() == [1, 1]
    assert (cut["collectives"][0], cut["time_ns"][0]) == (3, 100)


def test_the_demo_job(tmp_path):
    truth = write_demo(
        tmp_path / "job", ranks=8, steps=1, strided=True, missing=[3], events_per_step=600
    )
    frame = parallel_groups(hw.load(tmp_path / "job", cache=False, progress=False))
    columns = frame[["group", "kind", "ranks"]].itertuples(index=False)
    result = {group: (str(kind), ranks) for group, kind, ranks in columns}
    purpose = {"default_pg": "all", "mesh_dp": "data", "mesh_tp": "tensor"}
    assert result.keys() - truth["groups"].keys() == {"0"}
    for name, group in truth["groups"].items():
        listed = ", ".join(map(str, group["ranks"]))
        assert result[name] == (purpose[group["description"]], listed)
    assert 3 not in set(frame["rank"])
    assert not frame["guessed"].any()


def test_kernels_that_name_no_group_leave_it_open(tmp_path):
    traces = load(tmp_path, [nccl(10, 20)], [nccl(11, 20)])
    frame = parallel_groups(traces)
    assert kinds(frame) == {"stream 20": ("unknown", True)}
    assert frame[["ranks", "position"]].to_numpy().tolist() == [["", -1]] * 2
    assert parallel_groups(traces, ranks=[]).attrs["note"] == "no ranks are selected"


@pytest.mark.parametrize("spacing_ns", [100_000, 475_000, 3_000_000])
@pytest.mark.parametrize("lacking", [{0}, {11}, {18}, {5, 6, 20}, {0, 17, 18, 33, 35}])
def test_events_that_a_file_lacks_in_between_shift_no_others(spacing_ns, lacking):
    """Equal collectives; clocks differ by half a second, ends by up to 5 µs."""
    rng = np.random.default_rng(3)
    end_ns = np.cumsum(spacing_ns + rng.integers(-spacing_ns // 9, spacing_ns // 9, 36))
    kept = [place for place in range(36) if place not in lacking]
    other_ns = end_ns[kept] + 500_000_000 + rng.integers(0, 5_000, len(kept))
    same = np.zeros(36, dtype=np.int64)
    for sure in (True, False):
        result = alignment.align_sequences(same, end_ns, same[kept], other_ns, sure=sure)
        assert result.tolist() == kept


@pytest.mark.parametrize("spacing_ns", [30_000, 60_000])
@pytest.mark.parametrize("first", [0, 1])
def test_late_ends_leave_equal_collectives_in_order(spacing_ns, first):
    """One in ten ends is up to 300 µs late, close to the end of a later collective."""
    rng = np.random.default_rng(0)
    end_ns, same = spacing_ns * np.arange(1, 241), np.zeros(240, dtype=np.int64)
    late_ns = np.where(rng.random(240) < 0.1, rng.integers(0, 300_000, 240), 0)
    other_ns = (end_ns + late_ns)[first:]
    result = alignment.align_sequences(same, end_ns, same[first:], other_ns, sure=True)
    assert result.tolist() == list(range(first, 240))


def test_clocks_that_drift_leave_equal_collectives_in_order():
    end_ns = np.cumsum(np.random.default_rng(5).integers(50_000, 150_000, 20_000))
    same = np.zeros(20_000, dtype=np.int64)
    # The drift adds 100 µs over 2 s, so later ends are equally close to the next collective.
    drifting = end_ns + end_ns // 20_000
    result = alignment.align_sequences(same, end_ns, same, drifting, sure=True)
    assert result.tolist() == list(range(20_000))


@pytest.mark.parametrize(
    ("step_ns", "jitter_ns", "skew_ns"),
    [
        (10_000_000, 200_000, 3_000_000_000),
        (1_000_000, 30_000, -500_000_000),
        (5_000_000, 20_000, 4_000_000),
        (100_000_000, 2_000_000, 3_600_000_000_000),
    ],
)
@pytest.mark.parametrize("first", [1, 3])
def test_uneven_intervals_count_more_than_clocks_that_differ(step_ns, jitter_ns, skew_ns, first):
    """One file lacks the first of several equal collectives; ends differ by up to 10 µs."""
    rng = np.random.default_rng(first)
    end_ns = np.cumsum(step_ns + rng.integers(-jitter_ns, jitter_ns, 300))
    other_ns = end_ns[first:] + skew_ns + rng.integers(-5_000, 5_000, 300 - first)
    same = np.zeros(300, dtype=np.int64)
    for sure in (True, False):
        result = alignment.align_sequences(same, end_ns, same[first:], other_ns, sure=sure)
        assert result.tolist() == list(range(first, 300))


@pytest.mark.parametrize(
    ("end_us", "other_us", "first"),
    [
        ([1_401_070, 2_022_787], [1_401_402, 2_022_598], 0),
        ([1_401_070, 2_022_787, 2_430_000], [2_022_598, 2_430_300], 1),
        ([100_000, 200_000, 300_000, 400_000], [100_200, 199_900, 300_050, 399_800], 0),
        ([100_000, 210_000, 300_000, 420_000], [260_200, 349_900, 470_050], 1),
    ],
)
def test_one_pair_without_scatter_does_not_outweigh_clocks_that_agree(end_us, other_us, first):
    """Ends of the same collective differ by up to 0.4 ms, those of different ones by 90 ms."""
    ends, others = (np.array(times, np.int64) * 1000 for times in (end_us, other_us))
    same = np.zeros(len(ends), dtype=np.int64)
    result = alignment.align_sequences(same, ends, same[first:], others, sure=True)
    assert result.tolist() == list(range(first, len(ends)))


@pytest.mark.parametrize("drift_ppm", [100, -100, 60, 170])
@pytest.mark.parametrize("named", [True, False])
def test_equal_collectives_at_equal_intervals_on_drifting_clocks(tmp_path, drift_ppm, named):
    """All-reduces every 100 µs for 1 s; the second clock drifts by up to two intervals."""
    ranks = []
    for rank in range(2):
        scale = 1 + rank * drift_ppm * 1e-6
        group = {"Process Group Name": "0", "Process Group Ranks": "[0, 1]"} if named else {}
        ranks.append(
            [nccl(round(at * scale), round((at + 50_000) * scale), **group)
             for at in range(10_000, 1_000_000_000, 100_000)]
        )  # fmt: skip
    traces = load(tmp_path, *ranks)
    rows = collectives(traces)
    ids = rows.groupby("collective")["id"].agg(["nunique", "count"])
    assert len(ids) == 10_000
    assert (ids["nunique"] == 1).all()
    assert "may match either" not in rows.attrs.get("note", "")


@pytest.mark.parametrize("skew_ns", [0, 70_000, 100_000_000])
@pytest.mark.parametrize(("jitter_ns", "is_ambiguous"), [(0, True), (9_000, False)])
def test_collectives_that_no_time_tells_apart_are_said_to_be_uncertain(
    tmp_path, skew_ns, jitter_ns, is_ambiguous
):
    """One file lacks the first two of equal all-reduces; only uneven intervals reveal which."""
    rng = np.random.default_rng(2)
    at = np.arange(300) * 100_000 + rng.integers(-jitter_ns, jitter_ns + 1, 300) + 20_000
    group = {"Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
    traces = load(
        tmp_path,
        [nccl(start, start + 30_000, **group) for start in at.tolist()],
        [nccl(start, start + 30_000, **group) for start in (at[2:] + skew_ns).tolist()],
    )
    for frame in (collectives(traces), stragglers(traces)):
        note = frame.attrs.get("note", "")
        assert ("may match either of two on other ranks" in note) == is_ambiguous
    if not is_ambiguous:
        rows = collectives(traces)
        ids = rows.pivot_table(index="collective", columns="rank", values="id")
        assert set(ids[0] - ids[1]) == {2}


def test_a_rank_whose_file_lacks_collectives_is_no_straggler(tmp_path):
    """Rank 1 is always late; the other files lack some collectives and sequence numbers."""
    ranks = []
    for rank, lacking in enumerate(([5, 6], [], [11], [0, 20, 21, 22])):
        records = []
        for place in range(36):
            start = 1_000_000 * place + (100_000 if rank == 1 else 0)
            records.append(kernel(1_000_000 * place - 700_000, start, launch=2 * place + 1))
            if place not in lacking:
                args = {"Process Group Name": "0", "Group size": 4}
                args |= {"Process Group Ranks": "[0, 1, 2, 3]", "Collective name": "allreduce"}
                end = 1_000_000 * place + 200_000 + rank
                records.append(nccl(start, end, launch=2 * place + 2, **args))
        ranks.append(records)
    traces = load(tmp_path, *ranks)
    frame = collectives(traces)
    spread = frame.groupby("collective")["end_ns"].agg(lambda ends: ends.max() - ends.min())
    assert spread.max() == 3
    verdict = stragglers(traces)
    assert verdict["rank"][verdict["is_straggler"]].tolist() == [1]
