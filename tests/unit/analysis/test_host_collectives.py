"""Gloo collectives on hosts, matched across ranks by hand."""

import pytest
from support.small import event, load, nccl

from hta_widgets.analysis import (
    collectives,
    comm_comp_overlap,
    rank_clusters,
    step_times,
    stragglers,
)
from hta_widgets.panels.headline import headline

US = 1_000


def host(category, name, start, end, *, thread=1, **args):
    return event(category, name, start * US, end * US, tid=thread, pid=9, **args)


def gloo(start, end, *, thread=1, **args):
    """Return a Gloo range, preceded by the record of its args if there are any."""
    args |= {"Collective name": "allreduce", "dtype": "Float"} if args else {}
    record = host("cpu_op", "record_param_comms", start - 1, start, thread=thread, **args)
    call = host("user_annotation", "gloo:all_reduce", start, end, thread=thread)
    return [record, call] if args else [call]


def in_group(name, ranks, elements=250):
    return {
        "Process Group Name": name,
        "Process Group Ranks": str(ranks),
        "Group size": len(ranks),
        "In msg nelems": elements,
        "Out msg nelems": elements,
    }


def test_calls_are_matched_by_group(tmp_path):
    """Ranks 0 and 1 form group a; all three form group b, which is used on another thread."""
    pair, every = in_group("a", [0, 1]), in_group("b", [0, 1, 2], 500)
    traces = load(
        tmp_path,
        [*gloo(10, 50, **pair), *gloo(12, 90, thread=2, **every)],
        [*gloo(30, 50, **pair), *gloo(70, 90, thread=2, **every)],
        gloo(40, 90, thread=2, **every),
    )
    columns = ["group", "rank", "size_bytes", "wait_ns", "last_rank"]
    assert list(collectives(traces)[columns].itertuples(index=False, name=None)) == [
        ("a", 0, 1_000, 20 * US, 1), ("a", 1, 1_000, 0, 1),
        ("b", 0, 2_000, 58 * US, 1), ("b", 1, 2_000, 0, 1), ("b", 2, 2_000, 30 * US, 1),
    ]  # fmt: skip


def test_calls_without_args_are_of_the_only_group(tmp_path):
    traces = load(tmp_path, [*gloo(10, 50), *gloo(60, 80)], [*gloo(30, 50), *gloo(60, 80)])
    frame = collectives(traces)
    assert frame["wait_ns"].tolist() == [20 * US, 0, 0, 0]
    assert frame["last_rank"].tolist() == [1, 1, -1, -1]


def test_sizes_by_the_shapes_of_inputs(tmp_path):
    """4 bytes × 250 elements in 10 µs; for 2 ranks, the bus moves as much."""
    shapes = {
        "Input Dims": [[5, 50], [], [[2, 3]]],
        "Input type": ["float", "Scalar", "TensorList"],
    }
    calls = [
        host("user_annotation", f"gloo:{name}", start, start + 10, **shapes)
        for name, start in (("all_reduce", 10), ("all_gather", 30))
    ]
    frame = collectives(load(tmp_path, calls, calls))
    assert frame["size_bytes"].tolist() == [1_000, 1_000, -1, -1]
    assert frame["busbw_gb_s"].tolist()[:2] == [0.1, 0.1]


def test_calls_beside_nccl_are_not_matched(tmp_path):
    rank = [*gloo(10, 50), nccl(60 * US, 80 * US)]
    frame = collectives(load(tmp_path, rank, rank))
    assert frame["name"].nunique() == 1
    assert "the hosts have 2 communication events" in frame.attrs["note"]


def test_a_late_caller_is_a_straggler(tmp_path):
    """Rank 1 is 2 ms late, five times in 50 ms, so rank 0 loses 20 % of its time."""
    traces = load(
        tmp_path,
        *(
            [
                record
                for number, start in enumerate(range(0, 50_000, 10_000))
                for record in (
                    host("user_annotation", f"ProfilerStep#{number}", start, start + 10_000),
                    host("cpu_op", "aten::add", start, start + delay),
                    *gloo(start + delay, start + 6_000),
                    host("cpu_op", "aten::mm", start + 6_000, start + 10_000),
                )
            ]
            for delay in (100, 2_100)
        ),
    )
    late = stragglers(traces).iloc[1]
    assert (late["imposed_wait_ns"], late["is_straggler"]) == (10_000 * US, True)
    assert step_times(traces)["own_ns"].tolist() == [8_000 * US] * 5 + [10_000 * US] * 5
    assert comm_comp_overlap(traces)["communication_ns"].sum() == 0
    assert headline(traces).text.replace("\u202f", " ") == (
        "Rank 0 waits 10.0 ms on the host, 20 % of the run, for rank 1, which arrives last at 5 of"
        " 5 collectives."
    )


def steps_with_calls(ends_us, numbers):
    """Return steps of 20 ms; the second half of each is a call."""
    return [
        record
        for number, end in zip(numbers, ends_us, strict=True)
        for record in (
            host("user_annotation", f"ProfilerStep#{number}", end - 20_000, end),
            *gloo(end - 10_000, end, thread=2),
        )
    ]


@pytest.mark.parametrize("missing", [0, 1])
def test_ends_that_scatter_do_not_pair_different_steps(tmp_path, missing):
    """Ends of the same step differ by -7 to 5 ms, those of adjacent steps by 28 to 32 ms.

    Rank 1 has the same steps as rank 0, or lacks the first one.
    """
    ends_us = [30_000, 58_000, 94_000, 121_000, 156_000, 185_000, 219_000]
    other_us = [28_000, 61_500, 86_500, 126_000, 149_000, 187_500, 213_500]
    numbers = range(2, 9)
    traces = load(
        tmp_path,
        steps_with_calls(ends_us, numbers),
        steps_with_calls(other_us[missing:], numbers[missing:]),
    )
    steps = collectives(traces).groupby("collective")["step"].agg(list)
    assert steps.tolist() == [[number] * 2 for number in numbers[missing:]]


@pytest.mark.parametrize("kernels", [[], [event("kernel", "gemm", 1 * US, 2 * US, tid=7)]])
def test_calls_without_partners_lie_in_their_steps(tmp_path, kernels):
    """Rank 1 lacks the last two of four steps; a device may have no or only early work."""
    ends_us = [30_000, 60_000, 90_000, 120_000]
    traces = load(
        tmp_path,
        [*kernels, *steps_with_calls(ends_us, range(4))],
        [*kernels, *steps_with_calls(ends_us[:2], range(2))],
    )
    unmatched_ns = step_times(traces)["unmatched_exposed_ns"]
    assert unmatched_ns.tolist() == [0, 0, 10_000 * US, 10_000 * US, 0, 0]
    assert rank_clusters(traces)["rank"].tolist() == [0, 1]
