"""The names that HTA lists, and its rule for stragglers."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from support import small

import hta_widgets as hw
from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.compat.results import (
    extract_iteration_info,
    find_stragglers_with_late_start_comm_kernels,
    top_names,
)


def by_name(durations):
    rows = [
        (name, len(times), sum(times), min(times), max(times), np.mean(times),
         np.std(times, ddof=1) if len(times) > 1 else 0.0)
        for name, times in durations.items()
    ]  # fmt: skip
    columns = ["name", "count", "sum_ns", "min_ns", "max_ns", "mean_ns", "std_ns"]
    return pd.DataFrame(rows, columns=columns).astype({"name": "str"})


def test_names_beyond_the_limit_become_others():
    durations = {"a": [100, 300], "b": [90], "c": [10, 20, 30], "d": [5]}
    frame = top_names(by_name(durations), num_kernels=2, duration_ratio=1.0)
    assert frame["name"].tolist() == ["a", "b", "others"]
    others = frame.iloc[2]
    assert others[["count", "sum_ns", "min_ns", "max_ns"]].tolist() == [4, 65, 5, 30]
    assert others["mean_ns"] == 16.25
    assert others["std_ns"] == pytest.approx(np.std([10, 20, 30, 5], ddof=1))


def test_names_beyond_the_share_of_time_become_others_unless_always_shown():
    # The cumulative sums are 100, 150 and 160, with a median of 150.
    frame = top_names(by_name({"a": [100], "b": [50], "c": [10]}), 2, 0.5)
    assert frame["name"].tolist() == ["a", "b", "others"]
    frame = top_names(by_name({"a": [100], "b": [50], "c": [10]}), 2, 0.0)
    assert frame["name"].tolist() == ["a", "others"]
    assert top_names(by_name({"a": [100], "b": [50]}), 2, 0.0)["name"].tolist() == ["a", "b"]
    frame = top_names(by_name({"a": [9], "b": [5], "c": [1]}), 1, 1.0, always=["c"])
    assert frame["name"].tolist() == ["a", "c", "others"]


@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"), st.lists(st.integers(0, 10**6), min_size=1), min_size=1
    ),
    st.integers(0, 8),
    st.floats(0, 1),
)
def test_nothing_is_lost_in_others(durations, limit, ratio):
    frame = top_names(by_name(durations), limit, ratio)
    every = [time for times in durations.values() for time in times]
    assert frame["count"].sum() == len(every)
    assert frame["sum_ns"].sum() == sum(every)
    hidden = [name for name in durations if name not in set(frame["name"])]
    if hidden:
        times = [time for name in hidden for time in durations[name]]
        others = frame[frame["name"] == "others"].iloc[0]
        assert others["max_ns"] == max(times)
        assert others["min_ns"] == min(times)
        assert others["mean_ns"] == pytest.approx(np.mean(times))
        spread = np.std(times, ddof=1) if len(times) > 1 else 0.0
        assert others["std_ns"] == pytest.approx(spread, rel=1e-6, abs=1e-3)


# --- stragglers -----------------------------------------------------------------------------------


def collectives(arrivals, name=small.NCCL, end=900):
    """Return one collective per iteration, given {rank: [arrival, …]}; all ranks leave together."""
    rows = [
        {"rank": rank, "iteration": step, "stream": 20, "name": 0, "ts": 1000 * step + arrival,
         "dur": end - arrival}
        for rank, times in arrivals.items() for step, arrival in enumerate(times)
    ]  # fmt: skip
    return pd.DataFrame(rows), TraceSymbolTable([name])


def test_last_starts_are_counted_by_iteration():
    df, symbols = collectives({0: [100, 100, 100], 1: [300, 100, 300], 2: [200, 500, 200]})
    counts = find_stragglers_with_late_start_comm_kernels(df, symbols, 1)
    assert counts.to_dict() == {0: 0, 1: 2, 2: 1}
    both = find_stragglers_with_late_start_comm_kernels(df, symbols, 2)
    assert both.to_dict() == {0: 1, 1: 3, 2: 3}  # ranks 0 and 1 tie for second place once


def test_the_last_rank_counts_despite_its_short_kernel():
    # Rank 1 leaves 2 of 1000 us after it arrives, which is less than 1 % of the iteration.
    df, symbols = collectives({0: [100], 1: [898], 2: [200]})
    assert find_stragglers_with_late_start_comm_kernels(df, symbols, 1).idxmax() == 1


def test_one_rank_has_no_stragglers():
    df, symbols = collectives({0: [100, 200]})
    assert find_stragglers_with_late_start_comm_kernels(df, symbols).empty
    df, symbols = collectives({0: [100], 1: [200]}, name="gemm")
    assert find_stragglers_with_late_start_comm_kernels(df, symbols).empty


def test_short_collectives_count_without_long_ones(tmp_path):
    files = {}
    for rank, arrival in ((0, 10), (1, 40)):
        events = [
            small.event("user_annotation", "ProfilerStep#0", 0, 100_000, pid=1),
            small.call(1, 2, launch=1),
            small.nccl(arrival, 50, launch=1),
        ]
        files[rank] = str(tmp_path / f"{rank}.json")
        (tmp_path / f"{rank}.json").write_text(json.dumps({"traceEvents": events}))
    facade = hw.TraceAnalysis(files)
    assert extract_iteration_info(facade.t)[["rank", "iter", "end"]].to_numpy().tolist() == [
        [0, 0, 100], [1, 0, 100],
    ]  # fmt: skip
    assert facade.get_potential_stragglers(num_candidates=1) == [1]
    assert facade.get_potential_stragglers([0], num_candidates=1) == [1]
